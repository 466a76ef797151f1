package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/server"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/filelock"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/wholefile"
	"github.com/urfave/cli/v3"
)

// deployment is the name of the deployment whose versions are builds of the program.
const deployment = "agents-fleet"

// workerFlags are the flags of a worker.
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
				path, _ := os.Executable()
				digest := strings.TrimPrefix(exectool.Digest(path), "sha256:")
				if digest == "" {
					return failure.Usage("--build-id names the build", "the file of the program cannot be read")
				}
				o.BuildID = digest[:16]
			}
			return f.work(ctx, *o, keys)
		},
	}
}

// work runs a worker until ctx ends.
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
	o = agentfile.Options{Companion: process.Companion, CacheDir: f.CacheDir(), LockDir: f.LockDir(), OutputDir: f.OutputDir()}
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

func (f *fleet) devCommand() *cli.Command {
	o, keys, listen := &work.Options{}, "", ""
	return &cli.Command{
		Name: "dev", Usage: "run a Temporal server and a worker on this machine until interrupted",
		Description: "All state is kept in the folder of --dir, so the next `agents-fleet dev` continues unfinished\nruns. While it runs, the other commands use its server and store.",
		Flags: append(f.workerFlags(o, &keys), f.keyFlag(), f.dirFlag(),
			&cli.StringFlag{Name: "store", Usage: "`URL` of the store, by default a folder of this machine", Sources: cli.EnvVars(envStore), Destination: &f.location},
			&cli.StringFlag{Name: "listen", Usage: "the server's `HOST:PORT`; port 0 selects a free port", Value: "127.0.0.1:7233", Destination: &listen}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			return f.dev(ctx, *o, keys, listen)
		},
	}
}

// dev runs a server and a worker until ctx ends.
func (f *fleet) dev(ctx context.Context, o work.Options, keys, listen string) error {
	dir, err := f.folder()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := filelock.Try(lock); err != nil {
		return failure.NothingRan(fmt.Errorf("lock %s: %w", dir, err), "another `agents-fleet dev` uses this folder; --dir names a different one")
	}
	s, err := server.Start(server.Options{File: filepath.Join(dir, "temporal.db"), Address: listen, Attributes: connect.Types(attributes), LogFile: filepath.Join(dir, "server.log")})
	if err != nil {
		return failure.NothingRan(err, "--listen 127.0.0.1:0 selects a free port")
	}
	defer s.Stop()
	if f.location == "" {
		f.location = filepath.Join(dir, "store")
	}
	f.address, f.namespace = s.Address, server.Namespace
	if f.keyFile != "" {
		if f.keyFile, err = filepath.Abs(f.keyFile); err != nil {
			return err
		}
	}
	here, err := json.Marshal(running{f.address, f.location, f.keyFile})
	if err == nil {
		err = wholefile.Write(filepath.Join(dir, runningFile), here)
	}
	if err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, runningFile))
	fmt.Fprintf(f.Out, "Temporal server: %s\nstore: %s\n", f.address, f.location)
	return f.work(ctx, o, keys)
}
