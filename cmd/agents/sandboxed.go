package main

import (
	"os"

	"github.com/agents-exe/agents/pkg/sandbox"
)

// sandboxFlag, before a command line, makes a process enter a sandbox and execute that. It
// is not for people, and no command documents it.
const sandboxFlag = "--sandbox"

// sandboxed enters a sandbox, if this process is to. Nothing else of the program runs in
// it.
func sandboxed(args []string) {
	if len(args) > 2 && args[1] == sandboxFlag {
		os.Exit(sandbox.Helper(args[2:]))
	}
}
