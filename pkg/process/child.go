package process

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// killLimit is how long a process may take to end after SIGKILL. One that
	// hangs in the kernel, or belongs to another user, takes longer.
	killLimit = 5 * time.Second
	// groupPoll is the time between two looks at a group that was asked to
	// end.
	groupPoll = 5 * time.Millisecond
	// busyAttempts is how often a file that is open for writing is tried
	// again, after 1, 2, 4, ... ms, half a second in all. Another fork of this
	// process may hold it for a moment, on a busy machine for a long one, see
	// golang.org/issue/22315.
	busyAttempts = 10
	// sweepLimit bounds one search for leftovers.
	sweepLimit = 5 * time.Second
	// The pause of a search grows between these two while it waits for
	// processes to die.
	minPause = 20 * time.Microsecond
	maxPause = 5 * time.Millisecond
)

// A child is a program that runs. Its methods are for one goroutine.
type child struct {
	entry
	cmd     *Command
	box     *Confined
	exited  chan struct{} // closed when the program has exited
	waitErr error         // set before exited is closed
	reaped  bool
	exit    Exit
	watch   *time.Timer // until there is a guardian; may be nil
}

// start starts c with the ends of s that are theirs, and closes these.
func start(c *Command, s *stdio) (*child, error) {
	defer s.closeTheirs()
	box, err := c.confine()
	if err != nil {
		return nil, newStartError(c, err)
	}
	defer box.closeFiles()
	closeOnExec()
	p := &child{cmd: c, box: box, exited: make(chan struct{}), exit: Exit{Code: -1}}
	attr := &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   box.Env,
		Files: []uintptr{s.theirs[0].Fd(), s.theirs[1].Fd(), s.theirs[2].Fd()},
		Sys:   p.sysProcAttr(),
	}
	for _, f := range box.Files {
		attr.Files = append(attr.Files, f.Fd())
	}
	if box.Attr != nil {
		box.Attr(attr.Sys)
	}
	if box.Fork == nil { // which starts what is in the group of the process that forks
		p.cgroup = all.takeCgroup()
		if box.Thread == nil { // a filter of system calls refuses clone3
			defer p.cgroup.attr(attr.Sys)()
		}
	}
	p.ender = c.End
	if c.End != nil { // what it ends does not end with this process
		all.startGuardian()
	}
	if err := p.try(attr); err != nil {
		all.endCgroup(&p.entry)
		if box.Ended != nil {
			_ = box.Ended(nil) // the other error says more
		}
		return nil, newStartError(c, err)
	}
	box.started(p.pid)
	p.watch = all.watch()
	go func() {
		p.waitErr = p.waitExit()
		close(p.exited)
	}()
	return p, nil
}

// try starts the program, again while its file is open for writing.
func (p *child) try(attr *syscall.ProcAttr) error {
	argv := append([]string{p.box.Path}, p.box.Args...)
	for attempt := 0; ; attempt++ {
		err := all.start(&p.entry, p.cmd.Mark, p.box.Thread, func() (int, error) {
			if p.box.Fork == nil {
				return p.fork(p.box.Path, argv, attr)
			}
			pid, err := p.box.Fork(p.box.Path, argv, attr)
			if err != nil {
				p.reapFailed()
			}
			return pid, err
		})
		if err != nil && err != syscall.ETXTBSY && withoutCgroup(attr.Sys) {
			continue // the error may be that of the group
		}
		if err != syscall.ETXTBSY || attempt == busyAttempts-1 {
			return err
		}
		time.Sleep(time.Millisecond << attempt)
	}
}

// terminate asks the group to end and waits for the grace period, or until now
// is closed.
func (p *child) terminate(now <-chan struct{}) {
	p.exit.Cancelled = true
	p.ask()
	timer := time.NewTimer(p.cmd.grace())
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		return
	case <-now:
		return
	}
	if p.reap() != nil {
		return
	}
	tick := time.NewTicker(groupPoll)
	defer tick.Stop()
	for members := p.members(); len(members) > 0; {
		select {
		case <-tick.C:
		case <-timer.C:
			return
		case <-now:
			return
		}
		if members = p.stillMembers(members); len(members) == 0 {
			members = p.members() // they may have forked
		}
	}
}

// reap takes the exit status of a program that has exited. After it the number
// of the process may be used again.
func (p *child) reap() error {
	if p.reaped {
		return nil
	}
	status, err := p.waitStatus()
	if err != nil {
		return err
	}
	p.reaped = true
	if status.Signaled() {
		p.exit.Signal = status.Signal()
	} else {
		p.exit.Code = status.ExitStatus()
	}
	return nil
}

// finish kills whatever is left of p and takes its exit status. suspicious says
// that something seems to be left; escaped is asked once the group is dead
// whether something outside of it seems to be.
func (p *child) finish(suspicious bool, escaped func() bool) error {
	var members []int
	if suspicious && !all.subreaper.Load() {
		members = slices.DeleteFunc(p.members(), func(pid int) bool { return pid == p.pid })
	}
	ended := p.box.left()
	all.end(&p.entry)
	var killErr error
	if !p.reaped || p.hasMembers() {
		killErr = p.kill()
	}
	err := p.waitKilled()
	if err == nil {
		err = p.reap()
	}
	if p.watch != nil {
		p.watch.Stop()
	}
	if p.ender != nil && (p.exit.Cancelled || p.exit.Signal != 0) {
		runEnd(p.ender, p.cmd.Env)
	}
	all.reaped(&p.entry)
	left, alive := all.clean(&p.entry, members, escaped)
	more, stuck := all.endCgroup(&p.entry)
	left, alive = left+more, alive+stuck
	all.remove(&p.entry)
	p.release()
	p.exit.Left = left + ended + p.box.left()
	p.exit.Refused = p.box.refused()
	boxErr := p.box.ended(p.cmd, &p.exit)
	switch {
	case err != nil && killErr != nil:
		return fmt.Errorf("end %s (process %d): %w: %w", p.cmd.Path, p.pid, err, killErr)
	case err != nil:
		return fmt.Errorf("end %s (process %d): %w", p.cmd.Path, p.pid, err)
	case alive > 0:
		return fmt.Errorf("end %s (process %d): %d of its processes cannot be killed", p.cmd.Path, p.pid, alive)
	}
	return boxErr
}

// waitKilled waits for the exit of a program that got SIGKILL.
func (p *child) waitKilled() error {
	timer := time.NewTimer(killLimit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.waitErr
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
}

// waitMembers waits until members of the group, which got SIGKILL, are dead. It
// returns how many are not after sweepLimit.
func (e *entry) waitMembers(members []int) (alive int) {
	pause := minPause
	for begin := time.Now(); time.Since(begin) < sweepLimit; pause = min(2*pause, maxPause) {
		if members = e.stillMembers(members); len(members) == 0 {
			return 0
		}
		time.Sleep(pause)
	}
	return len(members)
}

// stillMembers returns those of the members of the group that live.
func (e *entry) stillMembers(members []int) []int {
	return slices.DeleteFunc(members, func(pid int) bool { return !e.isMember(pid) })
}
