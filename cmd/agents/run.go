package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

type runFlags struct {
	prompt  promptFlags
	sinks   sinkFlags
	strict  bool
	timeout time.Duration
	schema  string
	set     map[string]string
	keep    keepFlags
}

// promptFlags are the prompt and what belongs to it.
type promptFlags struct {
	script promptScript
	media  []string
	alias  string
	mcp    mcpPrompt
}

// setFlag collects NAME=VALUE. A value may hold anything.
type setFlag struct{ values *map[string]string }

func (f *setFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("want NAME=VALUE")
	}
	if *f.values == nil {
		*f.values = map[string]string{}
	}
	(*f.values)[name] = value
	return nil
}

func (f *setFlag) String() string { return "" }
func (f *setFlag) Get() any       { return *f.values }

func runCommand(p *program) *cli.Command {
	f := &runFlags{}
	return &cli.Command{
		Description: `The prompt is put together from --prompt, --file, --shell, --sep4 and --sep40 in
the order in which they are given, each followed by a newline. Without any of
them it is standard input.

With --mcp-prompt the conversation begins with the messages of that prompt, and
what the other flags give follows. Standard input is then read for - alone.

` + exitCodes,
		Flags: append(append(f.prompt.script.flags(p, &f.keep.dir), f.keep.flags()...),
			outputFlag(&f.sinks.output),
			&cli.StringSliceFlag{Name: "media", Aliases: []string{"m"}, Usage: "attach `[MIME;]PATH`, an image, a PDF or audio; repeatable", Destination: &f.prompt.media},
			&cli.StringFlag{Name: "alias", Usage: "put the prompt into the template `NAME`: " + strings.Join(slices.Sorted(maps.Keys(builtinAliases)), ", ") + ", or one of the cfg file", Destination: &f.prompt.alias},
			&cli.GenericFlag{Name: "set", Usage: "fill ${NAME} in the agent's prompts, `NAME=VALUE`; repeatable", Value: &setFlag{&f.set}},
			&cli.StringFlag{Name: "output-schema", Usage: "the answer must be JSON that satisfies the JSON Schema in `FILE`", Destination: &f.schema},
			&cli.StringFlag{Name: "mcp-prompt", Usage: "begin with the prompt `SERVER/NAME` of an MCP server of the agent; NAME=VALUE arguments of the command fill its gaps", Destination: &f.prompt.mcp.name},
			&cli.BoolFlag{Name: "stream", Usage: "write the answer to stdout as it comes, also where stdout is no terminal", Destination: &f.sinks.stream},
			&cli.BoolFlag{Name: "strict", Usage: "refuse to start if anything of the tree had to be left out", Destination: &f.strict},
			&cli.DurationFlag{Name: "timeout", Usage: "end the run after `DURATION` (as 90s or 10m)", HideDefault: true, Destination: &f.timeout},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := f.prompt.mcp.arguments(c); err != nil {
				return err
			}
			return p.run(ctx, f)
		},
	}
}

// run answers one prompt.
func (p *program) run(ctx context.Context, f *runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	answer, err := readAnswerSchema(ctx, f.schema)
	if err != nil {
		return err
	}
	kept, err := p.keep(&f.keep)
	if err != nil {
		return err
	}
	defer kept.close()
	person := p.newPerson()
	o := kept.loadOptions()
	o.set, o.elicit = f.set, person.asked()
	loaded, err := p.load(ctx, o)
	if err != nil {
		return err
	}
	defer loaded.Close()
	if f.strict {
		if err := strict(loaded.Problems); err != nil {
			return err
		}
	}
	var prompt *agent.Message // nil: finish what is unfinished
	root := *loaded.Root
	if !kept.unfinished() || f.prompt.given() {
		m, opening, err := f.prompt.opening(ctx, p, loaded)
		if err != nil {
			return err
		}
		prompt, root.Opening = &m, opening
	}
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, &ending{fmt.Sprintf("the run's time limit of %s passed", f.timeout), context.DeadlineExceeded})
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.sinks.whole = answer != nil
	sinks, err := p.sinks(ctx, loaded, f.sinks, person, cancel)
	if err != nil {
		return err
	}
	runner := &agent.Runner{Agent: &root, Observe: sinks.observe, Redact: observe.RedactEvent(sinks.secrets)}
	if err := kept.attach(p, runner); err != nil {
		return errors.Join(err, sinks.close())
	}
	if answer != nil {
		runner.Agent = answer.Of(&root)
	}
	out, runErr := kept.ask(ctx, runner, prompt)
	return sinks.finish(out, kept.finish(runner, runErr))
}

// given reports whether the command line has a prompt.
func (f *promptFlags) given() bool {
	return len(f.script) > 0 || len(f.media) > 0 || f.alias != "" || f.mcp.name != ""
}

// check refuses flags that do not go together.
func (f *runFlags) check() error {
	switch {
	case f.timeout < 0:
		return usage("", "--timeout %s: it must be positive", f.timeout)
	case f.sinks.stream && f.sinks.output != "text":
		return usage("--output jsonl has every piece of the answer", "--stream goes with --output text alone")
	case f.prompt.mcp.name != "" && f.prompt.alias != "":
		return usage("", "--mcp-prompt and --alias exclude each other: each makes the prompt")
	case f.prompt.mcp.name != "" && (f.keep.session != "" || f.keep.last):
		return usage("", "--mcp-prompt begins a conversation; it does not go with --session and --continue")
	case f.sinks.stream && f.schema != "":
		return usage("", "--stream and --output-schema exclude each other: only a whole answer can be checked")
	}
	return nil
}

// message is the prompt with what is attached to it.
func (f *promptFlags) message(ctx context.Context, p *program, l *loaded) (agent.Message, error) {
	text, err := f.script.render(ctx, p.in, p.err)
	if err != nil {
		return agent.Message{}, err
	}
	if f.alias != "" {
		if text, err = applyAlias(f.alias, l.config.File.Aliases, f.script, text); err != nil {
			return agent.Message{}, err
		}
	}
	media, err := attachments(ctx, f.media)
	if err != nil {
		return agent.Message{}, err
	}
	message := agent.UserText(text)
	message.Parts = append(message.Parts, media...)
	return message, nil
}

// strict turns what was left out into an error.
func strict(problems []agentfile.Problem) error {
	var left []string
	for _, p := range problems {
		if p.Severity <= agentfile.LeftOut {
			left = append(left, p.String())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return nothingRan(fmt.Errorf("--strict: the tree is not complete:\n  %s", strings.Join(left, "\n  ")), "`agents check` shows every problem")
}

// ended turns the error of a run into what the person is told.
func ended(out *agent.Outcome, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("run agent %s: %w", out.Agent, err)
}
