package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

// A Place is a folder of the machine. Environ is the environment of Git.
type Place struct {
	Dir     string
	Environ []string
}

// A repo is the repository that has a Place.
type repo struct {
	top    string // its working tree, or itself if it is bare
	common string // the folder with its objects and configuration
	bare   bool
	env    []string
	safe   []string // arguments of each command
}

var errNoRepo = errors.New("it is not in a Git repository")

// home returns what the workspaces of p are in: its repository, or for a copy the folder itself.
func (p Place) home(ctx context.Context, kind string) (*repo, error) {
	r, err := p.repo(ctx)
	switch {
	case kind != Copy || ctx.Err() != nil:
		return r, err
	case err != nil:
		return p.folder(), nil
	case r.bare:
		return nil, errors.New("it is a repository without a working tree")
	}
	return r, nil
}

// found is home for the workspaces that exist: without a repository, p or a folder above it has them.
func (p Place) found(ctx context.Context) (*repo, error) {
	r, err := p.repo(ctx)
	if err == nil || ctx.Err() != nil {
		return r, err
	}
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		if info, no := os.Lstat(filepath.Join(dir, Folder)); no == nil && info.IsDir() {
			return Place{dir, p.Environ}.folder(), nil
		}
		if dir == filepath.Dir(dir) {
			return nil, err
		}
	}
}

// folder is p without a repository.
func (p Place) folder() *repo {
	kept := []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}
	r := &repo{top: p.Dir}
	for _, entry := range p.Environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "GIT_") || slices.Contains(kept, name) || strings.HasPrefix(name, "GIT_AUTHOR_") || strings.HasPrefix(name, "GIT_COMMITTER_") {
			r.env = append(r.env, entry)
		}
	}
	r.env = append(r.env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_LFS_SKIP_SMUDGE=1", "GIT_PAGER=cat", "GIT_EDITOR=true")
	for _, set := range []string{"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.untrackedCache=false", "core.checkStat=default", "core.quotePath=false", "protocol.ext.allow=never",
		"submodule.recurse=false", "gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false", "log.showSignature=false", "core.pager=cat", "diff.external="} {
		r.safe = append(r.safe, "-c", set)
	}
	return r
}

// repo finds the repository of p.
func (p Place) repo(ctx context.Context) (*repo, error) {
	r := p.folder()
	out, err := r.git(ctx, nil, "rev-parse", "--path-format=absolute", "--is-bare-repository", "--git-common-dir")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRepo, err)
	}
	bare, common, _ := strings.Cut(out, "\n")
	r.bare, r.common = bare == "true", strings.TrimSuffix(common, "\n")
	if r.top = r.common; !r.bare {
		if out, err = r.in(p.Dir, ctx, nil, "rev-parse", "--path-format=absolute", "--show-toplevel"); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoRepo, err)
		}
		r.top = strings.TrimSuffix(out, "\n")
	}
	return r, r.disarm(ctx)
}

// disarm switches off the filters and merge drivers of the repository's own configuration:
// they would execute what somebody else may have written. Those of the user stay.
func (r *repo) disarm(ctx context.Context) error {
	out, err := r.git(ctx, nil, "config", "--show-scope", "-z", "--name-only", "--get-regexp", `^(filter|merge)\..*\.(smudge|clean|process|driver)$`)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // there are none
	}
	if err != nil {
		return err
	}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		scope, key := fields[i], fields[i+1]
		if scope == "system" || scope == "global" {
			continue
		}
		value := "" // no filter
		if strings.HasSuffix(key, ".driver") {
			value = "false" // a conflict
		}
		if strings.ContainsAny(key, "=\n") {
			return fmt.Errorf("the configuration of the repository has the key %q", key)
		}
		r.safe = append(r.safe, "-c", key+"="+value)
		if value == "" {
			r.safe = append(r.safe, "-c", key[:strings.LastIndexByte(key, '.')]+".required=false")
		}
	}
	return nil
}

// git runs a command of Git in r.top and returns what it prints.
func (r *repo) git(ctx context.Context, env []string, args ...string) (string, error) {
	return r.in(r.top, ctx, env, args...)
}

// lock waits until no other process of agents reads or changes the list of all worktrees. Git fails
// when it reads an entry that another process is writing or removing.
func (r *repo) lock(ctx context.Context) (release func(), err error) {
	return filelock.Acquire(ctx, filepath.Join(r.common, "agents-worktrees.lock"))
}

func (r *repo) in(dir string, ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(slices.Clone(r.safe), args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(slices.Clone(r.env), env...), time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes its locks
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(stderr.String())
		if len(text) > 2000 {
			text = text[:2000] + "…"
		}
		return out.String(), fmt.Errorf("git %s: %w: %s", args[0], err, text)
	}
	return out.String(), nil
}

// list splits what Git prints with -z.
func list(out string) []string {
	return slices.DeleteFunc(strings.Split(out, "\x00"), func(s string) bool { return s == "" })
}

// commit returns the full id of a commit, "" if there is none.
func (r *repo) commit(ctx context.Context, name string) string {
	out, err := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// occupied returns a path among paths, relative to r.top, at or above which there is something
// that the index does not have: Git would overwrite it without a word if it is ignored.
func (r *repo) occupied(ctx context.Context, paths []string) (string, error) {
	out, err := r.git(ctx, nil, "ls-files", "-z")
	if err != nil {
		return "", err
	}
	tracked := map[string]bool{}
	for _, path := range list(out) {
		tracked[path] = true
	}
	for _, path := range paths {
		for at := path; at != "."; at = filepath.ToSlash(filepath.Dir(at)) {
			info, err := os.Lstat(filepath.Join(r.top, at))
			if err == nil && !tracked[at] && (at == path || !info.IsDir()) {
				return at, nil
			}
		}
	}
	return "", nil
}
