package process

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

func become(path string, argv, env []string) error {
	signal.Ignore(os.Interrupt) // the console sends it to the program, too
	err := (&exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}).Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(ended.ExitCode())
	}
	if err == nil {
		os.Exit(0)
	}
	return err
}
