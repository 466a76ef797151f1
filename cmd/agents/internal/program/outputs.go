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
	// freshOutput is the age up to which a file stays in any case: a model may
	// be about to read it.
	freshOutput = time.Hour
	// coarseTime is how far the time of a change in a file system may lie
	// before that of the clock.
	coarseTime = 2 * time.Second
)

// OutputDir takes the whole of outputs that were cut for the model; "" is the
// system's folder for temporary files.
func (p *Env) OutputDir() string {
	dir := p.CacheDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "outputs")
}

// SweepOutputs removes old files of the folder if anything was put there since
// this program started: those beyond outputShelf, and the oldest of more than
// maxOutputs. What cannot be removed stays.
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
	slices.SortFunc(files, func(a, b os.FileInfo) int {
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
