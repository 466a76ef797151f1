package developer

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// A Predicate says which files may be used. In JSON it is
// {"tag": TAG, "contents": …}:
//
//	FileExactly, DirectoryExactly PATH      this file or folder
//	DirectoryRecursive, ChildOf   PATH      the folder and everything below it
//	DirectoryShallow              PATH      what is in the folder, without folders below it
//	FilePattern                   PATTERN   names that the pattern fits
//	FileExtension                 [EXT, …]  names with one of these extensions
//	FileSizeLessThan              BYTES     files of at most this size
//	And, Or, Any, All             [P, …]    all of them, or at least one
//	Not                           P
//	AlwaysAllow, AlwaysDeny
type Predicate struct {
	tag   string
	text  string
	words []string
	size  int64
	list  []Predicate
}

// Everywhere allows all files.
func Everywhere() *Predicate { return &Predicate{tag: "AlwaysAllow"} }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Predicate) UnmarshalJSON(data []byte) error {
	var raw struct {
		Tag      string          `json:"tag"`
		Contents json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	var to any
	switch p.tag = raw.Tag; p.tag {
	case "AlwaysAllow", "AlwaysDeny":
		return nil
	case "FileExactly", "DirectoryExactly", "DirectoryRecursive", "ChildOf", "DirectoryShallow", "FilePattern":
		to = &p.text
	case "FileExtension":
		to = &p.words
	case "FileSizeLessThan":
		to = &p.size
	case "And", "Or", "Any", "All":
		to = &p.list
	case "Not":
		p.list = make([]Predicate, 1)
		to = &p.list[0]
	default:
		return fmt.Errorf("there is no predicate %q", raw.Tag)
	}
	if err := json.Unmarshal(raw.Contents, to); err != nil {
		return fmt.Errorf("%s: %w", p.tag, err)
	}
	if _, err := path.Match(p.text, ""); p.tag == "FilePattern" && err != nil {
		return fmt.Errorf("FilePattern %q: %w", p.text, err)
	}
	return nil
}

// allows reports whether the file at a path without symbolic links may be used.
func (p *Predicate) allows(dir, file string) bool {
	allows := func(q Predicate) bool { return q.allows(dir, file) }
	switch p.tag {
	case "AlwaysAllow":
		return true
	case "FileExactly", "DirectoryExactly":
		return file == at(dir, p.text)
	case "DirectoryRecursive", "ChildOf":
		return within(file, at(dir, p.text))
	case "DirectoryShallow":
		return filepath.Dir(file) == at(dir, p.text)
	case "FilePattern":
		ok, _ := path.Match(p.text, filepath.Base(file))
		return ok
	case "FileExtension":
		return slices.Contains(p.words, strings.TrimPrefix(filepath.Ext(file), "."))
	case "FileSizeLessThan":
		info, err := os.Lstat(file)
		return err != nil || info.Size() <= p.size // what does not exist yet is small enough
	case "Any", "Or":
		return slices.ContainsFunc(p.list, allows)
	case "All", "And":
		return !slices.ContainsFunc(p.list, func(q Predicate) bool { return !allows(q) })
	case "Not":
		return !allows(p.list[0])
	}
	return false
}

// at is where a path of a predicate leads, after symbolic links.
func at(dir, name string) string {
	file, err := resolve(dir, name)
	if err != nil {
		return "\x00" // no file has this path
	}
	return file
}

func within(file, folder string) bool {
	rest, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(rest)
}

// resolve makes a path absolute and follows its symbolic links. The last elements may
// not exist.
func resolve(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	name = filepath.Clean(name)
	rest := ""
	for {
		file, err := filepath.EvalSymlinks(name)
		if err == nil {
			return filepath.Join(file, rest), nil
		}
		if _, stat := os.Lstat(name); stat == nil || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(name) == name {
			return "", err // a link that leads nowhere, or no permission
		}
		name, rest = filepath.Dir(name), filepath.Join(filepath.Base(name), rest)
	}
}

// Files gives a tool access to the files that it may use. It is safe for concurrent use, except
// for Protect.
type Files struct {
	dir     string
	allowed *Predicate
	max     int64
	permits func(file string, write bool) bool // nil if there is no sandbox
	environ []string
	tree    []string // what decides which programs are executed
	noLinks bool     // see agent.Invocation.NoLinks
}

// OpenFiles returns the files that o permits.
func OpenFiles(o Options) *Files {
	dir, _ := filepath.Abs(o.Dir) // "" if the working directory is not known
	f := &Files{dir: dir, allowed: o.Files, max: cmp.Or(max(o.MaxFileSize, 0), defaultMaxFileSize), permits: o.Permits, environ: o.Environ}
	f.Protect(nil)
	return f
}

// For returns the files as a call gets them: where a rule has judged its path, no link that was
// made since is followed.
func (f *Files) For(inv *agent.Invocation) *Files {
	own := *f
	own.noLinks = inv.NoLinks
	return &own
}

// Protect names the files and folders that decide what is executed. Write refuses them.
func (f *Files) Protect(paths []string) {
	f.tree = strings.Split(toolenv.JoinTree(f.environ, paths), "\n")
}

// place resolves the path of a call and checks that the file may be read or written.
func (f *Files) place(name string, write bool) (string, error) {
	file, err := f.resolve(name)
	if err != nil {
		return "", err
	}
	return file, f.permit(name, file, write)
}

// resolve returns where a path leads. Where a rule has judged it, a link in it is new.
func (f *Files) resolve(name string) (string, error) {
	file, err := resolve(f.dir, name)
	if err != nil || !f.noLinks {
		return file, err
	}
	judged := filepath.Clean(name)
	if !filepath.IsAbs(name) {
		judged = filepath.Join(at(f.dir, "."), name)
	}
	if file != judged {
		return "", fmt.Errorf("%s leads elsewhere now than when a rule judged it", name)
	}
	return file, nil
}

// permit checks that a file, whose path without symbolic links is file, may be read or written.
func (f *Files) permit(name, file string, write bool) error {
	switch {
	case isSystem(file):
		return fmt.Errorf("%s is not a file on a disk, but part of the system", name)
	case !f.readable(file):
		return fmt.Errorf("%s is not one of the files that may be used here", name)
	case !write:
	case f.permits != nil && !f.permits(file, true):
		return fmt.Errorf("the sandbox does not permit to write %s", name)
	case f.decides(file):
		return fmt.Errorf("%s decides which programs are executed (an agent file, a tool, a file of git or Mercurial), and is not written", name)
	}
	return nil
}

// isSystem reports whether a path leads to processes, devices or the kernel: files there reveal
// the keys of this process and the secrets of others, so they are refused whatever a sandbox
// permits.
func isSystem(file string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(top string) bool { return within(file, top) })
}

// readable reports whether a file may be used, apart from what protects it from being
// written.
func (f *Files) readable(file string) bool {
	allowed := f.allowed != nil && f.allowed.allows(f.dir, file) || f.allowed == nil && within(file, at(f.dir, "."))
	return allowed && (f.permits == nil || f.permits(file, false))
}

// decides reports whether a file, or a folder above it, decides what is executed.
func (f *Files) decides(file string) bool {
	if filepath.Base(file) == "agents-exe.cfg.json" {
		return true
	}
	for p := file; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		base := strings.ToLower(filepath.Base(p))
		if base == ".git" || base == ".hg" || slices.ContainsFunc(f.tree, func(t string) bool {
			other, fail := os.Stat(t)
			return t == p || err == nil && fail == nil && os.SameFile(info, other)
		}) {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
	}
}

// folder opens the folder of a file that place has returned, from the root downwards and
// without following links. Folders that cannot be opened are skipped.
func (f *Files) folder(file string) (*os.Root, error) {
	name := filepath.VolumeName(file) + string(filepath.Separator)
	dir := filepath.Dir(file)
	root, err := os.OpenRoot(name)
	for name != dir {
		rest, _ := filepath.Rel(name, dir)
		part, _, _ := strings.Cut(rest, string(filepath.Separator))
		name = filepath.Join(name, part)
		if root == nil { // the one above cannot be read
			root, err = os.OpenRoot(name)
			continue
		}
		above := root
		root, err = enter(above, part)
		above.Close()
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
	}
	return root, err
}

// enter opens a folder in another one, which must not be a link.
func enter(above *os.Root, name string) (*os.Root, error) {
	info, err := above.Lstat(name)
	if err != nil {
		return nil, err
	}
	root, err := above.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		root.Close()
		return nil, fmt.Errorf("%s has changed meanwhile", name)
	}
	return root, nil
}

// makeFolder is like folder, and creates missing folders.
func (f *Files) makeFolder(file string) (*os.Root, error) {
	missing, top := "", filepath.Dir(file)
	for isMissing(exists(top)) {
		missing, top = filepath.Join(filepath.Base(top), missing), filepath.Dir(top)
	}
	if missing != "" {
		root, err := f.folder(filepath.Join(top, "a file")) // a placeholder: no such file is needed
		if err != nil {
			return nil, err
		}
		err = root.MkdirAll(missing, 0o777)
		root.Close()
		if err != nil {
			return nil, err
		}
	}
	return f.folder(file)
}

func exists(path string) error {
	_, err := os.Lstat(path)
	return err
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Read returns the content of a file. A relative name starts at the folder of the options.
func (f *Files) Read(name string) ([]byte, error) {
	file, err := f.place(name, false)
	if err != nil {
		return nil, err
	}
	root, err := f.folder(file)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(filepath.Base(file))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	if info.Size() > f.max {
		return nil, fmt.Errorf("%s has %d bytes; the largest file that can be used has %d", name, info.Size(), f.max)
	}
	in, err := root.Open(filepath.Base(file))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if opened, err := in.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, fmt.Errorf("%s has changed meanwhile", name)
	}
	content, err := io.ReadAll(io.LimitReader(in, f.max))
	if content == nil {
		content = []byte{}
	}
	return content, err
}

// Write replaces a file, or creates it with the folders above it.
func (f *Files) Write(name string, content []byte) error {
	if int64(len(content)) > f.max {
		return fmt.Errorf("%s would have %d bytes; the largest file that can be used has %d", name, len(content), f.max)
	}
	file, err := f.place(name, true)
	if err != nil {
		return err
	}
	root, err := f.makeFolder(file)
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(file)
	old, err := root.Lstat(base)
	switch {
	case err != nil:
		return replaceFile(root, base, content, nil)
	case !old.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", name)
	case old.Mode().Perm()&0o222 == 0:
		return fmt.Errorf("%s is read-only (mode %#o)", name, old.Mode().Perm())
	}
	return replaceFile(root, base, content, old)
}

// restore puts back a file of a snapshot, at a path without symbolic links. What is there
// now is replaced, and a link that is there is not followed.
func (f *Files) restore(file string, content []byte, mode fs.FileMode) error {
	if dir := filepath.Dir(file); at(dir, ".") != dir {
		return fmt.Errorf("a link is in the path of %s now", file)
	}
	if err := f.permit(file, file, true); err != nil {
		return err
	}
	root, err := f.makeFolder(file)
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(file)
	old, err := root.Lstat(base)
	if err != nil || !old.Mode().IsRegular() {
		old = nil
	}
	if err := replaceFile(root, base, content, old); err != nil {
		return err
	}
	return root.Chmod(base, mode)
}

func (f *Files) remove(name string) error {
	file, err := f.place(name, true)
	if err != nil {
		return err
	}
	root, err := f.folder(file)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Remove(filepath.Base(file))
}

// replaceFile writes a temporary file beside the file and renames it. The file has the
// permissions and the owner of the old one, if there is one. Where this process may not set the
// owner, or the old file has an access control list, replaceFile writes into the old file
// instead.
func replaceFile(root *os.Root, base string, content []byte, old fs.FileInfo) (err error) {
	if old != nil && hasList(root, base) {
		return overwrite(root, base, content, old)
	}
	temporary := "." + rand.Text() + ".tmp" // two writers use two names, and a leftover file blocks nobody
	out, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(temporary)
		}
	}()
	if old != nil {
		if err := giveTo(out, old); err != nil {
			out.Close()
			_ = root.Remove(temporary)
			return overwrite(root, base, content, old)
		}
		_ = out.Chmod(old.Mode().Perm())
	}
	_, err = out.Write(content)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return root.Rename(temporary, base)
}

// overwrite replaces the content of the file in place, if it is still the file old.
func overwrite(root *os.Root, base string, content []byte, old fs.FileInfo) error {
	out, err := root.OpenFile(base, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if opened, err := out.Stat(); err != nil || !os.SameFile(old, opened) {
		out.Close()
		return fmt.Errorf("%s has changed meanwhile", base)
	}
	_, err = out.Write(content)
	if err == nil {
		err = out.Truncate(int64(len(content)))
	}
	return errors.Join(err, out.Sync(), out.Close())
}
