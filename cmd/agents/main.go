// Command agents runs agents whose tools are executables.
//
// With the build tag core, it has no servers: agents-serve, which is this program without the
// tag, has them (internal/serving).
//
// See the README for a tour and `agents --help` for the commands. Hints and exit
// codes are decided here and in the packages below, and nowhere else.
//
// A command is one file, named for it, and one line in the table of commands.go. Its
// file refers to that of no other command. What commands share is a package in
// internal/, each on a floor of its own that imports floors below it alone:
//
//	chat serve serving               conversations; the servers, here or in agents-serve
//	complete runs servers stdio      the completion of a command line; flags of runs and of servers; the channel
//	compat                           the commands of agents-exe with other names
//	call keep prompt scaffold sinks  single calls; the session, the prompt and the output of a run; new files
//	ask sessions                     questions to a person; sessions of earlier runs
//	command form load                the command line; forms; agent files
//	results rights                   what tests and checks print
//	program                          streams, environment, folders and global flags
//	failure                          errors, hints and exit codes
package main

import (
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

func main() {
	sandboxed(os.Args)
	if guardian(os.Args) {
		return
	}
	os.Exit(start(program.System(release()), os.Args))
}
