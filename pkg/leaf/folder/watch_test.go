package folder

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWatchGivesUp: a Watch says that it knows nothing when events were lost.
func TestWatchGivesUp(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w := NewWatch(d)
	if w == nil {
		t.Skip("this system does not report changes of folders")
	}
	defer w.Close()
	w.Add(d, "")
	name := filepath.Join(dir, "a")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if dirs, _, ok := w.Take(); !ok || len(dirs) != 1 || !dirs[""] {
		t.Errorf("Take() = %v, %v", dirs, ok)
	}
	if dirs, _, ok := w.Take(); !ok || len(dirs) != 0 {
		t.Errorf("nothing happened, and Take() = %v, %v", dirs, ok)
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := w.Take(); ok {
		t.Error("the folder moved, and Take() is sure")
	}
	if _, _, ok := w.Take(); ok {
		t.Error("Take() is sure again")
	}
}
