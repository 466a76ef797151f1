// Package observe records the events of a run: as lines of JSON, requests to an HTTP
// server, transcripts, or OpenTelemetry spans. Package view shows them to a person.
//
// Each sink has a method Observe for [runner.Runner].Observe; [Tee] joins several
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
//	r := &runner.Runner{Agent: a, Secrets: redact.New(keys), Observe: log.Observe}
package observe

import (
	"io"
	"os"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
)

// Tee returns an observer that passes every event to each of the observers, in
// order. Nil ones are skipped.
func Tee(observers ...func(agent.Event)) func(agent.Event) { return GuardedTee(nil, observers...) }

// GuardedTee is Tee for observers that must not end a run: one that panics gets no further
// event, and report gets a text with the stack.
func GuardedTee(report func(text string), observers ...func(agent.Event)) func(agent.Event) {
	observers = slices.Clone(observers)
	return func(e agent.Event) {
		for i, o := range observers {
			if o == nil {
				continue
			}
			err := guard.Run(report, func() error { o(e); return nil })
			if err != nil {
				observers[i] = nil
			}
		}
	}
}

// OpenLog opens a log file to append to. Only the owner can read a new file (0600).
// If a crash cut the last line, OpenLog ends it, so that the next event starts on a
// new line. The caller closes the file. If the file is a pipe, a write fails when the reader
// does not read for LogTimeout, so that it does not stop the run.
func OpenLog(path string) (io.WriteCloser, error) {
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
	return &logFile{f, LogTimeout}, nil
}

// LogTimeout is how long a line of a log may wait for the reader of a pipe.
const LogTimeout = 5 * time.Second

type logFile struct {
	file  *os.File
	limit time.Duration
}

func (f *logFile) Write(p []byte) (int, error) {
	_ = f.file.SetWriteDeadline(time.Now().Add(f.limit)) // regular files have none, and do not wait
	return f.file.Write(p)
}

func (f *logFile) Close() error { return f.file.Close() }

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
