package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/fleet"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/cmd/agents/internal/stdio"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/urfave/cli/v3"
)

type runFlags struct {
	runs.Flags
	prompt  prompt.Flags
	sinks   sinks.Flags
	timeout time.Duration
	schema  string
	channel bool
	args    prompt.Args
	context string
	on      string
}

func runCommand(p *program.Env) *cli.Command {
	f := &runFlags{}
	return &cli.Command{
		ArgsUsage: "[PROMPT...]",
		Description: `The prompt is the words of the command line, with piped standard input behind them,
or it is put together from --prompt, --file, --shell, --sep4 and --sep40 in the order
in which they are given, each followed by a newline. Without any of them it is
standard input. --prompt and the other flags leave standard input alone unless they
name it with -.

With --mcp-prompt the conversation begins with the messages of that prompt, and
what the other flags give follows. Standard input is then read for - alone.

` + failure.Codes,
		Flags: append(slices.Concat(f.prompt.Script.Flags(p, &f.Keep.Dir), f.args.Flags(), f.Flags.Flags()),
			sinks.OutputFlag(&f.sinks.Output),
			&cli.StringSliceFlag{Name: "media", Aliases: []string{"m"}, Usage: "attach `[MIME;]PATH`, an image, a PDF or audio; repeatable", Destination: &f.prompt.Media},
			&cli.StringFlag{Name: "alias", Usage: "put the prompt into the template `NAME`: " + strings.Join(slices.Sorted(maps.Keys(prompt.BuiltinAliases)), ", ") + ", or one of the cfg file", Destination: &f.prompt.Alias},
			&cli.StringFlag{Name: "output-schema", Usage: "the answer must be JSON that satisfies the JSON Schema in `FILE`", Destination: &f.schema},
			&cli.StringFlag{Name: "context", Usage: "the context of the run, any `JSON`, which tools can read and change; @FILE reads a file (see agents help context)", Destination: &f.context},
			&cli.StringFlag{Name: "mcp-prompt", Usage: "begin with the prompt `SERVER/NAME` of an MCP server of the agent; the command takes its arguments as NAME=VALUE", Destination: &f.prompt.MCP.Name},
			&cli.BoolFlag{Name: "stream", Usage: "write the answer to stdout as it arrives and as it is, even if stdout is not a terminal", Destination: &f.sinks.Stream},
			command.CompatNamesFlag(&p.Global),
			&cli.BoolFlag{Name: "channel", Usage: "for programs: speak the channel on standard input and output; the program that started this one sends the prompt and receives the events (see agents help nesting)", Destination: &f.channel},
			&cli.DurationFlag{Name: "timeout", Usage: "end the run after `DURATION` (as 90s or 10m)", HideDefault: true, Destination: &f.timeout},
			&cli.StringFlag{Name: "on", Usage: "run on `WHERE`: here, or fleet, which are workers of Temporal (see agents help fleet)", Value: "here", Destination: &f.on, Validator: command.OneOf("here", "fleet")},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := f.prompt.Arguments(c); err != nil {
				return err
			}
			if f.on == "fleet" {
				return runOnFleet(ctx, p, f, c)
			}
			return run(ctx, p, f)
		},
	}
}

func run(ctx context.Context, p *program.Env, f *runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.channel {
		return runChannel(ctx, p, f)
	}
	answer, err := prompt.ReadAnswerSchema(ctx, f.schema)
	if err != nil {
		return err
	}
	if f.context != "" {
		if f.context, err = prompt.ReadJSON(ctx, p, "--context", f.context, agent.MaxContext); err != nil {
			return err
		}
	}
	kept, err := keep.Open(p, &f.Keep)
	if err != nil {
		return err
	}
	defer kept.Release()
	person := ask.NewPerson(p)
	if person != nil {
		f.Rights.Default = policy.Effects
	}
	o := f.Load(kept.LoadOptions())
	o.Elicit = person.Asked()
	loaded, err := load.Load(ctx, p, o)
	if err != nil {
		return err
	}
	defer loaded.Close()
	var prompt *agent.Message // nil: finish what is unfinished
	root := *loaded.Root
	if !kept.Unfinished() || f.prompt.Given() || f.args.Given() {
		m, opening, err := f.opening(ctx, p, loaded, kept.New())
		if err != nil {
			return err
		}
		prompt, root.Opening = &m, opening
		if !p.Global.Quiet && !f.args.Given() && f.prompt.Script.Unread(p) {
			p.Warn("standard input has data that is not read: --file - adds it to the prompt")
		}
	}
	ctx, end := f.limit(ctx)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.sinks.Whole, f.sinks.TraceFile, f.sinks.Spans = answer != nil || root.OutputSchema != nil, f.TraceFile, true
	s, err := sinks.Open(ctx, p, loaded, f.sinks, person, cancel)
	if err != nil {
		return err
	}
	approver := ask.NewApprover(p, person, f.Rights.Yes, cancel)
	if kept != nil {
		approver.Session = kept.ID
	}
	s.Kept = kept != nil
	h := f.Host(p, loaded, kept)
	h.Offers = []host.Agent{{Name: root.Slug, Agent: &root}}
	if answer != nil {
		h.Offers[0].Agent = answer.Of(&root)
	}
	h.Observe, h.Person, h.Traced = observe.Tee(s.Observe, approver.Observe), approver.Answer, s.Traced
	start := agent.Start{Message: prompt, Context: json.RawMessage(f.context), Person: new(bool)}
	c, err := h.Start(ctx, root.Slug, start)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	err = s.Finish(kept.Ask(h, &root, c))
	noteUnasked(p, loaded, approver, person)
	return err
}

// noteUnasked says how many calls ran, or were denied, because there was no person.
func noteUnasked(p *program.Env, loaded *load.Tree, approver *ask.Approver, person *ask.Person) {
	var specs []agent.ToolSpec
	for _, n := range loaded.Nodes {
		specs = append(specs, n.Tools...)
	}
	if n := approver.Unasked(specs); n > 0 && person == nil && !approver.Yes && loaded.Nodes[0].Approval() == "" && p.Getenv(toolenv.Depth) == "" {
		p.Note("%d %s ran without a question because there is no terminal; --approval, or approval in the agent file, says which calls need one (see agents help approval)", n, program.Plural(n, "call"))
	}
	if n := approver.Denied(); n > 0 {
		p.Note("%d %s denied because there is no terminal; --yes allows such calls (see agents help approval)", n, map[bool]string{true: "call was", false: "calls were"}[n == 1])
	}
}

func (f *runFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, f.timeout, &failure.Ending{Text: fmt.Sprintf("the run's time limit of %s passed", f.timeout), Cause: context.DeadlineExceeded})
}

// nested returns the agent file of a command line that has nothing but --agent-file FILE,
// run and --channel, as the wrapper of an agent begins it. Each call of a nested agent is
// such a process, and the flags of all that run can do take longer to build than a small
// agent to load.
func nested(args []string) (file string, ok bool) {
	if len(args) != 5 {
		return "", false
	}
	rest := args[1:]
	if rest[0] == "--agent-file" {
		rest = append(slices.Clone(rest[2:]), rest[:2]...)
	}
	file = rest[3]
	return file, slices.Equal(rest[:3], []string{"run", "--channel", "--agent-file"}) && file != "" && file[0] != '-'
}

// opening is the prompt of a run, and the messages before it. What begins a session must
// be what the agent takes.
func (f *runFlags) opening(ctx context.Context, p *program.Env, l *load.Tree, first bool) (agent.Message, []agent.Message, error) {
	if f.args.Given() {
		m, err := f.args.Message(ctx, p, l.Root)
		if err != nil {
			return m, nil, err
		}
		media, err := prompt.Attachments(ctx, f.prompt.Media)
		m.Parts = append(m.Parts, media...)
		return m, nil, err
	}
	needed := prompt.Needed(l.Root)
	if first && needed != nil && !f.prompt.Given() && p.InTerm {
		return agent.Message{}, nil, needed
	}
	m, before, err := f.prompt.Opening(ctx, p, l)
	if first && needed != nil && errors.Is(err, prompt.ErrEmpty) {
		err = needed
	}
	if !first && errors.Is(err, prompt.ErrEmpty) {
		err = failure.Usage("give it as an argument, with --prompt, --file or --shell, or on standard input", "the run of this session has ended: another prompt continues the conversation")
	}
	if err == nil && first && f.prompt.MCP.Name == "" {
		m, err = prompt.Fitting(ctx, l.Root, m)
	}
	return m, before, err
}

// runChannel answers the prompt of the program that started this one.
func runChannel(ctx context.Context, p *program.Env, f *runFlags) error {
	ctx, end := f.limit(ctx)
	defer end()
	return stdio.Run(ctx, p, f.Flags)
}

func (f *runFlags) check() error {
	switch {
	case f.args.Given() && (len(f.prompt.Script) > 0 || f.prompt.Alias != "" || f.prompt.MCP.Name != ""):
		return failure.Usage("the text prompt may be one of the arguments", "--args and --arg exclude a prompt")
	case f.args.JSON != "" && len(f.args.Pairs) > 0:
		return failure.Usage("", "--args and --arg exclude each other")
	case f.channel && (f.prompt.Given() || f.args.Given() || f.context != "" || f.sinks.Stream || f.sinks.Output != "text" || f.schema != ""):
		return failure.Usage("", "--channel reads the prompt and its attachments from the channel and writes events to it, so the flags for these cannot be used with it")
	case f.channel && f.TraceFile != "":
		return failure.Usage("the program at the other end of the channel receives the events; an `agents` there records their spans", "--trace-file cannot be used with --channel")
	case f.channel && f.Rights.Yes:
		return failure.Usage("the program at the other end of the channel answers questions", "--yes cannot be used with --channel")
	case f.timeout < 0:
		return failure.Usage("", "--timeout %s: it must be positive", f.timeout)
	case f.sinks.Stream && f.sinks.Output != "text":
		return failure.Usage("--output jsonl streams the answer too", "--stream requires --output text")
	case f.prompt.MCP.Name != "" && f.prompt.Alias != "":
		return failure.Usage("", "--mcp-prompt and --alias exclude each other: each makes the prompt")
	case f.prompt.MCP.Name != "" && f.Keep.Continues():
		return failure.Usage("", "--mcp-prompt begins a conversation; it excludes --session and --continue")
	case f.sinks.Stream && f.schema != "":
		return failure.Usage("", "--stream and --output-schema exclude each other: only a whole answer can be checked")
	}
	return nil
}

// fleetFlags are the flags that --on fleet can be combined with. The others decide what
// happens on the host of a run.
var fleetFlags = []string{"on", "prompt", "file", "shell", "sep4", "sep40", "args", "arg", "media", "alias", "output", "output-schema", "context", "stream", "trace-file", "budget", "timeout", "yes",
	"agent-file", "agent", "quiet", "color", "log-json-file", "log-http", "log-file", "transcript"}

// runOnFleet answers one prompt on the workers of a fleet: agents-fleet starts the run and
// speaks the channel about it.
func runOnFleet(ctx context.Context, p *program.Env, f *runFlags, c *cli.Command) error {
	for _, level := range c.Lineage() {
		for _, flag := range level.Flags {
			if name := flag.Names()[0]; flag.IsSet() && !slices.Contains(fleetFlags, name) {
				return failure.Usage("the workers of a fleet have their own configuration, keys and sessions", "--%s cannot be used with --on fleet", name)
			}
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	path, err := process.Companion(program.Fleet)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("--on fleet: %w", err), "`make fleet` in a checkout of agents builds it; put it beside agents")
	}
	loaded, err := load.Load(ctx, p, load.Options{NoModels: true})
	if err != nil {
		return err
	}
	defer loaded.Close()
	start, err := f.fleetStart(ctx, p, loaded)
	if err != nil {
		return err
	}
	person := ask.NewPerson(p)
	asked := person != nil || f.Rights.Yes
	start.Person = &asked
	ctx, end := f.limit(ctx)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.sinks.Whole, f.sinks.TraceFile, f.sinks.Spans = start.OutputSchema != nil || loaded.Root.OutputSchema != nil, f.TraceFile, f.TraceFile != ""
	s, err := sinks.Open(ctx, p, loaded, f.sinks, person, cancel)
	if err != nil {
		return err
	}
	approver := ask.NewApprover(p, person, f.Rights.Yes, cancel)
	h := &fleet.Run{Path: path, Approver: approver, Observe: observe.Tee(s.Observe, approver.Observe), Agent: loaded.Root.Slug}
	h.Args = []string{"run", "--channel", "--agent-file", loaded.Nodes[0].File.Path}
	if p.Global.Agent != "" {
		h.Args = append(h.Args, "--agent", p.Global.Agent)
	}
	if f.timeout > 0 { // the server ends a run that no worker ends
		h.Args = append(h.Args, "--timeout", f.timeout.String())
	}
	out, err := h.Do(ctx, p, start)
	return s.Finish(out, err)
}

// fleetStart is what the run starts with.
func (f *runFlags) fleetStart(ctx context.Context, p *program.Env, l *load.Tree) (start agent.Start, err error) {
	start.Lease.Budget = f.Budget
	if f.context != "" {
		text, err := prompt.ReadJSON(ctx, p, "--context", f.context, agent.MaxContext)
		if err != nil {
			return start, err
		}
		start.Context = json.RawMessage(text)
	}
	answer, err := prompt.ReadAnswerSchema(ctx, f.schema)
	if err != nil {
		return start, err
	}
	if answer != nil { // it was read, and can be compiled
		if start.OutputSchema, err = os.ReadFile(f.schema); err != nil {
			return start, failure.NothingRan(fmt.Errorf("--output-schema: %w", err), "")
		}
	}
	m, _, err := f.opening(ctx, p, l, true) // which checks the arguments too
	if err != nil {
		return start, err
	}
	for _, part := range m.Parts {
		if part.Kind == agent.PartMedia {
			start.Media = append(start.Media, part)
		}
	}
	var text string
	if f.args.Given() {
		text, err = f.args.Text(ctx, p, l.Root)
		start.Args = json.RawMessage(text)
	} else if text = m.Text(); text != "" {
		start.Args, err = json.Marshal(map[string]string{"prompt": text})
	}
	return start, err
}
