package load

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/process"
)

// What the tools of a run write must not become trusted as this person's. So the folder of trust
// has a log of when agents were loaded, and with it a locked file for each process that has one
// loaded. A process that was killed leaves its file without a lock: its time ends when the next
// one begins.

// An interval is a time at which a run was going on.
type interval struct{ from, to time.Time }

// The log of runs, and the names of the files of those that have not ended.
const (
	runsLog = "runs.log"
	runFile = ".run"
)

// maxRunsLog is when the older half of the log becomes one interval.
const maxRunsLog = 64 << 10

func (i interval) line() string {
	return fmt.Sprintf("%d %d\n", i.from.UnixNano(), i.to.UnixNano())
}

// NoteRun notes that tools may change files from now on, until end is called. What a tool
// starts is part of the run above it.
func NoteRun(ctx context.Context, p *program.Env) (end func(), err error) {
	dir := TrustDir(p)
	if dir == "" || p.Getenv(process.MarkVariable) != "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}, nil // so nothing can be trusted either
	}
	if err := endKilled(ctx, p, dir); err != nil {
		return nil, fmt.Errorf("trust: note that a run begins: %w", err)
	}
	from := time.Now()
	f, err := lockedFile(ctx, dir, from)
	if err != nil {
		return nil, fmt.Errorf("trust: note that a run begins: %w", err)
	}
	from = changedAt(f.Name(), from)
	return sync.OnceFunc(func() {
		touch(p, from)
		_, _ = f.WriteString("ended\n")
		to := changedAt(f.Name(), time.Now())
		// If it cannot be noted, the file stays: the next run ends this one.
		if appendRun(context.Background(), dir, interval{from, to}) != nil {
			_ = f.Close()
			return
		}
		_ = filelock.Remove(f)
	}), nil
}

// lockedFile creates the file of a run. Until it is locked, it looks to another process like that of
// a run that was killed, and is removed. In a file system without locks it stays, so that the run
// never ends for those that look at the log.
func lockedFile(ctx context.Context, dir string, began time.Time) (*os.File, error) {
	for {
		f, err := os.CreateTemp(dir, strconv.FormatInt(began.UnixNano(), 10)+"-*"+runFile)
		if err != nil {
			return nil, err
		}
		err = filelock.Wait(ctx, f)
		if errors.Is(err, errors.ErrUnsupported) {
			return f, nil // no process can tell whether this one ends: the file stays
		}
		if err != nil {
			return nil, errors.Join(err, filelock.Remove(f))
		}
		if _, err := os.Lstat(f.Name()); err == nil {
			return f, nil
		}
		f.Close()
	}
}

// Rootless returns a tree without agents, for a tool that is called alone.
func Rootless(ctx context.Context, p *program.Env) (*Tree, error) {
	ended, err := NoteRun(ctx, p)
	if err != nil {
		return nil, failure.NothingRan(err, "")
	}
	return &Tree{Tree: &agentfile.Tree{}, ended: ended}, nil
}

// Noted calls run, which executes tools without an agent, between NoteRun and its end. If run
// replaces this process, the next run notes the end.
func Noted(ctx context.Context, p *program.Env, run func() error) error {
	ended, err := NoteRun(ctx, p)
	if err != nil {
		return failure.NothingRan(err, "")
	}
	defer ended()
	return run()
}

// changedAt returns when a file was changed by the clock of the file system, which is behind ours:
// what is written in the same instant must not seem to be written before it.
func changedAt(path string, ours time.Time) time.Time {
	if at, err := private(path, true); err == nil {
		return at
	}
	return ours
}

// endKilled notes the end of runs whose process does not exist any more.
func endKilled(ctx context.Context, p *program.Env, dir string) error {
	files, _ := filepath.Glob(filepath.Join(dir, "*"+runFile))
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // it has just ended
		}
		if filelock.Try(f) != nil {
			f.Close()
			continue
		}
		touch(p, began(path))
		if err := appendRun(ctx, dir, interval{began(path), time.Now()}); err != nil {
			f.Close()
			return err
		}
		if err := filelock.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// began returns when the run of a file began; the beginning of time if its name does not say so.
func began(path string) time.Time {
	text, _, _ := strings.Cut(filepath.Base(path), "-")
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, n).Add(-tick)
}

func appendRun(ctx context.Context, dir string, i interval) error {
	path := filepath.Join(dir, runsLog)
	release, err := filelock.Acquire(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer release()
	if info, err := os.Stat(path); err == nil && (info.Size() > maxRunsLog || !info.Mode().IsRegular()) {
		text, _, err := config.ReadRegular(path, 2*maxRunsLog)
		if err != nil {
			return err
		}
		half := len(text) / 2
		half += strings.IndexByte(string(text[half:]), '\n') + 1
		cut := parseRun(lastLine(string(text[:half]))).to
		text = append([]byte(interval{time.Unix(0, 0), cut}.line()), text[half:]...)
		return wholefile.Write(path, append(text, i.line()...))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(i.line())
	return errors.Join(err, f.Close())
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// parseRun reads a line of the log. One that cannot be read is the whole of time.
func parseRun(line string) interval {
	var a, b int64
	if n, err := fmt.Sscanf(line, "%d %d", &a, &b); n != 2 || err != nil {
		return interval{time.Unix(0, 0), time.Now()}
	}
	return interval{time.Unix(0, a), time.Unix(0, b)}
}

// readRuns returns when runs were going on.
func readRuns(p *program.Env) ([]interval, error) {
	dir := TrustDir(p)
	// In this order: a run that ends meanwhile is in both.
	files, _ := filepath.Glob(filepath.Join(dir, "*"+runFile))
	text, _, err := config.ReadRegular(filepath.Join(dir, runsLog), 2*maxRunsLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []interval
	for _, path := range files {
		list = append(list, interval{began(path), time.Now()})
	}
	for line := range strings.Lines(string(text)) {
		list = append(list, parseRun(line))
	}
	return list, nil
}
