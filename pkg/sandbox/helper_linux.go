package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// orderFile is the descriptor of a helper on which it reads its order, and writes its
// report.
const orderFile = 3

// The first argument of a helper: what it is to do.
const (
	helperRun    = "run"    // restrict itself and execute the command line that follows
	helperSpaces = "spaces" // start programs in namespaces
	helperInit   = "init"   // be the first process of a PID namespace
	helperTry    = "try"    // exit with success
)

// An order says what a program may do.
type order struct {
	// Root keeps some of root's capabilities.
	Root    bool           `json:"root,omitempty"`
	Limits  map[int]uint64 `json:"limits,omitempty"`
	Files   files          `json:"files"`
	Filter  bool           `json:"filter,omitempty"`
	Sockets sockets        `json:"sockets"`
	// Listen makes a helper listen at these addresses and hand the sockets over.
	Listen []string `json:"listen,omitempty"`
	// Processes is the limit that a helper writes into the file that comes with the order,
	// before it becomes the program; 0 is none.
	Processes int64 `json:"processes,omitempty"`
}

// sockets says which sockets and IPC objects a program may create.
type sockets struct {
	// Internet permits IP sockets; other machines may still be out of reach. Streams limits
	// them to TCP.
	Internet bool `json:"internet,omitempty"`
	Streams  bool `json:"streams,omitempty"`
	// IPC permits the shared memory, semaphores and queues of System V, and POSIX queues:
	// there is a namespace for them, or nothing else is restricted.
	IPC bool `json:"ipc,omitempty"`
}

// A report is what a helper says.
type report struct {
	PID int `json:"pid,omitempty"` // of a process that it started
	// Error is why the program was not started; Errno is that of the program itself.
	Error string        `json:"error,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"`
}

func (r report) err() error {
	switch {
	case r.Errno != 0:
		return r.Errno
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// reportOf is the report of an error. That of a system call without a context is the
// program's own.
func reportOf(err error) report {
	if errno, ok := err.(syscall.Errno); ok {
		return report{Errno: errno}
	}
	return report{Error: err.Error()}
}

// Helper is what the program does that Ladder.Helper names. It returns the exit code.
func Helper(args []string) int {
	runtime.LockOSThread() // what it restricts is this thread, which then executes
	if args[0] == helperTry {
		return 0
	}
	unix.CloseOnExec(orderFile)
	pipe, err := fileConn(os.NewFile(orderFile, "order"))
	if err != nil {
		return 125
	}
	switch args[0] {
	case helperRun:
		err = become(pipe, args[1:])
	case helperSpaces:
		err = serveSpaces(pipe)
	case helperInit:
		err = serveInit(pipe)
	}
	if err != nil {
		_ = send(pipe, reportOf(err))
		return 125
	}
	return 0
}

// become enters a sandbox and becomes the program of a command line.
func become(pipe *net.UnixConn, argv []string) error {
	_, _ = pipe.Write([]byte("\n")) // it runs, and all processes above it
	var o order
	sent, err := receive(pipe, &o)
	if err != nil {
		return err
	}
	if len(o.Listen) > 0 {
		listeners, err := listen(o.Listen)
		if err != nil {
			return err
		}
		var fds []int
		for _, l := range listeners {
			fds = append(fds, int(l.Fd()))
		}
		if err := send(pipe, report{}, fds...); err != nil {
			return err
		}
	}
	if err := o.restrict(); err != nil {
		return err
	}
	env := os.Environ()
	if o.Processes > 0 && len(sent) == 1 {
		limit, fd := strconv.AppendInt(nil, o.Processes, 10), sent[0].Fd()
		// Not unix.Write, during which the Go runtime may start a thread: now it cannot.
		if _, _, errno := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&limit[0])), uintptr(len(limit))); errno != 0 {
			return fmt.Errorf("control group: %w", errno)
		}
	}
	return syscall.Exec(argv[0], argv, env)
}

// restrict restricts this thread, and this process where there are limits.
func (o *order) restrict() error {
	if o.Root {
		if err := dropCapabilities(true); err != nil {
			return err
		}
	}
	if err := o.Files.landlock(); err != nil { // which opens files
		return err
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
	if o.Filter {
		return o.Sockets.filter()
	}
	return nil
}

// ofRoot are the capabilities that root keeps in a sandbox: those that concern its files.
var ofRoot = []int{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_NET_BIND_SERVICE}

// dropCapabilities takes from what this thread executes all capabilities, or from root all
// but a few.
func dropCapabilities(root bool) error {
	for c := 0; c <= unix.CAP_LAST_CAP+8; c++ {
		if root && slices.Contains(ofRoot, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	// What is inheritable comes back to root, whatever the bounding set says.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	if err == nil {
		data[0].Inheritable, data[1].Inheritable = 0, 0
		err = unix.Capset(&header, &data[0])
	}
	if err == nil {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "order")
	if ours, err = fileConn(os.NewFile(uintptr(fds[0]), "order")); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// fileConn is the connection of a file, which is closed.
func fileConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// maxFiles is how many files a message may have.
const maxFiles = 16

// send writes a message and descriptors: the length with these, then the text.
func send(conn *net.UnixConn, v any, fds ...int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix([]byte(fmt.Sprintf("%08x", len(text))), rights, nil); err != nil {
		return err
	}
	_, err = conn.Write(text)
	return err
}

// receive reads a message and its files.
func receive(conn *net.UnixConn, v any) (files []*os.File, err error) {
	length, rights := make([]byte, 8), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m, _, _, err := conn.ReadMsgUnix(length, rights)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return nil, err
	}
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	var size int
	if _, err := io.ReadFull(conn, length[n:]); err != nil {
		return files, err
	}
	if _, err := fmt.Sscanf(string(length), "%08x", &size); err != nil {
		return files, err
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(conn, text); err != nil {
		return files, err
	}
	return files, json.Unmarshal(text, v)
}

// proxyAddress is where the proxy is inside of a network namespace.
const proxyAddress = "127.0.0.1:3128"

// listen listens at addresses. A socket stays in the network namespace in which it is made, and
// works from everywhere.
func listen(addresses []string) (files []*os.File, err error) {
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return files, err
		}
		f, err := l.(*net.TCPListener).File()
		l.Close()
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
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

// forward connects what l accepts, in a network namespace, with what is at an address outside of
// it, until l is closed. A connection ends with either side.
func forward(l net.Listener, address string) {
	l = &limited{Listener: l, slots: make(chan struct{}, proxyConnections)}
	for {
		inside, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer inside.Close()
			outside, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer outside.Close()
			go func() {
				_, _ = io.Copy(outside, inside) // the other direction ends too
				_ = outside.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(inside, outside)
		}()
	}
}
