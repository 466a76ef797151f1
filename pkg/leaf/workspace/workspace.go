package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// Worktree is the kind of a workspace.
const Worktree = "worktree"

// Folder is where workspaces are, in the working tree.
var Folder = filepath.Join(".agents", "worktrees")

// Options say what a workspace is for.
type Options struct {
	// Kind is Worktree, also if it is empty, or Copy.
	Kind string
	// Key is that of the call, and Agent the slug of the agent that works in it.
	Key, Agent string
	// Bring are files and folders to copy from the caller's working tree, relative to it,
	// although Git ignores them. Those that do not exist are left out.
	Bring []string
}

// A Work is one workspace.
type Work struct {
	Name    string    `json:"-"`
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Agent   string    `json:"agent"`
	Base    string    `json:"base,omitempty"` // the commit that it began with
	Bring   []string  `json:"bring,omitempty"`
	Created time.Time `json:"created"`
	// Ready is set once an agent can work in it, Ended once its call has ended.
	Ready bool `json:"ready"`
	Ended bool `json:"ended"`

	top  string // what Folder is in
	repo *repo
}

// Path is the folder of w.
func (w *Work) Path() string { return filepath.Join(w.top, Folder, w.Name) }

// Branch is the branch of w.
func (w *Work) Branch() string { return "agents/" + w.Name + "/work" }

// admin is the folder in which Git keeps what it knows of a worktree.
func (w *Work) admin() string { return filepath.Join(w.repo.common, "worktrees", w.Name) }

// Dir is the folder of w that corresponds to dir, a folder of the place that it was made for. It
// is created if it has nothing that Git knows.
func (w *Work) Dir(dir string) (string, error) {
	rel, err := filepath.Rel(w.top, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is not in %s", dir, w.top)
	}
	root, err := os.OpenRoot(w.Path())
	if err != nil {
		return "", err
	}
	defer root.Close()
	return filepath.Join(w.Path(), rel), root.MkdirAll(rel, 0o755)
}

// Writable are the files and folders that must be writable to work in w and to commit there. They
// have nothing that decides what Git executes.
func (w *Work) Writable() []string {
	branch := filepath.FromSlash("heads/" + strings.TrimSuffix(w.Branch(), "/work"))
	if w.Kind == Copy {
		return []string{w.Path()}
	}
	return []string{w.Path(), w.admin(), filepath.Join(w.repo.common, "objects"), filepath.Join(w.repo.common, "refs", branch), filepath.Join(w.repo.common, "logs", "refs", branch)}
}

// Open makes the workspace of a call, or returns the one that was made for it before.
func Open(ctx context.Context, p Place, o Options) (*Work, error) {
	w := &Work{Name: nameOf(o.Key), Kind: cmp.Or(o.Kind, Worktree), Key: o.Key, Agent: o.Agent, Bring: o.Bring, Created: time.Now().UTC()}
	if !plain(w.Name) {
		return nil, fmt.Errorf("the call %.100q cannot name a workspace", o.Key)
	}
	r, err := p.home(ctx, w.Kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Dir, err)
	}
	w.repo, w.top = r, r.top
	if err := w.makeFolder(); err != nil {
		return nil, err
	}
	if before, err := read(w.note(), w.top, w.repo); err == nil && before.Ready {
		return before, nil
	} else if err == nil {
		w = before // its process ended before anybody worked in it
		if err := w.discard(ctx); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return w, w.make(ctx)
}

// Find returns the workspace of a call in which an agent has worked.
func Find(ctx context.Context, p Place, key string) (*Work, error) {
	r, err := p.found(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Dir, err)
	}
	w := &Work{Name: nameOf(key), top: r.top}
	if !plain(w.Name) {
		return nil, fmt.Errorf("the call %.100q cannot name a workspace", key)
	}
	if w, err = read(w.note(), r.top, r); err == nil && !w.Ready {
		err = fs.ErrNotExist
	}
	return w, err
}

// nameOf returns the name of the workspace of a call.
func nameOf(key string) string { return strings.ReplaceAll(key, ".", "-") }

func (w *Work) note() string { return w.Path() + ".json" }

// makeFolder makes what workspaces are in. Git ignores it.
func (w *Work) makeFolder() error {
	dir := w.top
	for _, name := range strings.Split(Folder, string(filepath.Separator)) {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir) // a link leads where others may write
		}
	}
	const all = "*\n"
	path := filepath.Join(dir, ".gitignore")
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(all)) {
		return nil
	}
	_ = os.Remove(path) // an agent may have made a link to another file
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil // another call has made it
	} else if err != nil {
		return err
	}
	_, err = f.WriteString(all)
	return errors.Join(err, f.Close())
}

// tidyTime is how long a call that has failed waits until what was made for it can be removed:
// another call may hold the lock for as long as it downloads files.
const tidyTime = 5 * time.Second

// make writes the note, makes the folder, and says in the note that it is ready.
func (w *Work) make(ctx context.Context) (err error) {
	if w.Kind == Copy {
		w.Bring = nil // everything is copied
	} else if w.Base = w.repo.commit(ctx, "HEAD"); w.Base == "" {
		return fmt.Errorf("the repository %s has no commit", w.top)
	}
	if err := w.save(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
			defer stop()
			if w.discard(ctx) == nil { // else List finds it
				_ = os.Remove(w.note())
			}
		}
	}()
	if w.Kind == Copy {
		err = w.fill(ctx)
	} else if err = w.add(ctx); err == nil {
		for _, dir := range w.Writable()[1:] { // packed references have no folder
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		err = w.bring()
	}
	if err != nil {
		return err
	}
	w.Ready = true
	return w.save()
}

// add makes the worktree and its branch.
func (w *Work) add(ctx context.Context) error {
	release, err := w.repo.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = w.repo.git(ctx, nil, "worktree", "add", "--quiet", "--no-track", "-b", w.Branch(), w.Path(), w.Base)
	return err
}

// bring copies files that the call needs and Git does not have.
func (w *Work) bring() error {
	for _, name := range w.Bring {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("bring %s: it is not below the working tree", name)
		}
		err := copyTree(w.top, name, w.Path(), nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bring %s: %w", name, err)
		}
	}
	return nil
}

// End notes that the call has ended.
func (w *Work) End() error {
	w.Ended = true
	return w.save()
}

// save writes the note, whole.
func (w *Work) save() error {
	text, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(w.note(), append(text, '\n'))
}

// read reads a note. Its name decides which folder and branch it is about.
func read(note, top string, r *repo) (*Work, error) {
	text, err := os.ReadFile(note)
	if err != nil {
		return nil, err
	}
	w := &Work{}
	if err := json.Unmarshal(text, w); err != nil {
		return nil, fmt.Errorf("%s: %w", note, err)
	}
	w.Name, w.top, w.repo = strings.TrimSuffix(filepath.Base(note), ".json"), top, r
	if !plain(w.Name) || w.Kind != Copy && (w.Kind != Worktree || !plain(w.Base)) {
		return nil, fmt.Errorf("%s is not the note of a workspace", note)
	}
	return w, nil
}

// plain reports whether a name is safe in file names, references and arguments.
func plain(name string) bool {
	return name != "" && len(name) <= 100 && name[0] != '-' && !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

// List returns the workspaces of the repository of p, and those in them,
// sorted by age.
func List(ctx context.Context, p Place) ([]*Work, error) {
	r, err := p.found(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Dir, err)
	}
	tops := []string{r.top}
	var found []*Work
	var errs []error
	for len(tops) > 0 {
		top := tops[0]
		tops = tops[1:]
		notes, _ := filepath.Glob(filepath.Join(globQuoted(top), Folder, "*.json")) // the pattern is valid
		for _, note := range notes {
			own := *r
			own.top = top
			w, err := read(note, top, &own)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			found = append(found, w)
			if info, err := os.Lstat(w.Path()); err == nil && info.IsDir() {
				tops = append(tops, w.Path())
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *Work) int { return a.Created.Compare(b.Created) })
	return found, errors.Join(errs...)
}

func globQuoted(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
