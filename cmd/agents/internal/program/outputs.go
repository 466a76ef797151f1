package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits of the folder with outputs of tools that were cut for the model.
const (
	outputShelf = 30 * 24 * time.Hour
	maxOutputs  = 2 << 30 // bytes
	// freshOutput is the age below which a file always stays: a model may be
	// about to read it.
	freshOutput = time.Hour
	// coarseTime is how far the timestamps of a file system may lag behind the
	// clock.
	coarseTime = 2 * time.Second
)

// OutputDir is the folder for the full output of calls that was cut for the model; "" is
// the system's folder for temporary files.
func (p *Env) OutputDir() string {
	return in(p.CacheDir(), "outputs")
}

// SweepOutputs removes files from the folder if it has changed since this program
// started: those older than outputShelf, and the oldest while there are more than
// maxOutputs bytes. Errors are ignored.
func SweepOutputs(dir string, started, now time.Time) {
	if info, err := os.Stat(dir); err != nil || info.ModTime().Before(started.Add(-coarseTime)) {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var files []os.FileInfo
	total := int64(0)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".stdout", ".stderr", ".txt":
		default:
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortStableFunc(files, func(a, b os.FileInfo) int {
		if c := a.ModTime().Compare(b.ModTime()); c != 0 {
			return c
		}
		return strings.Compare(a.Name(), b.Name())
	})
	for _, f := range files {
		age := now.Sub(f.ModTime())
		if age < freshOutput || age < outputShelf && total <= maxOutputs {
			return
		}
		if os.Remove(filepath.Join(dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}
