package skills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// A Repo is a git repository at a commit.
type Repo struct {
	URL string `json:"url"`
	// Subdir is the folder in it that contains the skills; "" means the whole repository.
	Subdir string `json:"subdir"`
	// Commit is the full hash of the commit.
	Commit string `json:"commit"`
}

// Check reports what is wrong with the settings of a repository.
func (r *Repo) Check() error {
	if len(r.Commit) != 40 && len(r.Commit) != 64 || strings.Trim(r.Commit, "0123456789abcdef") != "" {
		return errors.New(`it needs "commit", the full hash of a commit in lower case, as git rev-parse HEAD prints it`)
	}
	return nil
}

// Dir is the folder in cache for the files of the repository. It has the repository's name,
// since the repository may itself be a skill.
func (r *Repo) Dir(cache string) string {
	sum := sha256.Sum256([]byte(r.URL + "\n" + r.Commit))
	name := path.Base("/" + strings.TrimSuffix(strings.TrimRight(strings.ReplaceAll(r.URL, ":", "/"), "/"), ".git"))
	if !filepath.IsLocal(name) {
		name = "repository"
	}
	return filepath.Join(cache, hex.EncodeToString(sum[:8]), name)
}

// Fetch makes sure that Dir contains the files of the commit. If Dir exists, nothing is
// executed. Otherwise the program git fetches only that commit, without running hooks.
func (r *Repo) Fetch(ctx context.Context, cache string, environ []string) error {
	if cache == "" {
		return errors.New("there is no cache folder in which to keep the repository")
	}
	dir := r.Dir(cache)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var head string
	for _, args := range [][]string{{"init", "--quiet", "--template="}, {"fetch", "--quiet", "--depth=1", "--no-tags", "--", r.URL, r.Commit},
		{"checkout", "--quiet", "--detach", r.Commit, "--"}, {"rev-parse", "--verify", "HEAD"}} {
		if head, err = git(ctx, work, environ, args); err != nil {
			return err
		}
	}
	if head != r.Commit {
		return fmt.Errorf("git checked out %s instead of the commit %s", head, r.Commit)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(work, ".git")), os.Chmod(work, 0o755)); err != nil {
		return err
	}
	err = os.Rename(work, dir)
	if _, there := os.Stat(dir); there == nil { // perhaps another process was first
		return nil
	}
	return err
}

// git runs a git command in a folder and returns what it prints. Variables that lead git to
// another repository or configuration have no effect, and it asks no questions. The error
// ends in the last line that git prints.
func git(ctx context.Context, dir string, environ, args []string) (string, error) {
	env := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, "GIT_") && !strings.HasPrefix(entry, "GIT_SS") // GIT_SSH…, GIT_SSL…
	})
	env = append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "LC_ALL=C")
	if toolenv.Lookup(env, "GIT_SSH_COMMAND") == "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes")
	}
	program, err := process.LookPath("git", env)
	if err != nil {
		return "", errors.New("the program git was not found in PATH")
	}
	const limit = 5 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
	defer cancel()
	stdout, stderr := &spool.Output{MemoryOnly: true}, &spool.Output{MemoryOnly: true}
	exit, err := process.Run(ctx, &process.Command{Path: program, Dir: dir, Env: env, Stdout: stdout, Stderr: stderr,
		Args: append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "submodule.recurse=false"}, args...)})
	if ctx.Err() != nil {
		return "", fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	if err = exit.Failure(ctx, err); err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.Tail(1000)), "\n")
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, lines[len(lines)-1])
	}
	return strings.TrimSpace(stdout.Excerpt()), nil
}
