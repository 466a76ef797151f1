package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepLimit bounds one search for leftovers.
	sweepLimit = 2 * time.Second
	// The pause of a search grows between these two while it waits for
	// processes to die.
	minPause = 20 * time.Microsecond
	maxPause = 5 * time.Millisecond
	// tick is the unit of the start times in /proc.
	tick = 10 * time.Millisecond
)

// A verdict says what to do with a child that is no registered command.
type verdict int

const (
	keep     verdict = iota // it belongs to a running command or to the embedding program
	gone                    // it has ended and was reaped
	killed                  // the same, and it was a leftover that was killed
	leftover                // it outlived the command that just ended
	hidden                  // it shows no mark, and no running command can have started it
	foreign                 // it outlived another command
)

// clean ends what is left of the command ended, and everything else that no
// running command owns. It returns how many processes it ended, and how many it
// could not.
func (r *registry) clean(ended *entry, suspicious bool) (left, alive int) {
	if r.subreaper.Load() {
		return r.sweep(ended)
	}
	if syscall.Kill(-ended.pid, 0) == nil {
		left = 1
		if !gonePatiently(func() bool { return syscall.Kill(-ended.pid, 0) == syscall.ESRCH }) {
			alive = 1
		}
	}
	if suspicious && ended.mark != "" && !r.hasMark(ended.mark) {
		n, m := endMarked(ended.mark)
		left, alive = left+n, alive+m
	}
	return left, alive
}

// gonePatiently calls gone until it is true. It reports whether that happened
// within the limit.
func gonePatiently(gone func() bool) bool {
	begin := time.Now()
	for pause := minPause; !gone(); pause = min(2*pause, maxPause) {
		if time.Since(begin) > sweepLimit {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// sweep is clean for a subreaper: all that outlived a command is, or becomes
// when its parent dies, a child of this process. So it ends the strangers among
// the children until no new ones appear.
func (r *registry) sweep(ended *entry) (left, alive int) {
	if len(r.strangers()) == 0 {
		return 0, 0
	}
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	seen := map[int]bool{}
	pause := minPause
	for begin := time.Now(); ; {
		dying, stuck, fresh := 0, 0, false
		for _, pid := range r.settledStrangers() {
			v, err := r.end(pid, ended)
			if v == keep || v == gone {
				continue
			}
			if !seen[pid] {
				seen[pid], fresh = true, true
				if v != foreign {
					left++
				}
			}
			switch {
			case err != nil:
				stuck++
			case v != killed:
				dying++
			}
		}
		switch {
		case dying == 0:
			return left - stuck, stuck
		case time.Since(begin) > sweepLimit:
			return left - dying - stuck, dying + stuck
		case fresh:
			pause = minPause
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}

// reapOrphans reaps the strangers that have ended.
func (r *registry) reapOrphans() {
	if !r.subreaper.Load() || len(r.strangers()) == 0 {
		return
	}
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	own := ownSession()
	for _, pid := range r.settledStrangers() {
		if st, err := readStat(pid); err == nil && st.session != own {
			reapOrphan(pid)
		}
	}
}

// strangers returns the children that are no registered commands. A command
// that is just being started may be among them.
func (r *registry) strangers() []int {
	pids := r.listChildren()
	r.mu.Lock()
	defer r.mu.Unlock()
	strangers := pids[:0]
	for _, pid := range pids {
		if r.running[pid] == nil {
			strangers = append(strangers, pid)
		}
	}
	return strangers
}

// settledStrangers is strangers at a moment when no command is being started.
func (r *registry) settledStrangers() []int {
	r.starting.Lock()
	defer r.starting.Unlock()
	return r.strangers()
}

// end judges the stranger pid, and kills or reaps it accordingly. Its number
// cannot be used again meanwhile: it is a child, and only we reap it.
func (r *registry) end(pid int, ended *entry) (verdict, error) {
	st, err := readStat(pid)
	if err != nil || st.parent != os.Getpid() {
		return gone, nil
	}
	own := ownSession()
	if st.session == own {
		// Every command has a session of its own, and a process cannot join
		// another's: this one was started by the embedding program.
		return keep, nil
	}
	if status, reaped := reapOrphan(pid); reaped {
		if st.session == ended.pid && status.Signal() == syscall.SIGKILL {
			return killed, nil
		}
		return gone, nil
	}
	v := r.judge(pid, st, ended)
	if v == keep {
		return v, nil
	}
	if st.group > 1 && !r.isRunning(st.group) {
		syscall.Kill(-st.group, syscall.SIGKILL) // all at once: no fork escapes
	}
	err = syscall.Kill(pid, syscall.SIGKILL)
	if err != nil && v != leftover {
		return keep, nil // nobody whom it concerns is there to be told
	}
	return v, err
}

// judge finds out whose a live stranger is.
func (r *registry) judge(pid int, st stat, ended *entry) verdict {
	if st.session == ended.pid {
		return leftover
	}
	if r.isRunning(st.session) {
		return keep
	}
	mark, ok := readMark(pid)
	switch {
	case ok && r.hasMark(mark):
		return keep
	case ok && mark == ended.mark:
		return leftover
	case ok:
		return foreign
	case r.anyBefore(st.start + tick):
		return keep
	}
	return hidden
}

// reapOrphan takes the exit status of a child that has ended.
func reapOrphan(pid int) (syscall.WaitStatus, bool) {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return status, err == nil && got == pid
}

// endMarked ends the processes that carry the mark, wherever they are. It goes
// on until it finds none, and returns how many it ended and how many it could
// not. It needs pidfd_open(2), so Linux 5.3.
func endMarked(mark string) (ended, alive int) {
	if checkProc() != nil {
		return 0, 0
	}
	deadline := time.Now().Add(sweepLimit)
	for {
		dying := killMarked(mark)
		if len(dying) == 0 {
			return ended, 0
		}
		alive = 0
		for _, fd := range dying {
			if pollExit(fd, time.Until(deadline)) {
				ended++
			} else {
				alive++
			}
			unix.Close(fd)
		}
		if time.Now().After(deadline) {
			return ended, alive
		}
	}
}

// killMarked kills the processes that carry the mark, at most a few hundred. It
// returns descriptors of them.
func killMarked(mark string) (pidfds []int) {
	const most = 256
	self := os.Getpid()
	for _, pid := range listProcesses() {
		if pid == self || len(pidfds) == most || !hasMark(pid, mark) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// With the descriptor in hand the mark is read again: the number may
		// have gone to another process in between.
		if !hasMark(pid, mark) || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
			unix.Close(fd)
			continue
		}
		pidfds = append(pidfds, fd)
	}
	return pidfds
}

// pollExit waits until the process of the descriptor has exited.
func pollExit(pidfd int, limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(limit); ; {
		n, err := unix.Poll(fds, int(max(0, time.Until(end)).Milliseconds())+1)
		if err != unix.EINTR || time.Now().After(end) {
			return n > 0
		}
	}
}

// hasMark reports whether the process pid carries the mark.
func hasMark(pid int, mark string) bool {
	m, ok := readMark(pid)
	return ok && m == mark
}
