// Agents-fleet runs agents on Temporal: the same agent files on many machines. See
// docs/fleet.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/urfave/cli/v3"
)

// Set by the linker.
var (
	version = "dev"
	commit  = ""
)

func main() {
	work.Sandboxed(os.Args)
	_ = process.HideEnviron() // as far as the system can
	_ = process.BecomeSubreaper()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, program.System(version, commit), os.Args))
}

func run(ctx context.Context, p *program.Env, args []string) int {
	f := &fleet{Env: p}
	err := f.root().Run(ctx, args)
	f.close()
	return failure.Report(p.Err, err, nil)
}

func (f *fleet) root() *cli.Command {
	root := command.Group(&cli.Command{
		Name: "agents-fleet", Usage: "run agents on Temporal, on one machine or many", Version: f.Version,
		Description: "`agents-fleet dev` runs everything on this machine, and the other commands find it there.\nTo use another server and store, set --address or TEMPORAL_ADDRESS, and --store or\nAGENTS_FLEET_STORE. TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and TEMPORAL_TLS_… work as for\nTemporal's own tools.\n\n" + failure.Codes,
		Writer:      f.Out, ErrWriter: f.Err, HideHelpCommand: true,
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Commands:       []*cli.Command{f.devCommand(), f.workerCommand(), f.submitCommand(), f.runCommand(), f.attachCommand(), f.listCommand(), f.cancelCommand(), f.terminateCommand(), f.pruneCommand()},
	})
	cli.VersionPrinter = func(c *cli.Command) { fmt.Fprintf(c.Root().Writer, "agents-fleet %s\n", f.Version) }
	_ = root.Walk(func(c *cli.Command) error {
		c.OnUsageError = command.UsageError
		c.DisableSliceFlagSeparator = true
		return nil
	})
	return root
}
