package folder

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestList: random folders are listed as package os lists them, with the same metadata.
func TestList(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		dir := t.TempDir()
		for i := range rnd.IntN(600) { // more than one buffer
			path := filepath.Join(dir, fmt.Sprintf("%d-%s", i, []string{"name", "with space", "ä", "-", "a long name, of which few fit into one buffer of the system"}[rnd.IntN(5)]))
			var err error
			switch rnd.IntN(4) {
			case 0:
				err = os.Mkdir(path, 0o700)
			case 1:
				if err = os.Symlink("nowhere", path); err != nil {
					t.Skip("no links: " + err.Error())
				}
			default:
				if err = os.WriteFile(path, make([]byte, rnd.IntN(10)), 0o600); err == nil {
					err = os.Chmod(path, []os.FileMode{0o644, 0o755 | os.ModeSetuid, 0o400, 0o770 | os.ModeSticky}[rnd.IntN(4)])
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		compare(t, dir)
	}
}

func compare(t *testing.T, dir string) {
	t.Helper()
	want := map[string]Entry{}
	stats := map[string]Stat{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		want[e.Name()], stats[e.Name()] = Entry{Name: e.Name(), IsDir: e.IsDir()}, Of(info)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, open := range []func() (Dir, error){func() (Dir, error) { return Open(dir) }, func() (Dir, error) { return OpenRoot(root) }} {
		d, err := open()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		err = d.List(func(e Entry) bool {
			seen++
			if w, is := want[e.Name]; !is || w.IsDir != e.IsDir {
				t.Errorf("%q: there %v, a folder %v", e.Name, is, e.IsDir)
			}
			if s, err := e.Stat(); err != nil || s != stats[e.Name] {
				t.Errorf("%q: %+v, %v; os says %+v", e.Name, s, err, stats[e.Name])
			}
			sub, err := d.Open(e.Name)
			if (err == nil) != e.IsDir {
				t.Errorf("Open(%q) = %v", e.Name, err)
			}
			if err == nil {
				sub.Close()
			}
			return true
		})
		d.Close()
		if err != nil || seen != len(want) {
			t.Errorf("%d of %d entries, %v", seen, len(want), err)
		}
	}
}

func TestListStops(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := 0
	if err := d.List(func(Entry) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("%d calls, %v", n, err)
	}
}

// TestBelow: whichever links a folder and a path in it are named through, and however much of the
// path does not exist yet, the path is found, and one elsewhere is not.
func TestBelow(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"real/work/a/b", "real/other", "links"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"links/real": "real", "links/work": "real/work", "links/again": "links/work", "real/work/out": "real/other"} {
		if err := os.Symlink(filepath.Join(top, to), filepath.Join(top, name)); err != nil {
			t.Skip(err)
		}
	}
	t.Chdir(filepath.Join(top, "real"))
	names := []string{"real/work", "links/work", "links/real/work", "links/again", "real/work/../work"} // of one folder
	for _, dir := range names {
		for _, name := range append(names, "") {
			for _, rest := range []string{"a", "a/b", "a/b/new", "new", "new/new", "new/new/new"} {
				path := "work/" + rest // from the current folder
				if name != "" {
					path = filepath.Join(top, name, rest)
				}
				if got := Below(filepath.Join(top, dir), []string{path}); !slices.Equal(got, []string{rest}) {
					t.Errorf("Below(%q, %q) = %q, want %q", dir, path, got, rest)
				}
			}
			for _, rest := range []string{"", "..", "../other", "../work2", "../new/work/a", "out/x", "out/new/x"} {
				if path := filepath.Join(top, name, rest); name != "" {
					if got := Below(filepath.Join(top, dir), []string{path}); len(got) > 0 {
						t.Errorf("Below(%q, %q) = %q, want nothing", dir, path, got)
					}
				}
			}
		}
	}
	if err := os.Symlink(filepath.Join(top, "real/work/a"), filepath.Join(top, "real/work/a2")); err != nil {
		t.Fatal(err)
	}
	if got := Below(filepath.Join(top, "links/work"), []string{"work/a2", "work/out"}); !slices.Equal(got, []string{"a2", "a", "out"}) {
		t.Errorf("links are %q, want themselves and what they name below the folder", got)
	}
}
