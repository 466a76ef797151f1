//go:build unix

package program

import (
	"cmp"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Writable is nil if this process may make files in the folder dir.
func Writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

// TerminalName is the path of a pseudo-terminal, "" for anything else. The path comes
// from the device number, because /proc/self is not readable (see process.HideEnviron).
func TerminalName(f *os.File) string {
	if device, ok := deviceOf(f.Stat()); ok {
		return pseudoTerminal(device)
	}
	return ""
}

// pseudoTerminal returns the path of the pseudo-terminal with a device number of Linux, ""
// if it is not to be seen here.
func pseudoTerminal(device uint64) string {
	const firstMajor, lastMajor = 136, 143
	major, minor := unix.Major(device), unix.Minor(device)
	if major < firstMajor || major > lastMajor {
		return ""
	}
	path := fmt.Sprintf("/dev/pts/%d", (major-firstMajor)*256+minor)
	if found, ok := deviceOf(os.Stat(path)); !ok || found != device {
		return ""
	}
	return path
}

func deviceOf(info os.FileInfo, err error) (device uint64, ok bool) {
	if err != nil {
		return 0, false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(s.Rdev), true
}

// controllingTerminal returns the path of this process's controlling terminal, "" if there is
// none.
func controllingTerminal() string {
	f, err := os.OpenFile(ownTerminal, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if device, err := terminalDevice(f); err == nil {
		return cmp.Or(pseudoTerminal(device), ownTerminal)
	}
	return ownTerminal
}

// HideTyping turns the echo of a terminal off until show is called. Call it before the
// question is printed, because the answer may be pasted at once.
func HideTyping(fd int) (show func(), err error) {
	return changeTyping(fd, func(t *unix.Termios) { t.Lflag &^= unix.ECHO })
}

// readable reports whether a pipe or a socket has data.
func readable(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}

// KeyTyping makes a terminal send each key at once and show none, until restore is called.
// Keys of signals keep their effect.
func KeyTyping(fd int) (restore func(), err error) {
	return changeTyping(fd, func(t *unix.Termios) {
		t.Lflag &^= unix.ICANON | unix.ECHO
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	})
}

// changeTyping changes how a terminal reads the keyboard, until restore is called.
func changeTyping(fd int, change func(*unix.Termios)) (restore func(), err error) {
	state, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	changed := *state
	change(&changed)
	if err := unix.IoctlSetTermios(fd, setTermios, &changed); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, state) }, nil
}
