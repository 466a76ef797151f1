package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// The environment variables for --store and --key.
const (
	envStore = "AGENTS_FLEET_STORE"
	envKey   = "AGENTS_FLEET_KEY_FILE"
)

// elsewhere is the hint if there is no server or store.
const elsewhere = "`agents-fleet dev` runs a server and a store on this machine; --address and --store name others"

// attributes are the search attributes of runs.
var attributes = []temporal.SearchAttributeKey{flow.AgentsAgent, flow.AgentsRoot, flow.AgentsOutcome, flow.AgentsCost}

// A fleet is one execution of the program: its environment, and the flags that name the
// server and the store.
type fleet struct {
	*program.Env

	address, namespace, location, keyFile string
	queue, dir, metrics, traceFile        string

	client  client.Client
	space   string // the namespace
	store   store.Store
	trace   *connect.Trace
	closers []func() error
}

func (f *fleet) flags(more ...cli.Flag) []cli.Flag {
	return append(append(more,
		&cli.StringFlag{Name: "address", Usage: "`HOST:PORT` of the Temporal server", Destination: &f.address},
		&cli.StringFlag{Name: "namespace", Usage: "the server's namespace `NAME`", Destination: &f.namespace},
	), f.storeFlags()...)
}

// storeFlags returns the flags of commands that need only the store.
func (f *fleet) storeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "store", Usage: "`URL` of the store that workers share: a folder, s3://BUCKET/PREFIX or postgres://…", Sources: cli.EnvVars(envStore), Destination: &f.location},
		f.keyFlag(),
		f.dirFlag(),
	}
}

func (f *fleet) keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", TakesFile: true, Usage: "encrypt the store and what is sent to the server with the key in `FILE`: 64 hexadecimal digits", Sources: cli.EnvVars(envKey), Destination: &f.keyFile}
}

func (f *fleet) dirFlag() cli.Flag {
	return &cli.StringFlag{Name: "dir", TakesFile: true, Usage: "the `FOLDER` for local files, by default fleet in the state folder of agents", Destination: &f.dir}
}

func (f *fleet) traceFlag() cli.Flag {
	return &cli.StringFlag{Name: "trace-file", TakesFile: true, Usage: "append every span to `FILE` as a line of OTLP in JSON", Destination: &f.traceFile}
}

// folder returns the folder for local files of a fleet.
func (f *fleet) folder() (string, error) {
	state := f.StateDir()
	if f.dir == "" && state == "" {
		return "", failure.Usage("--dir names a folder", "there is no home folder")
	}
	return filepath.Abs(cmp.Or(f.dir, filepath.Join(state, "fleet")))
}

// A running is the server and the store of `agents-fleet dev`, for other commands.
type running struct {
	Address string `json:"address"`
	Store   string `json:"store"`
	Key     string `json:"key,omitempty"` // the key file
}

// runningFile is where dev writes them while it runs.
const runningFile = "dev.json"

// here returns the server and the store of a running dev; zero if none is running.
func (f *fleet) here() (here running) {
	if dir, err := f.folder(); err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, runningFile)); err == nil {
			_ = json.Unmarshal(text, &here) // only dev writes it, as a whole
		}
	}
	if f.keyFile != "" || f.location != "" { // the key belongs to dev's store
		here.Key = ""
	}
	return here
}

func (f *fleet) open(ctx context.Context, o connect.Options) (err error) {
	if err := f.openTrace(); err != nil {
		return err
	}
	o.Address, o.Namespace, o.Fallback, o.Trace = f.address, f.namespace, f.here().Address, f.trace
	if o.Trace == nil && o.Logger == nil { // a worker without spans needs none of others
		o.Trace = &connect.Trace{}
	}
	if o.Key, err = f.key(); err != nil {
		return err
	}
	if f.client, f.space, err = o.Client(ctx); err != nil {
		return failure.NothingRan(err, elsewhere)
	}
	f.closers = append(f.closers, func() error { f.client.Close(); return nil })
	return f.openStore(ctx)
}

// key returns the key of the store and of the payloads; nil if there is none.
func (f *fleet) key() (*connect.Key, error) {
	file := cmp.Or(f.keyFile, f.here().Key)
	if file == "" {
		return nil, nil
	}
	k, err := connect.ReadKey(file)
	if err != nil {
		return nil, failure.NothingRan(err, "")
	}
	return k, nil
}

func (f *fleet) openStore(ctx context.Context) error {
	location := cmp.Or(f.location, f.here().Store)
	if location == "" {
		return failure.NothingRan(errors.New("no store is configured"), elsewhere)
	}
	k, err := f.key()
	if err != nil {
		return err
	}
	if f.store, err = store.Open(ctx, location); err != nil {
		return failure.NothingRan(err, "")
	}
	f.closers = append(f.closers, f.store.Close)
	if k != nil {
		f.store, err = store.Encrypt(f.store, k.Bytes[:])
	}
	return err
}

// openTrace opens the exporter of spans to --trace-file and the collector that the
// environment names.
func (f *fleet) openTrace() error {
	env := observe.Environ{Getenv: f.Getenv, Warn: func(text string) { f.Warn(text) }}
	collector, _ := env.Collector()
	if collector == "" && f.traceFile == "" {
		return nil
	}
	o := observe.TraceOptions{URL: collector, Resource: env.Resource("agents-fleet", f.Version), Version: f.Version}
	o.HTTP.Header = env.Header()
	if f.traceFile != "" {
		file, err := observe.OpenLog(f.traceFile)
		if err != nil {
			return failure.NothingRan(fmt.Errorf("--trace-file: %w", err), "")
		}
		f.closers = append(f.closers, file.Close)
		o.W = file
	}
	var err error
	if f.trace, err = connect.OpenTrace(o); err != nil {
		return failure.NothingRan(err, "")
	}
	f.closers = append(f.closers, f.trace.Close)
	return nil
}

func (f *fleet) close() {
	for _, c := range slices.Backward(f.closers) {
		if err := c(); err != nil {
			f.Warn(err.Error())
		}
	}
}

func (f *fleet) note(line string) { fmt.Fprintln(f.Err, termtext.Clean(line)) }
