package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/urfave/cli/v3"
)

type runFlags struct {
	script  promptScript
	output  string
	strict  bool
	timeout time.Duration
}

func (p *program) runCommand() *cli.Command {
	f := &runFlags{}
	return &cli.Command{
		Name:  "run",
		Usage: "answer one prompt; the answer goes to stdout",
		Description: `The prompt is put together from --prompt, --file, --shell, --sep4 and --sep40 in
the order in which they are given, each followed by a newline. Without any of
them it is standard input.

` + exitCodes,
		Flags: append(f.script.flags(),
			&cli.StringFlag{Name: "output", Value: "text", Usage: "`FORM` of the result: text (the answer), json (one object) or jsonl (every event as a line)", Destination: &f.output, Validator: oneOf("text", "json", "jsonl")},
			&cli.BoolFlag{Name: "strict", Usage: "refuse to start if anything of the tree had to be left out", Destination: &f.strict},
			&cli.DurationFlag{Name: "timeout", Usage: "end the run after `DURATION` (as 90s or 10m)", Destination: &f.timeout},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return p.run(ctx, f)
		},
	}
}

// run answers one prompt.
func (p *program) run(ctx context.Context, f *runFlags) error {
	if f.timeout < 0 {
		return usage("", "--timeout %s: it must be positive", f.timeout)
	}
	loaded, err := p.load(ctx)
	if err != nil {
		return err
	}
	defer loaded.Close()
	if f.strict {
		if err := strict(loaded.Problems); err != nil {
			return err
		}
	}
	prompt, err := f.script.render(ctx, p.in)
	if err != nil {
		return err
	}
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, &ending{fmt.Sprintf("the run's time limit of %s passed", f.timeout), context.DeadlineExceeded})
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sinks, err := p.sinks(loaded, f.output, cancel)
	if err != nil {
		return err
	}
	runner := &agent.Runner{Agent: loaded.Root, Observe: sinks.observe}
	out, runErr := runner.Run(ctx, agent.UserText(prompt))
	return sinks.finish(out, runErr)
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
