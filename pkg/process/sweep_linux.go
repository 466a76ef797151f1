package process

import (
	"cmp"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of the start times in /proc.
const tick = 10 * time.Millisecond

// A verdict says what to do with a child that is not a registered command.
type verdict int

const (
	keep     verdict = iota // it belongs to a running command or to the embedding program
	reaped                  // it has ended
	leftover                // it outlived its command
	guarding                // it is the guardian of a descendant that ended, and ends soon
)

// clean ends what is left of the command ended, and everything else that no
// running command owns. members are those that were seen in its group. It
// returns how many processes it ended, and how many it could not.
func (r *registry) clean(ended *entry, members []int, escaped func() bool) (left, alive int) {
	if r.subreaper.Load() {
		return r.cleanChildren(ended)
	}
	if left = len(members); left == 0 {
		members = ended.members()
	}
	alive = ended.waitMembers(members)
	if ended.code == 0 || r.anyRunning(ended.code) || !escaped() {
		return left, alive
	}
	marked, stuck := endCode(ended.code)
	return left + marked, alive + stuck
}

// cleanChildren is clean for a subreaper: all that outlived a command is, or becomes
// when its parent dies, a child of this process. So it ends the orphans among
// the children until no new ones appear.
func (r *registry) cleanChildren(ended *entry) (left, alive int) {
	if len(r.orphans()) > 0 {
		alive = r.sweep(ended)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return ended.left, alive
}

// sweep ends the orphans that no running command owns, at the end of a command. It
// returns how many processes of that one it could not end.
func (r *registry) sweep(ended *entry) (alive int) {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	s := &sweep{registry: r, ended: ended, tried: map[int]bool{}, owners: map[int]*entry{}}
	return s.run()
}

// endOrphans ends what is left when no command runs any more.
func (r *registry) endOrphans() {
	if r.subreaper.Load() {
		r.sweep(&entry{})
	}
}

// orphans returns the children that are not registered commands. A command
// that is just being started may be among them.
func (r *registry) orphans() []int {
	pids := r.listChildren()
	r.mu.Lock()
	defer r.mu.Unlock()
	orphans := pids[:0]
	for _, pid := range pids {
		if r.running[pid] == nil && (r.guard.now == nil || r.guard.now.pid != pid) {
			orphans = append(orphans, pid)
		}
	}
	return orphans
}

// settledOrphans is orphans at a moment when no command is being started.
func (r *registry) settledOrphans() []int {
	r.starting.Lock()
	defer r.starting.Unlock()
	return r.orphans()
}

// A sweep ends the orphans that no running command owns.
type sweep struct {
	*registry
	ended  *entry         // the command at whose end it happens
	tried  map[int]bool   // the processes that were killed
	owners map[int]*entry // who left these processes or sessions
	begin  time.Time
}

// run sweeps until nothing is left. It returns how many processes of the ended
// command it could not end.
func (s *sweep) run() (alive int) {
	pause := minPause
	for s.begin = time.Now(); ; {
		dying, stuck, fresh, waiting := 0, 0, false, false
		// The newest first: in a chain of forks it is the one that is alive.
		for _, pid := range slices.Backward(s.settledOrphans()) {
			again := s.tried[pid]
			v, err := s.end(pid)
			switch {
			case v == reaped:
				fresh = true // its children are ours now
			case v == guarding:
				waiting = true
			case v == leftover && err == nil:
				dying++
				fresh = fresh || !again
			case v == leftover && s.owners[pid] == s.ended:
				stuck++
			}
		}
		switch {
		case time.Since(s.begin) > sweepLimit && !waiting:
			return dying + stuck
		case fresh:
			pause = minPause
			continue
		case dying == 0 && !waiting:
			return stuck
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}

// end judges the orphan pid, and kills or reaps it accordingly. Its number
// cannot be used again meanwhile: it is a child, and only we reap it. It is quick,
// because a chain of forks is ended only by a kill that comes before the next fork.
func (s *sweep) end(pid int) (verdict, error) {
	session := sessionOf(pid)
	if session == 0 || session == sessionOf(0) {
		// Every command has a session of its own, and a process cannot join
		// another's: this one was started by the embedding program.
		return keep, nil
	}
	owner, c := cmp.Or(s.owners[pid], s.owners[session]), limitCode(pid)
	if owner == nil {
		owner = s.owner(session, c)
	}
	if status, ok := reapOrphan(pid); ok {
		if owner != nil && status.Signal() == syscall.SIGKILL {
			s.mu.Lock()
			owner.left++
			s.mu.Unlock()
		}
		return reaped, nil
	}
	if c == guardianCode && time.Since(s.begin) < guardianLimit {
		return guarding, nil
	}
	if owner == nil {
		var v verdict
		if v, owner = s.judge(pid, session); v == keep {
			return keep, nil
		}
	}
	s.tried[pid], s.owners[pid], s.owners[session] = true, owner, owner
	if group, err := syscall.Getpgid(pid); err == nil && group > 1 && !s.isRunning(group) {
		syscall.Kill(-group, syscall.SIGKILL) // all at once: no fork escapes
	}
	return leftover, syscall.Kill(pid, syscall.SIGKILL)
}

// judge finds out whose a live orphan is, if no ending command is known to be its
// owner.
func (s *sweep) judge(pid, session int) (verdict, *entry) {
	if st, err := readStat(pid); err != nil || st.parent != os.Getpid() {
		return keep, nil // a misread number
	}
	codes := slices.DeleteFunc([]code{limitCode(pid), envCode(pid)}, func(c code) bool { return c == 0 })
	switch {
	case s.isRunning(session), s.anyRunning(codes...):
		// Without a code it may be that of any command, and ends with the last.
		return keep, nil
	case len(codes) == 0:
		return leftover, s.ended
	}
	return leftover, s.owner(0, codes[len(codes)-1])
}

func reapOrphan(pid int) (syscall.WaitStatus, bool) {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return status, err == nil && got == pid
}

// EndLeft ends what an earlier process of this program left running: see EndMarked. What
// processes that have died left in the control groups of their calls ends too, whatever its mark
// is. It returns how many processes it ended and how many it could not.
func EndLeft(mark string) (ended, alive int) {
	ended, alive = EndMarked(mark)
	more, stuck := endDeadCgroups()
	return ended + more, alive + stuck
}

// EndMarked ends the processes that carry the mark, as their environment or as their limit, and
// all their descendants. They are stopped first, so that none has a child that is not seen.
func EndMarked(mark string) (ended, alive int) { return endCode(markCode(mark)) }

// endCode is EndMarked for a mark's code. It needs pidfd_open(2), so Linux 5.3.
func endCode(c code) (ended, alive int) {
	if c == 0 || checkProc() != nil {
		return 0, 0
	}
	return endFamily(func(pid int, _ stat) bool { return hasCode(pid, c) })
}

// endFamily is EndMarked for the processes that are chosen.
func endFamily(chosen func(pid int, st stat) bool) (ended, alive int) {
	stopped := map[int]int{} // descriptors by pid
	for fresh := true; fresh; {
		fresh = false
		for pid, start := range family(chosen) {
			if _, ok := stopped[pid]; ok {
				continue
			}
			fd, err := openSame(pid, start)
			if err != nil {
				continue
			}
			if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
				unix.Close(fd)
				continue
			}
			stopped[pid], fresh = fd, true
		}
	}
	deadline := time.Now().Add(sweepLimit)
	for _, fd := range stopped {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	for _, fd := range stopped {
		if pollExit(fd, time.Until(deadline)) {
			ended++
		} else {
			alive++
		}
		unix.Close(fd)
	}
	return ended, alive
}

// openSame returns a descriptor of the process pid that was started at start. Its
// number may have gone to another process since it was seen.
func openSame(pid int, start time.Duration) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	if st, err := readStat(pid); err != nil || st.start != start {
		unix.Close(fd)
		return -1, os.ErrProcessDone
	}
	return fd, nil
}

// family are the chosen processes and their descendants, with the times at which
// they were started, without this process, those that it descends from, and the
// guardians among them, which end by themselves.
func family(chosen func(pid int, st stat) bool) map[int]time.Duration {
	stats := map[int]stat{}
	for _, pid := range listProcesses() {
		if st, err := readStat(pid); err == nil && !st.dead {
			stats[pid] = st
		}
	}
	const unknown, no, yes = 0, 1, 2
	verdicts := map[int]int{}
	for pid := os.Getpid(); pid > 0 && verdicts[pid] == unknown; pid = stats[pid].parent {
		verdicts[pid] = no
	}
	members := map[int]time.Duration{}
	for pid := range stats {
		var path []int
		verdict := no
		for p := pid; p > 0; p = stats[p].parent {
			if verdicts[p] != unknown {
				verdict = verdicts[p]
				break
			}
			path = append(path, p)
			if limitCode(p) == guardianCode {
				break
			}
			if chosen(p, stats[p]) {
				verdict = yes
				break
			}
		}
		for _, p := range path {
			verdicts[p] = verdict
		}
		if verdict == yes {
			members[pid] = stats[pid].start
		}
	}
	return members
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
