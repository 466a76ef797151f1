package process

import (
	"hash/fnv"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// all is the one registry: the children of a process are a property of the
// process, so two registries would end each other's children.
var all registry

// A code is a Command.Mark as a number, 0 for no mark. Besides the environment,
// which a program can clear (env -i), a soft resource limit carries it on Linux:
// RLIMIT_RTTIME, which concerns realtime scheduling alone and which programs leave
// as it is. Every descendant inherits it, whatever session it makes. As a limit it
// is a time of 146,000 years or more.
type code uint64

func markCode(mark string) code {
	if mark == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(mark))
	return code(1<<62 | h.Sum64()>>2)
}

// An entry is a command that runs.
type entry struct {
	handle
	pid    int // of its program, group and session
	code   code
	left   int      // leftovers that sweeps ended; guarded by registry.mu
	id     uint64   // in notices to the guardian
	ender  []string // Command.End
	cgroup *cgroup  // nil where there is none
}

// A registry knows the commands that run.
type registry struct {
	// starting is held while a command is started: when it is free, every
	// child that exists is registered.
	starting sync.Mutex
	// sweeping is held while orphans are judged and reaped.
	sweeping  sync.Mutex
	subreaper atomic.Bool

	mu       sync.Mutex
	running  map[int]*entry // by pid
	ending   map[int]*entry // the same from the time it is killed until it is clean
	children *os.File       // lists the children of the main thread; may be nil
	ids      uint64         // how many commands have an id
	guard    guard
	cgroups  cgroups
}

// start calls fork and registers the process that it started as e. If restrict is not
// nil, it is called before that on the same thread, which ends later.
func (r *registry) start(e *entry, mark string, restrict func() error, fork func() (int, error)) error {
	r.starting.Lock()
	defer r.starting.Unlock()
	e.code = markCode(mark)
	r.mu.Lock()
	r.ids++
	e.id = r.ids
	// Before it is started: this process may die before it can report more.
	r.tell(notice{ID: e.id, Code: e.code, End: e.ender})
	r.mu.Unlock()
	var err error
	start := func() { e.pid, err = forkWithCode(e.code, fork) }
	if restrict == nil {
		offMainThread(func() {
			e.cgroup.enter()
			defer e.cgroup.leave()
			start()
		})
	} else {
		// Until the process is registered its parent is not another thread.
		defer onOwnThread(func() {
			e.cgroup.enter()
			if err = restrict(); err == nil {
				start()
			}
		})()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.tell(notice{ID: e.id, Over: true})
		return err
	}
	r.tell(notice{ID: e.id, Code: e.code, PID: e.pid, End: e.ender})
	if r.running == nil {
		r.running, r.ending = map[int]*entry{}, map[int]*entry{}
	}
	r.running[e.pid] = e
	return nil
}

// end notes that e is about to be killed: what it left is its own to count.
func (r *registry) end(e *entry) {
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
	r.tell(notice{ID: e.id, Over: true})
}

// owner returns the ending command with this session or this code, or nil. A
// running command with the same code counts more.
func (r *registry) owner(session int, c code) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.ending[session]; e != nil || c == 0 || r.isOfRunning(c) {
		return e
	}
	for _, e := range r.ending {
		if e.code == c {
			return e
		}
	}
	return nil
}

func (r *registry) isRunning(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[pid] != nil
}

// anyRunning reports whether a running command has one of the codes or, if none is
// given, whether any command runs.
func (r *registry) anyRunning(codes ...code) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(codes) == 0 {
		return len(r.running) > 0
	}
	return slices.ContainsFunc(codes, r.isOfRunning)
}

// isOfRunning reports whether a running command has the code. r.mu is held.
func (r *registry) isOfRunning(c code) bool {
	for _, e := range r.running {
		if e.code == c {
			return true
		}
	}
	return false
}
