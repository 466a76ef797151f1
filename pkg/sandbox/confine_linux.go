package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/process"
	"golang.org/x/sys/unix"
)

// tempSize limits the private folder for temporary files where it is in memory and
// FileSize does not.
const tempSize = 1 << 30

// Confine implements process.Sandbox.
func (b *Box) Confine(c *process.Command) (*process.Confined, error) {
	rung := b.place.Ladder.Rung()
	if err := b.check(rung); err != nil {
		return nil, err
	}
	return b.confine(c, rung, false)
}

// A session is one confined process and what has to be cleaned up after it.
type session struct {
	box     *Box
	order   order
	rules   *prepared
	pipe    *os.File // to the helper; nil without
	temp    string
	group   *cgroup
	proxy   *Proxy
	socket  string // folder of the proxy's Unix socket
	denied  refusals
	failed  error
	wrapped bool // by bwrap
}

// confine confines c on a rung.
func (b *Box) confine(c *process.Command, rung string, try bool) (_ *process.Confined, err error) {
	s := &session{box: b}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	env := b.environ(c.Env)
	if s.temp, env, err = b.privateTemp(env); err != nil {
		return nil, err
	}
	s.order = order{Try: try, Wait: c.PipeWait}
	if s.order.Wait == 0 {
		s.order.Wait = process.DefaultPipeWait
	}
	spaces := rung == Namespaces || rung == Bubblewrap
	s.order.Root = b.place.Ladder.root && rung != Limits
	s.files(c, rung)
	if env, err = s.network(rung, env); err != nil {
		return nil, err
	}
	if err := s.limit(spaces); err != nil {
		return nil, err
	}
	if rung != Limits {
		s.order.Filter = hasFilter
	}
	w := &process.Confined{Path: c.Path, Args: c.Args, Env: env, Ended: s.ended}
	if !spaces && len(s.order.Limits) == 0 && s.group == nil {
		if rung != Limits {
			w.Thread = s.restrict
		}
		return w, nil
	}
	return w, s.viaHelper(w, rung)
}

// viaHelper starts the helper in place of the program.
func (s *session) viaHelper(w *process.Confined, rung string) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	s.pipe = ours
	helper := s.box.place.Ladder.Helper
	if len(helper) == 0 {
		return errors.New("sandbox: limits need a helper")
	}
	w.Args = slices.Concat(helper[1:], []string{w.Path}, w.Args)
	w.Path, w.Files, w.Started = helper[0], []*os.File{theirs}, s.started
	switch rung {
	case Namespaces:
		s.order.Init = true
		s.order.Map = !s.box.place.Ladder.root
		s.order.User, s.order.Group = os.Geteuid(), os.Getegid()
		w.Attr = s.namespaces
	case Bubblewrap:
		s.order.Init = true
		return s.bubblewrap(w)
	}
	return nil
}

// namespaces asks for the namespaces.
func (s *session) namespaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	if s.order.Loopback {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	attr.AmbientCaps = ambient
}

// files fills in what of the files may be used.
func (s *session) files(c *process.Command, rung string) {
	b := s.box
	program := c.Path
	if !filepath.IsAbs(program) {
		program = filepath.Join(c.Dir, program)
	}
	if rung == Landlock {
		s.rules = b.prepare(filepath.Dir(program))
		s.order.Files = s.rules.files
	}
	if rung == Landlock || rung == Limits {
		return
	}
	f := &s.order.Files
	f.Read, f.Write = b.readable(program), b.config.Write
	m := &mounts{ReadOnly: f.Write != nil, Write: f.Write, Temp: s.temp, TempSize: tempSize}
	var avoid []string // a secret of which a part may be read is not hidden as a whole
	if f.Read != nil {
		for _, secret := range b.secrets() {
			if slices.ContainsFunc(b.named, func(n string) bool { return below(n, secret) }) {
				avoid = append(avoid, secret)
			} else if slices.ContainsFunc(f.Read, func(r string) bool { return below(secret, r) }) {
				m.Hide = append(m.Hide, secret)
			}
		}
		f.Read, f.List = around(f.Read, avoid)
		f.Read = slices.Concat(f.Read, b.named, list(s.temp))
	}
	if f.Write != nil {
		f.Write = append(slices.Clone(f.Write), s.temp, "/dev/shm")
	}
	s.order.Mounts = m
}

// list is a list of the text if there is one.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// A prepared is what Landlock permits, with its rules, and when that was found out.
type prepared struct {
	files files
	rules *os.File // closed by the garbage collector: a call may still use it
	err   error
	made  time.Time
}

// prepare finds out what Landlock permits to a program in a folder. It takes as long as
// many calls, and is done again when the secrets are older than secretsAge.
func (b *Box) prepare(dir string) *prepared {
	hide := b.secrets()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.prepared[dir]; p != nil && p.made.Equal(b.looked) {
		return p
	}
	p := &prepared{made: b.looked}
	read := b.readable(filepath.Join(dir, "program"))
	p.files.Write = b.config.Write
	if read != nil {
		p.files.Read, p.files.List = around(read, hide)
		p.files.Read = append(p.files.Read, b.named...)
		p.files.Write, _ = around(p.files.Write, hide)
	}
	if b.config.Write != nil {
		temp, _ := tempParent() // privateTemp has found it usable
		p.files.Write = append(slices.Clone(p.files.Write), temp)
		if read != nil {
			p.files.Read = append(p.files.Read, temp)
		}
	}
	p.rules, p.err = p.files.ruleset()
	if b.prepared == nil {
		b.prepared = map[string]*prepared{}
	}
	b.prepared[dir] = p
	return p
}

// restrict restricts this thread without a helper.
func (s *session) restrict() error {
	if s.order.Files.Ports != nil { // those of this call
		return s.order.restrict()
	}
	if s.rules.err != nil {
		return s.rules.err
	}
	if s.order.Root {
		if err := dropCapabilities(true); err != nil {
			return err
		}
	}
	if s.rules.rules != nil {
		if err := enforce(s.rules.rules); err != nil {
			return err
		}
	}
	return s.order.Sockets.filter()
}

// network fills in where connections may go, and starts the proxy for a list of domains.
func (s *session) network(rung string, env []string) ([]string, error) {
	n := s.box.config.Network
	if n == nil || n.All {
		s.order.Sockets.Internet = true
		return env, nil
	}
	spaces := rung == Namespaces || rung == Bubblewrap
	s.order.Loopback = spaces
	s.order.Sockets.Internet = spaces
	if len(n.Domains) == 0 || rung == Limits {
		return env, nil
	}
	s.proxy = s.box.proxyFor(n.Domains, &s.denied)
	if !spaces {
		return s.landlockProxy(env)
	}
	dir, err := os.MkdirTemp("", "agents-proxy-")
	if err != nil {
		return nil, fmt.Errorf("sandbox: proxy: %w", err)
	}
	s.socket = dir
	s.order.Proxy = filepath.Join(dir, "socket")
	l, err := net.Listen("unix", s.order.Proxy)
	if err != nil {
		return nil, fmt.Errorf("sandbox: proxy: %w", err)
	}
	go s.proxy.Serve(l)
	return withProxy(env, proxyAddress), nil
}

// landlockProxy permits TCP connections to the port of the proxy alone. Another host that
// listens on this port can be reached, if its address is known.
func (s *session) landlockProxy(env []string) ([]string, error) {
	if s.box.place.Ladder.landlock < 4 {
		return env, nil // no network at all
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sandbox: proxy: %w", err)
	}
	go s.proxy.Serve(l)
	address := l.Addr().(*net.TCPAddr)
	s.order.Files.Ports = []uint64{uint64(address.Port)}
	s.order.Sockets = sockets{Internet: true, Streams: true}
	return withProxy(env, address.String()), nil
}

// limit fills in the limits of resources, by a control group where there can be one.
func (s *session) limit(spaces bool) error {
	c, l := s.box.config, s.box.place.Ladder
	limits := map[int]uint64{}
	set := func(resource int, n int64) {
		if n > 0 {
			limits[resource] = uint64(n)
		}
	}
	set(unix.RLIMIT_CPU, c.CPUSeconds)
	set(unix.RLIMIT_NOFILE, c.OpenFiles)
	set(unix.RLIMIT_FSIZE, int64(c.FileSize))
	if l.cgroups["memory"] == "" {
		set(unix.RLIMIT_AS, int64(c.Memory))
	}
	if l.cgroups["pids"] == "" && c.Processes > 0 {
		n := c.Processes + helperThreads
		if !spaces { // all processes of the person count
			var info unix.Sysinfo_t
			if unix.Sysinfo(&info) == nil {
				n += int64(info.Procs)
			}
		}
		set(unix.RLIMIT_NPROC, n)
	}
	if len(limits) > 0 {
		s.order.Limits = limits
	}
	if c.Memory > 0 && l.cgroups["memory"] != "" || c.Processes > 0 && l.cgroups["pids"] != "" {
		processes := c.Processes
		if processes > 0 {
			processes += helperThreads
		}
		group, err := newCgroup(l.cgroups, c.Memory, processes)
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		s.group = group
	}
	return nil
}

// helperThreads is how many processes, as threads count, a helper may have.
const helperThreads = 16

// bubblewrap puts bwrap before the helper. It makes the namespaces and the mounts.
func (s *session) bubblewrap(w *process.Confined) error {
	path, err := lookBwrap()
	if err != nil {
		return err
	}
	m := s.order.Mounts
	s.wrapped = true
	args := []string{"--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--as-pid-1"}
	if s.order.Loopback {
		args = append(args, "--unshare-net") // with its loopback interface
	}
	if m.ReadOnly {
		args = append(args, "--ro-bind", "/", "/")
	} else {
		args = append(args, "--bind", "/", "/")
	}
	args = append(args, "--dev-bind", "/dev", "/dev", "--proc", "/proc")
	for _, p := range m.Write {
		if m.ReadOnly && realPath(p) == p {
			args = append(args, "--bind-try", p, p)
		}
	}
	for _, p := range m.Hide {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			args = append(args, "--perms", "0000", "--tmpfs", p)
		} else if err == nil {
			args = append(args, "--ro-bind-try", os.DevNull, p)
		}
	}
	for _, p := range list(m.Temp) {
		for _, dir := range []string{p, "/dev/shm"} {
			args = append(args, "--size", strconv.FormatInt(m.TempSize, 10), "--tmpfs", dir)
		}
	}
	s.order.Mounts, s.order.Loopback = nil, false
	helper := w.Path
	if helper == "/proc/self/exe" { // which would be bwrap
		if helper, err = os.Executable(); err != nil {
			return err
		}
	}
	w.Args = slices.Concat(args, []string{"--", helper}, w.Args)
	w.Path = path
	return nil
}

// started gives the helper its order.
func (s *session) started(pid int) {
	if s.group != nil {
		if s.wrapped { // when the helper runs, the processes of bwrap do
			_ = s.pipe.SetReadDeadline(time.Now().Add(wrapLimit))
			_, s.failed = s.pipe.Read(make([]byte, 1))
		}
		for _, p := range append(descendants(pid), pid) {
			if s.failed == nil {
				s.failed = s.group.add(p)
			}
		}
	}
	if s.failed == nil && s.order.Root && s.order.Mounts != nil {
		s.failed = mapRoot(pid)
	}
	if s.failed != nil {
		s.pipe.Close() // which ends the helper
		return
	}
	_ = s.pipe.SetWriteDeadline(time.Now().Add(time.Second))
	s.failed = json.NewEncoder(s.pipe).Encode(&s.order)
}

// wrapLimit is how long bwrap may take to start the helper.
const wrapLimit = 10 * time.Second

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

// ended reads the report of the helper and cleans up.
func (s *session) ended(e *process.Exit) error {
	defer s.close()
	if e == nil {
		return nil
	}
	e.Refused = s.denied.text()
	if s.pipe == nil {
		return nil
	}
	_ = s.pipe.SetReadDeadline(time.Now().Add(time.Second))
	r, err := readReport(s.pipe)
	switch {
	case s.failed != nil:
		return fmt.Errorf("sandbox: %w", s.failed)
	case err != nil:
		return fmt.Errorf("sandbox: %w", err)
	case r == nil:
		return nil // it became the program, or was killed
	case r.Errno != 0:
		return &process.StartError{Err: r.Errno}
	case r.Error != "":
		return &process.StartError{Err: errors.New("sandbox: " + r.Error)}
	case r.Status != nil:
		e.Code, e.Signal = r.Status.ExitStatus(), 0
		if r.Status.Signaled() {
			e.Code, e.Signal = -1, r.Status.Signal()
		}
		e.Left += r.Left
	}
	return nil
}

// close removes what the session left on this machine.
func (s *session) close() {
	if s.pipe != nil {
		s.pipe.Close()
	}
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.group != nil {
		s.group.remove()
	}
	for _, dir := range slices.Concat(list(s.temp), list(s.socket)) {
		_ = os.RemoveAll(dir)
	}
}
