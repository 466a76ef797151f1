// Package observe shows and records what happens in a run: it turns every
// [agent.Event] into text for a person, a line of JSON, a line of a log or a
// record at an HTTP server.
//
// Each sink has a method Observe for [agent.Runner].Observe; [Tee] joins several
// of them and [Redact] keeps keys away from all. None of them ends or changes a
// run: a sink that fails keeps its first error for the caller to ask for.
//
//   - [Text] is the progress on stderr: lines that are redrawn in place on a
//     terminal, one plain line per event elsewhere.
//   - [Stream] is the text of the answer on stdout, as it arrives.
//   - [JSONLines] is one JSON object per line, [HTTP] the same objects by POST.
//   - [LogText] is a readable log with times.
//   - [Clean] and [Cleaner] take out of a text what would act on a terminal,
//     [Visible] shows it instead.
//
// A run with progress, a log file and no key in either:
//
//	text := &observe.Text{W: os.Stderr}
//	defer text.Close()
//	log := &observe.JSONLines{W: file}
//	r := &agent.Runner{Agent: a, Observe: observe.Redact(keys, observe.Tee(text.Observe, log.Observe))}
package observe

import (
	"io"
	"os"

	"github.com/agents-exe/agents/pkg/agent"
)

// Tee returns an observer that passes every event to each of the observers, in
// their order. Nil ones are left out.
func Tee(observers ...func(agent.Event)) func(agent.Event) {
	var list []func(agent.Event)
	for _, o := range observers {
		if o != nil {
			list = append(list, o)
		}
	}
	return func(e agent.Event) {
		for _, o := range list {
			o(e)
		}
	}
}

// OpenLog opens a log file to append to. A new file is for its owner alone
// (0600). A file whose last line was torn by a crash gets its end of line, so
// that what follows starts on a line of its own. The caller closes the file.
func OpenLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|openNonblock, 0o600)
	if err != nil {
		return nil, err
	}
	if tornLine(path, f) {
		if _, err := io.WriteString(f, "\n"); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// tornLine reports whether the file, if it can be looked into, ends within a
// line.
func tornLine(path string, f *os.File) bool {
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
