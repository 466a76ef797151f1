//go:build !noserver

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/server"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

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
	if os.Getenv("USER") == "" { // built without cgo, the server's telemetry fails without a name
		if err := os.Setenv("USER", "agents"); err != nil {
			return err
		}
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
