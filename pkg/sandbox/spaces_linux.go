package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/process"
	"golang.org/x/sys/unix"
)

// A call in namespaces costs little because what takes long is done once: a helper with
// the user namespace, and its child, the first process of the PID namespace, in whose mount
// namespace the files are mounted. They live as long as the [Ladder]. For a call, a thread
// of the helper joins these, takes a mount, an IPC and a network namespace of its own,
// restricts itself, and starts the program as a child of this process (CLONE_PARENT), which
// waits for it as for any other. So calls of one sandbox share the PID namespace alone.

// A spacesOrder says what the namespaces are.
type spacesOrder struct {
	// Map, if not nil, are the numbers of the user and group that the helper maps itself.
	Map    *[2]int `json:"map,omitempty"`
	Mounts mounts  `json:"mounts"`
	// IDs are those of the mounted files: if one is replaced, it is mounted again.
	IDs []string `json:"ids,omitempty"`
}

// A start says what to start in namespaces. The files of the message are its descriptors.
type start struct {
	Path string   `json:"path"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Temp is where the private folder is mounted; "" is none.
	Temp string `json:"temp,omitempty"`
	// Network makes a network namespace, and Listen sockets in it at these addresses.
	Network bool     `json:"network,omitempty"`
	Listen  []string `json:"listen,omitempty"`
	Order   order    `json:"order"`
}

// ambient are the capabilities in its namespaces that a helper needs.
var ambient = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID,
	unix.CAP_SETPCAP, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
	unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_NET_BIND_SERVICE} // for what root executes

// serveSpaces is the helper that starts programs.
func serveSpaces(pipe *net.UnixConn) error {
	var o spacesOrder
	if _, err := receive(pipe, &o); err != nil {
		return err
	}
	if o.Map != nil {
		if err := mapIDs(o.Map[0], o.Map[1]); err != nil {
			return err
		}
	}
	// From here on other processes of the person cannot look into this one, which the
	// numbers above need.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close() // which ends the namespaces
	pid, err := syscall.ForkExec("/proc/self/exe", append(os.Args[:len(os.Args)-1:len(os.Args)-1], helperInit), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, theirs.Fd()},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS},
	})
	if err != nil {
		return fmt.Errorf("start the first process of a PID namespace: %w", err)
	}
	theirs.Close()
	if err := send(ours, o.Mounts); err != nil {
		return err
	}
	var r report
	if _, err := receive(ours, &r); err != nil {
		return err
	}
	if err := r.err(); err != nil {
		return err
	}
	space, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	if err := send(pipe, report{PID: pid}); err != nil {
		return err
	}
	for {
		var s start
		files, err := receive(pipe, &s)
		if err != nil {
			return nil // the process that wants calls is gone, or has enough
		}
		var listeners []*os.File
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			defer close(done)
			r.PID, listeners, err = s.start(space, files)
		}()
		<-done
		r.Errno, r.Error = 0, ""
		var fds []int
		if err != nil {
			r = reportOf(err)
		} else {
			for _, l := range listeners {
				fds = append(fds, int(l.Fd()))
			}
		}
		if err := send(pipe, r, fds...); err != nil {
			return err
		}
		for _, f := range append(files, listeners...) {
			f.Close()
		}
	}
}

// start starts a program in the namespaces of a process. It changes this thread.
func (s *start) start(space int, files []*os.File) (pid int, listeners []*os.File, err error) {
	// A thread shares its folders with the others until it says otherwise.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return 0, nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(space, unix.CLONE_NEWNS|unix.CLONE_NEWPID); err != nil {
		return 0, nil, fmt.Errorf("join the namespaces: %w", err)
	}
	own := unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if s.Network {
		own |= unix.CLONE_NEWNET
	}
	if err := unix.Unshare(own); err != nil {
		return 0, nil, fmt.Errorf("namespaces: %w", err)
	}
	if err := mountTemp(s.Temp); err != nil {
		return 0, nil, err
	}
	if s.Network {
		if err := loopbackUp(); err != nil {
			return 0, nil, err
		}
	}
	if listeners, err = listen(s.Listen); err != nil {
		return 0, listeners, err
	}
	if err := dropCapabilities(s.Order.Root); err != nil {
		return 0, listeners, err
	}
	if err := s.Order.restrict(); err != nil {
		return 0, listeners, err
	}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pid, err = syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: fds,
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_PARENT}})
	return pid, listeners, err
}

// serveInit is the first process of a PID namespace. When it ends, the others are killed.
func serveInit(pipe *net.UnixConn) error {
	signal.Ignore()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	var m mounts
	if _, err := receive(pipe, &m); err != nil {
		return err
	}
	if err := m.mount(); err != nil {
		return err
	}
	if err := send(pipe, report{}); err != nil {
		return err
	}
	go func() {
		for range ended {
			for pid := 1; pid > 0; {
				pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			}
		}
	}()
	_, _ = pipe.Read(make([]byte, 1)) // until the other helper ends
	return nil
}

// mapIDs gives a new user namespace the one user and group that it can have without
// privileges, under their own numbers.
func mapIDs(user, group int) error {
	for _, m := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1", user, user)},
		{"gid_map", fmt.Sprintf("%d %d 1", group, group)},
	} {
		if err := os.WriteFile("/proc/self/"+m.file, []byte(m.text), 0); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	return nil
}

// mapRoot gives the user namespace of a process all users and groups of this one, so that
// root can use the files of others as before.
func mapRoot(pid int) error {
	for _, name := range []string{"uid_map", "gid_map"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
		var same strings.Builder
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 {
				fmt.Fprintf(&same, "%s %s %s\n", f[0], f[0], f[2])
			}
		}
		if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/"+name, []byte(same.String()), 0); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	return nil
}

// maxSpaces is how many namespaces are kept, apart from those that calls are in.
const maxSpaces = 8

// A spaces is namespaces with the helper that starts programs in them.
type spaces struct {
	helper *process.Process
	pipe   *net.UnixConn
	init   int // the first process of the PID namespace
	calls  int // that are in it; guarded by Ladder.mu

	starting sync.Mutex
}

// enter returns the namespaces for an order, until leave is called.
func (l *Ladder) enter(o spacesOrder) (*spaces, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	key := string(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.spaces[key]
	if s != nil {
		select {
		case <-s.helper.Done(): // something killed it
			l.close(s)
			s = nil
		default:
		}
	}
	if s == nil {
		if len(l.spaces) >= maxSpaces {
			for _, other := range l.spaces {
				if other.calls == 0 {
					l.close(other)
				}
			}
		}
		if s, err = l.newSpaces(o); err != nil {
			return nil, err
		}
		if l.spaces == nil {
			l.spaces = map[string]*spaces{}
		}
		l.spaces[key] = s
	}
	s.calls++
	return s, nil
}

// leave ends a call in namespaces. What it has left there, and what does not carry its
// mark any more, is killed at the latest when no call is there.
func (l *Ladder) leave(s *spaces) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.calls--
	if s.calls == 0 && len(descendants(s.init)) > 0 {
		l.close(s)
	}
}

func (l *Ladder) close(s *spaces) {
	maps.DeleteFunc(l.spaces, func(_ string, other *spaces) bool { return other == s })
	s.pipe.Close()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = s.helper.Close(now)
}

// Close ends the processes that the calls of its sandboxes share, and what still runs in
// them. The next call starts them again.
func (l *Ladder) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.spaces {
		l.close(s)
	}
}

func (l *Ladder) newSpaces(o spacesOrder) (*spaces, error) {
	h := &spacesHelper{command: append(append([]string{}, l.Helper...), helperSpaces), root: l.root}
	p, err := process.Start(&process.Command{Path: h.command[0], Dir: "/", Sandbox: h})
	if err != nil {
		return nil, err
	}
	s := &spaces{helper: p, pipe: h.pipe}
	_ = s.pipe.SetDeadline(time.Now().Add(startLimit))
	var r report
	if err = h.failed; err == nil {
		err = send(s.pipe, o)
	}
	if err == nil {
		_, err = receive(s.pipe, &r)
	}
	if err == nil {
		err = r.err()
	}
	if err != nil {
		l.close(s)
		return nil, err
	}
	s.init = r.PID
	return s, nil
}

// startLimit is how long a helper may take.
const startLimit = 10 * time.Second

// A spacesHelper starts a helper with a user namespace.
type spacesHelper struct {
	command []string
	root    bool
	pipe    *net.UnixConn
	failed  error
}

// Confine implements process.Sandbox.
func (h *spacesHelper) Confine(*process.Command) (*process.Confined, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	h.pipe = ours
	return &process.Confined{
		Path: h.command[0], Args: h.command[1:], Files: []*os.File{theirs},
		Attr: func(attr *syscall.SysProcAttr) {
			attr.Cloneflags |= unix.CLONE_NEWUSER
			attr.AmbientCaps = ambient
		},
		Started: func(pid int) {
			if h.root {
				h.failed = mapRoot(pid)
			}
		},
		Ended: func(e *process.Exit) error {
			if e == nil {
				ours.Close()
			}
			return nil
		},
	}, nil
}

// start starts a program with the attributes, and returns the socket that it was to make.
func (s *spaces) start(o *start, attr *syscall.ProcAttr) (pid int, listener []*os.File, err error) {
	fds := make([]int, len(attr.Files))
	for i, fd := range attr.Files {
		fds[i] = int(fd)
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	// The limit that marks the processes of a call (see package process) is inherited.
	var mark, own unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &mark) == nil && unix.Prlimit(s.helper.PID(), unix.RLIMIT_RTTIME, &mark, &own) == nil {
		defer unix.Prlimit(s.helper.PID(), unix.RLIMIT_RTTIME, &own, nil)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil { // the helper is in another folder
		return 0, nil, err
	}
	_ = s.pipe.SetDeadline(time.Now().Add(startLimit))
	var r report
	if err = send(s.pipe, o, fds...); err == nil {
		listener, err = receive(s.pipe, &r)
	}
	if err != nil {
		s.pipe.Close() // nobody knows what the helper says next
		return 0, nil, fmt.Errorf("sandbox: the helper: %w", err)
	}
	if err := r.err(); err != nil {
		return 0, nil, err
	}
	if attr.Sys.PidFD != nil {
		*attr.Sys.PidFD, _ = unix.PidfdOpen(r.PID, 0) // -1 if there is none
	}
	return r.PID, listener, nil
}

// left ends what a call has left in the namespaces, and returns how many that were.
func (s *spaces) left(mark string) int {
	for range 4 { // what has closed its output may be about to end
		if len(descendants(s.init)) == 0 {
			return 0
		}
		time.Sleep(time.Millisecond / 2)
	}
	ended, _ := process.EndMarked(mark)
	return ended
}

// descendants are the processes below pid.
func descendants(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(append(pids, child), descendants(child)...)
		}
	}
	return pids
}
