package process

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// guardAfter is how long a command runs before there is a guardian.
	guardAfter = 500 * time.Millisecond
	// guardWrite is how long a guardian may leave a notice unread.
	guardWrite = 200 * time.Millisecond
	// maxGuardians is how often a guardian is started that something ends.
	maxGuardians = 5
	// endCommandLimit is how long Command.End may take.
	endCommandLimit = 10 * time.Second
	// guardianLimit is how long a guardian may take after the end of its parent: all
	// Command.End at the same time, and two searches.
	guardianLimit = endCommandLimit + 2*sweepLimit
)

// A notice tells the guardian about a command: one before it is started, one with
// the number of its process, one when nothing of it is left.
type notice struct {
	ID   uint64   `json:"id"`
	Code code     `json:"code,omitempty"`
	PID  int      `json:"pid,omitempty"`
	End  []string `json:"end,omitempty"`
	Over bool     `json:"over,omitempty"`
}

// A guard is the state of this process's guardian. registry.mu protects it.
type guard struct {
	path string   // of the guardian; empty means that there is none
	argv []string // with the name of the program
	env  []string
	used int       // how many were started
	now  *guardian // nil while none runs
}

type guardian struct {
	entry
	pipe *os.File      // what it waits for the end of
	done chan struct{} // closed when it was reaped
}

// UseGuardian makes the program at path the guardian of this process: it is started
// with the arguments argv, the first of which is its name, and the environment env
// as soon as a command has been running for half a second, before one with a Command.End
// is started, and it calls [Guardian].
// A main program calls it before its first command. Without it, and on Windows, where
// job objects do the same, there is no guardian.
func UseGuardian(path string, argv, env []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.guard.path, all.guard.argv, all.guard.env = path, argv, env
}

// EndGuardian ends the guardian, if there is one, and waits for its end. The
// guardian ends what still runs. A program calls it last.
func EndGuardian() {
	all.mu.Lock()
	g := all.guard.now
	all.guard.path = ""
	if g != nil {
		g.pipe.Close()
	}
	all.mu.Unlock()
	defer all.removeCgroups()
	if g == nil {
		return
	}
	select {
	case <-g.done:
	case <-time.After(guardianLimit):
	}
}

// watch starts a guardian after guardAfter, if one is to be used and none runs.
func (r *registry) watch() *time.Timer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guard.path == "" || r.guard.now != nil {
		return nil
	}
	return time.AfterFunc(guardAfter, r.startGuardian)
}

// startGuardian starts a guardian that knows all commands, unless one runs.
func (r *registry) startGuardian() {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guard.path == "" || r.guard.now != nil || r.guard.used >= maxGuardians {
		return
	}
	var known []byte
	for _, commands := range []map[int]*entry{r.running, r.ending} {
		for _, e := range commands {
			known = append(known, notice{ID: e.id, Code: e.code, PID: e.pid, End: e.ender}.line()...)
		}
	}
	g, err := r.guard.start(known)
	if err != nil {
		return // a later command tries again
	}
	r.guard.used++
	r.guard.now = g
	go r.awaitGuardian(g)
}

// awaitGuardian waits for the end of a guardian, and starts another one if commands
// still run.
func (r *registry) awaitGuardian(g *guardian) {
	_ = g.waitExit()
	r.mu.Lock()
	_, _ = g.waitStatus()
	g.release()
	g.pipe.Close()
	r.guard.now = nil
	again := len(r.running) > 0
	close(g.done)
	r.mu.Unlock()
	if again {
		r.startGuardian()
	}
}

// tell sends a notice to the guardian, if one runs. r.mu is held. A guardian that does
// not read is killed first: the end of its pipe would make it end what runs.
func (r *registry) tell(n notice) {
	g := r.guard.now
	if g == nil {
		return
	}
	if g.write(n.line()) != nil && r.guard.path != "" {
		_ = g.kill() // it is not reaped while r.mu is held
	}
}

func (n notice) line() []byte {
	line, _ := json.Marshal(n) // it has numbers and strings alone
	return append(line, '\n')
}

// write writes notices, or fails if the guardian leaves them unread.
func (g *guardian) write(lines []byte) error {
	g.pipe.SetWriteDeadline(time.Now().Add(guardWrite))
	_, err := g.pipe.Write(lines)
	return err
}

// Guardian is the main function of the program that UseGuardian names. It reads in, its
// standard input, until its parent ends. Then it ends every command that the parent
// reported, with all that they started, runs their End with the environment env, and
// returns.
func Guardian(in io.Reader, env []string) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	parent := os.Getppid()
	commands := map[uint64]notice{}
	for d := json.NewDecoder(in); ; {
		var n notice
		if d.Decode(&n) != nil {
			break
		}
		if n.Over {
			delete(commands, n.ID)
		} else {
			commands[n.ID] = n
		}
	}
	if len(commands) > 0 {
		endCommands(parent, slices.Collect(maps.Values(commands)), env)
		for begin := time.Now(); os.Getppid() == parent && time.Since(begin) < guardWrite; {
			time.Sleep(time.Millisecond) // its pipe ends a moment before it does
		}
	}
	endDeadCgroups()
}

// endCommands ends the commands of a dead parent. Of a command with an End, only the
// group is ended first, so that it starts nothing more: the process that manages a
// container is outside the group, and End needs it.
func endCommands(parent int, commands []notice, env []string) {
	var plain []notice
	var running sync.WaitGroup
	for _, n := range commands {
		if n.End == nil {
			plain = append(plain, n)
			continue
		}
		endGroup(n)
		running.Go(func() { runEnd(n.End, env) })
	}
	if len(plain) > 0 {
		endProcesses(parent, plain)
	}
	running.Wait()
	endProcesses(parent, commands)
}

// runEnd runs a Command.End. It ignores errors: the container may have ended by itself.
func runEnd(argv, env []string) {
	ctx, cancel := context.WithTimeout(context.Background(), endCommandLimit)
	defer cancel()
	_, _ = Run(ctx, &Command{Path: argv[0], Args: argv[1:], Env: env, Grace: time.Second})
}
