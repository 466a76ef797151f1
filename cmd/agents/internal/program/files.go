package program

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

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

// StateDir is the folder for sessions and other state, "" if there is no home folder.
func (p *Env) StateDir() string {
	return p.own("XDG_STATE_HOME", filepath.Join(".local", "state"))
}

// own returns the folder of this program in that of a variable; without one, in a folder of the
// home folder. It is "" if there is no home folder.
func (p *Env) own(variable, otherwise string) string {
	dir := p.Getenv(variable)
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, otherwise)
	}
	return filepath.Join(dir, "agents")
}

// ApprovalsFile is the file with the calls that the person has allowed for later runs, ""
// if there is no home folder.
func (p *Env) ApprovalsFile() string { return In(p.StateDir(), "approvals.json") }

// SignInDir is the folder with the sign-ins to MCP servers, "" if there is no home folder.
func (p *Env) SignInDir() string { return In(p.StateDir(), "mcp") }

// EnvKeyring is the variable whose value "off" turns the use of the system's keyring off.
const EnvKeyring = "AGENTS_KEYRING"

// Keyring reports whether the system's keyring may be used. On Linux it is reached through the
// session's D-Bus.
func (p *Env) Keyring() bool {
	return p.Getenv(EnvKeyring) != "off" &&
		(runtime.GOOS == "darwin" || runtime.GOOS == "windows" || p.Getenv("DBUS_SESSION_BUS_ADDRESS") != "")
}

// CacheDir is the folder for descriptions of tools, "" if there is none.
func (p *Env) CacheDir() string { return p.own("XDG_CACHE_HOME", ".cache") }

// LockDir is the folder for locks of tools, the same for all programs of this user.
func (p *Env) LockDir() string {
	if dir := p.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agents", "locks")
	}
	return In(p.CacheDir(), "locks")
}

// In returns dir/name, "" if there is no dir.
func In(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// Limits of the folder with outputs of tools that were cut for the model.
const (
	outputShelf = 30 * 24 * time.Hour
	maxOutputs  = 2 << 30 // bytes
	// freshOutput is the age below which a file always stays: a model may be
	// about to read it.
	freshOutput = time.Hour
	// coarseTime is how far the timestamps of a file system may lag behind the
	// clock.
	coarseTime = 2 * time.Second
)

// OutputDir is the folder for the full output of calls that was cut for the model; "" is
// the system's folder for temporary files.
func (p *Env) OutputDir() string { return In(p.CacheDir(), "outputs") }

// SweepOutputs removes files from the folder if it has changed since this program
// started: those older than outputShelf, and the oldest while there are more than
// maxOutputs bytes. Errors are ignored.
func SweepOutputs(dir string, started, now time.Time) {
	if info, err := os.Stat(dir); err != nil || info.ModTime().Before(started.Add(-coarseTime)) {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var files []os.FileInfo
	total := int64(0)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".stdout", ".stderr", ".txt":
		default:
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortStableFunc(files, func(a, b os.FileInfo) int {
		if c := a.ModTime().Compare(b.ModTime()); c != 0 {
			return c
		}
		return strings.Compare(a.Name(), b.Name())
	})
	for _, f := range files {
		age := now.Sub(f.ModTime())
		if age < freshOutput || age < outputShelf && total <= maxOutputs {
			return
		}
		if os.Remove(filepath.Join(dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}
