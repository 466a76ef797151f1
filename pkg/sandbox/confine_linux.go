package sandbox

import (
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

// Confine implements process.Sandbox.
func (b *Box) Confine(c *process.Command) (*process.Confined, error) {
	rung := b.place.Ladder.Rung()
	if err := b.check(rung); err != nil {
		return nil, err
	}
	return b.confine(c, rung)
}

// A session is one confined process and what has to be cleaned up after it.
type session struct {
	box    *Box
	rung   string
	order  order
	mark   string
	temp   string
	folder *process.Temp // temp, if it is not ""
	mounts mounts
	domain *Proxy       // for a list of domains
	listen []string     // the addresses of the sockets in the network namespace
	local  net.Listener // for Command.Local
	denied refusals     // by it
	absent []string     // what the program must not make
	rules  *prepared    // of Landlock alone

	spaces *spaces
	helper *net.UnixConn // of a helper that becomes the program
	theirs *os.File      // its end
	group  *cgroup
	failed error
}

func (b *Box) confine(c *process.Command, rung string) (_ *process.Confined, err error) {
	s := &session{box: b, rung: rung, mark: c.Mark}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.order.Root = b.place.Ladder.root && rung != Limits
	s.order.Filter = hasFilter && rung != Limits
	env := b.environ(c)
	if s.folder, env, err = b.privateTemp(env); err != nil {
		return nil, err
	}
	if s.folder != nil {
		s.temp = s.folder.Dir
	}
	s.files(c)
	if env, err = s.network(env, c.Local); err != nil {
		return nil, err
	}
	if err := s.limit(); err != nil {
		return nil, err
	}
	w := &process.Confined{Path: c.Path, Args: c.Args, Env: env, Refused: s.refused, Ended: s.ended}
	if rung == Bubblewrap || len(s.order.Limits) > 0 || s.group != nil {
		if err := s.viaHelper(w); err != nil {
			return nil, err
		}
	} else if rung == Landlock {
		w.Thread = s.restrict
	}
	if rung == Namespaces {
		return w, s.inSpaces(w)
	}
	return w, nil
}

// inSpaces starts the program, or its helper, in namespaces.
func (s *session) inSpaces(w *process.Confined) (err error) {
	l := s.box.place.Ladder
	o := spacesOrder{Mounts: s.mounts}
	if !l.root {
		o.Map = &[2]int{os.Geteuid(), os.Getegid()}
	}
	for _, path := range slices.Concat(s.mounts.Write, s.mounts.Pin, s.mounts.Protect, s.mounts.Hide) {
		var st unix.Stat_t
		_ = unix.Lstat(path, &st) // 0 if it does not exist
		o.IDs = append(o.IDs, fmt.Sprint(st.Dev, ":", st.Ino))
	}
	if s.spaces, err = l.enter(o); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	order := s.order
	if s.helper != nil {
		order.Files, order.Limits, order.Filter = files{}, nil, false // the helper's own
	}
	w.Fork = func(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
		pid, listener, err := s.spaces.start(&start{Path: path, Argv: argv, Env: attr.Env, Dir: attr.Dir, Temp: s.temp,
			Network: s.isolated(), Listen: s.listen, Order: order}, attr)
		if err != nil {
			return 0, err
		}
		return pid, s.serve(listener)
	}
	w.Left = func() int { return s.spaces.left(s.mark) }
	return nil
}

// viaHelper starts a helper that becomes the program.
func (s *session) viaHelper(w *process.Confined) error {
	helper := s.box.place.Ladder.Helper
	if len(helper) == 0 {
		return errors.New("sandbox: limits need a helper")
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	s.helper, s.theirs = ours, theirs
	w.Args = slices.Concat(helper[1:], []string{helperRun, w.Path}, w.Args)
	w.Path, w.Files, w.Started = helper[0], []*os.File{theirs}, s.started
	if s.rung == Bubblewrap {
		return s.bubblewrap(w)
	}
	return nil
}

// isolated reports whether the program has a network namespace of its own.
func (s *session) isolated() bool {
	n := s.box.config.Network
	return n != nil && !n.All && s.spacious()
}

// spacious reports whether the rung has namespaces.
func (s *session) spacious() bool { return s.rung == Namespaces || s.rung == Bubblewrap }

// files fills in what of the files may be used.
func (s *session) files(c *process.Command) {
	b := s.box
	program := c.Path
	if !filepath.IsAbs(program) {
		program = filepath.Join(c.Dir, program)
	}
	if s.rung == Limits {
		return
	}
	p := b.prepare(filepath.Dir(program), s.spacious())
	s.absent = p.absent
	s.order.Files, s.mounts = p.files, p.mounts
	if !s.spacious() {
		s.rules = p
		return
	}
	f := &s.order.Files
	if f.Read != nil {
		f.Read = append(slices.Clone(f.Read), slices.DeleteFunc([]string{s.temp, c.Share}, func(p string) bool { return p == "" })...)
	}
	if c.Share != "" && f.Write != nil {
		f.Write = append(slices.Clone(f.Write), c.Share)
		s.mounts.Write = append(slices.Clone(s.mounts.Write), c.Share)
	}
	if f.Write != nil {
		f.Write = append(slices.Clone(f.Write), s.temp, "/dev/shm")
	}
}

// A prepared is what a sandbox permits to the programs of a folder, and when that was
// found out.
type prepared struct {
	files  files
	mounts mounts
	rules  *os.File // of Landlock; closed by the garbage collector: a call may still use it
	err    error
	absent []string // of what is protected
	made   time.Time
}

// appeared reports whether a path that is to be protected exists by now.
func (p *prepared) appeared() bool {
	return slices.ContainsFunc(p.absent, func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	})
}

// prepare finds out what is permitted to a program in a folder, in namespaces or by
// Landlock alone, which permits whole folders: it takes as long as many calls. It is done
// again when the secrets are older than secretsAge.
func (b *Box) prepare(dir string, spacious bool) *prepared {
	hide := b.secrets()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.prepared[dir]; p != nil && p.made.Equal(b.looked) && !p.appeared() {
		return p
	}
	p := &prepared{made: b.looked}
	f := &p.files
	read := b.readable(filepath.Join(dir, "program"))
	f.Write = b.config.Write
	b.kept, b.keptAt = b.protection(), time.Now()
	kept := b.kept
	all := slices.Contains(f.Write, "/") // a mount over it would cover the others
	p.mounts = mounts{ReadOnly: f.Write != nil && !all, Protect: kept.exist, Pin: kept.pin}
	if !all {
		p.mounts.Write = f.Write
	}
	p.absent = kept.absent
	if b.config.Memory > 0 || b.config.Processes > 0 {
		// A process that writes its number into another control group leaves its limits.
		p.mounts.Protect = slices.Concat(kept.exist, []string{cgroupRoot})
	}
	if spacious {
		// A secret of which a part may be read is not hidden as a whole.
		hide = slices.DeleteFunc(slices.Clone(hide), func(secret string) bool {
			if slices.ContainsFunc(b.named, func(n string) bool { return below(n, secret) }) {
				return false
			}
			if slices.ContainsFunc(read, func(r string) bool { return below(secret, r) }) {
				p.mounts.Hide = append(p.mounts.Hide, secret)
			}
			return true
		})
	}
	if read != nil && !spacious { // what other processes of the user share
		hide = append(slices.Clone(hide), "/dev/shm")
	}
	if read != nil {
		f.Read, f.List = around(read, hide)
		f.Read = append(f.Read, b.named...)
		if !spacious {
			f.Write, _ = around(f.Write, hide)
		}
	}
	if temp, err := process.PrivateTemp(); err == nil && !spacious {
		if b.config.Write != nil {
			f.Write = append(slices.Clone(f.Write), temp)
		}
		if read != nil {
			f.Read = append(f.Read, temp)
		}
	}
	if !spacious {
		p.rules, p.err = f.ruleset()
	}
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

// network fills in where connections may go. A list of domains needs a proxy. local is an address
// that is permitted in any case.
func (s *session) network(env []string, local string) ([]string, error) {
	n, c := s.box.config.Network, s.box.config
	s.order.Sockets.IPC = s.spacious() || c.Read == nil && c.Write == nil
	if n == nil || n.All {
		s.order.Sockets.Internet = true
		return env, nil
	}
	s.order.Sockets.Internet = s.spacious()
	if len(n.Domains) == 0 && local == "" || s.rung == Limits {
		return env, nil
	}
	if s.spacious() {
		if len(n.Domains) > 0 {
			s.domain = s.box.proxyFor(n.Domains, &s.denied) // which gets its listener from the namespace
			s.listen, env = []string{proxyAddress}, withProxy(env, proxyAddress)
		}
		if local != "" {
			s.listen = append(s.listen, local)
		}
		return env, nil
	}
	if s.box.place.Ladder.landlock < 4 {
		return env, nil // no network at all
	}
	s.order.Sockets.Internet, s.order.Sockets.Streams = true, true
	if _, port, err := net.SplitHostPort(local); err == nil {
		n, _ := strconv.ParseUint(port, 10, 16) // of a listener of this process
		s.order.Files.Ports = []uint64{n}
	}
	if len(n.Domains) == 0 {
		return env, nil
	}
	// TCP connections to the port of the proxy alone. Another host that listens on this
	// port can be reached, if its address is known.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sandbox: proxy: %w", err)
	}
	s.domain = s.box.proxyFor(n.Domains, &s.denied)
	go s.domain.Serve(l)
	address := l.Addr().(*net.TCPAddr)
	s.order.Files.Ports = append(s.order.Files.Ports, uint64(address.Port))
	return withProxy(env, address.String()), nil
}

// serve serves the sockets that a helper made at the addresses of listen: with the proxy, or with
// what is at the same address outside.
func (s *session) serve(listeners []*os.File) error {
	for i, f := range listeners {
		l, err := net.FileListener(f)
		f.Close()
		switch {
		case err != nil:
			return err
		case s.listen[i] == proxyAddress:
			go s.domain.Serve(l)
		default:
			s.local = l
			go forward(l, s.listen[i])
		}
	}
	return nil
}

// bubblewrap puts bwrap before the helper. It makes the namespaces and the mounts.
func (s *session) bubblewrap(w *process.Confined) error {
	path, err := lookBwrap()
	if err != nil {
		return err
	}
	m := s.mounts
	args := []string{"--unshare-user-try", "--unshare-pid", "--unshare-ipc"}
	if s.isolated() {
		args = append(args, "--unshare-net") // with its loopback interface
	}
	if m.ReadOnly {
		args = append(args, "--ro-bind", "/", "/")
	} else {
		args = append(args, "--bind", "/", "/")
	}
	args = append(args, "--dev-bind", "/dev", "/dev", "--proc", "/proc")
	paths := slices.Concat(m.Write, m.Pin, m.Protect)
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) { // folders before what is in them
		if realPath(p) != p {
			continue
		}
		how := "--bind-try"
		if slices.Contains(m.Protect, p) {
			how = "--ro-bind-try"
		}
		args = append(args, how, p, p)
	}
	for _, p := range m.Hide {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			args = append(args, "--perms", "0000", "--tmpfs", p)
		} else if err == nil {
			args = append(args, "--ro-bind-try", os.DevNull, p)
		}
	}
	if s.temp != "" {
		for _, dir := range []string{s.temp, "/dev/shm"} {
			args = append(args, "--size", strconv.Itoa(tempSize), "--tmpfs", dir)
		}
	}
	s.order.Listen = s.listen
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

// refused returns lines about what the proxy refused, and about protected files that the
// program created.
func (s *session) refused() string {
	lines := s.box.setAside(s.absent)
	if denied := s.denied.take(); denied != "" {
		lines = append([]string{denied}, lines...)
	}
	return strings.Join(lines, "\n")
}

// started gives the helper its order.
func (s *session) started(pid int) {
	s.theirs.Close()
	_ = s.helper.SetDeadline(time.Now().Add(startLimit))
	if s.failed = s.command(pid); s.failed != nil {
		s.helper.Close() // which ends the helper
	}
}

// command waits until the helper runs, and all above it, and gives it its order.
func (s *session) command(pid int) error {
	if _, err := s.helper.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the helper was not started: %w", err)
	}
	var files []int
	if s.group != nil {
		below := descendants(pid)
		for _, p := range append(below, pid) {
			if err := s.group.add(p); err != nil {
				return err
			}
		}
		if s.group.pids != "" {
			f, err := os.OpenFile(s.group.pids, os.O_WRONLY, 0)
			if err != nil {
				return fmt.Errorf("control group: %w", err)
			}
			defer f.Close()
			files, s.order.Processes = []int{int(f.Fd())}, s.box.config.Processes+int64(len(below)) // those above the helper stay
		}
	}
	if err := send(s.helper, s.order, files...); err != nil || len(s.order.Listen) == 0 {
		return err
	}
	var r report
	listener, err := receive(s.helper, &r)
	if err != nil {
		return err
	}
	return errors.Join(r.err(), s.serve(listener))
}

// ended reads the report of the helper and cleans up.
func (s *session) ended(e *process.Exit) error {
	defer s.close()
	if e == nil {
		return nil
	}
	if s.failed != nil {
		return fmt.Errorf("sandbox: %w", s.failed)
	}
	if s.helper == nil {
		return nil
	}
	_ = s.helper.SetDeadline(time.Now().Add(time.Second))
	var r report
	if _, err := receive(s.helper, &r); err != nil {
		return nil // it became the program, or was killed
	}
	if r.Errno != 0 {
		return &process.StartError{Err: r.Errno}
	}
	return &process.StartError{Err: errors.New("sandbox: " + r.Error)}
}

// close removes what the session left on this machine.
func (s *session) close() {
	if s.helper != nil {
		s.helper.Close()
	}
	if s.domain != nil {
		s.domain.Close()
	}
	if s.local != nil {
		s.local.Close()
	}
	if s.group != nil {
		s.group.remove()
	}
	if s.spaces != nil {
		s.box.place.Ladder.leave(s.spaces)
	}
	_ = s.folder.Remove()
}
