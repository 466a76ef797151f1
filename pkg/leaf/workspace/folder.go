package workspace

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// Copy is the kind of a workspace that is a copy of a folder.
const Copy = "copy"

// What a folder may have that is copied.
const (
	maxCopyFiles = 100_000
	maxCopyBytes = 4 << 30
)

// A meta is what a file was like when it was copied.
type meta struct {
	Mode fs.FileMode `json:"mode"`
	Size int64       `json:"size"`
	Time time.Time   `json:"time"`
	Link string      `json:"link,omitempty"`
}

// metaOf returns the meta of the entry at path; false if there is none.
func metaOf(path string) (meta, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return meta{}, false
	}
	m := meta{Mode: info.Mode() & (fs.ModeType | fs.ModePerm), Size: info.Size(), Time: info.ModTime().UTC()}
	if m.Mode&fs.ModeSymlink != 0 {
		m.Link, _ = os.Readlink(path)
		m.Size, m.Time = 0, time.Time{} // a copy has others
	}
	return m, true
}

// manifest is the file that says what was copied. No agent can write it.
func (w *Work) manifest() string { return w.Path() + ".files" }

func (w *Work) saveManifest(files map[string]meta) error {
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	return wholefile.Write(w.manifest(), text)
}

// fill copies the folder, without what Git keeps there.
func (w *Work) fill(ctx context.Context) error {
	files, bytes := map[string]meta{}, int64(0)
	if err := os.Mkdir(w.Path(), 0o755); err != nil {
		return err
	}
	err := copyTree(w.top, ".", w.Path(), func(path string, info fs.FileInfo) (bool, error) {
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case info.Name() == ".git":
			return false, nil
		case info.IsDir() || !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
			return true, nil
		}
		files[path], _ = metaOf(filepath.Join(w.top, path))
		if bytes += info.Size(); len(files) > maxCopyFiles || bytes > maxCopyBytes {
			return false, fmt.Errorf("%s has more than %d files or %d GiB, the limits of a copy", w.top, maxCopyFiles, maxCopyBytes>>30)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return w.saveManifest(files)
}

// A change is a file that differs between a copy and its folder, because its agent changed it.
type change struct {
	path, kind string
	both       bool // the folder's has changed too
}

const removed = "removed"

// changes lists what the agent of a copy changed and is not merged, sorted, and what was copied.
func (w *Work) changes() (list []change, files map[string]meta, err error) {
	text, err := os.ReadFile(w.manifest())
	if err == nil {
		err = json.Unmarshal(text, &files)
	}
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(w.Path())
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	seen := map[string]bool{}
	err = walk(root, ".", func(path string, info fs.FileInfo) error {
		switch {
		case info.IsDir() && info.Name() == ".git":
			return fs.SkipDir
		case info.IsDir() || info.Name() == ".git" || !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
			return nil
		}
		seen[path] = true
		own, theirs := filepath.Join(w.Path(), path), filepath.Join(w.top, path)
		if same(theirs, own) {
			return nil
		}
		was, known := files[path]
		there, exists := metaOf(theirs)
		c := change{path: path, kind: "created", both: exists != known || exists && there != was}
		if known {
			c.kind = "changed"
		}
		if here, _ := metaOf(own); !known || !c.both || here != was {
			list = append(list, c)
		}
		return nil
	})
	for path, was := range files {
		if there, exists := metaOf(filepath.Join(w.top, path)); !seen[path] && exists {
			list = append(list, change{path, removed, there != was})
		}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return list, files, err
}

func (w *Work) copyFacts() (f Facts, err error) {
	list, _, err := w.changes()
	counts := map[string]int{}
	for _, c := range list {
		counts[c.kind]++
		text := c.kind + " " + c.path
		if info, err := os.Lstat(filepath.Join(w.Path(), c.path)); err == nil && c.kind != removed {
			text += fmt.Sprintf(" (%d bytes)", info.Size())
		}
		f.Uncommitted = append(f.Uncommitted, text)
	}
	if len(list) > 0 {
		f.Stat = fmt.Sprintf("files: %d created, %d changed, %d removed", counts["created"], counts["changed"], counts[removed])
	}
	return f, err
}

func (w *Work) copyDiff(ctx context.Context) (text string, err error) {
	list, _, err := w.changes()
	for _, c := range list {
		own, theirs := filepath.Join(Folder, w.Name, c.path), c.path
		if c.kind == removed {
			own = os.DevNull
		} else if _, exists := metaOf(filepath.Join(w.top, theirs)); !exists {
			theirs = os.DevNull
		}
		out, err := w.repo.in(w.top, ctx, nil, "diff", "--no-index", "--no-ext-diff", "--no-textconv", "--", theirs, own)
		if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: they differ
			return text, err
		}
		text += out
	}
	return text, err
}

// copyMerge copies what changed to the folder, unless files have changed there too.
func (w *Work) copyMerge(ctx context.Context) (string, error) {
	release, err := filelock.Acquire(ctx, filepath.Join(w.top, Folder, w.Name+".lock"))
	if err != nil {
		return "", err
	}
	defer release()
	list, files, err := w.changes()
	if err != nil {
		return "", err
	}
	var conflicts []string
	for _, c := range list {
		if c.both {
			conflicts = append(conflicts, c.path)
		}
	}
	if len(conflicts) > 0 {
		return "", fmt.Errorf("conflicts in %s: nothing was merged", strings.Join(conflicts, ", "))
	}
	from, err := os.OpenRoot(w.Path())
	if err != nil {
		return "", err
	}
	defer from.Close()
	into, err := os.OpenRoot(w.top)
	if err != nil {
		return "", err
	}
	defer into.Close()
	slices.SortStableFunc(list, func(a, b change) int { // a file may be where a folder was
		return map[bool]int{true: 0, false: 1}[a.kind == removed] - map[bool]int{true: 0, false: 1}[b.kind == removed]
	})
	w.removeParts(into)
	text := ""
	for _, c := range list {
		if err := w.replace(from, into, c); err != nil {
			return text, fmt.Errorf("merge %s: %w", c.path, err)
		}
		text += c.kind + " " + c.path + "\n"
		if delete(files, c.path); c.kind != removed {
			files[c.path], _ = metaOf(filepath.Join(w.top, c.path))
		}
	}
	return text, w.saveManifest(files)
}

// replace makes the file of a change in the other folder what it is in this one.
func (w *Work) replace(from, into *os.Root, c change) error {
	if c.kind == removed {
		return into.Remove(c.path)
	}
	info, err := from.Lstat(c.path)
	if err != nil {
		return err
	}
	part := w.part(c.path)
	if err = copyEntry(from, into, c.path, part, info); err == nil {
		err = into.Rename(part, c.path)
	}
	if err != nil {
		_ = into.Remove(part) // it may not exist
	}
	return err
}

// partPrefix begins the names of files that a merge of w writes. The name of a call is random.
func (w *Work) partPrefix() string { return ".agents-part-" + w.Name + "-" }

// part returns the name of a new file, which is to replace the one at path.
func (w *Work) part(path string) string {
	return filepath.Join(filepath.Dir(path), w.partPrefix()+rand.Text())
}

// removeParts removes what a merge that was killed has left. What cannot be removed stays: no merge
// uses its name again.
func (w *Work) removeParts(into *os.Root) {
	prefix := w.partPrefix()
	_ = fs.WalkDir(into.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // nothing was merged into a folder that cannot be read
		case d.IsDir() && (d.Name() == ".git" || path == filepath.ToSlash(Folder)):
			return fs.SkipDir
		case !d.IsDir() && strings.HasPrefix(d.Name(), prefix) && len(d.Name()) == len(prefix)+len(rand.Text()): // not S-1-1-1-1 for S-1-1
			_ = into.Remove(filepath.FromSlash(path))
		}
		return nil
	})
}
