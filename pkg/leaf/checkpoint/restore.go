package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
)

// Undo does what a plan says, except where something has changed since the plan was made. It
// returns what was not done, with the reasons. It is an interval of its own: Plan(0) takes it
// back.
func (s *Store) Undo(ctx context.Context, p *Plan) (stays []Item, err error) {
	s.unwatch() // nothing is overwritten that was not looked at
	if err := s.before(ctx, 0, true); err != nil {
		return nil, err
	}
	r := &restore{Store: s, opened: map[string]fs.FileMode{}, failed: map[string]bool{}}
	for _, i := range slices.Backward(p.Items) { // what is in a folder first
		if i.is != nil && (i.was == nil || i.was.Kind != i.is.Kind) {
			r.do(i, r.remove)
		}
	}
	for _, i := range p.Items { // a folder first
		if i.was != nil {
			r.do(i, r.create)
		}
	}
	for _, i := range p.Items {
		if i.was != nil && i.was.Kind == isDir && !r.failed[i.Path] {
			r.opened[i.Path] = i.was.Mode
		}
	}
	r.close()
	return r.stays, s.after(context.WithoutCancel(ctx))
}

type restore struct {
	*Store
	stays  []Item
	failed map[string]bool
	opened map[string]fs.FileMode // modes that folders get in the end
}

func (r *restore) do(i Item, step func(Item) error) {
	if r.failed[i.Path] {
		return
	}
	if err := step(i); err != nil {
		r.failed[i.Path] = true
		i.Why = reason(err)
		r.stays = append(r.stays, i)
	}
}

// reason is an error without the path, which is shown beside it.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// unchanged returns an error if a path is no longer as the plan says.
func (r *restore) unchanged(i Item, want *state) error {
	now, err := r.look(i.Path)
	if err != nil {
		return err
	}
	if mode, ok := r.opened[i.Path]; ok && now != nil {
		now.Mode = mode
	}
	if !same(now, want) {
		return errors.New("it changed in the meantime")
	}
	return nil
}

func (r *restore) remove(i Item) error {
	r.enter(i.Path)
	if err := r.unchanged(i, i.is); err != nil {
		return err
	}
	err := r.root.Remove(i.Path)
	if err == nil {
		delete(r.opened, i.Path)
	}
	return err
}

func (r *restore) create(i Item) error {
	if dir := path.Dir(i.Path); !r.enter(i.Path) {
		return fmt.Errorf("there is no folder %s", dir)
	}
	now := i.is
	if now != nil && now.Kind != i.was.Kind {
		now = nil // remove has removed it
	}
	var content []byte // read before the comparison, since that takes time
	var err error
	if i.was.Kind == isFile && !sameContent(i.was, i.is) {
		if content, err = r.content(i.was); err != nil {
			return err
		}
	}
	if err := r.unchanged(i, now); err != nil {
		return err
	}
	switch {
	case i.was.Kind == isDir && now == nil:
		return r.root.Mkdir(i.Path, 0o700) // close sets the mode
	case i.was.Kind == isDir:
		return nil
	case sameContent(i.was, i.is):
		return r.root.Chmod(i.Path, i.was.Mode)
	}
	temp := path.Join(path.Dir(i.Path), ".undo-"+rand.Text()[:10])
	if i.was.Kind == isLink {
		err = r.root.Symlink(string(i.was.Link), temp)
	} else {
		err = r.write(temp, content, i.was.Mode)
	}
	if err == nil {
		err = r.unchanged(i, now)
	}
	if err == nil {
		err = r.root.Rename(temp, i.Path)
	}
	if err != nil {
		_ = r.root.Remove(temp) // it may not exist
	}
	return err
}

func (r *restore) write(path string, content []byte, mode fs.FileMode) error {
	f, err := r.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// enter makes the folder of a path writable until the end. false means that there is none.
func (r *restore) enter(p string) bool {
	dir := path.Dir(p)
	info, err := r.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	if info.Mode().Perm()&0o300 != 0o300 {
		if _, ok := r.opened[dir]; !ok {
			r.opened[dir] = info.Mode() & modeBits
		}
		_ = r.root.Chmod(dir, info.Mode()&modeBits|0o700) // what needs it fails
	}
	return true
}

// close gives folders their modes.
func (r *restore) close() {
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(r.opened))) { // an outer one may close an inner one
		mode := r.opened[dir]
		if info, err := r.root.Lstat(dir); err == nil && info.IsDir() && info.Mode()&modeBits != mode {
			if err := r.root.Chmod(dir, mode); err != nil {
				r.stays = append(r.stays, Item{Path: dir, Why: reason(err)})
			}
		}
	}
}
