//go:build unix

package program

import (
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
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	device, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	const firstMajor, lastMajor = 136, 143 // of Linux's pseudo-terminals
	major, minor := unix.Major(uint64(device.Rdev)), unix.Minor(uint64(device.Rdev))
	if major < firstMajor || major > lastMajor {
		return ""
	}
	path := fmt.Sprintf("/dev/pts/%d", (major-firstMajor)*256+minor)
	if found, err := os.Stat(path); err != nil || !os.SameFile(info, found) {
		return ""
	}
	return path
}

// HideTyping turns the echo of a terminal off until show is called. Call it before the
// question is printed, because the answer may be pasted at once.
func HideTyping(fd int) (show func(), err error) {
	state, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	hidden := *state
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, &hidden); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, state) }, nil
}

// readable reports whether a pipe or a socket has data.
func readable(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}

// RawTyping makes a terminal send each key, also those of signals, without echo, until
// restore is called. Output is as before.
func RawTyping(fd int) (restore func(), err error) {
	state, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	raw := *state
	raw.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &raw); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, state) }, nil
}
