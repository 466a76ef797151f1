package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The file is on disk before it has its name, and its name before Write returns.
func TestWriteSyncsTheFileAndItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "file")
	var synced []string
	sync := func(f *os.File) error {
		name := f.Name()
		if name != dir {
			name = "file"
			if _, err := os.Stat(path); err == nil {
				t.Error("the file has its name before it is on disk")
			}
		}
		synced = append(synced, name)
		return nil
	}
	if err := write(path, []byte("text"), sync); err != nil || !slices.Equal(synced, []string{"file", dir}) {
		t.Errorf("write: %v, synced %q", err, synced)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
}

func TestWriteThatFailsKeepsWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	if err := write(path, []byte("new"), func(*os.File) error { return full }); !errors.Is(err, full) {
		t.Errorf("write: %v", err)
	}
	text, _ := os.ReadFile(path)
	left, _ := os.ReadDir(filepath.Dir(path))
	if string(text) != "old" || len(left) != 1 {
		t.Errorf("the file has %q, its folder %v", text, left)
	}
}
