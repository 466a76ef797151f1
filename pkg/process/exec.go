package process

import (
	"context"
	"os/signal"
	"time"
)

// Exec replaces this process by the program at path, with the arguments behind its
// name and the environment. It returns only if that fails, with a *StartError, or if ctx has
// ended. From then on signals have their default effect: between a handler of this process and
// one of the program they would be lost. What BecomeSubreaper did does not reach the program.
// On Windows the program is a child, for which this process waits.
func Exec(ctx context.Context, path string, args, env []string) error {
	signal.Reset()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Millisecond): // for a signal that is on its way to a handler
	}
	return newStartError(&Command{Path: path, Args: args, Env: env}, become(path, append([]string{path}, args...), env))
}
