package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/google/go-cmp/cmp"
)

func folderStore(t *testing.T) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create makes files: a name that ends with / is a folder, one with -> a symbolic link.
func create(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		link, target, isLink := strings.Cut(f, "->")
		path := filepath.Join(dir, name)
		var err error
		switch {
		case isLink:
			err = os.Symlink(target, filepath.Join(dir, link))
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o700)
		default:
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				err = os.WriteFile(path, []byte(content), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// list returns the files of a folder with their modes and contents.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content string
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			content, err = os.Readlink(path)
		case 0:
			var b []byte
			b, err = os.ReadFile(path)
			content = string(b)
		}
		files[strings.TrimPrefix(path, dir+"/")] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestUnpackMakesWhatPackRead(t *testing.T) {
	s, dir := folderStore(t), t.TempDir()
	create(t, dir, "agent.json={}", "tools/grep.sh=#!/bin/sh", "tools/empty=", "empty/", "read-only/x=1",
		"tools/link->../agent.json", "folder->tools", "dangling->nothing", strings.Repeat("long/", 40)+"ä=1")
	want := func() map[string]string { return list(t, dir) }
	for name, mode := range map[string]fs.FileMode{"tools/grep.sh": 0o755, "read-only": 0o500} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "read-only"), 0o700) })
	expected := want()
	create(t, dir, ".git/config=x", "tools/.git=gitdir: /x", "agents-exe.keys=secret", "tools/agents-exe.keys=secret")
	digest, err := Pack(t.Context(), s, "run", dir)
	if err != nil {
		t.Fatal(err)
	}
	got := t.TempDir()
	if err := Unpack(t.Context(), s, digest, got); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(got, "read-only"), 0o700) })
	if diff := cmp.Diff(expected, list(t, got)); diff != "" {
		t.Errorf("unpacked files (-want +got):\n%s", diff)
	}
	old := time.Unix(1000, 0)
	if err := os.Chtimes(filepath.Join(got, "agent.json"), old, old); err != nil {
		t.Fatal(err)
	}
	if again, err := Pack(t.Context(), s, "run", got); again != digest || err != nil {
		t.Errorf("Pack of the copy = %s, %v, want %s", again, err, digest)
	}
}

func TestPackRefuses(t *testing.T) {
	outside := t.TempDir()
	create(t, outside, "secret=x")
	for name, files := range map[string][]string{
		"absolute":  {"link->" + outside + "/secret"},
		"relative":  {"a/b=1", "a/link->../../"},
		"by a link": {"y/", "d1/d2/", "d1/d2/x->../../y", "d1/d2/link->x/../../.."},
	} {
		dir := t.TempDir()
		create(t, dir, files...)
		if _, err := Pack(t.Context(), folderStore(t), "run", dir); err == nil || !strings.Contains(err.Error(), "link") {
			t.Errorf("Pack with a link that leaves the folder, %s = %v, want an error", name, err)
		}
	}
	dir := t.TempDir()
	create(t, dir, "large=")
	if err := os.Truncate(filepath.Join(dir, "large"), MaxBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), folderStore(t), "run", dir); err == nil || !strings.Contains(err.Error(), "256 MiB") {
		t.Errorf("Pack of a file of 256 MiB = %v, want an error with the limit", err)
	}
	if _, err := Pack(t.Context(), folderStore(t), "run", filepath.Join(dir, "missing")); err == nil {
		t.Error("Pack of a folder that does not exist succeeded")
	}
}

func TestUnpackRefuses(t *testing.T) {
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: 1}
	}
	link := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	for name, entries := range map[string][]tar.Header{
		"parent":             {file("../x")},
		"absolute":           {file("/tmp/x")},
		"link to outside":    {link("l", "/etc")},
		"through a link":     {link("l", ".."), file("l/x")},
		"link to parent":     {file("a/x"), link("a/l", "../..")},
		"by two links":       {{Typeflag: tar.TypeDir, Name: "y/"}, link("d/e/x", "../../y"), link("d/e/l", "x/../..")},
		"over a link":        {file("x"), link("l", "x"), file("l")},
		"twice":              {file("x"), file("x")},
		"device":             {{Typeflag: tar.TypeChar, Name: "null"}},
		"hard link":          {{Typeflag: tar.TypeLink, Name: "l", Linkname: "/etc/passwd"}},
		"more than MaxBytes": {{Typeflag: tar.TypeReg, Name: "large", Size: MaxBytes}},
	} {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		w := tar.NewWriter(z)
		for _, h := range entries {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Size == 1 {
				w.Write([]byte("x"))
			}
		}
		w.Flush()
		z.Close()
		parent := t.TempDir()
		dir := filepath.Join(parent, "a", "b")
		create(t, parent, "a/b/")
		err := unpack(t.Context(), out.Bytes(), dir)
		if err == nil || strings.HasPrefix(name, "more") != strings.Contains(err.Error(), "256 MiB") {
			t.Errorf("unpack of an archive that is bad (%s) = %v", name, err)
		}
		for path := range list(t, parent) {
			if path != "a" && path != "a/b" && !strings.HasPrefix(path, "a/b/") {
				t.Errorf("unpack wrote %s: %s", path, name)
			}
		}
	}
	if err := unpack(t.Context(), []byte("text"), t.TempDir()); err == nil {
		t.Error("unpack of something else succeeded")
	}
}

func TestSharedIsUnpackedOnce(t *testing.T) {
	s, dir, cache := folderStore(t), t.TempDir(), t.TempDir()
	create(t, dir, "a=1", "b/c=2")
	digest, err := Pack(t.Context(), s, "run", dir)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	dirs := make([]string, 8)
	for i := range dirs {
		wg.Go(func() {
			var err error
			if dirs[i], err = Shared(t.Context(), s, digest, cache); err != nil {
				t.Error(err)
				return
			}
			if diff := cmp.Diff(list(t, dir), list(t, dirs[i])); diff != "" {
				t.Errorf("a call returned before all files were there:\n%s", diff)
			}
		})
	}
	wg.Wait()
	left, err := os.ReadDir(cache)
	if len(left) != 1 || dirs[0] != dirs[7] || err != nil {
		t.Errorf("the cache has %v, %v, want one folder", left, err)
	}
	for _, bad := range []string{"sha256:" + strings.Repeat("0", 64), "../x", ""} {
		if dir, err := Shared(t.Context(), s, bad, cache); err == nil {
			t.Errorf("Shared(%q) = %s", bad, dir)
		}
	}
	if left, _ := os.ReadDir(cache); len(left) != 1 {
		t.Errorf("failed calls left %v", left)
	}
}
