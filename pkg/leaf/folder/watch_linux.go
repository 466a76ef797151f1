package folder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Watch knows which of a number of folders changed, without looking at them.
type Watch struct {
	fd     int
	mu     sync.Mutex
	dirs   map[int32]string // by watch descriptor
	device uint64           // of all folders
	max    int
	failed bool
}

// NewWatch returns a Watch of folders in the file system of d; nil if it cannot be relied on there:
// a file system that other machines write to does not report it.
func NewWatch(d Dir) *Watch {
	var fs unix.Statfs_t
	if unix.Fstatfs(d.fd, &fs) != nil {
		return nil
	}
	switch int64(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
	default:
		return nil
	}
	text, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	limit, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	return &Watch{fd: fd, dirs: map[int32]string{}, max: limit / 4} // other programs of the user need some
}

// Add watches a folder from now on. name is what Take calls it.
func (w *Watch) Add(d Dir, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var st unix.Stat_t
	if w.failed = w.failed || len(w.dirs) >= w.max || unix.Fstat(d.fd, &st) != nil; w.failed {
		return
	}
	device := uint64(st.Dev) //nolint:unconvert // its type differs between systems
	if w.device == 0 {
		w.device = device
	}
	wd, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", d.fd), unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_ATTRIB|
		unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR)
	if w.failed = err != nil || device != w.device; !w.failed {
		w.dirs[int32(wd)] = name
	}
}

// Take returns the folders in which something changed since the last Take, and the folders in them
// that are new or gone, or whose mode changed. ok is false if that is not known; then the Watch is
// of no more use.
func (w *Watch) Take() (dirs, below map[string]bool, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirs, below = map[string]bool{}, map[string]bool{}
	buf := make([]byte, 64<<10)
	for !w.failed {
		n, err := unix.Read(w.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return dirs, below, true
		}
		if err != nil || n <= 0 {
			break
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent && !w.failed; {
			wd, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
			rest = rest[end:]
			dir, known := w.dirs[wd]
			switch {
			case mask&(unix.IN_Q_OVERFLOW|unix.IN_UNMOUNT) != 0 || mask&unix.IN_MOVE_SELF != 0 && dir == "":
				w.failed = true
			case !known:
			case mask&unix.IN_IGNORED != 0:
				delete(w.dirs, wd)
			case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) == 0: // the folder above has an event too
				if dirs[dir] = true; mask&unix.IN_ISDIR != 0 && name != "" {
					below[dir+name] = true
				}
			}
		}
	}
	return nil, nil, false
}

// Close ends the watch.
func (w *Watch) Close() error { return unix.Close(w.fd) }
