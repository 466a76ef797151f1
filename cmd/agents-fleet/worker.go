package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/urfave/cli/v3"
)

// deployment is the name of the deployment whose versions are builds of the program.
const deployment = "agents-fleet"

func (f *fleet) workerFlags(o *work.Options, keys *string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "api-keys", TakesFile: true, Usage: "the keys `FILE`, as for agents", Destination: keys},
		&cli.IntFlag{Name: "activities", Usage: "run up to `N` model requests and calls at the same time", Value: 100, Destination: &o.Activities},
		&cli.StringFlag{Name: "metrics", Usage: "serve the metrics of the Temporal SDK to Prometheus at `HOST:PORT`", Destination: &f.metrics},
		&cli.StringFlag{Name: "queue", Usage: "take runs from the task queue `NAME`", Value: flow.Queue, Destination: &o.Queue},
		f.traceFlag(),
	}
}

func (f *fleet) workerCommand() *cli.Command {
	o, keys := &work.Options{Deployment: deployment}, ""
	return &cli.Command{
		Name: "worker", Usage: "work on submitted runs until interrupted; other workers then continue them",
		Flags: f.flags(append(f.workerFlags(o, &keys), &cli.StringFlag{Name: "build-id", Usage: "the `ID` of this build, by default the digest of the program; a run stays with the build that began it", Destination: &o.BuildID})...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			if o.BuildID == "" {
				var err error
				if o.BuildID, err = buildID(); err != nil {
					return err
				}
			}
			return f.work(ctx, *o, keys)
		},
	}
}

// buildID returns the build of this program: a part of its digest. That of agents-fleet-dev is
// that of the agents-fleet beside it, so that workers of both share their runs.
func buildID() (string, error) {
	path, _ := os.Executable()
	if dir, name := filepath.Split(path); name == devProgram {
		if beside := dir + strings.TrimSuffix(devProgram, "-dev"); exectool.Digest(beside) != "" {
			path = beside
		}
	}
	digest := strings.TrimPrefix(exectool.Digest(path), "sha256:")
	if digest == "" {
		return "", failure.Usage("--build-id names the build", "the file of the program cannot be read")
	}
	return digest[:16], nil
}

func (f *fleet) work(ctx context.Context, o work.Options, keys string) error {
	var err error
	if o.Dir, err = f.folder(); err != nil {
		return err
	}
	if o.Load, err = f.loading(keys); err != nil {
		return err
	}
	to := connect.Options{Logger: slog.New(slog.NewTextHandler(f.Err, &slog.HandlerOptions{Level: slog.LevelError}))}
	if f.metrics != "" {
		m, err := connect.ServeMetrics(f.metrics)
		if err != nil {
			return failure.NothingRan(fmt.Errorf("--metrics: %w", err), "")
		}
		f.closers = append(f.closers, m.Close)
		to.Metrics = m
	}
	if err := f.open(ctx, to); err != nil {
		return err
	}
	if err := connect.Register(ctx, f.client, f.space, attributes); err != nil {
		f.Warn(err.Error()) // it may need an administrator
	}
	ended, err := load.NoteRun(ctx, f.Env) // the agents of the runs may change files of this person
	if err != nil {
		return failure.NothingRan(err, "")
	}
	f.closers = append(f.closers, func() error { ended(); return nil })
	o.Note = f.note
	if f.trace != nil {
		o.Ended = f.trace.Record
	}
	f.note("worker: taking runs from the queue " + o.Queue)
	return work.New(f.client, f.store, o).Run(ctx)
}

// loading returns the options with which this host loads agents: its environment, keys, prices
// and caches. How to reach Temporal and the store is not passed to tools: it may contain
// passwords.
func (f *fleet) loading(keys string) (o agentfile.Options, err error) {
	env, err := f.ConfigEnv()
	if err != nil {
		return o, err
	}
	c, err := config.Load(env, config.Flags{Keys: keys})
	if err != nil {
		return o, failure.NothingRan(err, "")
	}
	o = agentfile.Options{Companion: process.Companion, Folders: load.Folders(f.Env)}
	o.Environ = slices.DeleteFunc(slices.Clone(f.Environ), func(v string) bool {
		return strings.HasPrefix(v, "AGENTS_FLEET_") || strings.HasPrefix(v, "TEMPORAL_")
	})
	if o.Prices, err = load.Prices(c); err != nil {
		return o, err
	}
	if file := c.KeysFile(""); file.Path != "" {
		var warnings []string
		o.KeysFile = file.Path
		if o.Keys, warnings, err = config.ReadKeys(file.Path); err != nil {
			return o, failure.NothingRan(fmt.Errorf("read keys (%s): %w", file.Why, err), "")
		}
		f.Warn(warnings...)
	}
	return o, nil
}
