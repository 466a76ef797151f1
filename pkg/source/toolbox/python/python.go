// Package python is a toolbox with one tool, python: it runs cells in a Python session
// that lasts as long as the run of the agent.
//
// The session is one python3 process, which starts with the first cell and only needs the
// standard library. The result is what a cell prints and the value of its last expression;
// an exception is a failed result with its traceback. A cell that exceeds its time limit
// is interrupted, as by Ctrl-C, and the session keeps its state. If the cell does not stop,
// the process is killed and the next cell begins a new session. The process has the sandbox
// of the agent and the environment of a tool, and ends with the run.
//
//	set := python.Open(python.Options{Environ: os.Environ(), Dir: dir})
//	a.Toolsets = append(a.Toolsets, set)
package python

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// DefaultTimeout limits a cell.
const DefaultTimeout = 300 * time.Second

// defaultGrace is how long an interrupted cell has to end.
const defaultGrace = 3 * time.Second

//go:embed driver.py
var driver string

// Options say how cells run. The zero value runs them without any environment.
type Options struct {
	// Timeout is how long a cell may run; 0 means DefaultTimeout.
	Timeout time.Duration
	// Grace is how long an interrupted cell has to end; 0 means 3 s.
	Grace time.Duration
	// MaxOutput is how many bytes of a result reach the model; 0, and what is more,
	// means spool.MaxText.
	MaxOutput int
	// Environ is the environment from which that of the process is made, and Env names
	// variables in it that it gets although they look like secrets.
	Environ, Env []string
	// Dir is the working directory; "" means that of this process.
	Dir string
	// SpoolDir is where long output goes; "" means the system's folder for temporary
	// files.
	SpoolDir string
	// Redact replaces secrets in what cells print; nil changes nothing.
	Redact *redact.Redactor
	// Sandbox confines the process; nil does not.
	Sandbox process.Box
}

// A Toolset is the toolbox. It may serve several runs at the same time.
type Toolset struct {
	opts Options
	env  []string
	tree string
	spec agent.ToolSpec
}

// Open returns a toolbox. Nothing is executed.
func Open(o Options) *Toolset {
	o.Timeout, o.Grace = cmp.Or(max(o.Timeout, 0), DefaultTimeout), cmp.Or(max(o.Grace, 0), defaultGrace)
	if o.MaxOutput <= 0 || o.MaxOutput > spool.MaxText {
		o.MaxOutput = spool.MaxText
	}
	description := fmt.Sprintf("Runs a cell of Python and returns what it prints and the value of its last expression. Names stay defined for later cells. At most %s and %d bytes of output per cell.", seconds(o.Timeout), o.MaxOutput)
	return &Toolset{opts: o, env: toolenv.Environ(o.Environ, o.Env), spec: agent.ToolSpec{Name: name, Description: description, Source: "PythonToolbox", Effects: agent.EffectsOnce,
		Schema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string","description":"the cell"}},"required":["code"],"additionalProperties":false}`)}}
}

const name = "python"

// Tools implements agent.Toolset.
func (s *Toolset) Tools(context.Context) ([]agent.Tool, error) { return []agent.Tool{(*tool)(s)}, nil }

// Protect passes paths, absolute ones without links, to the process in AGENTS_TREE: see
// exectool.Toolset. It must not be called during calls.
func (s *Toolset) Protect(paths []string) { s.tree = toolenv.JoinTree(s.opts.Environ, paths) }

type tool Toolset

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Sandbox implements agent.Sandboxed.
func (t *tool) Sandbox() string {
	if t.opts.Sandbox != nil {
		return t.opts.Sandbox.String()
	}
	return ""
}

// WorkDir implements agent.Located.
func (t *tool) WorkDir() string {
	dir, _ := filepath.Abs(t.opts.Dir) // "" if the working directory is not known
	return dir
}

type key struct{ set *tool }

// Call implements agent.Tool.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args struct{ Code string }
	if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
		return agent.Result{}, err
	}
	s := inv.State(key{t}, func() any { return &session{turn: make(chan struct{}, 1)} }).(*session)
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return agent.Result{}, fmt.Errorf("nothing ran: %w", agent.ContextError(ctx))
	}
	note := ""
	if s.interpreter == nil || s.interpreter.over() {
		if err := t.start(ctx, inv, s); err != nil {
			return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
		}
		if ranBefore(inv) {
			note = "[a new Python session: the names of earlier cells are gone]\n"
		}
	}
	s.cells++
	text, err := s.interpreter.run(ctx, t, s.cells, args.Code)
	if s.alone {
		s.interpreter.close()
	}
	if text = note + text; text == "" && err == nil {
		text = "The cell printed nothing and has no value."
	}
	if text == "" {
		return agent.Result{}, err
	}
	return agent.TextResult(text), err
}

func (t *tool) start(ctx context.Context, inv *agent.Invocation, s *session) error {
	path, err := process.LookPath("python3", t.env)
	if err != nil {
		return err
	}
	cmd := &process.Command{Path: path, Args: []string{"-u", "-X", "utf8", "-c", driver}, Dir: t.opts.Dir, Mark: inv.Key,
		Env: slices.Concat(t.env, inv.Environ()), Grace: time.Second, Sandbox: t.opts.Sandbox}
	if t.tree != "" {
		cmd.Env = append(cmd.Env, toolenv.Tree+"="+t.tree)
	}
	in := &interpreter{output: t.newOutput(inv.Key)}
	cmd.Stderr = in.output.redacted
	if in.process, err = process.Start(cmd); err != nil {
		return err
	}
	in.from = &io.LimitedReader{R: in.process.Stdout, N: maxReplies}
	in.replies = json.NewDecoder(in.from)
	if err := in.ready(ctx); err != nil {
		return err
	}
	s.interpreter = in
	err = inv.Background(ctx, func(ctx context.Context) string {
		select {
		case <-ctx.Done():
		case <-in.process.Done():
		}
		in.close()
		return ""
	})
	s.alone = err != nil
	return nil
}

// ranBefore reports whether the session of the call has earlier cells.
func ranBefore(inv *agent.Invocation) bool {
	messages := inv.SessionState().Messages
	return slices.ContainsFunc(messages[:max(len(messages)-1, 0)], func(m agent.Message) bool {
		return slices.ContainsFunc(m.Results, func(r agent.ToolResult) bool { return r.Name == name })
	})
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

var errEnded = errors.New("the Python process has ended; the next cell begins a new session")
