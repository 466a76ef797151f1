//go:build noserver

package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/process"
)

// dev replaces this process by the program that has a server, with the same command line.
func (f *fleet) dev(context.Context, work.Options, string, string) error {
	path, err := process.Companion(devProgram)
	if err == nil {
		err = fmt.Errorf("run %s: %w", path, syscall.Exec(path, os.Args, os.Environ()))
	}
	return failure.NothingRan(err, "`make fleet` builds "+devProgram+", which has a Temporal server, beside this program")
}
