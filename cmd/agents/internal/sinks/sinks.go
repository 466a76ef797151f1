// Package sinks writes the output of a run: the answer to stdout, progress to stderr,
// events to the logs.
package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/terminal/markdown"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
	"github.com/urfave/cli/v3"
)

func OutputFlag(form *string) cli.Flag {
	return &cli.StringFlag{Name: "output", Value: "text", Usage: "`FORM` of the result: text (the answer), json (one object), jsonl (every event as a line) or jsonl-whole (without the pieces of answers)", Destination: form, Validator: command.OneOf("text", "json", "jsonl", "jsonl-whole")}
}

// ended adds the agent to the error of a run.
func ended(out *agent.Outcome, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("run agent %s: %w", out.Agent, err)
}

// Sinks receive the events of a run: progress, logs, the result.
type Sinks struct {
	P      *program.Env
	output string
	// Hide redacts known keys in a text.
	Hide    func(string) string
	Log     *load.ServerLog // of the tree
	Observe func(agent.Event)
	Kept    bool // the session is on disk
	Traced  bool // spans are made of the events
	cancel  context.CancelCauseFunc

	progress *view.Text
	stream   *view.Stream       // the answer on a terminal, as it comes
	lines    *observe.JSONLines // --output jsonl
	closers  []func() error     // of the logs, in order
	ending   func() error       // ends what the tree's toolsets started
}

// Flags say what of a run goes to stdout.
type Flags struct {
	Output string
	Stream bool
	Whole  bool // the answer is not shown as it comes
	// Spans are exported, also to the file TraceFile if that is not "".
	Spans     bool
	TraceFile string
}

// Open opens what the flags and the configuration name for a run under ctx. cancel
// ends the run when its events are no longer read.
func Open(ctx context.Context, p *program.Env, l *load.Tree, f Flags, person *ask.Person, cancel context.CancelCauseFunc) (*Sinks, error) {
	s := &Sinks{P: p, Log: l.Log, output: f.Output, Hide: redact.New(l.Secrets()).String, cancel: cancel}
	s.progress = &view.Text{W: p.Err, Live: p.ErrTerm && p.Getenv("TERM") != "dumb", Quiet: p.Global.Quiet, Color: p.Color(p.ErrTerm), ASCII: p.ASCII(), Size: program.Size, Asks: Asks(l),
		Interrupted: func() bool { return errors.Is(context.Cause(ctx), context.Canceled) }, Panicked: s.panicked}
	watch := []func(agent.Event){}
	switch {
	case strings.HasPrefix(f.Output, "jsonl"):
		s.lines = &observe.JSONLines{W: p.Out, Pieces: f.Output == "jsonl"}
		watch = append(watch, s.whileWritten(s.lines.Observe, s.lines.Err))
	case f.Output == "text" && !f.Whole && !f.Stream && p.OutTerm && p.Getenv("TERM") != "dumb":
		out := s.progress.Answer(p.Out)
		w := &markdown.Writer{W: out, Format: func() markdown.Format { return format(p) }, Open: s.progress.Open}
		s.stream = &view.Stream{W: w, End: func() error { return errors.Join(w.Close(), out.Close()) }}
		watch = append(watch, s.stream.Observe)
	case f.Output == "text" && !f.Whole && p.OutTerm:
		s.stream = &view.Stream{W: s.progress.Stdout(p.Out)}
		watch = append(watch, s.stream.Observe)
	case f.Stream:
		s.stream = &view.Stream{W: p.Out}
		watch = append(watch, s.whileWritten(s.stream.Observe, s.stream.Err))
	}
	logs, err := s.Logs(l)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	watch = append(append(watch, logs...), s.progress.Observe)
	if f.Spans {
		spans, err := s.Spans(f.TraceFile)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		watch = append(watch, spans)
	}
	if person != nil {
		person.Holds(s.progress.Hold)
	}
	s.ending = l.Close
	s.Observe = observe.GuardedTee(s.panicked, watch...)
	return s, nil
}

func format(p *program.Env) markdown.Format {
	columns, _ := program.Size()
	return markdown.Format{Width: max(columns-1, 0), Color: p.Color(p.OutTerm), ASCII: p.ASCII()}
}

// Background opens the logs that the flags and the configuration name, and if traceFile is not
// nil, the exporter of spans. It shows nothing. The caller closes it.
func Background(p *program.Env, l *load.Tree, traceFile *string) (*Sinks, error) {
	s := &Sinks{P: p, Log: l.Log, Hide: redact.New(l.Secrets()).String}
	logs, err := s.Logs(l)
	if err == nil && traceFile != nil {
		var spans func(agent.Event)
		spans, err = s.Spans(*traceFile)
		logs = append(logs, spans)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Observe = observe.GuardedTee(s.panicked, logs...)
	return s, nil
}

// Asks returns a function that reports whether a tool talks to the person.
func Asks(l *load.Tree) func(tool string) bool {
	names := map[string]bool{}
	for _, n := range l.Nodes {
		for _, tool := range n.Tools {
			if slices.Contains(tool.Locks, toolenv.TerminalLock) {
				names[tool.Name] = true
			}
		}
	}
	return func(tool string) bool { return names[tool] }
}

// whileWritten returns write, which writes events to stdout, and ends the run if that fails.
func (s *Sinks) whileWritten(write func(agent.Event), failed func() error) func(agent.Event) {
	return func(e agent.Event) {
		write(e)
		if failed() != nil {
			s.cancel(failure.ErrOutput)
		}
	}
}

// Logs opens the log sinks. Flags take precedence over the configuration.
func (s *Sinks) Logs(l *load.Tree) ([]func(agent.Event), error) {
	var watch []func(agent.Event)
	g := s.P.Global
	if path := cmp.Or(g.LogJSON, l.Logs.JSONPath); path != "" {
		f, err := observe.OpenLog(path)
		if err != nil {
			return nil, notOpened("--log-json-file", path, err)
		}
		j := &observe.JSONLines{W: f}
		s.closers = append(s.closers, func() error { return named("--log-json-file", errors.Join(j.Err(), f.Close())) })
		watch = append(watch, j.Observe)
	}
	if path := cmp.Or(g.LogText, l.Logs.TextPath); path != "" {
		f, err := observe.OpenLog(path)
		if err != nil {
			return nil, notOpened("--log-file", path, err)
		}
		t := &view.LogText{W: f}
		s.closers = append(s.closers, func() error { return named("--log-file", errors.Join(t.Err(), f.Close())) })
		watch = append(watch, t.Observe)
	}
	if dir := transcripts(g.Transcript, l.Nodes); dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, notOpened("--transcript", dir, err)
		}
		t := &observe.Transcripts{Dir: dir}
		s.closers = append(s.closers, func() error { return named("--transcript", t.Close()) })
		watch = append(watch, t.Observe)
	}
	if url := cmp.Or(g.LogHTTP, l.Logs.URL); url != "" {
		h, err := observe.OpenHTTP(url, observe.HTTPOptions{})
		if err != nil {
			return nil, failure.NothingRan(fmt.Errorf("--log-http: %w", err), "")
		}
		s.closers = append(s.closers, func() error { return named("--log-http", h.Close()) })
		watch = append(watch, h.Observe)
	}
	if len(watch) == 0 {
		s.Log.Open(nil)
		return nil, nil
	}
	all := &logs{hide: s.Hide, to: observe.Tee(watch...), agent: l.Root.Slug}
	s.Log.Open(all.line)
	return []func(agent.Event){all.event}, nil
}

// transcripts returns the folder for transcripts: that of the flag, else that of the root
// agent's file. A tree that is replayed has no files.
func transcripts(flag string, tree []*agentfile.Node) string {
	if flag != "" || len(tree) == 0 || tree[0].File.Spec.Transcripts == "" {
		return flag
	}
	dir := tree[0].File.Spec.Transcripts
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(filepath.Dir(tree[0].File.Path), dir)
}

// notOpened is the error of a file that a flag or the configuration names.
func notOpened(flag, path string, err error) error {
	hint := ""
	if errors.Is(err, fs.ErrNotExist) {
		hint = "create the folder " + filepath.Dir(path) + " first"
	}
	return failure.NothingRan(fmt.Errorf("%s: %w", flag, err), hint)
}

func named(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// Finish writes the result and closes everything: the logs last, because
// MCP servers may write while they end. A log that failed is only a warning.
func (s *Sinks) Finish(out *agent.Outcome, runErr error) error {
	err := guard.Run(s.panicked, func() error {
		s.progress.Close()
		if err := s.result(out, runErr); err != nil {
			return err
		}
		if s.P.Getenv(toolenv.Depth) == "" { // a sub-agent in a process of its own shows none
			s.progress.Footer(out, s.Kept)
		}
		return nil
	})
	_ = s.ending() // what it started is gone in any case
	s.Log.Open(nil)
	if err := guard.Run(s.panicked, s.Close); err != nil {
		fmt.Fprintf(s.P.Err, "warning: %s\n", termtext.Clean(err.Error()))
	}
	if err != nil && (runErr == nil || errors.Is(runErr, failure.ErrOutput)) && !failure.BrokenPipe(err) {
		return fmt.Errorf("write the answer: %w", err)
	}
	if failure.BrokenPipe(err) {
		return &failure.Error{Code: failure.ExitFailed, Err: err, Quiet: true}
	}
	if runErr == nil && out.Status == agent.StatusPartial {
		runErr = &agent.EndError{Status: agent.StatusPartial, Text: "the answer is partial: " + out.Reason}
	}
	return ended(out, s.Redact(runErr))
}

func (s *Sinks) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}

func (s *Sinks) result(out *agent.Outcome, runErr error) error {
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
	answer := s.Hide(out.Answer)
	if !strings.HasSuffix(answer, "\n") {
		answer += "\n"
	}
	var w io.Writer = s.P.Out
	if s.P.OutTerm {
		answer, w = termtext.Clean(answer), s.progress.Answer(w)
	}
	_, err := io.WriteString(w, answer)
	return err
}

// A Result is the object of --output json.
type Result struct {
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
	Receipt    *agent.Receipt             `json:"receipt,omitempty"`
}

// object writes the run as one object. It includes an answer that was cut.
func (s *Sinks) object(out *agent.Outcome, runErr error) error {
	r := Result{
		Answer: s.Hide(out.Answer), Outcome: out.Status, Agent: out.Agent, Session: out.Session, Turns: out.Turns,
		Usage: out.Total.Usage, Agents: out.Total.Agents, Tools: out.Total.Tools, DurationMS: out.Duration.Milliseconds(), Receipt: out.Receipt,
	}
	if r.Agents == nil {
		r.Agents = map[string]agent.Usage{}
	}
	if r.Tools == nil {
		r.Tools = map[string]agent.ToolUsage{}
	}
	if runErr == nil {
		r.Error = s.Hide(out.Reason)
	} else {
		r.Error = s.Hide(runErr.Error())
	}
	return s.P.WriteJSON(r)
}

// Redact redacts known keys in the text of an error.
func (s *Sinks) Redact(err error) error {
	if err == nil {
		return nil
	}
	if text := s.Hide(err.Error()); text != err.Error() {
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

// logs are the log sinks of a run: they take events and lines of servers, one at
// a time.
type logs struct {
	hide func(string) string
	to   func(agent.Event)

	mu      sync.Mutex
	session string // of the root
	agent   string
}

func (l *logs) event(e agent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Depth == 0 {
		l.session, l.agent = e.Session, e.Agent
	}
	l.to(e)
}

func (l *logs) line(server, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to(agent.Event{Time: time.Now(), Kind: agent.EventLog, Session: l.session, Agent: l.agent,
		Tool: server, Text: l.hide(line)})
}

// Spans opens the exporter of spans to a file and to the collector that the
// environment names. Without either the observer is nil. What is wrong with the
// environment is a warning: it never keeps a run from starting.
func (s *Sinks) Spans(path string) (func(agent.Event), error) {
	env := observe.Environ{Getenv: s.P.Getenv, Warn: func(text string) { s.P.Mention(text) }}
	collector, from := env.Collector()
	if path == "" && collector == "" {
		return nil, nil
	}
	opts := observe.TraceOptions{URL: collector, Resource: env.Resource("agents", s.P.Version), Version: s.P.Version}
	var file io.WriteCloser
	if path != "" {
		var err error
		if file, err = observe.OpenLog(path); err != nil {
			return nil, notOpened("--trace-file", path, err)
		}
		opts.W = file
	}
	if collector != "" {
		opts.HTTP.Header = env.Header()
	}
	t, err := observe.OpenTrace(opts)
	if err != nil {
		s.P.Mention(fmt.Sprintf("%s: no spans are sent: %v", from, err))
		if file == nil {
			return nil, nil
		}
		opts.URL = ""
		t, _ = observe.OpenTrace(opts) // only a URL can be wrong
	}
	s.closers = append(s.closers, func() error {
		err := t.Close()
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	})
	s.Traced = true
	return t.Observe, nil
}

// panicked reports a panic in code that shows or logs the run. That part stops; the run
// continues.
func (s *Sinks) panicked(text string) {
	s.P.Warn("the run continues, but is not shown or logged in full: " + s.Hide(text))
}
