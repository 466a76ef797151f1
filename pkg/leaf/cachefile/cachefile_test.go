package cachefile_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/cachefile"
)

func dir(t *testing.T) cachefile.Dir {
	return cachefile.Dir{Path: filepath.Join(t.TempDir(), "a", "b"), Suffix: ".x", Version: "test 1", MaxBytes: 100, MaxAge: 48 * time.Hour}
}

func stored(t *testing.T, d cachefile.Dir, key, content string) string {
	t.Helper()
	d.Store(key, []byte(content))
	if got, ok := d.Load(key); !ok || string(got) != content {
		t.Fatalf("Load(%q) = %q, %v, want %q", key, got, ok, content)
	}
	return d.File(key)
}

func TestLoadReturnsWhatWasStored(t *testing.T) {
	d := dir(t)
	if got, ok := d.Load("k"); ok {
		t.Errorf("Load of an empty cache = %q", got)
	}
	for _, content := range []string{"one", "", "two\nlines\n"} {
		path := stored(t, d, "k", content)
		for path, want := range map[string]os.FileMode{path: 0o600, d.Path: 0o700, filepath.Dir(d.Path): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("mode of %s = %v, %v, want %v", path, info.Mode(), err, want)
			}
		}
	}
	if got, ok := d.Load("other"); ok {
		t.Errorf("Load of another key = %q", got)
	}
	d.Version = "test 2"
	if got, ok := d.Load("k"); ok {
		t.Errorf("Load of another version = %q", got)
	}
	d.Path = ""
	d.Store("k", nil)
	if _, ok := d.Load("k"); ok {
		t.Error("a Dir without a path keeps something")
	}
}

// TestDamageIsNoCache changes and cuts a file at every byte.
func TestDamageIsNoCache(t *testing.T) {
	d := dir(t)
	path := stored(t, d, "k", "content")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(bad []byte) {
		t.Helper()
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := d.Load("k"); ok {
			t.Errorf("Load of %q = %q", bad, got)
		}
	}
	for i := range good {
		check(good[:i])
		bad := bytes.Clone(good)
		bad[i] ^= 1
		check(bad)
	}
	check(append(bytes.Clone(good), 'x'))
	check(append(bytes.Clone(good), make([]byte, 1<<20)...))
	// The file of another key.
	other, _ := os.ReadFile(stored(t, d, "other", "content"))
	check(other)
	stored(t, d, "k", "content")
}

func TestUnsafeFilesAreNoCache(t *testing.T) {
	for name, spoil := range map[string]func(d cachefile.Dir, path string) error{
		"group-writable file":   func(_ cachefile.Dir, path string) error { return os.Chmod(path, 0o660) },
		"world-writable file":   func(_ cachefile.Dir, path string) error { return os.Chmod(path, 0o606) },
		"world-writable folder": func(d cachefile.Dir, _ string) error { return os.Chmod(d.Path, 0o707) },
		"too old": func(d cachefile.Dir, path string) error {
			return os.Chtimes(path, time.Time{}, time.Now().Add(-d.MaxAge-time.Hour))
		},
		"of the future": func(d cachefile.Dir, path string) error {
			return os.Chtimes(path, time.Time{}, time.Now().Add(d.MaxAge+time.Hour))
		},
		"link": func(_ cachefile.Dir, path string) error {
			if err := os.Rename(path, path+".real"); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		},
		"FIFO": func(_ cachefile.Dir, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return exec.Command("mkfifo", path).Run()
		},
		"folder": func(_ cachefile.Dir, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
		"of another user": func(_ cachefile.Dir, path string) error {
			if os.Geteuid() != 0 {
				return os.Remove(path) // only root can give files away
			}
			return os.Chown(path, 4711, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := dir(t)
			if err := spoil(d, stored(t, d, "k", "content")); err != nil {
				t.Fatal(err)
			}
			if got, ok := d.Load("k"); ok {
				t.Errorf("Load = %q", got)
			}
		})
	}
}

func TestNothingIsWrittenToAnUnsafeFolder(t *testing.T) {
	d := dir(t)
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.Path, 0o777); err != nil {
		t.Fatal(err)
	}
	d.Store("k", []byte("content"))
	if list, err := os.ReadDir(d.Path); err != nil || len(list) != 0 {
		t.Errorf("files in a world-writable folder: %v, %v", list, err)
	}
	d.Path = d.File("k")
	if err := os.WriteFile(d.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Store("k", nil) // a file in its place; it does not panic
}

func TestContentOverTheLimitRemovesTheFile(t *testing.T) {
	d := dir(t)
	path := stored(t, d, "k", "short")
	d.Store("k", []byte(strings.Repeat("x", d.MaxBytes+1)))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("Stat = %v, want that the file is gone", err)
	}
}

func TestUnchangedContentIsWrittenAgainLater(t *testing.T) {
	d := dir(t)
	path := stored(t, d, "k", "same")
	for age, written := range map[time.Duration]bool{time.Hour: false, 3 * time.Hour: true} {
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		d.Store("k", []byte("same"))
		info, err := os.Stat(path)
		if err != nil || (time.Since(info.ModTime()) < age/2) != written {
			t.Errorf("after %v: written again is %v, want %v (%v)", age, !written, written, err)
		}
	}
}

func TestOldFilesAreSwept(t *testing.T) {
	d := dir(t)
	stored(t, d, "k", "content")
	old := d.MaxAge + time.Hour
	files := map[string]time.Duration{"old.x": old, "young.x": 0, "old.y": old, "tmp-torn.x": 2 * time.Hour, "tmp-busy.x": 0}
	put := func(name string, age time.Duration) {
		t.Helper()
		path := filepath.Join(d.Path, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for name, age := range files {
		put(name, age)
	}
	stored(t, d, "k", "other")
	for name, want := range map[string]bool{"old.x": false, "young.x": true, "old.y": true, "tmp-torn.x": false, "tmp-busy.x": true} {
		if _, err := os.Stat(filepath.Join(d.Path, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
	d.MaxFiles = 3
	for i := range 10 {
		put(fmt.Sprint(i, ".x"), time.Duration(i)*time.Minute)
	}
	path := stored(t, d, "new", "content")
	var names []string
	list, err := filepath.Glob(filepath.Join(d.Path, "*.x"))
	for _, p := range list {
		names = append(names, filepath.Base(p))
	}
	if len(names) != d.MaxFiles {
		t.Errorf("%d files %v, %v, want %d with %s", len(names), names, err, d.MaxFiles, path)
	}
}
