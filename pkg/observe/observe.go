// Package observe records the events of a run: as lines of JSON, requests to an HTTP
// server, transcripts, or OpenTelemetry spans. Package view shows them to a person.
//
// Each sink has a method Observe for [agent.Runner].Observe; [Tee] joins several
// sinks. A sink never ends or changes a run: if it fails, it keeps its first error for
// the caller.
//
//   - [JSONLines] is one JSON object per line, [HTTP] the same objects by POST.
//   - [Transcripts] is a text file for each conversation.
//   - [Trace] makes spans.
//
// Files and HTTP do not share a queue. Each line of a file is written before Observe
// returns, so that a process that is killed loses no line that it has observed; a queue,
// however often it is flushed, would lose the lines since then, which say what the
// process was doing.
//
// A run with a log file and no key in it:
//
//	log := &observe.JSONLines{W: file}
//	r := &agent.Runner{Agent: a, Secrets: redact.New(keys), Observe: log.Observe}
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
