package sessions

import (
	"errors"
	"io"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

type ShowFlags struct {
	Tools    string
	Results  string // of calls; "" means Tools
	Last     int
	Reverse  bool
	Thinking bool
	System   bool
	Alone    bool // without sub-agents
}

var details = map[string]transcript.Detail{"hidden": transcript.Hidden, "cut": transcript.Cut, "whole": transcript.Whole}

func Show(p *program.Env, events Events, f *ShowFlags) error {
	sum, err := Summary(events)
	if err != nil {
		return err
	}
	m := &transcript.Markdown{Calls: details[f.Tools], Results: details[f.Results], Thinking: f.Thinking, System: f.System, SubAgents: !f.Alone}
	w, flush := p.CleanOutput()
	if _, err := io.WriteString(w, m.Head(sum)); err != nil {
		return err
	}
	var late *reversed
	if f.Reverse {
		if late, err = newReversed(); err != nil {
			return failure.NothingRan(err, "")
		}
		defer late.Close()
	}
	var readErr error
	for t, err := range transcript.Turns(events) {
		if err != nil {
			readErr = err
			break
		}
		if f.Last > 0 && t.N > 0 && t.N <= sum.Turns-f.Last {
			continue
		}
		if late != nil {
			err = late.add(m.Turn(t))
		} else {
			_, err = io.WriteString(w, m.Turn(t))
		}
		if err != nil {
			return err
		}
	}
	if late != nil {
		if err := late.copy(w); err != nil {
			return err
		}
	}
	if readErr != nil {
		return errors.Join(flush(), Damaged(readErr))
	}
	return flush()
}

// A reversed gives texts back in the opposite order. They wait in a file: a
// session may be longer than there is memory.
type reversed struct {
	*os.File
	ends []int64
}

func newReversed() (*reversed, error) {
	f, err := os.CreateTemp("", "agents-session-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // Close does, where open files cannot be removed
	return &reversed{File: f, ends: []int64{0}}, nil
}

func (b *reversed) Close() error {
	err := b.File.Close()
	_ = os.Remove(b.Name()) // it is gone, where open files can be removed
	return err
}

func (b *reversed) add(text string) error {
	n, err := b.WriteString(text)
	b.ends = append(b.ends, b.ends[len(b.ends)-1]+int64(n))
	return err
}

func (b *reversed) copy(w io.Writer) error {
	for i := len(b.ends) - 1; i > 0; i-- {
		if _, err := io.Copy(w, io.NewSectionReader(b, b.ends[i-1], b.ends[i]-b.ends[i-1])); err != nil {
			return err
		}
	}
	return nil
}

// Print prints what write writes of a session. The error of write is that of damage, unless
// stdout failed.
func Print(p *program.Env, write func(w io.Writer) error) error {
	w, flush := p.CleanOnTerminal()
	out := &checked{Writer: w}
	err := write(out)
	switch {
	case out.err != nil:
		return out.err
	case err != nil:
		return errors.Join(flush(), Damaged(err))
	}
	return flush()
}

// A checked keeps the error of a write, to distinguish it from one of reading.
type checked struct {
	io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if err != nil {
		c.err = err
	}
	return n, err
}
