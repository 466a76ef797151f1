package workspace

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tree is what a folder has, without workspaces.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".agents" && dir == filepath.Dir(path) {
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(dir, path)
		switch info, _ := d.Info(); {
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			files[rel] = "-> " + target
		case d.Type().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[rel] = fmt.Sprint(info.Mode().Perm(), " ", string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// edit changes a folder at random: files that are written, made executable, removed, or replaced by
// links or folders.
func edit(t *testing.T, r *rand.Rand, dir, by string, most int) {
	names := []string{"a", "b", "d/a", "d/b", "e/f/a", "n w.txt", "é"}
	for range r.Intn(most + 1) {
		path := filepath.Join(dir, names[r.Intn(len(names))])
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		switch r.Intn(5) {
		case 0:
			_ = os.RemoveAll(path)
		case 1:
			_ = os.Remove(path)
			_ = os.Symlink("a", path)
		case 2:
			_ = os.Chmod(path, 0o755)
		default:
			_ = os.Remove(path)
			if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d", by, r.Intn(3)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestACopyMergesWhatItsAgentChanged, file by file, over random changes on both sides: what only one
// side changed is merged, what both changed differently is a conflict, and then nothing is merged.
func TestACopyMergesWhatItsAgentChanged(t *testing.T) {
	t.Parallel()
	merged, refused := 0, 0
	for seed := range int64(100) {
		r := rand.New(rand.NewSource(seed))
		p := Place{Dir: t.TempDir(), Environ: os.Environ()}
		write(t, p.Dir, map[string]string{"a": "a 0", "b": "b 0", "d/a": "d 0", ".git/config": "[evil]"})
		edit(t, r, p.Dir, "first", 4)
		base := tree(t, p.Dir)
		w, err := Open(t.Context(), p, Options{Kind: Copy, Key: fmt.Sprintf("S%d.1.1", seed), Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		delete(base, filepath.Join(".git", "config"))
		if got := tree(t, w.Path()); !maps.Equal(got, base) {
			t.Fatalf("seed %d: the copy is %q, want %q", seed, got, base)
		}
		edit(t, r, w.Path(), "agent", 6)
		edit(t, r, p.Dir, "user", 4)
		own, theirs := tree(t, w.Path()), tree(t, p.Dir)
		want, conflict := maps.Clone(theirs), false
		for _, path := range slices.Sorted(maps.Keys(merge(base, own, theirs))) {
			was, here, there := base[path], own[path], theirs[path]
			switch {
			case here == was || here == there:
			case there != was:
				conflict = true
			case here == "":
				delete(want, path)
			default:
				want[path] = here
			}
		}
		before := tree(t, p.Dir)
		text, err := w.Merge(t.Context())
		switch got := tree(t, p.Dir); {
		case conflict && (err == nil || !strings.Contains(err.Error(), "conflicts in ") || !maps.Equal(got, before)):
			t.Errorf("seed %d: both changed a file: %q, %v", seed, text, err)
		case conflict:
			refused++
		case err != nil && strings.HasPrefix(err.Error(), "merge "): // a folder of the user is where a file is to be
		case err != nil || !maps.Equal(got, want):
			t.Errorf("seed %d: %v; merged %q, want %q", seed, err, got, want)
		default:
			merged++
			w.Ended = true
			if lost, err := w.Unsafe(t.Context()); err != nil || lost != "" {
				t.Errorf("seed %d: after the merge it has %q (%v)", seed, lost, err)
			}
		}
	}
	if merged < 20 || refused < 20 {
		t.Errorf("%d merged, %d refused", merged, refused)
	}
}

func merge(all ...map[string]string) map[string]bool {
	keys := map[string]bool{}
	for _, m := range all {
		for k := range m {
			keys[k] = true
		}
	}
	return keys
}

// TestACopyIsListedAndRemoved, also from a folder below, and never with changes unless forced.
func TestACopyIsListedAndRemoved(t *testing.T) {
	t.Parallel()
	p := Place{Dir: t.TempDir(), Environ: os.Environ()}
	write(t, p.Dir, map[string]string{"a": "a", "below/b": "b", ".env": "x"})
	w, err := Open(t.Context(), p, Options{Kind: Copy, Key: "S.1.1", Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Open(t.Context(), p, Options{Kind: Copy, Key: "S.1.1", Agent: "coder"}); err != nil || again.Path() != w.Path() {
		t.Errorf("opened again: %v, %v", again, err)
	}
	write(t, w.Path(), map[string]string{"new": "n"})
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	list, err := List(t.Context(), Place{Dir: filepath.Join(p.Dir, "below"), Environ: p.Environ})
	if err != nil || len(list) != 1 || list[0].Kind != Copy {
		t.Fatalf("List = %v, %v", list, err)
	}
	w = list[0]
	if err := w.Remove(t.Context(), false); err == nil || !strings.Contains(err.Error(), "changes that are not merged: created new (1 bytes)") {
		t.Errorf("removed with a change: %v", err)
	}
	if err := w.Remove(t.Context(), true); err != nil {
		t.Error(err)
	}
	left, _ := os.ReadDir(filepath.Join(p.Dir, Folder))
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := Open(t.Context(), p, Options{Key: "S.1.2"}); err == nil {
		t.Error("a worktree without a repository")
	}
}

// TestALinkLeadsNoMergeElsewhere: neither what its agent makes of folders, nor a link of the user.
func TestALinkLeadsNoMergeElsewhere(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	p := Place{Dir: t.TempDir(), Environ: os.Environ()}
	write(t, p.Dir, map[string]string{"d/a": "a"})
	w, err := Open(t.Context(), p, Options{Kind: Copy, Key: "S.1.1", Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.Path(), map[string]string{"out/evil": "x"})
	if err := os.Symlink(outside, filepath.Join(p.Dir, "out")); err != nil {
		t.Skip(err)
	}
	_, err = w.Merge(t.Context())
	if list, _ := os.ReadDir(outside); err == nil || len(list) > 0 {
		t.Errorf("merged to %v (%v)", list, err)
	}
}

// TestAMergeContinuesAfterAKill: whatever a merge that was killed has left is removed by the next
// one, which merges the rest; files of the user with similar names stay.
func TestAMergeContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	left := 0
	for seed := range int64(60) {
		r := rand.New(rand.NewSource(seed))
		p := Place{Dir: t.TempDir(), Environ: os.Environ()}
		write(t, p.Dir, map[string]string{"a": "a 0", "b": "b 0", "d/a": "d 0", "a.agents-part": "user", "d/.agents-part-S-1-1": "user", ".agents-part-S0-1-1-": "user"})
		w, err := Open(t.Context(), p, Options{Kind: Copy, Key: fmt.Sprintf("K%d.1.1", seed), Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		edit(t, r, w.Path(), "agent", 6)
		want := tree(t, w.Path())
		list, _, err := w.changes()
		if err != nil {
			t.Fatal(err)
		}
		from, into := openRoots(t, w)
		kill := r.Intn(len(list) + 1)
		for i, c := range list {
			if i < kill && c.kind == removed {
				_ = into.Remove(c.path)
			} else if i < kill && r.Intn(2) == 0 {
				if err := w.replace(from, into, c); err != nil {
					break // a folder of the user is where a file is to be
				}
			} else if i == kill && c.kind != removed {
				info, err := from.Lstat(c.path)
				if err != nil {
					t.Fatal(err)
				}
				part := w.part(c.path)
				if err := copyEntry(from, into, c.path, part, info); err != nil {
					break
				}
				if info.Mode().IsRegular() {
					_ = os.Truncate(filepath.Join(p.Dir, part), info.Size()/2)
				}
				left++
				if r.Intn(3) == 0 && c.kind == "created" {
					_ = os.Remove(filepath.Join(w.Path(), c.path))
					delete(want, filepath.FromSlash(c.path))
				}
			}
		}
		_, err = w.Merge(t.Context())
		if got := tree(t, p.Dir); err == nil && !maps.Equal(got, want) || err != nil && strings.Contains(err.Error(), "part") {
			t.Errorf("seed %d: %v; merged %q, want %q", seed, err, got, want)
		}
	}
	if left < 20 {
		t.Errorf("only %d merges left something", left)
	}
}

// TestAMergeThatFailsLeavesNothing, so that it can be repeated.
func TestAMergeThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "d/a", strings.Repeat("n", 250)} {
		p := Place{Dir: t.TempDir(), Environ: os.Environ()}
		write(t, p.Dir, map[string]string{"other": "x"})
		w, err := Open(t.Context(), p, Options{Kind: Copy, Key: "S.1.1", Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		write(t, w.Path(), map[string]string{name: "of the agent"})
		blocked := filepath.Join(p.Dir, name)
		from, into := openRoots(t, w)
		write(t, p.Dir, map[string]string{name + "/file": "of the user"})
		if err := w.replace(from, into, change{path: name}); err == nil {
			t.Errorf("%s: a folder was replaced by a file", name)
		}
		for path := range tree(t, p.Dir) {
			if strings.Contains(path, "agents-part") {
				t.Errorf("%s: %s is left", name, path)
			}
		}
		if err := os.RemoveAll(blocked); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Merge(t.Context()); err != nil || !maps.Equal(tree(t, p.Dir), tree(t, w.Path())) {
			t.Errorf("%s: the folder is gone, and the merge says %v: %q", name, err, tree(t, p.Dir))
		}
	}
}

// TestMergesOfOneCopyTakeTurns, and leave the files of other merges alone.
func TestMergesOfOneCopyTakeTurns(t *testing.T) {
	t.Parallel()
	p := Place{Dir: t.TempDir(), Environ: os.Environ()}
	write(t, p.Dir, map[string]string{"other": "x"})
	w, err := Open(t.Context(), p, Options{Kind: Copy, Key: "S.1.1", Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	below := (&Work{Name: w.Name + "-1-1"}).part("sub/file") // of an agent below
	for round := range 10 {
		files := map[string]string{}
		for i := range 20 {
			files[fmt.Sprint("file", i)] = fmt.Sprint(round, i)
		}
		write(t, w.Path(), files)
		write(t, p.Dir, map[string]string{below: "of another merge"})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := w.Merge(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got := tree(t, p.Dir)
		if _, ok := got[below]; !ok {
			t.Fatal("the file of another merge was removed")
		}
		if delete(got, below); !maps.Equal(got, tree(t, w.Path())) {
			t.Fatalf("merged %q, want %q", got, tree(t, w.Path()))
		}
	}
}

// openRoots opens a copy and its folder.
func openRoots(t *testing.T, w *Work) (from, into *os.Root) {
	t.Helper()
	open := func(dir string) *os.Root {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		return root
	}
	return open(w.Path()), open(w.top)
}
