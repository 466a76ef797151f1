package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/process"
)

const (
	// Empty is the workspace that begins without files.
	Empty     = "empty"
	gitPrefix = "git+"
	protocols = "https:http:ssh:file" // of git
)

// Spec returns the initial content of a run's workspace, for Prepare. source is Empty, the path of a
// folder, which is stored, or git+URL#COMMIT, with the whole hash of the commit. A URL cannot
// have a password: the Git of the workers must be configured with it.
func Spec(ctx context.Context, s store.Store, run, source string) (string, error) {
	if source == Empty {
		return source, nil
	}
	if strings.HasPrefix(source, gitPrefix) {
		_, _, err := gitSource(source)
		return source, err
	}
	data, err := pack(ctx, source, true)
	if err != nil {
		return "", fmt.Errorf("pack the workspace %s: %w", source, err)
	}
	return store.PutBlob(ctx, s, run, data)
}

// gitSource returns the parts of git+URL#COMMIT.
func gitSource(spec string) (location, commit string, err error) {
	u, err := url.Parse(strings.TrimPrefix(spec, gitPrefix))
	if err != nil {
		return "", "", errors.New("the URL of the workspace is not valid") // err contains it
	}
	commit, u.Fragment = u.Fragment, ""
	if _, secret := u.User.Password(); secret || u.User != nil && u.Scheme != "ssh" {
		return "", "", errors.New("the URL of a workspace cannot have a password: configure it in the Git of the workers")
	}
	if !slices.Contains(strings.Split(protocols, ":"), u.Scheme) {
		return "", "", fmt.Errorf("the URL of a workspace cannot begin with %q; want %s", u.Scheme, strings.ReplaceAll(protocols, ":", ", "))
	}
	if len(commit) != 40 && len(commit) != 64 || strings.Trim(commit, "0123456789abcdef") != "" {
		return "", "", fmt.Errorf("%q is not the full hash of a commit: want git+URL#COMMIT", commit)
	}
	return u.String(), commit, nil
}

// Workspaces makes the working folders of runs on this host. It is safe for concurrent use,
// by several processes too.
//
// The snapshots of a workspace are the events of a record in the store. Each host that takes
// a workspace over adds one, and a host that does not know the last one cannot add another:
// a host that was replaced stores nothing any more.
type Workspaces struct {
	Store store.Store
	// Dir is a folder for all of them.
	Dir string
	// Environ is the environment of Git.
	Environ []string
}

// A Workspace is the working folder of a run on this host. It is safe for concurrent use.
type Workspace struct {
	Dir string

	all *Workspaces
	run string

	mu    sync.Mutex
	last  snapshot
	state string // of the files at the last snapshot
}

// A snapshot is an event of the record. Blob names the archive; it is "" for the initial
// content. With Number, it is the state that a host knows.
type snapshot struct {
	Number int64  `json:"number,omitempty"`
	Blob   string `json:"blob"`
	Host   string `json:"host"`
}

// Prepare returns the workspace of a run, which began with spec. If this host has made the
// last snapshot, its folder is as it was left; otherwise it is the newest snapshot, and the
// host that had the workspace can store no more. A process prepares a workspace once: of two
// that it made, the second to make a snapshot is superseded by the first.
func (w *Workspaces) Prepare(ctx context.Context, run, spec string) (*Workspace, error) {
	if !filepath.IsLocal(run) || filepath.Base(run) != run {
		return nil, fmt.Errorf("%q is not a valid name of a run", run)
	}
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return nil, err
	}
	s := &Workspace{Dir: filepath.Join(w.Dir, run), all: w, run: run}
	release, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	events, err := w.Store.Read(ctx, s.record(), 0)
	if err != nil {
		return nil, err
	}
	if n := len(events); n > 0 {
		if err := json.Unmarshal(events[n-1], &s.last); err != nil {
			return nil, fmt.Errorf("read workspace %s: %w", run, err)
		}
		s.last.Number = int64(n)
		if here, err := os.ReadFile(s.note()); err == nil && string(here) == s.last.String() {
			return s, nil
		}
	}
	if err := errors.Join(os.RemoveAll(s.note()), os.RemoveAll(s.Dir)); err != nil {
		return nil, err
	}
	err = makeFolder(s.Dir, func(temp string) error { return w.fill(ctx, spec, s.last.Blob, temp) })
	if err == nil {
		s.state, err = stateOf(s.Dir)
	}
	if err == nil {
		err = s.append(ctx, s.last.Blob)
	}
	if err != nil {
		return nil, fmt.Errorf("make workspace %s: %w", run, err)
	}
	return s, nil
}

// lock waits until no other call, of any process, prepares or stores the workspace.
func (s *Workspace) lock(ctx context.Context) (release func(), err error) {
	if release, err = filelock.Acquire(ctx, s.Dir+".lock"); err != nil {
		err = fmt.Errorf("lock workspace %s: %w", s.run, err)
	}
	return release, err
}

// record is the name of the record with the snapshots.
func (s *Workspace) record() string { return s.run + "/workspace" }

// note is the file that says which snapshot the folder follows.
func (s *Workspace) note() string { return s.Dir + ".json" }

func (s snapshot) String() string {
	text, _ := json.Marshal(s) // it cannot fail
	return string(text)
}

func (s *Workspace) append(ctx context.Context, blob string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	next := snapshot{Blob: blob, Host: host}
	err = s.all.Store.Append(ctx, s.record(), s.last.Number, [][]byte{[]byte(next.String())})
	if errors.Is(err, store.ErrBehind) {
		return store.ErrSuperseded
	} else if err != nil {
		return err
	}
	next.Number = s.last.Number + 1
	s.last = next
	return wholefile.Write(s.note(), []byte(next.String()))
}

// fill puts what a workspace begins with, or its newest snapshot, into a folder.
func (w *Workspaces) fill(ctx context.Context, spec, newest, dir string) error {
	switch {
	case newest != "":
		return Unpack(ctx, w.Store, newest, dir)
	case spec == Empty:
		return nil
	case !strings.HasPrefix(spec, gitPrefix):
		return Unpack(ctx, w.Store, spec, dir)
	}
	location, commit, err := gitSource(spec)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"fetch", "-q", "--depth=1", "--no-tags", "--", location, commit}, {"checkout", "-q", "--detach", commit},
	} {
		if err := w.git(ctx, dir, args); err != nil {
			return err
		}
	}
	return nil
}

// git runs Git, which must not ask a person or execute what a repository brings along.
func (w *Workspaces) git(ctx context.Context, dir string, args []string) error {
	file, err := process.LookPath("git", w.Environ)
	if err != nil {
		return err
	}
	var output bytes.Buffer
	e, err := process.Run(ctx, &process.Command{
		Path: file, Args: append([]string{"-c", "core.hooksPath=/dev/null"}, args...), Dir: dir, Stderr: &output,
		Env: append(slices.Clone(w.Environ), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL="+protocols, "GIT_DIR=.git"),
	})
	if err == nil && e.Code == 0 {
		return nil
	}
	const most = 500
	text := strings.TrimSpace(output.String())
	return fmt.Errorf("git %s: %w: %s", args[0], e.Failure(ctx, err), text[max(0, len(text)-most):])
}

// Snapshot stores the files if they changed since the last snapshot. The error is
// store.ErrSuperseded if another host has taken the workspace over. What programs write
// meanwhile may be in the snapshot in part; then the next one has all of it.
func (s *Workspace) Snapshot(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	release, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	state, err := stateOf(s.Dir)
	if err != nil || state == s.state {
		return err
	}
	data, err := pack(ctx, s.Dir, true)
	if err != nil {
		return fmt.Errorf("pack the workspace: %w", err)
	}
	blob, err := store.PutBlob(ctx, s.all.Store, s.run, data)
	if err == nil && blob != s.last.Blob {
		err = s.append(ctx, blob)
	}
	if err != nil {
		return err
	}
	s.state = state
	return nil
}

// Remove removes the folder from this host. The snapshots stay in the store.
func (s *Workspace) Remove() error {
	return errors.Join(os.RemoveAll(s.note()), os.RemoveAll(s.Dir))
}

// stateOf is a digest of the names, modes, sizes and times of all files of a folder.
func stateOf(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		} else if err != nil {
			return err
		}
		_, err = fmt.Fprintln(h, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
