// Package bash is a toolbox that runs commands in a shell: the tool bash, and with
// Options.BackgroundAfter also bash_list, bash_read and bash_kill.
//
// A command runs like an executable tool: with the environment of a call without secrets,
// the context of the run in AGENTS_CONTEXT_FILE, empty standard input, a process group that
// is killed at its time limit or with the call, and the sandbox of the agent. Standard
// output and standard error are one stream. Output beyond the limit is cut in the middle;
// a file has all of it.
//
// A command that runs longer than Options.BackgroundAfter continues in the background:
// the call returns the output so far and the name of a file that gets all output. When the
// command ends, the model gets a message. Background commands end with the run of the agent.
//
//	set := bash.Open(bash.Options{Environ: os.Environ(), Dir: dir})
//	a.Toolsets = append(a.Toolsets, set)
package bash

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/contextfile"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// The defaults of Options, and how many commands of a run may be in the background.
const (
	DefaultTimeout           = 300 * time.Second
	DefaultBackgroundTimeout = time.Hour
	MaxBackground            = 16
)

// Options say how commands run. The zero value runs them without any environment.
type Options struct {
	// Timeout is how long a command may run; 0 means DefaultTimeout, or with
	// BackgroundAfter DefaultBackgroundTimeout.
	Timeout time.Duration
	// BackgroundAfter is how long a command runs before it continues in the background;
	// 0 means that none does.
	BackgroundAfter time.Duration
	// MaxOutput is how many bytes of output reach the model; 0, and what is more, means
	// spool.MaxText.
	MaxOutput int
	// Environ is the environment from which that of the commands is made, and Env names
	// variables in it that they get although they look like secrets.
	Environ, Env []string
	// Dir is the working directory; "" means that of this process.
	Dir string
	// SpoolDir is where long output goes; "" means the system's folder for temporary
	// files.
	SpoolDir string
	// Redact replaces secrets in what commands print; nil changes nothing.
	Redact *redact.Redactor
	// Sandbox confines the commands; nil does not.
	Sandbox process.Box
	// Grace is how long a command has to end by itself after SIGTERM; 0 means the
	// default of package process.
	Grace time.Duration
}

// A Toolset is the toolbox. It may serve several runs at the same time.
type Toolset struct {
	opts  Options
	env   []string
	tree  string
	tools agent.ToolList
}

// Open returns a toolbox. Nothing is executed.
func Open(o Options) *Toolset {
	if o.Timeout == 0 {
		if o.Timeout = DefaultTimeout; o.BackgroundAfter > 0 {
			o.Timeout = DefaultBackgroundTimeout
		}
	}
	if o.MaxOutput <= 0 || o.MaxOutput > spool.MaxText {
		o.MaxOutput = spool.MaxText
	}
	s := &Toolset{opts: o, env: toolenv.Environ(o.Environ, o.Env)}
	s.tools = agent.ToolList{s.bash()}
	if o.BackgroundAfter > 0 {
		s.tools = append(s.tools, s.list(), s.read(), s.kill())
	}
	return s
}

// Tools implements agent.Toolset.
func (s *Toolset) Tools(context.Context) ([]agent.Tool, error) { return s.tools, nil }

// Protect passes paths, absolute ones without links, to the commands in AGENTS_TREE: see
// exectool.Toolset. It must not be called during calls.
func (s *Toolset) Protect(paths []string) { s.tree = toolenv.JoinTree(s.opts.Environ, paths) }

type tool struct {
	set  *Toolset
	spec agent.ToolSpec
	call func(ctx context.Context, inv *agent.Invocation, args arguments) (agent.Result, error)
}

type arguments struct {
	Command string  `json:"command"`
	Wait    float64 `json:"wait_seconds"`
	ID      string  `json:"id"`
}

func (t *tool) Spec() agent.ToolSpec { return t.spec }

func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	values, err := inv.Args()
	if err != nil {
		return agent.Result{}, err
	}
	var args arguments
	for name, to := range map[string]any{"command": &args.Command, "wait_seconds": &args.Wait, "id": &args.ID} {
		if raw := values[name]; raw != nil {
			if err := json.Unmarshal(raw, to); err != nil {
				return agent.Result{}, fmt.Errorf("nothing ran: %s: %w", name, err)
			}
		}
	}
	return t.call(ctx, inv, args)
}

type shell struct{ tool }

const source = "BashToolbox"

const waitArgument = `,"wait_seconds":{"type":"number","minimum":0,"maximum":3600,"description":"afterwards, wait until a command in the background ends, at most so many seconds"}`

func (s *Toolset) bash() agent.Tool {
	description := fmt.Sprintf("Runs commands with bash. Standard input is empty; what they print, standard output and standard error together, is the result, and the exit code decides whether the call has failed. Each call is a new shell. At most %s run time and %d bytes of output.",
		seconds(s.opts.Timeout), s.opts.MaxOutput)
	wait, end := "", " Nothing that it starts stays alive when the call ends."
	if s.opts.BackgroundAfter > 0 {
		wait = waitArgument
		end = fmt.Sprintf(" After %s it continues in the background: the result then has its id and the file with its output, and a message follows when it ends.", seconds(s.opts.BackgroundAfter))
	}
	schema := `{"type":"object","properties":{"command":{"type":"string","description":"the commands; several lines are fine"}` + wait + `},"required":["command"],"additionalProperties":false}`
	t := &shell{tool{set: s, spec: agent.ToolSpec{Name: "bash", Description: description + end, Schema: json.RawMessage(schema), Source: source, Effects: agent.EffectsOnce}}}
	t.call = t.run
	return t
}

// Command implements agent.Commander.
func (t *shell) Command(inv *agent.Invocation) (argv []string, digest string) {
	text, _ := inv.Values()["command"].(string)
	path, err := process.LookPath("bash", t.set.env)
	if err != nil {
		return nil, ""
	}
	return append([]string{path}, words(path, text)...), ""
}

// words are the arguments of bash. The outer one joins the two streams and becomes the
// inner one.
func words(path, text string) []string { return []string{"-c", `exec 2>&1 "$0" -c "$1"`, path, text} }

// Sandbox implements agent.Sandboxed.
func (t *shell) Sandbox() string {
	if box := t.set.opts.Sandbox; box != nil {
		return box.String()
	}
	return ""
}

// WorkDir implements agent.Located.
func (t *shell) WorkDir() string {
	dir, _ := filepath.Abs(t.set.opts.Dir) // "" if the working directory is not known
	return dir
}

func (t *shell) run(ctx context.Context, inv *agent.Invocation, args arguments) (agent.Result, error) {
	switch {
	case bytes.IndexByte([]byte(args.Command), 0) >= 0:
		return agent.Result{}, errors.New("nothing ran: the command holds a NUL byte")
	case len(args.Command) > toolenv.MaxEntry:
		return agent.Result{}, fmt.Errorf("nothing ran: the command is %d bytes long and can be %d; write it to a file in parts and run that", len(args.Command), toolenv.MaxEntry)
	}
	path, err := process.LookPath("bash", t.set.env)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	c := t.set.command(inv, args.Command)
	cmd := t.set.process(ctx, inv, path, args.Command)
	if c.context, err = contextfile.New(inv, nil); err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: write the context: %w", err)
	}
	c.context.Pass(cmd)
	result, err := c.run(ctx, inv, cmd)
	if args.Wait > 0 {
		await(ctx, inv, args.Wait)
	}
	return result, err
}

// process is what a command executes.
func (s *Toolset) process(ctx context.Context, inv *agent.Invocation, path, text string) *process.Command {
	cmd := &process.Command{Path: path, Args: words(path, text), Dir: s.opts.Dir, Mark: inv.Key, Grace: s.opts.Grace, Sandbox: s.opts.Sandbox,
		Env: slices.Concat(s.env, inv.Environ())}
	if s.tree != "" {
		cmd.Env = append(cmd.Env, toolenv.Tree+"="+s.tree)
	}
	if end, ok := ctx.Deadline(); ok {
		cmd.Env = append(cmd.Env, toolenv.Deadline+"="+end.UTC().Format(time.RFC3339Nano))
	}
	return cmd
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// id names the command of a call within its session.
func id(inv *agent.Invocation) string { return fmt.Sprintf("%d.%d", inv.Turn, cmp.Or(inv.N, 1)) }
