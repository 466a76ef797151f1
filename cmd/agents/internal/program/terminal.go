package program

import (
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// EnvRecord tells the `agents` that a tool runs where the record is kept to which it
// belongs.
const EnvRecord = "AGENTS_RECORD"

// LockTerminal is the lock that tools declare which talk to the person at the
// terminal.
const LockTerminal = "terminal"

// EnvTerminal names the terminal at which a person sits, for tools that ask
// something. Tools run in sessions of their own and cannot open /dev/tty.
const EnvTerminal = "AGENTS_TTY"

// ToolEnviron is the environment that tools are given a part of: that of this
// process, the terminal if there is one, and the record if one is made.
func (p *Env) ToolEnviron(record string) []string {
	environ := slices.Clip(p.Environ)
	if record != "" {
		environ = append(environ, EnvRecord+"="+record)
	}
	if !p.InTerm || !p.ErrTerm || p.Getenv(EnvTerminal) != "" {
		return environ
	}
	name := TerminalName(os.Stdin)
	if name == "" {
		return environ
	}
	return append(environ, EnvTerminal+"="+name)
}

// TerminalName is the path of a pseudo-terminal, "" for anything else. It is
// found by its number: /proc/self is closed to us (see process.HideEnviron).
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

// HideTyping makes a terminal show nothing of what is typed from now on, until
// show is called. It comes before the question: the answer may be pasted at once.
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

// InputReady reports whether standard input has data that can be read without
// waiting: what a pipe holds, or what follows in a file. A device has none.
func (p *Env) InputReady() bool {
	f, ok := p.In.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return false
	case info.Mode().IsRegular():
		at, err := f.Seek(0, io.SeekCurrent)
		return err == nil && at < info.Size()
	case info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0:
		return false
	}
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}
