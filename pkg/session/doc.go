// Package session stores sessions on disk: the journal that a runner.Runner writes,
// and functions that read it.
//
// A [Journal] is one append-only file of JSON lines. It contains the events of a root
// session and of all sub-agents' sessions below it, in the order in which they
// happened; large texts and data are separate files. A session is a folder DIR/ID with
// journal.jsonl and blobs/, or one file that contains everything. docs/sessions.md
// describes the format.
//
//	j := session.Create(dir, session.Options{Dir: cwd})
//	defer j.Close()
//	r := runner.Runner{Agent: a, Journal: j, NewID: session.NewID}
//
// To continue what an earlier process left:
//
//	j, past, err := session.Open(path, session.Options{})
//	r := runner.Runner{Agent: a, Journal: j, NewID: j.NewID,
//		From: &past.Resume}
//
// [Events] reads a session, also while another process writes it; [List] and [Find]
// find sessions in folders; [Copy], [UpTo] and [Rename] copy them; [Remove] removes one.
//
// Every line is an event as encoding/json writes it, followed by a SHA-256 chain and a
// checksum of all lines up to it. The checksum detects changed, lost, repeated and moved
// lines whenever the session is opened; the chain is for [Verify], which proves with a
// [Signature] that nobody changed the session on purpose. The first
// line after a sync records how much was synced. This distinguishes two kinds of
// invalid lines: data that was not synced when a process or machine died is cut off;
// anything else is damage, a [DamageError]. Close writes a last line which records
// that everything is synced, so damage to a closed session is never mistaken for an
// incomplete write.
//
// A session is opened in two passes. The first verifies checksums, reads the kind of
// each line and finds the last compaction; the second decodes only the events from
// there on. So memory grows with the conversation that is sent to the model and not
// with the history. The checksum is the CRC-32 of zip files because its tables are
// already built when the program starts.
package session
