package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

// newRepo makes a repository with one commit of files.
func newRepo(t *testing.T, files map[string]string) Place {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Place{Dir: dir, Environ: append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")}
	git(t, p, dir, "init", "-q", "-b", "main")
	write(t, dir, files)
	git(t, p, dir, "add", "-A")
	git(t, p, dir, "commit", "-qm", "first")
	return p
}

func git(t *testing.T, p Place, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, p.Environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, p Place, key string, bring ...string) *Work {
	t.Helper()
	w, err := Open(t.Context(), p, Options{Key: key, Agent: "coder", Bring: bring})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// state is what a user sees of a repository, without its workspaces.
func state(t *testing.T, p Place) string {
	t.Helper()
	return git(t, p, p.Dir, "rev-parse", "HEAD") + "\n" + git(t, p, p.Dir, "status", "--porcelain", "--ignored=no") + "\n" + git(t, p, p.Dir, "diff", "HEAD")
}

func TestAgentsThatEditOneFileDoNotMeet(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"a b\n.txt": "one\n", "sub/x": "1", ".gitignore": ".env\n"})
	write(t, p.Dir, map[string]string{".env": "KEY=1", "new": "uncommitted"})
	before := state(t, p)
	var works [3]*Work
	var wait sync.WaitGroup
	for i := range works {
		wait.Go(func() { works[i] = open(t, p, fmt.Sprintf("S.1.%d", i+1), ".env", "missing") })
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	for i, w := range works {
		write(t, w.Path(), map[string]string{"a b\n.txt": fmt.Sprintf("by %d\n", i)})
		if i < 2 {
			git(t, p, w.Path(), "commit", "-qam", fmt.Sprintf("edit %d", i))
		}
		if _, err := os.Stat(filepath.Join(w.Path(), "new")); err == nil {
			t.Error("a worktree has what the caller did not commit")
		}
		if text, err := os.ReadFile(filepath.Join(w.Path(), ".env")); err != nil || string(text) != "KEY=1" {
			t.Errorf("what is brought: %q, %v", text, err)
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		f, err := w.Facts(t.Context())
		if err != nil || (len(f.Commits) == 1) != (i < 2) || (len(f.Uncommitted) == 1) != (i == 2) || (i < 2) != strings.Contains(f.Stat, "1 file changed") {
			t.Errorf("facts of %d: %+v, %v", i, f, err)
		}
		if diff, err := w.Diff(t.Context()); err != nil || !strings.Contains(diff, fmt.Sprintf("+by %d", i)) {
			t.Errorf("the difference of %d is %q, %v", i, diff, err)
		}
		if err := w.Remove(t.Context(), false); err == nil {
			t.Error("unmerged work is removed")
		}
	}
	if again := open(t, p, "S.1.1"); !again.Ended || again.Path() != works[0].Path() {
		t.Errorf("the call that is made again works in %+v", again)
	}
	if found, err := List(t.Context(), Place{Dir: filepath.Join(p.Dir, "sub"), Environ: p.Environ}); err != nil || len(found) != 3 {
		t.Fatalf("List = %v, %v", found, err)
	}
	if now := state(t, p); now != before {
		t.Errorf("the caller's repository is %s, want %s", now, before)
	}
	if _, err := works[2].Merge(t.Context()); err != nil { // what is not committed
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(p.Dir, "a b\n.txt")); string(text) != "by 2\n" {
		t.Errorf("merged: %q", text)
	}
	if err := works[2].Remove(t.Context(), false); err != nil {
		t.Error(err)
	}
	before = state(t, p)
	if _, err := works[0].Merge(t.Context()); err == nil || !strings.Contains(err.Error(), "conflicts in a b\n.txt") {
		t.Errorf("a conflict is %v", err)
	}
	if now := state(t, p); now != before {
		t.Errorf("after a conflict the repository is %s, want %s", now, before)
	}
	if err := works[0].Remove(t.Context(), true); err != nil {
		t.Error(err)
	}
	if found, _ := List(t.Context(), p); len(found) != 1 || git(t, p, p.Dir, "branch", "--list", "agents/*") != "+ "+works[1].Branch() {
		t.Errorf("left: %v, %s", found, git(t, p, p.Dir, "branch", "--list", "agents/*"))
	}
}

// TestWorktreesAreMadeAndRemovedAtOnce: Git itself fails when it reads the list of worktrees while
// another process adds one.
func TestWorktreesAreMadeAndRemovedAtOnce(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"x": "1"})
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			for range 3 {
				w, err := Open(t.Context(), p, Options{Key: fmt.Sprintf("S.1.%d", i)})
				if err == nil {
					err = w.Remove(t.Context(), true)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if left := git(t, p, p.Dir, "branch", "--list", "agents/*"); left != "" {
		t.Errorf("left are %s", left)
	}
}

// A call that is canceled does not wait for as long as another one makes its worktree. What it could
// not remove is found by the next call.
func TestACancelDoesNotWaitForTheLock(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"x": "1"})
	w := &Work{Name: "S-1-1", top: p.Dir}
	git(t, p, p.Dir, "branch", w.Branch()) // of a worktree that was half made
	release, err := filelock.Acquire(t.Context(), filepath.Join(p.Dir, ".git", "agents-worktrees.lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := Open(ctx, p, Options{Key: "S.1.1"})
		failed <- err
	}()
	for { // until it waits for the lock
		if _, err := os.Stat(w.note()); err == nil || len(failed) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case err := <-failed:
		if err == nil {
			t.Fatal("a worktree was made without the lock")
		}
	case <-time.After(10 * tidyTime):
		t.Error("the canceled call waits for the lock")
	}
	release()
	open(t, p, "S.1.1")
}

// Git would fail while it lists the worktrees, if one went away in the middle.
func TestRemoveWaitsForTheLock(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"x": "1"})
	w := open(t, p, "S.1.1")
	release, err := filelock.Acquire(t.Context(), filepath.Join(p.Dir, ".git", "agents-worktrees.lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := w.Remove(ctx, true); err == nil {
		t.Error("a worktree was removed without the lock")
	}
	if _, err := os.Stat(w.admin()); err != nil {
		t.Errorf("what Git lists is removed while another call has the lock: %v", err)
	}
	release()
	if err := w.Remove(t.Context(), true); err != nil {
		t.Error(err)
	}
}

// An agent that may write the folder knows the names of what the runtime writes there, outside of
// any sandbox.
func TestLinksOfAnAgentAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{Worktree, Copy} {
		for _, name := range []string{".gitignore", "S-1-1.json.part", "S-1-1.json", "S-1-1.files"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				p := newRepo(t, map[string]string{"x": "1"})
				own := filepath.Join(t.TempDir(), "own")
				link := filepath.Join(p.Dir, Folder, name)
				if err := errors.Join(os.WriteFile(own, []byte("mine"), 0o600), os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(own, link)); err != nil {
					t.Fatal(err)
				}
				w, err := Open(t.Context(), p, Options{Key: "S.1.1", Kind: kind})
				if err == nil {
					err = w.End()
				}
				if text, readErr := os.ReadFile(own); readErr != nil || string(text) != "mine" {
					t.Errorf("the file has %q, %v; the error of the call is %v", text, readErr, err)
				}
			})
		}
	}
}

// TestNothingIsLostByRemove hides work in every way that git status does not show.
func TestNothingIsLostByRemove(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(t *testing.T, p Place, w *Work){
		"a new file": func(t *testing.T, _ Place, w *Work) { write(t, w.Path(), map[string]string{"new": "x"}) },
		"an ignored file": func(t *testing.T, _ Place, w *Work) {
			write(t, w.Path(), map[string]string{"x.log": "x"})
		},
		"a brought file that changed": func(t *testing.T, _ Place, w *Work) { write(t, w.Path(), map[string]string{".env": "KEY=2"}) },
		"assume unchanged": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "update-index", "--assume-unchanged", "f")
			write(t, w.Path(), map[string]string{"f": "changed"})
		},
		"skip worktree": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "update-index", "--skip-worktree", "f")
			write(t, w.Path(), map[string]string{"f": "changed"})
		},
		"a minimal stat": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "config", "core.checkStat", "minimal")
			git(t, p, w.Path(), "config", "core.trustctime", "false")
			info, _ := os.Stat(filepath.Join(w.Path(), "f"))
			write(t, w.Path(), map[string]string{"f": "tex2"})
			_ = os.Chtimes(filepath.Join(w.Path(), "f"), info.ModTime(), info.ModTime())
		},
		"sparse": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "sparse-checkout", "set", "--no-cone", "/f")
			write(t, w.Path(), map[string]string{"d/g": "changed"})
		},
		"a repository in it": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "init", "-q", "inner")
			write(t, w.Path(), map[string]string{"inner/f": "x"})
			git(t, p, filepath.Join(w.Path(), "inner"), "add", "-A")
			git(t, p, filepath.Join(w.Path(), "inner"), "commit", "-qm", "x")
		},
		"an ignored repository": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "init", "-q", "x.log")
			write(t, w.Path(), map[string]string{"x.log/f": "x"})
		},
		"a commit": func(t *testing.T, p Place, w *Work) { git(t, p, w.Path(), "commit", "-qm", "x", "--allow-empty") },
		"a detached": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "checkout", "-q", "--detach")
			git(t, p, w.Path(), "commit", "-qm", "x", "--allow-empty")
		},
		"a detached that it left": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "checkout", "-q", "--detach")
			git(t, p, w.Path(), "commit", "-qm", "x", "--allow-empty")
			git(t, p, w.Path(), "checkout", "-q", w.Branch())
			if f, err := w.Facts(t.Context()); err != nil || len(f.Commits) != 1 || !strings.HasSuffix(f.Commits[0], " x (not on the branch)") {
				t.Errorf("the caller reads %+v, %v", f, err)
			}
		},
		"a reset": func(t *testing.T, p Place, w *Work) {
			git(t, p, w.Path(), "commit", "-qm", "x", "--allow-empty")
			git(t, p, w.Path(), "reset", "-q", "--hard", "HEAD~1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRepo(t, map[string]string{"f": "text", "d/g": "text", ".gitignore": "*.log\n.env\n"})
			write(t, p.Dir, map[string]string{".env": "KEY=1"})
			w := open(t, p, "S.1.1", ".env")
			if err := w.End(); err != nil {
				t.Fatal(err)
			}
			if lost, err := w.Unsafe(t.Context()); lost != "" || err != nil {
				t.Fatalf("Unsafe of an unchanged worktree = %q, %v", lost, err)
			}
			hide(t, p, w)
			if err := w.Remove(t.Context(), false); err == nil {
				t.Fatal("it is removed")
			}
			if err := w.Remove(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(w.Path()); err == nil || git(t, p, p.Dir, "worktree", "list") == "" || strings.Contains(git(t, p, p.Dir, "worktree", "list"), w.Name) {
				t.Error("it is still there")
			}
		})
	}
}

// TestNothingOfTheCallerIsOverwritten merges a branch that has a file where the caller has one
// that Git ignores.
func TestNothingOfTheCallerIsOverwritten(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ theirs, mine string }{
		"the same file": {".env", ".env"}, "a file where a folder is": {"build", "build/x"}, "a folder where a file is": {"build/x", "build"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRepo(t, map[string]string{"f": "x", ".gitignore": ".env\nbuild\n"})
			w := open(t, p, "S.1.1")
			write(t, w.Path(), map[string]string{tt.theirs: "theirs"})
			git(t, p, w.Path(), "add", "-f", tt.theirs)
			git(t, p, w.Path(), "commit", "-qm", "x")
			write(t, p.Dir, map[string]string{tt.mine: "mine"})
			before := state(t, p)
			if _, err := w.Merge(t.Context()); err == nil || !strings.Contains(err.Error(), "would be overwritten") {
				t.Errorf("Merge = %v", err)
			}
			if text, err := os.ReadFile(filepath.Join(p.Dir, tt.mine)); err != nil || string(text) != "mine" || state(t, p) != before {
				t.Errorf("the caller's file is %q, %v", text, err)
			}
		})
	}
}

// TestARepositoryExecutesNothing has hooks, a monitor and filters in the repository's own
// configuration, and one that the agent puts where it can write.
func TestARepositoryExecutesNothing(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"f": "x\n", ".gitattributes": "f filter=evil merge=evil diff=evil\n"})
	ran := filepath.Join(p.Dir, ".git", "ran")
	program := filepath.Join(p.Dir, ".git", "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n>'"+ran+"'\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"post-checkout", "pre-commit", "pre-merge-commit", "post-merge", "reference-transaction", "post-index-change"} {
		write(t, p.Dir, map[string]string{".git/hooks/" + name: "#!/bin/sh\n>'" + ran + "'\n"})
		_ = os.Chmod(filepath.Join(p.Dir, ".git/hooks", name), 0o755)
	}
	for _, key := range []string{"core.fsmonitor", "filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "merge.evil.driver", "diff.evil.textconv", "diff.evil.command", "diff.external", "core.pager", "gpg.program", "core.sshCommand"} {
		cfg, err := os.OpenFile(filepath.Join(p.Dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		section, name, _ := strings.Cut(key, ".")
		if sub, last, ok := strings.Cut(name, "."); ok {
			section, name = section+` "`+sub+`"`, last
		}
		fmt.Fprintf(cfg, "[%s]\n\t%s = %s\n", section, name, program)
		cfg.Close()
	}
	git(t, p, p.Dir, "config", "log.showSignature", "true")
	w := open(t, p, "S.1.1")
	tree := strings.TrimSpace(git(t, p, w.Path(), "rev-parse", "HEAD^{tree}"))
	signed := filepath.Join(t.TempDir(), "commit")
	if err := os.WriteFile(signed, fmt.Appendf(nil, "tree %s\nparent %s\nauthor a <a@example.org> 1 +0000\ncommitter a <a@example.org> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nsigned\n", tree, w.Base), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(git(t, p, w.Path(), "hash-object", "-t", "commit", "-w", signed))
	git(t, p, w.Path(), "update-ref", "refs/heads/"+w.Branch(), id)
	_ = os.Remove(ran) // of what the test has done
	write(t, w.Path(), map[string]string{"f": "y\n", "g": "z\n"})
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"Facts": func() error { _, err := w.Facts(t.Context()); return err },
		"Diff":  func() error { _, err := w.Diff(t.Context()); return err },
		"List":  func() error { _, err := List(t.Context(), p); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.Merge(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.Remove(t.Context(), false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the repository's program ran")
	}
}

// TestWhatAKilledProcessLeftIsFound leaves a workspace as a kill between each of its steps does.
func TestWhatAKilledProcessLeftIsFound(t *testing.T) {
	t.Parallel()
	steps := []func(t *testing.T, p Place, w *Work){
		func(t *testing.T, p Place, w *Work) { git(t, p, p.Dir, "branch", w.Branch()) },
		func(t *testing.T, p Place, w *Work) { write(t, w.Path(), map[string]string{"part": "x"}) },
		func(t *testing.T, p Place, w *Work) {
			_ = os.RemoveAll(w.Path())
			git(t, p, p.Dir, "worktree", "add", "-q", w.Path(), w.Branch())
		},
	}
	for n := range len(steps) + 1 {
		for _, next := range []string{"again", "removed"} {
			p := newRepo(t, map[string]string{"f": "x"})
			r, err := p.repo(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w := &Work{Name: "S-1-1", Kind: Worktree, Key: "S.1.1", Base: r.commit(t.Context(), "HEAD"), top: r.top, repo: r}
			if err := w.makeFolder(); err != nil {
				t.Fatal(err)
			}
			if err := w.save(); err != nil {
				t.Fatal(err)
			}
			for _, step := range steps[:n] {
				step(t, p, w)
			}
			found, err := List(t.Context(), p)
			if err != nil || len(found) != 1 {
				t.Fatalf("after %d steps: List = %v, %v", n, found, err)
			}
			if next == "again" {
				if w := open(t, p, "S.1.1"); !w.Ready {
					t.Errorf("after %d steps: %+v", n, w)
				}
				continue
			}
			if err := found[0].Remove(t.Context(), false); err != nil {
				t.Errorf("after %d steps: %v", n, err)
			}
			if left := git(t, p, p.Dir, "branch", "--list", "agents/*"); left != "" {
				t.Errorf("after %d steps: %s is left", n, left)
			}
		}
	}
}

func TestOtherRepositories(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"f": "x"})
	git(t, p, p.Dir, "commit", "-qm", "second", "--allow-empty")
	for name, args := range map[string][]string{"bare": {"--bare"}, "shallow": {"--depth=1"}} {
		dir := filepath.Join(p.Dir, name)
		git(t, p, p.Dir, append(append([]string{"clone", "-q"}, args...), "file://"+p.Dir, dir)...)
		w := open(t, Place{Dir: dir, Environ: p.Environ}, "S.1.1")
		write(t, w.Path(), map[string]string{"f": "y"})
		git(t, p, w.Path(), "commit", "-qam", "y")
		if f, err := w.Facts(t.Context()); err != nil || len(f.Commits) != 1 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	git(t, p, p.Dir, "checkout", "-q", "--detach")
	if w := open(t, p, "S.2.1"); w.Base != git(t, p, p.Dir, "rev-parse", "HEAD") {
		t.Errorf("a detached HEAD: %+v", w)
	}
	if _, err := Open(context.Background(), Place{Dir: t.TempDir(), Environ: p.Environ}, Options{Key: "S.1.1"}); err == nil || !strings.Contains(err.Error(), "not in a Git repository") {
		t.Errorf("outside of a repository: %v", err)
	}
	link := newRepo(t, map[string]string{"f": "x"})
	if err := os.Symlink(t.TempDir(), filepath.Join(link.Dir, ".agents")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), link, Options{Key: "S.1.1"}); err == nil {
		t.Error("a link leads elsewhere")
	}
}

// A commit that was amended is not missed.
func TestAnAmendedCommitIsNotLost(t *testing.T) {
	t.Parallel()
	p := newRepo(t, map[string]string{"f": "x"})
	w := open(t, p, "S.1.1")
	for _, how := range [][]string{nil, {"--amend"}} {
		git(t, p, w.Path(), append([]string{"commit", "-qm", "y", "--allow-empty"}, how...)...)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	git(t, p, p.Dir, "merge", "-q", w.Branch())
	if lost, err := w.Unsafe(t.Context()); lost != "" || err != nil {
		t.Errorf("Unsafe = %q, %v", lost, err)
	}
}

// Submodules are empty and large files are pointers, as docs/workspaces.md says; the runtime loads
// neither. If an agent loads them with the real programs, its changes are found and merged.
func TestSubmodulesAndLargeFiles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("git-lfs is missing")
	}
	sub := newRepo(t, map[string]string{"s": "sub"})
	p := newRepo(t, map[string]string{"f": "x"})
	config := filepath.Join(t.TempDir(), "gitconfig") // of the user: only here may filters be
	p.Environ = append(p.Environ, "GIT_CONFIG_GLOBAL="+config)
	git(t, p, p.Dir, "lfs", "install", "--skip-repo")
	git(t, p, p.Dir, "config", "--global", "protocol.file.allow", "always")
	git(t, p, p.Dir, "lfs", "track", "*.bin")
	git(t, p, p.Dir, "submodule", "add", "-q", sub.Dir, "a sub")
	write(t, p.Dir, map[string]string{"big one.bin": "large"})
	git(t, p, p.Dir, "add", "-A")
	git(t, p, p.Dir, "commit", "-qm", "second")
	w := open(t, p, "S.1.1")
	pointer, err := os.ReadFile(filepath.Join(w.Path(), "big one.bin"))
	inside, _ := os.ReadDir(filepath.Join(w.Path(), "a sub"))
	if err != nil || !strings.HasPrefix(string(pointer), "version https://git-lfs") || len(inside) > 0 {
		t.Errorf("the large file is %q (%v), the submodule has %d files", pointer, err, len(inside))
	}
	if f, err := w.Facts(t.Context()); err != nil || len(f.Commits)+len(f.Uncommitted) > 0 {
		t.Errorf("nothing has changed, and there is %+v, %v", f, err)
	}
	git(t, p, w.Path(), "lfs", "pull") // from what the caller has
	git(t, p, w.Path(), "submodule", "update", "-q", "--init")
	if data, err := os.ReadFile(filepath.Join(w.Path(), "big one.bin")); err != nil || string(data) != "large" {
		t.Errorf("after git lfs pull: %q, %v", data, err)
	}
	write(t, w.Path(), map[string]string{"other.bin": "a larger one", "a sub/new": "in the submodule"})
	git(t, p, w.Path(), "add", "other.bin")
	git(t, p, w.Path(), "commit", "-qm", "third")
	f, err := w.Facts(t.Context())
	if err != nil || len(f.Commits) != 1 {
		t.Errorf("after a commit: %+v, %v", f, err)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Merge(t.Context()); err != nil {
		t.Errorf("Merge: %v", err)
	}
	git(t, p, p.Dir, "lfs", "pull")
	if data, err := os.ReadFile(filepath.Join(p.Dir, "other.bin")); err != nil || string(data) != "a larger one" {
		t.Errorf("merged: %q, %v", data, err)
	}
	if err := w.Remove(t.Context(), false); err == nil || !strings.Contains(err.Error(), "a sub") {
		t.Errorf("with a new file in a submodule, Remove returned %v", err)
	}
}
