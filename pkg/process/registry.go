package process

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// all is the one registry: the children of a process are a property of the
// process, so two registries would take each other's children for strangers.
var all registry

// An entry is a command that runs.
type entry struct {
	pid  int // of its program, group and session
	mark string
	born time.Duration // on the clock of bootTime, just before the start
	left int           // leftovers that sweeps ended; guarded by registry.mu
}

// A registry knows the commands that run.
type registry struct {
	// starting is held for reading while a command is started: a child that
	// exists is registered once it can be held for writing.
	starting sync.RWMutex
	// sweeping is held by the one who judges and reaps strangers.
	sweeping  sync.Mutex
	subreaper atomic.Bool

	mu       sync.Mutex
	running  map[int]*entry // by pid
	ending   map[int]*entry // the same from the time it is killed until it is clean
	children *os.File       // lists the children of the main thread; may be nil
}

// start calls fork and registers the process that it started as e.
func (r *registry) start(e *entry, mark string, fork func() (int, error)) error {
	r.starting.RLock()
	defer r.starting.RUnlock()
	born := bootTime()
	var pid int
	var err error
	offMainThread(func() { pid, err = fork() })
	if err != nil {
		return err
	}
	*e = entry{pid: pid, mark: mark, born: born}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running, r.ending = map[int]*entry{}, map[int]*entry{}
	}
	r.running[pid] = e
	return nil
}

// kill notes that e is about to be killed: what it left is its own to count.
func (r *registry) kill(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending[e.pid] = e
}

// reaped notes that the program of e has ended. What it left may go now.
func (r *registry) reaped(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[e.pid] == e { // the number may be in use again
		delete(r.running, e.pid)
	}
}

// remove forgets e, which is clean.
func (r *registry) remove(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending[e.pid] == e {
		delete(r.ending, e.pid)
	}
}

// owner returns the ending command with this session or this mark, or nil.
func (r *registry) owner(session int, mark string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.ending[session]; e != nil || mark == "" {
		return e
	}
	for _, e := range r.ending {
		if e.mark == mark {
			return e
		}
	}
	return nil
}

// isRunning reports whether pid is that of a command.
func (r *registry) isRunning(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[pid] != nil
}

// hasMark reports whether a running command has the mark.
func (r *registry) hasMark(mark string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.running {
		if e.mark == mark {
			return true
		}
	}
	return false
}

// anyBefore reports whether a running command was started before t, so that a
// process that was started at t may be its own.
func (r *registry) anyBefore(t time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.running {
		if e.born <= t {
			return true
		}
	}
	return false
}
