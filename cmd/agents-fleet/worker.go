package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/server"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/work"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/filelock"
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
			if err := noArguments(c); err != nil {
				return err
			}
			if o.BuildID == "" {
				var err error
				if o.BuildID, err = ownDigest(); err != nil {
					return fmt.Errorf("find the program's digest: %w", err)
				}
			}
			return f.work(ctx, *o, keys)
		},
	}
}

func noArguments(c *cli.Command) error {
	if c.Args().Present() {
		return usage("%s: unexpected argument %q", c.FullName(), c.Args().First())
	}
	return nil
}

// work runs a worker until ctx ends.
func (f *fleet) work(ctx context.Context, o work.Options, keys string) error {
	defer f.close()
	var err error
	if o.Dir, err = f.folder(); err != nil {
		return err
	}
	env, err := config.SystemEnv()
	if err != nil {
		return &failure{error: err, code: 2}
	}
	tools := slices.DeleteFunc(slices.Clone(f.environ), func(v string) bool { // passwords in URLs, keys of certificates
		return strings.HasPrefix(v, "AGENTS_FLEET_") || strings.HasPrefix(v, "TEMPORAL_")
	})
	var warnings []string
	if o.Load, warnings, err = work.Host(env, tools, keys); err != nil {
		return &failure{error: err, code: 2}
	}
	for _, w := range warnings {
		f.note("warning: " + w)
	}
	to := connect.Options{Logger: f.logger()}
	if f.metrics != "" {
		m, err := connect.ServeMetrics(f.metrics)
		if err != nil {
			return &failure{error: fmt.Errorf("--metrics: %w", err), code: 2}
		}
		f.closers = append(f.closers, m.Close)
		to.Metrics = m
	}
	if err := f.open(ctx, to); err != nil {
		return err
	}
	if err := connect.Register(ctx, f.client, f.space, attributes); err != nil {
		f.note("warning: " + err.Error()) // it may need an administrator
	}
	o.Note = f.note
	if f.trace != nil {
		o.Ended = f.trace.Record
	}
	f.note("worker: taking runs from the queue " + o.Queue)
	return work.New(f.client, f.store, o).Run(ctx)
}

// ownDigest returns the beginning of the digest of the running program.
func ownDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)[:8]), err
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
			if err := noArguments(c); err != nil {
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
		return &failure{error: fmt.Errorf("lock %s: %w", dir, err), code: 2, hint: "another `agents-fleet dev` uses this folder; --dir names a different one"}
	}
	s, err := server.Start(server.Options{File: filepath.Join(dir, "temporal.db"), Address: listen, Attributes: connect.Types(attributes), LogFile: filepath.Join(dir, "server.log")})
	if err != nil {
		return &failure{error: err, code: 2, hint: "--listen 127.0.0.1:0 selects a free port"}
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
	fmt.Fprintf(f.out, "Temporal server: %s\nstore: %s\n", f.address, f.location)
	return f.work(ctx, o, keys)
}
