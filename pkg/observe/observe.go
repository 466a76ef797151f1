// Package observe shows and records the events of a run: as text for a person,
// lines of JSON, a readable log, or requests to an HTTP server.
//
// Each sink has a method Observe for [agent.Runner].Observe; [Tee] joins several
// sinks. A sink never ends or changes a run: if it fails, it keeps its first error for
// the caller.
//
//   - [Text] is the progress on stderr: lines that are redrawn in place on a
//     terminal, one plain line per event elsewhere.
//   - [Stream] is the text of the answer on stdout, as it arrives.
//   - [JSONLines] is one JSON object per line, [HTTP] the same objects by POST.
//   - [LogText] is a readable log with times.
//   - [Transcripts] is a text file for each conversation.
//   - [Clean] and [Cleaner] remove control sequences from a text, [Visible] escapes
//     them, and [EightBit] does so for terminals with single-byte characters.
//
// Files and HTTP do not share a queue. Each line of a file is written before Observe
// returns, so that a process that is killed loses no line that it has observed; a queue,
// however often it is flushed, would lose the lines since then, which say what the
// process was doing.
//
// A run with progress, a log file and no key in either:
//
//	text := &observe.Text{W: os.Stderr}
//	defer text.Close()
//	log := &observe.JSONLines{W: file}
//	sinks := observe.Tee(text.Observe, log.Observe)
//	r := &agent.Runner{Agent: a, Secrets: redact.New(keys), Observe: sinks}
package observe

import (
	"io"
	"os"

	"github.com/agents-exe/agents/pkg/agent"
)

// Tee returns an observer that passes every event to each of the observers, in
// order. Nil ones are skipped.
func Tee(observers ...func(agent.Event)) func(agent.Event) {
	return func(e agent.Event) {
		for _, o := range observers {
			if o != nil {
				o(e)
			}
		}
	}
}

// OpenLog opens a log file to append to. Only the owner can read a new file (0600).
// If a crash cut the last line, OpenLog ends it, so that the next event starts on a
// new line. The caller closes the file.
func OpenLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|openNonblock, 0o600)
	if err != nil {
		return nil, err
	}
	if endsWithinLine(path, f) {
		if _, err := io.WriteString(f, "\n"); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// endsWithinLine reports whether the file, if it can be read, ends without a newline.
func endsWithinLine(path string, f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	r, err := os.Open(path)
	if err != nil {
		return false
	}
	defer r.Close()
	var last [1]byte
	_, err = r.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}
