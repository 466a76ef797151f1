package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Rights of Landlock. A file that is no folder has only those of fileAccess.
const (
	readAccess   = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	deviceAccess = ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	writeAccess  = deviceAccess | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg |
		ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer
	allWrites  = writeAccess | ll.AccessFSMakeChar | ll.AccessFSMakeBlock
	fileAccess = ll.AccessFSExecute | ll.AccessFSReadFile | deviceAccess
)

// files are the paths that a process may use: nil lists are not restricted. Nothing in a
// path may be a link: one that is made after [New] is refused.
type files struct {
	Read  []string `json:"read,omitzero"`
	List  []string `json:"list,omitempty"` // folders whose names may be read
	Write []string `json:"write,omitzero"`
	// Ports are the TCP ports that may be connected to; nil is all.
	Ports []uint64 `json:"ports,omitzero"`
}

// landlockVersion is that of the kernel, 0 if it has no Landlock.
func landlockVersion() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// supported are the rights that this version of Landlock knows.
func supported(version int) (fs, net, scoped uint64) {
	if version == 0 {
		return 0, 0, 0
	}
	fs = readAccess | allWrites
	if version < 2 {
		fs &^= ll.AccessFSRefer
	}
	if version < 3 {
		fs &^= ll.AccessFSTruncate
	}
	if version < 5 {
		fs &^= ll.AccessFSIoctlDev
	}
	if version >= 4 {
		net = ll.AccessNetConnectTCP | ll.AccessNetBindTCP
	}
	if version >= 6 {
		scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	return fs, net, scoped
}

// landlock restricts the calling thread. It does nothing where the kernel has no Landlock.
func (f *files) landlock() error {
	rules, err := f.ruleset()
	if err != nil || rules == nil {
		return err
	}
	defer rules.Close()
	return enforce(rules)
}

// ruleset prepares the restriction, nil if there is none.
func (f *files) ruleset() (rules *os.File, err error) {
	attr := ll.RulesetAttr{}
	fs, net, scoped := supported(landlockVersion())
	if f.Read != nil {
		attr.HandledAccessFS |= readAccess & fs
	}
	if f.Write != nil {
		attr.HandledAccessFS |= allWrites & fs
	}
	if f.Read != nil && f.Write == nil {
		attr.HandledAccessFS |= ll.AccessFSRefer & fs // refused unless a rule permits it
	}
	if f.Ports != nil {
		attr.HandledAccessNet = net
	}
	attr.Scoped = scoped
	if attr.HandledAccessFS|attr.HandledAccessNet|attr.Scoped == 0 {
		return nil, nil
	}
	fd, err := ll.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	rules = os.NewFile(uintptr(fd), "landlock")
	for _, part := range []struct {
		paths  []string
		access uint64
	}{{f.Read, readAccess}, {f.List, ll.AccessFSReadDir}, {f.Write, writeAccess | readAccess}, {devices, deviceAccess | ll.AccessFSReadFile}} {
		for _, path := range part.paths {
			if err := permit(fd, path, part.access&attr.HandledAccessFS); err != nil {
				rules.Close()
				return nil, fmt.Errorf("landlock: %s: %w", path, err)
			}
		}
	}
	if f.Write == nil {
		if err := permit(fd, "/", ll.AccessFSRefer&attr.HandledAccessFS); err != nil {
			rules.Close()
			return nil, fmt.Errorf("landlock: %w", err)
		}
	}
	for _, port := range f.Ports {
		if err := ll.LandlockAddNetPortRule(fd, &ll.NetPortAttr{AllowedAccess: ll.AccessNetConnectTCP & net, Port: port}, 0); net != 0 && err != nil {
			rules.Close()
			return nil, fmt.Errorf("landlock: port %d: %w", port, err)
		}
	}
	return rules, nil
}

func enforce(rules *os.File) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	err := ll.LandlockRestrictSelf(int(rules.Fd()), 0)
	if errors.Is(err, unix.E2BIG) {
		err = errors.New("sandboxes are nested too deeply (16)")
	}
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// permit adds the rights for path and what is below it. A path that does not exist, or
// that has a link in it, adds none.
func permit(ruleset int, path string, access uint64) error {
	fd, err := openPath(path)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileAccess
	}
	if access == 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	return ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{AllowedAccess: access, ParentFd: fd}, 0)
}

// openPath opens a path that has no link in it, to refer to it only.
func openPath(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		if err == unix.ENOSYS { // before Linux 5.6, or a filter of the container
			fd, err = unix.Open(path, int(how.Flags), 0)
		}
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// around replaces the paths of a list that hold one of avoid by what is beside it:
// Landlock permits whole folders alone. over are the folders that were replaced.
func around(list, avoid []string) (paths, over []string) {
	for _, path := range list {
		switch {
		case slices.Contains(avoid, path):
		case !slices.ContainsFunc(avoid, func(a string) bool { return below(a, path) }):
			paths = append(paths, path)
		default:
			entries, err := os.ReadDir(path)
			if err != nil {
				continue
			}
			over = append(over, path)
			children := make([]string, 0, len(entries))
			for _, e := range entries {
				if e.Type()&os.ModeSymlink == 0 { // it needs no right of its own
					children = append(children, filepath.Join(path, e.Name()))
				}
			}
			inner, innerOver := around(children, avoid)
			paths, over = append(paths, inner...), append(over, innerOver...)
		}
	}
	return paths, over
}
