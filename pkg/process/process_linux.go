package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process the parent of every orphan among its
// descendants, so that Run and Process find and end them all. It belongs into a
// main program that starts its children through this package. Children that it
// starts otherwise are left alone as long as they stay in its own session; one
// that starts a session of its own (SysProcAttr.Setsid) is taken for a
// leftover, ended and reaped. It cannot be undone. Other systems than Linux
// return errors.ErrUnsupported.
func BecomeSubreaper() error {
	if err := checkProc(); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.children == nil {
		// Orphans go to the oldest thread that lives, which in Go is always
		// the main one. A kernel without the file makes us scan /proc.
		pid := strconv.Itoa(os.Getpid())
		all.children, _ = os.Open("/proc/self/task/" + pid + "/children")
	}
	all.subreaper.Store(true)
	return nil
}

// HideEnviron keeps other processes of the same user, tools above all, from
// reading the environment and memory of this one through /proc and ptrace. It
// also turns core dumps off. It belongs into a main program. Other systems than
// Linux return errors.ErrUnsupported.
func HideEnviron() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide environment: %w", err)
	}
	return nil
}

// checkProc reports why the process numbers in /proc are not ours, if so.
func checkProc() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return err
	}
	if self != strconv.Itoa(os.Getpid()) {
		return errors.New("/proc belongs to another PID namespace")
	}
	return nil
}

// A handle is what a child is waited for with.
type handle struct {
	pidfd int // -1 where there is none
}

// sysProcAttr asks for a session of its own, which is a process group too, and
// for a descriptor of the process.
func (h *handle) sysProcAttr() *syscall.SysProcAttr {
	h.pidfd = -1
	return &syscall.SysProcAttr{Setsid: true, PidFD: &h.pidfd}
}

// closeOnExec marks every descriptor above 2 so that a program does not get it.
// Those that Go opens are marked already; those that this process inherited, or
// that C code opened, are not.
func closeOnExec() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		closeOnExecEach() // before Linux 5.11
	}
}

// closeOnExecEach is closeOnExec for the small numbers that inherited
// descriptors have.
func closeOnExecEach() {
	for fd := 3; fd < 256; fd++ {
		syscall.CloseOnExec(fd)
	}
}

// waitExit returns when the program has exited. It stays a zombie until reap,
// so that its number, which is also that of its group, cannot be used again. It
// waits in the runtime's poller and not in a thread of its own.
func (p *entry) waitExit() error {
	if p.pidfd < 0 {
		return waitID(unix.P_PID, p.pid, 0, nil)
	}
	if err := unix.SetNonblock(p.pidfd, true); err != nil {
		return errors.Join(os.NewSyscallError("fcntl", err), unix.Close(p.pidfd))
	}
	f := os.NewFile(uintptr(p.pidfd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var waitErr error
	pollErr := raw.Read(func(fd uintptr) bool {
		exited := false
		waitErr = waitID(unix.P_PIDFD, int(fd), unix.WNOHANG, &exited)
		return waitErr != nil || exited
	})
	if pollErr != nil || errors.Is(waitErr, syscall.EINVAL) { // a pidfd is not enough on this kernel
		return waitID(unix.P_PID, p.pid, 0, nil)
	}
	return waitErr
}

// hasExited reports whether the program, which is not reaped yet, has exited.
func (p *entry) hasExited() bool {
	var exited bool
	return waitID(unix.P_PID, p.pid, unix.WNOHANG, &exited) == nil && exited
}

// waitID waits for an exit without reaping. exited tells whether there was one.
func waitID(kind, id, options int, exited *bool) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(kind, id, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN: // what a non-blocking pidfd says for "not yet"
			return nil
		}
		if exited != nil {
			*exited = info.Signo != 0
		}
		return os.NewSyscallError("waitid", err)
	}
}

// waitStatus reaps the program, which has exited.
func (p *entry) waitStatus() (syscall.WaitStatus, error) {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.pid, &status, 0, nil)
		if err != syscall.EINTR {
			return status, os.NewSyscallError("wait4", err)
		}
	}
}

// reapFailed reaps the child that another process made and that could not execute the
// program: only its code is known.
func (e *entry) reapFailed() {
	for pause := minPause; pause < maxPause && e.code != 0; pause *= 2 {
		for _, pid := range scanChildren() {
			if limitCode(pid) == e.code && !all.isRunning(pid) {
				if _, ok := reapOrphan(pid); ok {
					return
				}
			}
		}
		time.Sleep(pause) // it ends a moment after it has said why
	}
}

// offMainThread calls f on another thread than the main one. What the main
// thread forks stands in the list of its children, where it would be taken for
// an orphan until it is registered, and sweeps would have to stop all starts to
// find out.
func offMainThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { // this thread is locked, so it is another one that runs it
		defer close(done)
		runtime.LockOSThread() // f may change it for a moment
		defer runtime.UnlockOSThread()
		f()
	}()
	<-done
}

// onOwnThread calls f on a thread of its own, not the main one, which ends when the
// returned function is called.
func onOwnThread(f func()) (end func()) {
	done, ending := make(chan struct{}), make(chan struct{})
	go offMainThread(func() {
		runtime.LockOSThread() // for good: a thread whose goroutine ends in this state ends too
		f()
		close(done)
		<-ending
	})
	<-done
	return func() { close(ending) }
}

// growPipe lets a pipe hold n bytes if the system permits it.
func growPipe(fd, n int) {
	if n > 64<<10 { // what it holds anyway
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, n)
	}
}
