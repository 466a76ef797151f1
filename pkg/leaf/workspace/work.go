package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Facts are what was done in a workspace, as the runtime sees it.
type Facts struct {
	// Commits are those after Base, newest first, as "ID SUBJECT": first those on the branch, then
	// those that the agent made and that are not on it.
	Commits []string
	// Stat are the files that changed in them, as git diff --stat prints it.
	Stat string
	// Uncommitted are files that changed, or are new, and are in no commit; of a copy all that differ,
	// with what happened to them.
	Uncommitted []string
}

// tips are the commits that nothing but w may have: those of its branch, and of where its agent
// was last.
func (w *Work) tips(ctx context.Context) (list []string) {
	for _, ref := range []string{"refs/heads/" + w.Branch(), "worktrees/" + w.Name + "/HEAD"} {
		if id := w.repo.commit(ctx, ref); id != "" && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// allTips returns tips and the commits that the agent left by a checkout or reset. Commits that it
// amended or rebased are not among them: others have replaced them.
func (w *Work) allTips(ctx context.Context) []string {
	list := w.tips(ctx)
	moves, _ := w.repo.git(ctx, nil, "log", "--walk-reflogs", "--format=%H %gs", "worktrees/"+w.Name+"/HEAD") // an error means that there is no log
	leaves := false
	for _, move := range strings.Split(moves, "\n") { // newest first
		id, how, _ := strings.Cut(move, " ")
		if leaves && id != "" && id != w.Base && !slices.Contains(list, id) {
			list = append(list, id)
		}
		leaves = strings.HasPrefix(how, "checkout:") || strings.HasPrefix(how, "reset:")
	}
	return list
}

// Facts returns what was done in w.
func (w *Work) Facts(ctx context.Context) (f Facts, err error) {
	if w.Kind == Copy {
		return w.copyFacts()
	}
	tip := w.repo.commit(ctx, "refs/heads/"+w.Branch())
	if tip == "" {
		return f, fmt.Errorf("the branch %s does not exist", w.Branch())
	}
	out, err := w.repo.git(ctx, nil, "log", "--format=%h %s", "-z", "--max-count=1000", w.Base+".."+tip)
	if err != nil {
		return f, err
	}
	f.Commits = list(out)
	apart := append([]string{"log", "--format=%h %s (not on the branch)", "-z", "--max-count=100"}, w.allTips(ctx)...)
	if out, err = w.repo.git(ctx, nil, append(apart, "--not", w.Base, tip)...); err != nil {
		return f, err
	}
	f.Commits = append(f.Commits, list(out)...)
	if f.Stat, err = w.repo.git(ctx, nil, "diff", "--no-ext-diff", "--no-textconv", "--stat=100", "--stat-count=50", w.Base, tip); err != nil {
		return f, err
	}
	f.Stat = strings.TrimRight(f.Stat, "\n")
	f.Uncommitted, err = w.snapshot(ctx, tip, func(index []string) (err error) { return nil })
	return f, err
}

// snapshot compares the files of w with a commit, by their contents, in an index of its own: that
// of the worktree can hide changes. It lists those that differ, without those that Git
// ignores, and calls use with the arguments and variables of the index.
func (w *Work) snapshot(ctx context.Context, commit string, use func(index []string) error) ([]string, error) {
	tmp, err := os.MkdirTemp("", "agents-index-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(tmp, "index")}
	if _, err := w.inTree(ctx, env, "read-tree", commit); err != nil {
		return nil, err
	}
	if _, err := w.inTree(ctx, env, "add", "--all", "--", "."); err != nil {
		return nil, err
	}
	out, err := w.inTree(ctx, env, "diff", "--cached", "--no-ext-diff", "--no-renames", "--name-only", "-z", commit)
	if err != nil {
		return nil, err
	}
	return list(out), use(env)
}

// inTree runs Git on the files of w with the configuration of the repository: an agent can write
// what the worktree itself says of that.
func (w *Work) inTree(ctx context.Context, env []string, args ...string) (string, error) {
	r := *w.repo
	r.safe = append(slices.Clone(r.safe), "-c", "core.sparseCheckout=false", "-c", "core.ignoreStat=false", "-c", "index.sparse=false", "-c", "advice.addEmbeddedRepo=false",
		"--git-dir="+r.common, "--work-tree="+w.Path())
	return r.in(w.Path(), ctx, env, args...)
}

// others lists what is in w and in no commit nor among the files that Git would add: ignored
// files, but those that were brought and did not change, and what is in submodules and other
// repositories.
func (w *Work) others(ctx context.Context, env []string) ([]string, error) {
	out, err := w.inTree(ctx, env, "ls-files", "--others", "-z")
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(list(out), func(path string) bool {
		return same(filepath.Join(w.top, path), filepath.Join(w.Path(), path))
	})
	out, err = w.inTree(ctx, env, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	for _, entry := range list(out) {
		if what, path, _ := strings.Cut(entry, "\t"); strings.HasPrefix(what, "160000 ") {
			if inside, err := os.ReadDir(filepath.Join(w.Path(), path)); err != nil && !errors.Is(err, os.ErrNotExist) || len(inside) > 0 {
				found = append(found, path+"/")
			}
		}
	}
	return found, nil
}

// Diff returns what w changes: all files, whether or not they are in a commit, compared with Base.
func (w *Work) Diff(ctx context.Context) (text string, err error) {
	if w.Kind == Copy {
		return w.copyDiff(ctx)
	}
	_, err = w.snapshot(ctx, w.Base, func(env []string) (err error) {
		text, err = w.inTree(ctx, env, "diff", "--cached", "--no-ext-diff", "--no-textconv", w.Base)
		return err
	})
	return text, err
}

// Merge merges the branch of w into what is checked out in the working tree that w was made for,
// with a commit for what its agent did not commit. After an error the working tree and its
// branch are as they were.
func (w *Work) Merge(ctx context.Context) (string, error) {
	if w.Kind == Copy {
		return w.copyMerge(ctx)
	}
	if w.repo.bare {
		return "", fmt.Errorf("%s has no working tree; merge %s in a clone", w.top, w.Branch())
	}
	tip, err := w.commitRest(ctx)
	if err != nil {
		return "", err
	}
	if len(w.tips(ctx)) > 1 {
		return "", fmt.Errorf("its agent has left the branch %s: git -C %s status", w.Branch(), w.Path())
	}
	if out, err := w.repo.git(ctx, nil, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "HEAD", tip); err != nil {
		if conflicts := list(out); len(conflicts) > 1 {
			return "", fmt.Errorf("conflicts in %s: nothing was merged", strings.Join(conflicts[1:], ", "))
		}
		return "", err
	}
	out, err := w.repo.git(ctx, nil, "diff", "--no-ext-diff", "--no-renames", "--name-only", "--diff-filter=d", "-z", "HEAD..."+tip)
	if err != nil {
		return "", err
	}
	if path, err := w.repo.occupied(ctx, list(out)); err != nil || path != "" {
		if err == nil {
			err = fmt.Errorf("%s would be overwritten, and is not in the repository: nothing was merged", path)
		}
		return "", err
	}
	text, err := w.repo.git(ctx, nil, "merge", "--no-edit", "--no-autostash", "--no-verify-signatures", "-m", "Merge "+w.Branch()+" of agent "+w.Agent, tip)
	if err == nil || w.repo.commit(ctx, "MERGE_HEAD") == "" {
		return text, err
	}
	_, abort := w.repo.git(context.WithoutCancel(ctx), nil, "merge", "--abort")
	return "", errors.Join(err, abort)
}

// commitRest commits to the branch what is in no commit, and returns its tip.
func (w *Work) commitRest(ctx context.Context) (string, error) {
	tip := w.repo.commit(ctx, "refs/heads/"+w.Branch())
	if tip == "" {
		return "", fmt.Errorf("the branch %s does not exist", w.Branch())
	}
	var tree string
	changed, err := w.snapshot(ctx, tip, func(env []string) (err error) {
		tree, err = w.inTree(ctx, env, "write-tree")
		return err
	})
	if err != nil || len(changed) == 0 {
		return tip, err
	}
	id, err := w.repo.git(ctx, nil, "commit-tree", strings.TrimSpace(tree), "-p", tip, "-m", "What agent "+w.Agent+" did not commit")
	if err != nil {
		return "", err
	}
	id = strings.TrimSpace(id)
	if _, err := w.repo.git(ctx, nil, "update-ref", "refs/heads/"+w.Branch(), id, tip); err != nil {
		return "", err
	}
	_, err = w.inTree(ctx, []string{"GIT_INDEX_FILE=" + filepath.Join(w.admin(), "index")}, "read-tree", id)
	return id, err
}

// Unsafe says what would be lost with w: "" if nothing.
func (w *Work) Unsafe(ctx context.Context) (string, error) {
	if _, err := os.Lstat(w.Path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	} else if !w.Ready {
		return "", nil // nobody worked in it
	} else if !w.Ended {
		return "a call that has not ended, or whose process died", nil
	}
	if w.Kind == Copy {
		f, err := w.copyFacts()
		return naming("changes that are not merged", f.Uncommitted), err
	}
	tips := w.allTips(ctx)
	for _, tip := range tips {
		out, err := w.repo.git(ctx, nil, "for-each-ref", "--contains="+tip, "--format=%(refname)")
		if err != nil {
			return "", err
		}
		_, err = w.repo.git(ctx, nil, "merge-base", "--is-ancestor", tip, "HEAD")
		if refs := slices.DeleteFunc(strings.Fields(out), func(ref string) bool { return ref == "refs/heads/"+w.Branch() }); err != nil && len(refs) == 0 {
			return "commits that are not merged, up to " + tip[:12], nil
		}
	}
	if _, err := os.Lstat(w.Path()); err != nil || len(tips) == 0 {
		return "", nil
	}
	var others []string
	changed, err := w.snapshot(ctx, tips[0], func(env []string) (err error) {
		others, err = w.others(ctx, env)
		return err
	})
	if lost := naming("changes that are in no commit", changed); lost != "" {
		return lost, err
	}
	return naming("files that Git ignores or that are of another repository", others), err
}

// naming is what with the first of paths, "" if there are none.
func naming(what string, paths []string) string {
	if n := len(paths); n > 5 {
		paths = append(slices.Clone(paths[:5]), fmt.Sprintf("%d more", n-5))
	} else if n == 0 {
		return ""
	}
	return what + ": " + strings.Join(paths, ", ")
}

// Remove removes w with its branch, unless something would be lost that force does not give up.
// A second Remove continues one whose process was killed.
func (w *Work) Remove(ctx context.Context, force bool) error {
	if !force {
		lost, err := w.Unsafe(ctx)
		if err == nil && lost != "" {
			err = errors.New("it has " + lost)
		}
		if err != nil {
			return err
		}
	}
	if err := w.discard(ctx); err != nil {
		return err
	}
	return os.Remove(w.note())
}

// discard removes all of w but its note.
func (w *Work) discard(ctx context.Context) error {
	if err := os.RemoveAll(w.Path()); err != nil {
		return err
	}
	if w.Kind == Copy {
		if err := os.Remove(w.manifest()); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	release, err := w.repo.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := os.RemoveAll(w.admin()); err != nil {
		return err
	}
	if w.repo.commit(ctx, "refs/heads/"+w.Branch()) == "" {
		return nil
	}
	_, err = w.repo.git(ctx, nil, "branch", "--quiet", "-D", "--", w.Branch())
	return err
}
