// Agents-fleet runs agents on Temporal: the same agent files on many machines. See
// docs/fleet.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/termtext"
	"github.com/urfave/cli/v3"
)

// version is set by the linker.
var version = "dev"

func main() {
	work.Sandboxed(os.Args)
	_ = process.HideEnviron() // as far as the system can
	_ = process.BecomeSubreaper()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, &fleet{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}, os.Args))
}

// run runs a command and returns the exit code.
func run(ctx context.Context, f *fleet, args []string) int {
	return report(f.err, f.root().Run(ctx, args))
}

func (f *fleet) root() *cli.Command {
	root := &cli.Command{
		Name: "agents-fleet", Usage: "run agents on Temporal, on one machine or many", Version: version,
		Description: "`agents-fleet dev` runs everything on this machine, and the other commands find it there.\nTo use another server and store, set --address or TEMPORAL_ADDRESS, and --store or\nAGENTS_FLEET_STORE. TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and TEMPORAL_TLS_… work as for\nTemporal's own tools.\n\n" + exitCodes,
		Writer:      f.out, ErrWriter: f.err, HideHelpCommand: true, DisableSliceFlagSeparator: true,
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, c *cli.Command) error {
			if name := c.Args().First(); name != "" {
				return usage("there is no command %q", name)
			}
			return usage("no command given")
		},
		Commands: []*cli.Command{f.devCommand(), f.workerCommand(), f.submitCommand(), f.runCommand(), f.attachCommand(), f.listCommand(), f.cancelCommand()},
	}
	_ = root.Walk(func(c *cli.Command) error {
		c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
			return usage("%s: %w", c.FullName(), err)
		}
		c.DisableSliceFlagSeparator = true
		return nil
	})
	return root
}

const exitCodes = `Exit codes of run and attach: 0 the agent answered; 1 the run failed; 2 nothing ran;
3 a limit ended it, or cut the answer short; 4 a policy refused what the run could not do
without; 5 the deadline passed; 6 the answer does not satisfy its schema; 130 interrupted.`

// A failure is an error with its exit code and the next step of the user.
type failure struct {
	error
	code  int
	hint  string
	quiet bool // it was already shown
}

func (f *failure) Unwrap() error { return f.error }

// usage is an error in the command line.
func usage(format string, args ...any) error {
	return &failure{error: fmt.Errorf(format, args...), code: 2, hint: "`agents-fleet --help` lists the commands, `agents-fleet COMMAND --help` their flags"}
}

// report writes err and the next step, and returns the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	f := explain(err)
	if !f.quiet {
		fmt.Fprintf(w, "error: %s\n", termtext.Clean(err.Error()))
		if f.hint != "" {
			fmt.Fprintf(w, "hint: %s\n", f.hint)
		}
	}
	return f.code
}

// explain returns err with its exit code and the next step.
func explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if errors.Is(err, attach.ErrNoRun) || errors.Is(err, attach.ErrOver) {
		return &failure{error: err, code: 2, hint: "`agents-fleet list` shows the runs"}
	}
	return &failure{error: err, code: codeOf(agent.StatusOf(err))}
}

// codeOf returns the exit code for the status of a run, the same as `agents run`.
func codeOf(s agent.Status) int {
	switch s {
	case agent.StatusOK:
		return 0
	case agent.StatusLimit, agent.StatusBudget, agent.StatusPartial:
		return 3
	case agent.StatusRefused:
		return 4
	case agent.StatusDeadline:
		return 5
	case agent.StatusInvalid:
		return 6
	case agent.StatusInterrupted:
		return 130
	}
	return 1
}
