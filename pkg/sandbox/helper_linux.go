package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// orderFile is the descriptor of a helper on which it reads its order, and writes its
// report.
const orderFile = 3

// An order says what a helper does before it executes its command line.
type order struct {
	// Try reports success in place of executing anything.
	Try bool `json:"try,omitempty"`
	// User and Group, if there is a user namespace of which the helper is the first
	// process and whose numbers it maps itself, are the numbers of the person.
	Map         bool `json:"map,omitempty"`
	User, Group int  `json:",omitempty"`
	// Root keeps some of root's capabilities in the namespace.
	Root bool `json:"root,omitempty"`
	// Mounts is what changes in the mount namespace; nil is nothing.
	Mounts *mounts `json:"mounts,omitempty"`
	// Loopback switches on the loopback interface of a network namespace, Proxy is the
	// Unix socket to which connections to proxyAddress go.
	Loopback bool   `json:"loopback,omitempty"`
	Proxy    string `json:"proxy,omitempty"`
	// Init makes the helper the first process of a PID namespace: it runs the program
	// as a child, and stays until what the child left is at its end.
	Init bool `json:"init,omitempty"`
	// Wait is how long processes that the program left may hold its output.
	Wait time.Duration `json:"wait,omitempty"`

	Limits  map[int]uint64 `json:"limits,omitempty"`
	Files   files          `json:"files"`
	Filter  bool           `json:"filter,omitempty"`
	Sockets sockets        `json:"sockets"`
}

// A report is what the helper says in the end.
type report struct {
	// Status is that of the program, Left how many processes it left.
	Status *syscall.WaitStatus `json:"status,omitempty"`
	Left   int                 `json:"left,omitempty"`
	// Error is why the program was not started; Errno is that of the program itself.
	Error string        `json:"error,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"`
}

// Helper is what the program does that Place.Helper names: it enters a sandbox and
// executes the command line. It returns if that failed, and the exit code is 125.
func Helper(argv []string) int {
	runtime.LockOSThread() // what it restricts is this thread, which then executes
	unix.CloseOnExec(orderFile)
	pipe := os.NewFile(orderFile, "order")
	_, _ = pipe.WriteString("\n") // it runs, and all processes above it
	var o order
	if err := json.NewDecoder(pipe).Decode(&o); err != nil {
		return 125 // whoever started it is gone
	}
	h := &helper{order: o, argv: argv, pipe: pipe}
	r, err := h.run()
	if err != nil {
		r.Error = err.Error()
		if e, ok := errors.AsType[*execError](err); ok {
			r.Errno = e.errno
		}
	}
	_ = json.NewEncoder(pipe).Encode(r)
	if err != nil {
		return 125
	}
	return 0
}

// An execError says that the program itself cannot be executed.
type execError struct{ errno syscall.Errno }

func (e *execError) Error() string { return e.errno.Error() }

// A helper enters a sandbox.
type helper struct {
	order
	argv []string
	pipe *os.File
}

// run does what the order says.
func (h *helper) run() (report, error) {
	if h.Map {
		if err := mapIDs(h.User, h.Group); err != nil {
			return report{}, err
		}
	}
	// From here on other processes of the person cannot look into this one, which the
	// numbers above need.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if h.Mounts != nil {
		if err := h.Mounts.mount(); err != nil {
			return report{}, err
		}
	}
	if h.Loopback {
		if err := loopbackUp(); err != nil {
			return report{}, err
		}
	}
	if h.Proxy != "" {
		if err := serveProxy(h.Proxy); err != nil {
			return report{}, err
		}
	}
	if h.Init {
		return h.runInit()
	}
	if err := h.restrict(); err != nil {
		return report{}, err
	}
	if h.Try {
		return report{}, nil
	}
	return report{}, h.exec()
}

// restrict restricts this thread, and this process where a limit is one of processes.
func (o *order) restrict() error {
	if !o.Init && o.Root {
		if err := dropCapabilities(true); err != nil {
			return err
		}
	}
	for resource, n := range o.Limits {
		limit := unix.Rlimit{Cur: n, Max: n}
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil && now.Max < n {
			continue // narrower already
		}
		if err := unix.Setrlimit(resource, &limit); err != nil {
			return fmt.Errorf("limit %d: %w", resource, err)
		}
	}
	if err := o.Files.landlock(); err != nil {
		return err
	}
	if o.Filter {
		return o.Sockets.filter()
	}
	return nil
}

// exec becomes the program.
func (h *helper) exec() error {
	err := syscall.Exec(h.argv[0], h.argv, os.Environ())
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return &execError{errno}
	}
	return err
}

// runInit runs the program as a child. It is the first process of a PID namespace: when it
// ends, all others are killed.
func (h *helper) runInit() (report, error) {
	h.Init = false
	h.Mounts, h.Loopback, h.Proxy, h.Map = nil, false, "", false
	terminated := ignoreSignals()
	go func() { // the end of the pipe is the end of the process that wants the result
		_, _ = h.pipe.Read(make([]byte, 1))
		os.Exit(125)
	}()
	if err := dropCapabilities(h.Root); err != nil {
		return report{}, err
	}
	pid, err := h.start()
	if err != nil || h.Try {
		return report{}, err
	}
	outputs := standardOutputs()
	if err := replaceStdio(); err != nil {
		return report{}, err
	}
	var status syscall.WaitStatus
	for ended := 0; ended != pid; {
		ended, err = syscall.Wait4(-1, &status, 0, nil)
		if err != nil && err != syscall.EINTR {
			return report{}, fmt.Errorf("wait: %w", err)
		}
	}
	left := awaitRest(outputs, h.Wait, terminated)
	return report{Status: &status, Left: left}, nil
}

// start starts the program on this thread, which it restricts. With limits it is another
// helper that sets them, because they would be those of this process too.
func (h *helper) start() (int, error) {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}
	if len(h.Limits) == 0 {
		if err := h.restrict(); err != nil || h.Try {
			return 0, err
		}
		pid, err := syscall.ForkExec(h.argv[0], h.argv, attr)
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return 0, &execError{errno}
		}
		return pid, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	attr.Files = append(attr.Files, theirs.Fd())
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0], os.Args[1]}, h.argv...), attr)
	theirs.Close()
	if err != nil {
		return 0, fmt.Errorf("start the helper that sets limits: %w", err)
	}
	if err := json.NewEncoder(ours).Encode(h.order); err != nil {
		return 0, err
	}
	r, err := readReport(ours) // it is at its end when the program is executed
	if err != nil || r == nil {
		return pid, err
	}
	if r.Errno != 0 {
		return 0, &execError{r.Errno}
	}
	if r.Error != "" {
		return 0, errors.New(r.Error)
	}
	return pid, nil
}

// socketPair returns two connected sockets.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	_ = unix.SetNonblock(fds[0], true) // so that it can have a deadline
	return os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox"), nil
}

// readReport reads the report of a helper, nil if there is none.
func readReport(pipe *os.File) (*report, error) {
	var r report
	switch err := json.NewDecoder(pipe).Decode(&r); {
	case err == nil:
		return &r, nil
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil, nil
	default:
		return nil, fmt.Errorf("read the report of the helper: %w", err)
	}
}

// loopbackUp switches on the loopback interface.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// proxyAddress is where the proxy is inside of a sandbox.
const proxyAddress = "127.0.0.1:3128"

// serveProxy relays connections to proxyAddress to the Unix socket.
func serveProxy(socket string) error {
	l, err := net.Listen("tcp", proxyAddress)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	go func() {
		for {
			inner, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer inner.Close()
				outer, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer outer.Close()
				relay(inner, outer, proxyIdle)
			}()
		}
	}()
	return nil
}
