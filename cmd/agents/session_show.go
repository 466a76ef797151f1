package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/transcript"
	"github.com/urfave/cli/v3"
)

type showFlags struct {
	tools    string
	last     int
	reverse  bool
	thinking bool
	system   bool
	alone    bool // without sub-agents
}

func sessionShowCommand(p *program) *cli.Command {
	f := &showFlags{}
	return &cli.Command{
		ArgsUsage: "ID",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tools", Value: "cut", Usage: "arguments and results of calls: `DETAIL` is hidden, cut or whole", Destination: &f.tools, Validator: oneOf("hidden", "cut", "whole")},
			&cli.IntFlag{Name: "last", Usage: "only the last `N` turns", HideDefault: true, Destination: &f.last},
			&cli.BoolFlag{Name: "reverse", Usage: "the newest turn first", Destination: &f.reverse},
			&cli.BoolFlag{Name: "thinking", Usage: "with the model's thinking", Destination: &f.thinking},
			&cli.BoolFlag{Name: "system", Usage: "with the system prompt", Destination: &f.system},
			&cli.BoolFlag{Name: "no-sub-agents", Usage: "without the sessions of sub-agents", Destination: &f.alone},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			name, err := oneArgument(c, "the session's id")
			if err != nil {
				return err
			}
			if f.last < 0 || c.IsSet("last") && f.last == 0 {
				return usage("", "--last %d: it must be positive", f.last)
			}
			events, err := p.sessions(c).open(name)
			if err != nil {
				return err
			}
			return p.show(events, f)
		},
	}
}

var details = map[string]transcript.Detail{"hidden": transcript.Hidden, "cut": transcript.Cut, "whole": transcript.Whole}

// show writes a session as Markdown.
func (p *program) show(events source, f *showFlags) error {
	sum, err := summary(events)
	if err != nil {
		return err
	}
	m := &transcript.Markdown{Calls: details[f.tools], Thinking: f.thinking, System: f.system, SubAgents: !f.alone}
	w, flush := p.cleanOutput()
	if _, err := io.WriteString(w, m.Head(sum)); err != nil {
		return err
	}
	var pile *backwards
	if f.reverse {
		if pile, err = newBackwards(); err != nil {
			return nothingRan(err, "")
		}
		defer pile.Close()
	}
	var readErr error
	for t, err := range transcript.Turns(events) {
		if err != nil {
			readErr = err
			break
		}
		if f.last > 0 && t.N > 0 && t.N <= sum.Turns-f.last {
			continue
		}
		if pile != nil {
			err = pile.add(m.Turn(t))
		} else {
			_, err = io.WriteString(w, m.Turn(t))
		}
		if err != nil {
			return err
		}
	}
	if pile != nil {
		if err := pile.copy(w); err != nil {
			return err
		}
	}
	if readErr != nil {
		return errors.Join(flush(), damaged(readErr))
	}
	return flush()
}

// A backwards gives texts back in the opposite order. They wait in a file: a
// session may be longer than there is memory.
type backwards struct {
	*os.File
	ends []int64
}

func newBackwards() (*backwards, error) {
	f, err := os.CreateTemp("", "agents-session-")
	if err != nil {
		return nil, err
	}
	return &backwards{File: f, ends: []int64{0}}, os.Remove(f.Name())
}

func (b *backwards) add(text string) error {
	n, err := b.WriteString(text)
	b.ends = append(b.ends, b.ends[len(b.ends)-1]+int64(n))
	return err
}

func (b *backwards) copy(w io.Writer) error {
	for i := len(b.ends) - 1; i > 0; i-- {
		if _, err := io.Copy(w, io.NewSectionReader(b, b.ends[i-1], b.ends[i]-b.ends[i-1])); err != nil {
			return err
		}
	}
	return nil
}

// jsonElement is element n of an array that is written piece by piece.
func jsonElement(v any, n int) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	if err := enc.Encode(v); err != nil {
		b.WriteString("null")
	}
	before := ",\n  "
	if n == 0 {
		before = "[\n  "
	}
	return before + strings.TrimRight(b.String(), "\n")
}

var exportFormats = []string{"json", "markdown", "html", "openai", "agents-exe"}

func sessionExportCommand(p *program) *cli.Command {
	var format string
	return &cli.Command{
		ArgsUsage: "ID",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "format", Value: "json", Usage: "`FORM`: json (a line for each event), markdown, html (a page that needs nothing else), openai (a chat completions request) or agents-exe (its session file)", Destination: &format, Validator: oneOf(exportFormats...)}},
		Action: func(_ context.Context, c *cli.Command) error {
			name, err := oneArgument(c, "the session's id")
			if err != nil {
				return err
			}
			events, err := p.sessions(c).open(name)
			if err != nil {
				return err
			}
			return p.export(events, format)
		},
	}
}

func (p *program) export(events source, format string) error {
	sum, err := summary(events)
	if err != nil {
		return err
	}
	if format == "markdown" {
		return p.show(events, &showFlags{tools: "whole", thinking: true, system: true})
	}
	w, flush := p.output()
	out := &counted{w: w}
	switch format {
	case "html":
		err = transcript.HTML(out, sum, events)
	case "openai":
		err = transcript.OpenAI(out, events)
	case "agents-exe":
		err = transcript.ToAgentsExe(out, events)
	default:
		err = transcript.Write(out, events)
	}
	switch {
	case out.err != nil:
		return out.err
	case err != nil:
		return errors.Join(flush(), damaged(err))
	}
	return flush()
}

// counted keeps the error of a write, which is told from one of reading.
type counted struct {
	w   io.Writer
	err error
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if err != nil {
		c.err = err
	}
	return n, err
}

func sessionImportCommand(p *program) *cli.Command {
	return &cli.Command{
		ArgsUsage:   "PATH",
		Description: "- is standard input. --agent SLUG names the agent of a session of agents-exe.",
		Action: func(_ context.Context, c *cli.Command) error {
			path, err := oneArgument(c, "the file")
			if err != nil {
				return err
			}
			events, err := p.importSource(path)
			if err != nil {
				return err
			}
			return p.sessions(c).keep(p.withoutEffect(events))
		},
	}
}

// importSource is what is read from a path: a file, or the folder or the journal of
// a session, of which the checksums are looked at too.
func (p *program) importSource(path string) (source, error) {
	if path == "-" {
		return transcript.Read(p.in), nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nothingRan(fmt.Errorf("import: %w", err), "")
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil, nothingRan(fmt.Errorf("import %s: it is no regular file", path), "")
	case foreign(path):
		return fileEvents(path), nil
	}
	return session.Events(path), nil
}

// withoutEffect takes from events of elsewhere what would have an effect here: a session
// names the agent file that it goes on with.
func (p *program) withoutEffect(events source) source {
	return func(yield func(agent.Event, error) bool) {
		root := ""
		for e, err := range events {
			if err == nil && e.Kind == agent.EventSession {
				e.Source = ""
				if e.Parent == "" && root != "" && e.Session != root {
					err = fmt.Errorf("it holds several sessions: %s and %s", root, e.Session)
				}
			}
			if root == "" {
				root = e.Session
			}
			if p.global.agent != "" && e.Agent == transcript.ImportedAgent {
				e.Agent = p.global.agent
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// An editFlag is a flag that adds an edit. Set is called in the order of the
// arguments.
type editFlag struct {
	op    transcript.EditOp
	edits *[]transcript.Edit
}

var leftOut = []string{string(transcript.WithoutThinking), string(transcript.WithoutToolResults), string(transcript.WithoutSubAgents)}

func (f *editFlag) Set(value string) error {
	e := transcript.Edit{Op: f.op}
	if f.op == "" {
		if !slices.Contains(leftOut, value) {
			return &choiceError{leftOut}
		}
		e.Op = transcript.EditOp(value)
	} else {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return errors.New("want a number of turns")
		}
		e.N = n
	}
	*f.edits = append(*f.edits, e)
	return nil
}

func (f *editFlag) String() string { return "" }
func (f *editFlag) Get() any       { return *f.edits }

func sessionEditCommand(p *program) *cli.Command {
	var edits []transcript.Edit
	flag := func(name string, op transcript.EditOp, usage string) cli.Flag {
		return &cli.GenericFlag{Name: name, Usage: usage, Value: &editFlag{op, &edits}}
	}
	return &cli.Command{
		ArgsUsage: "ID",
		Description: `Without an ID the session is read from standard input, as export and edit write it,
or as one of agents-exe. The changes are made in the order in which they are given.`,
		Flags: []cli.Flag{
			flag("take", transcript.Take, "keep the first `N` turns"),
			flag("take-last", transcript.TakeLast, "keep the last `N` turns"),
			flag("drop", transcript.Drop, "take the first `N` turns away"),
			flag("drop-last", transcript.DropLast, "take the last `N` turns away"),
			flag("without", "", "leave `WHAT` out: "+strings.Join(leftOut, ", ")),
		},
		Action: func(_ context.Context, c *cli.Command) error {
			events := transcript.Read(p.in)
			if c.Args().Present() {
				name, err := oneArgument(c, "the session's id")
				if err != nil {
					return err
				}
				if events, err = p.sessions(c).open(name); err != nil {
					return err
				}
			} else if p.inTerm {
				return usage("name a session, or give one on standard input", "session edit: the session's id is missing")
			}
			w, flush := p.output()
			out := &counted{w: w}
			err := transcript.Write(out, transcript.Apply(events, edits))
			switch {
			case out.err != nil:
				return out.err
			case err != nil:
				return errors.Join(flush(), damaged(err))
			}
			return flush()
		},
	}
}
