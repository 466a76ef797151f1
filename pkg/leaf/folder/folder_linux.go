package folder

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenFlags keep a link or a pipe, put in place of a file, from being followed or waited for.
const OpenFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// A Dir is an open folder.
type Dir struct{ fd int }

type entry struct{ dir int }

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// Open opens the folder at a path, which may be a link.
func Open(path string) (Dir, error) { return open(unix.AT_FDCWD, path, dirFlags) }

// Open opens a folder in d. It does not follow links.
func (d Dir) Open(name string) (Dir, error) { return open(d.fd, name, dirFlags|unix.O_NOFOLLOW) }

// OpenRoot opens the folder of root.
func OpenRoot(root *os.Root) (Dir, error) {
	f, err := root.Open(".")
	if err != nil {
		return Dir{}, err
	}
	defer f.Close()
	return open(int(f.Fd()), ".", dirFlags)
}

func open(at int, path string, flags int) (Dir, error) {
	for {
		fd, err := unix.Openat(at, path, flags, 0)
		if err == nil {
			return Dir{fd}, nil
		}
		if err != unix.EINTR {
			return Dir{}, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// Close closes d.
func (d Dir) Close() { unix.Close(d.fd) }

// List calls each for everything in d, in the order of the file system, until it returns false.
func (d Dir) List(each func(Entry) bool) error {
	const header = 19 // inode 8, offset 8, length 2, type 1
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Getdents(d.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > header; {
			length := min(int(binary.NativeEndian.Uint16(rest[16:])), len(rest))
			kind, name := rest[18], rest[header:length]
			rest = rest[length:]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			if s := string(name); s != "." && s != ".." && !each(d.entry(s, kind)) {
				return nil
			}
		}
	}
}

func (d Dir) entry(name string, kind byte) Entry {
	e := Entry{Name: name, IsDir: kind == unix.DT_DIR, entry: entry{d.fd}}
	if kind == unix.DT_UNKNOWN { // some file systems do not tell
		s, err := e.Stat()
		e.IsDir = err == nil && s.Mode.IsDir()
	}
	return e
}

// Stat returns the metadata of e, of a link itself. It is valid while List runs.
func (e Entry) Stat() (Stat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(e.dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Stat{}, &fs.PathError{Op: "lstat", Path: e.Name, Err: err}
	}
	return Stat{mode(st.Mode), st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino, uint64(st.Nlink)}, nil
}

// Of returns the metadata in an fs.FileInfo of package os.
func Of(info fs.FileInfo) Stat {
	t := info.ModTime().UnixNano()
	s := Stat{Mode: info.Mode(), Size: info.Size(), MTime: t, CTime: t}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.CTime, s.Inode, s.Links = sys.Ctim.Nano(), sys.Ino, uint64(sys.Nlink)
	}
	return s
}

func mode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
