package main

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/process"
)

// guardianFlag, alone on the command line, makes a process the guardian of the one
// that started it. It is not for people, and no command documents it.
const guardianFlag = "--guardian"

// guardian is what a guardian does, if this process is one. Nothing else of the
// program runs in it.
func guardian(args []string) bool {
	if len(args) != 2 || args[1] != guardianFlag {
		return false
	}
	process.Guardian(os.Stdin, os.Environ())
	return true
}

// useGuardian makes this program its own guardian, which ends the tools if something
// kills this process. On Linux it is the same file even if another has its name now.
func useGuardian(p *program.Env) {
	path := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		var err error
		if path, err = os.Executable(); err != nil {
			return
		}
	}
	process.UseGuardian(path, []string{os.Args[0], guardianFlag}, guardianEnviron(p.Environ))
}

// guardianEnviron is what the commands that end containers need of the environment.
func guardianEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
			"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINER_CONNECTION", "CONTAINER_HOST",
			"DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST":
			return false
		}
		return true
	})
}
