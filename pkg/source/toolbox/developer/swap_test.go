package developer_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
)

// TestALinkThatIsSwappedInLeadsNowhere: a folder that becomes a link between the check and the use
// gives access to no file elsewhere.
func TestALinkThatIsSwappedInLeadsNowhere(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	work, folder, aside := filepath.Join(dir, "work"), filepath.Join(dir, "work", "s"), filepath.Join(dir, "aside")
	for _, err := range []error{os.MkdirAll(folder, 0o777), os.WriteFile(filepath.Join(folder, "f"), []byte("mine"), 0o666), os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() { // what fails does so because Write has made the folder
			_ = os.Rename(folder, aside)
			_ = os.Symlink(outside, folder)
			_ = os.RemoveAll(folder)
			_ = os.Rename(aside, folder)
		}
	}()
	files := developer.OpenFiles(developer.Options{Dir: work})
	for i := range 1000 {
		if content, _ := files.Read("s/f"); string(content) == "secret" {
			t.Error("a file outside was read")
			break
		}
		if i%20 == 0 {
			_ = files.Write("s/f", []byte("mine")) // fails while the link is there
		}
	}
	over.Store(true)
	<-ended
	if content, err := os.ReadFile(filepath.Join(outside, "f")); string(content) != "secret" {
		t.Errorf("the file outside has %q, %v", content, err)
	}
	if left, err := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("outside are %v, %v", left, err)
	}
}
