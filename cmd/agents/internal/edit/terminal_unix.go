//go:build unix

package edit

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"golang.org/x/sys/unix"
)

// Supported says that Open can succeed.
const Supported = true

// A Terminal sends keys as they are typed.
type Terminal struct {
	in      *os.File
	restore func()
	wake    *os.File // closed to end the reading
	done    chan struct{}

	// Keys has what was typed. It is closed when the terminal is gone.
	Keys chan []byte
	// Resized has a value when the size of the terminal has changed.
	Resized chan os.Signal
}

// Open starts reading keys. Close ends it.
func Open(in *os.File) (*Terminal, error) {
	t := &Terminal{in: in, Keys: make(chan []byte), Resized: make(chan os.Signal, 1)}
	if err := t.Resume(); err != nil {
		return nil, err
	}
	signal.Notify(t.Resized, syscall.SIGWINCH)
	return t, nil
}

const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

func (t *Terminal) Resume() error {
	restore, err := program.RawTyping(int(t.in.Fd()))
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		restore()
		return err
	}
	_, _ = os.Stdout.WriteString(pasteOn)
	t.restore, t.wake, t.done = restore, w, make(chan struct{})
	go t.read(r, t.done)
	return nil
}

// Pause gives the terminal to another program. What is typed from now on is its.
func (t *Terminal) Pause() {
	if t.wake == nil {
		return
	}
	t.wake.Close()
	t.wake = nil
	for {
		select {
		case <-t.Keys: // typed before
			continue
		case <-t.done:
		}
		break
	}
	_, _ = os.Stdout.WriteString(pasteOff)
	t.restore()
}

func (t *Terminal) Close() {
	t.Pause()
	signal.Stop(t.Resized)
}

// Stop suspends this process, as Ctrl-Z does, until the shell continues it.
func (t *Terminal) Stop() error {
	t.Pause()
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	return t.Resume()
}

// read sends what is typed until wake is closed or the terminal is gone.
func (t *Terminal) read(wake *os.File, done chan<- struct{}) {
	defer close(done)
	defer wake.Close()
	fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || fds[0].Revents&(unix.POLLIN|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) == 0 && fds[1].Revents == 0:
			continue
		case fds[1].Revents != 0:
			return
		}
		buf := make([]byte, 4096)
		n, err := unix.Read(int(t.in.Fd()), buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if n <= 0 || err != nil {
			close(t.Keys)
			return
		}
		t.Keys <- buf[:n]
	}
}
