package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/redact"
	"golang.org/x/term"
)

// sinks are where the events of a run go: progress, logs, the result.
type sinks struct {
	p       *program
	output  string
	secrets *redact.Redactor
	log     *serverLog // of the tree
	observe func(agent.Event)
	cancel  context.CancelCauseFunc

	progress *observe.Text
	stream   *observe.Stream    // the answer on a terminal, as it comes
	lines    *observe.JSONLines // --output jsonl
	closers  []func() error     // of the logs, in order
	ending   func() error       // ends what the tree's toolsets started
}

// sinkFlags say what of a run goes to stdout.
type sinkFlags struct {
	output string
	stream bool
	whole  bool // the answer is not shown as it comes
}

// sinks opens what the flags and the configuration name for a run under ctx. cancel
// ends the run when nobody reads its events any more.
func (p *program) sinks(ctx context.Context, l *loaded, f sinkFlags, person *person, cancel context.CancelCauseFunc) (*sinks, error) {
	s := &sinks{p: p, log: l.log, output: f.output, secrets: redact.New(l.Secrets()), cancel: cancel}
	s.progress = &observe.Text{W: p.err, Live: p.errTerm, Quiet: p.global.quiet, Color: p.color(p.errTerm), ASCII: p.ascii(), Size: size, Asks: asks(l),
		Interrupted: func() bool { return errors.Is(context.Cause(ctx), context.Canceled) }}
	watch := []func(agent.Event){}
	switch {
	case f.output == "jsonl":
		s.lines = &observe.JSONLines{W: p.out, Pieces: true}
		watch = append(watch, s.line)
	case f.output == "text" && !f.whole && p.outTerm:
		s.stream = &observe.Stream{W: s.progress.Stdout(p.out)}
		watch = append(watch, s.stream.Observe)
	case f.stream:
		s.stream = &observe.Stream{W: p.out}
		watch = append(watch, s.text)
	}
	logs, err := s.logs(l)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	watch = append(append(watch, logs...), s.progress.Observe)
	if person != nil {
		person.holds(s.progress.Hold)
	}
	s.ending = l.Close
	s.observe = observe.Redact(s.secrets, observe.Tee(watch...))
	return s, nil
}

// lockTerminal is the lock that tools declare which talk to the person at the
// terminal.
const lockTerminal = "terminal"

// asks knows the tools that talk to the person.
func asks(l *loaded) func(tool string) bool {
	names := map[string]bool{}
	for _, n := range l.Nodes {
		for _, tool := range n.Tools {
			if slices.Contains(tool.Locks, lockTerminal) {
				names[tool.Name] = true
			}
		}
	}
	return func(tool string) bool { return names[tool] }
}

// errOutput ends a run whose output cannot be written: nobody reads it, or there
// is no room for it.
var errOutput error = &ending{"the output cannot be written", context.Canceled}

// line writes an event to stdout, and ends the run if that fails.
func (s *sinks) line(e agent.Event) {
	s.lines.Observe(e)
	if s.lines.Err() != nil {
		s.cancel(errOutput)
	}
}

// text streams the answer, and ends the run if that fails.
func (s *sinks) text(e agent.Event) {
	s.stream.Observe(e)
	if s.stream.Err() != nil {
		s.cancel(errOutput)
	}
}

// logs opens the log sinks. The command line goes before the configuration.
func (s *sinks) logs(l *loaded) ([]func(agent.Event), error) {
	var watch []func(agent.Event)
	g := s.p.global
	if path := first(g.logJSON, l.logs.JSONPath); path != "" {
		f, err := observe.OpenLog(path)
		if err != nil {
			return nil, nothingRan(fmt.Errorf("--log-json-file: %w", err), "")
		}
		j := &observe.JSONLines{W: f}
		s.closers = append(s.closers, func() error { return named("--log-json-file", errors.Join(j.Err(), f.Close())) })
		watch = append(watch, j.Observe)
	}
	if path := first(g.logText, l.logs.TextPath); path != "" {
		f, err := observe.OpenLog(path)
		if err != nil {
			return nil, nothingRan(fmt.Errorf("--log-file: %w", err), "")
		}
		t := &observe.LogText{W: f}
		s.closers = append(s.closers, func() error { return named("--log-file", errors.Join(t.Err(), f.Close())) })
		watch = append(watch, t.Observe)
	}
	if url := first(g.logHTTP, l.logs.URL); url != "" {
		h, err := observe.OpenHTTP(url, observe.HTTPOptions{})
		if err != nil {
			return nil, nothingRan(fmt.Errorf("--log-http: %w", err), "")
		}
		s.closers = append(s.closers, func() error { return named("--log-http", h.Close()) })
		watch = append(watch, h.Observe)
	}
	if len(watch) == 0 {
		s.log.open(nil)
		return nil, nil
	}
	all := &logs{secrets: s.secrets, to: observe.Tee(watch...), agent: l.Root.Slug}
	s.log.open(all.line)
	return []func(agent.Event){all.event}, nil
}

func named(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// finish writes the result and closes everything: the logs last, as servers
// that are ended may have something to say. A log that failed is a warning: the
// run is not worse for it.
func (s *sinks) finish(out *agent.Outcome, runErr error) error {
	s.progress.Close()
	err := s.result(out, runErr)
	_ = s.ending() // what it started is gone in any case
	s.log.open(nil)
	if err := s.close(); err != nil {
		fmt.Fprintf(s.p.err, "warning: %s\n", observe.Clean(err.Error()))
	}
	if err != nil && (runErr == nil || errors.Is(runErr, errOutput)) && !brokenPipe(err) {
		return fmt.Errorf("write the answer: %w", err)
	}
	if brokenPipe(err) {
		return &failure{code: exitFailed, err: err, quiet: true}
	}
	return ended(out, s.redact(runErr))
}

func (s *sinks) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// result writes what belongs on stdout.
func (s *sinks) result(out *agent.Outcome, runErr error) error {
	switch {
	case s.lines != nil:
		return s.lines.Err()
	case s.output == "json":
		return s.object(out, runErr)
	case s.stream != nil:
		return s.stream.Err()
	case runErr != nil:
		return nil
	}
	answer := s.hide(out.Answer)
	if s.p.outTerm {
		answer = observe.Clean(answer)
	}
	if !strings.HasSuffix(answer, "\n") {
		answer += "\n"
	}
	_, err := io.WriteString(s.p.out, answer)
	return err
}

// A result is the object of --output json.
type result struct {
	Answer     string                     `json:"answer"`
	Outcome    agent.Status               `json:"outcome"`
	Error      string                     `json:"error,omitempty"`
	Agent      string                     `json:"agent"`
	Session    string                     `json:"session"`
	Turns      int                        `json:"turns"`
	Usage      agent.Usage                `json:"usage"`
	Agents     map[string]agent.Usage     `json:"agents"`
	Tools      map[string]agent.ToolUsage `json:"tools"`
	DurationMS int64                      `json:"duration_ms"`
}

// object writes the run as one object. An answer that was cut is in it too; the
// outcome says so.
func (s *sinks) object(out *agent.Outcome, runErr error) error {
	r := result{
		Answer: s.hide(out.Answer), Outcome: out.Status, Agent: out.Agent, Session: out.Session, Turns: out.Turns,
		Usage: out.Spent.Usage, Agents: out.Spent.Agents, Tools: out.Spent.Tools, DurationMS: out.Duration.Milliseconds(),
	}
	if r.Agents == nil {
		r.Agents = map[string]agent.Usage{}
	}
	if r.Tools == nil {
		r.Tools = map[string]agent.ToolUsage{}
	}
	if runErr != nil {
		r.Error = s.hide(runErr.Error())
	}
	return s.p.writeJSON(r)
}

// writeJSON writes v to stdout, indented for a person and without escapes that
// only HTML needs.
func (p *program) writeJSON(v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	text := b.String()
	if p.outTerm {
		text = observe.Clean(text)
	}
	_, err := io.WriteString(p.out, text)
	return err
}

// hide takes known keys out of a text.
func (s *sinks) hide(text string) string { return s.secrets.String(text) }

// redact takes known keys out of an error's text.
func (s *sinks) redact(err error) error {
	if err == nil {
		return nil
	}
	if text := s.hide(err.Error()); text != err.Error() {
		return &redacted{err, text}
	}
	return err
}

type redacted struct {
	err  error
	text string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.err }

// color says whether a stream gets colours.
func (p *program) color(terminal bool) bool {
	switch p.global.color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
}

// ascii says that the terminal is not known to show UTF-8.
func (p *program) ascii() bool { return p.errTerm && !strings.Contains(p.locale(), "UTF8") }

// eightBit reports whether the locale names characters of one byte. The C locale,
// where nobody chose one, does not count: such terminals show UTF-8 today.
func (p *program) eightBit() bool {
	locale := p.locale()
	return locale != "" && locale != "C" && locale != "POSIX" && !strings.Contains(locale, "UTF8")
}

// locale is the locale of characters in upper case, with UTF8 for UTF-8.
func (p *program) locale() string {
	locale := strings.ToUpper(first(p.getenv("LC_ALL"), p.getenv("LC_CTYPE"), p.getenv("LANG")))
	return strings.ReplaceAll(locale, "UTF-8", "UTF8")
}

// size is the size of the terminal on stderr.
func size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}
