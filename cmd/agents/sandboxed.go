package main

import (
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// sandboxed enters a sandbox, if this process is to. Nothing else of the program runs in
// it.
func sandboxed(args []string) {
	if len(args) > 2 && args[1] == load.SandboxFlag {
		os.Exit(sandbox.Helper(args[2:]))
	}
}
