package work

import (
	"os"

	"github.com/agents-exe/agents/pkg/sandbox"
)

// SandboxFlag, before a command line, makes the program enter a sandbox and execute that
// command line. It is internal and not documented: see Sandboxed.
const SandboxFlag = "--sandbox"

// Sandboxed enters a sandbox, if that is what args, those of the process, demand. It then
// does not return. The program calls it before anything else.
func Sandboxed(args []string) {
	if len(args) > 2 && args[1] == SandboxFlag {
		os.Exit(sandbox.Helper(args[2:]))
	}
}
