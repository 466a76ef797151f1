package program

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/process"
)

// Await waits for read or for the end of ctx. A read from a terminal cannot be
// interrupted, so after ctx the goroutine is abandoned; the program is about to exit.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := read()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// ReadFile reads up to limit bytes of a file and one more, so that the caller can tell
// that it is longer. Opening a named pipe can block, so ctx ends that too.
func ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, limit+1))
	})
}

// Shown is a path for messages: relative if it is in the working directory or beside
// it.
func Shown(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(dir, path)
	up := ".." + string(filepath.Separator)
	if err != nil || strings.HasPrefix(rel, up+up) {
		return path
	}
	return rel
}

// WithoutPath removes the path from a file error, for messages that name the file.
func WithoutPath(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// Taken reports whether path exists, even as a dangling link.
func Taken(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Command is path as the name of a program, which a shell does not look for in PATH.
func Command(path string) string {
	if filepath.Base(path) == path {
		return "./" + path
	}
	return path
}

// Relative is path relative to the working directory, if it is below it.
func Relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// The programs beside this one. Each is one of its own because its libraries would add to
// the size and to every start of this one.
const (
	Search = "agents-search" // for `agents session search`
	TUI    = "agents-tui"    // for `agents tui`
	Serve  = "agents-serve"  // for `agents serve`, `mcp-server` and `acp`
	Fleet  = "agents-fleet"  // for `agents run --on fleet`
)

// Exec replaces this process by the program at path; see process.Exec. The error is that of ctx,
// or says that nothing ran.
func (p *Env) Exec(ctx context.Context, path string, args []string) error {
	if p.Unhandle != nil {
		p.Unhandle() // a signal between our handler and that of the program would be lost
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failure.NothingRan(process.Exec(path, args, p.Environ), "")
}
