//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// start starts a guardian in a session of its own, so that what ends the terminal or
// the group of this process does not end it. The pipe holds its first notices before it
// is there. registry.starting is held.
func (w *guard) start(first []byte) (*guardian, error) {
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	defer null.Close()
	closeOnExec()
	g := &guardian{pipe: pipe, done: make(chan struct{})}
	attr := &syscall.ProcAttr{
		Dir: "/", Env: w.env, Sys: g.sysProcAttr(),
		Files: []uintptr{in.Fd(), null.Fd(), null.Fd()},
	}
	if err := g.write(first); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	offMainThread(func() {
		g.pid, err = forkWithCode(guardianCode, func() (int, error) { return g.fork(w.path, w.argv, attr) })
	})
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return g, nil
}

// endGroup ends the group of a command, if it is still its own.
func endGroup(n notice) {
	if n.PID > 0 && leads(n) {
		syscall.Kill(-n.PID, syscall.SIGKILL)
	}
}
