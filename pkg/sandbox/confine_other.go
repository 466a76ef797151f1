//go:build !linux

package sandbox

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/agents-exe/agents/pkg/process"
)

// Helper is for Linux alone: it returns the exit code 125.
func Helper([]string) int { return 125 }

var rungs = []string{Seatbelt, Limits}

type (
	facts    struct{}
	prepared struct{}
)

func (facts) find() {}

// Close does nothing: calls share nothing here.
func (l *Ladder) Close() {}

// load returns why rungs do not work.
func (l *Ladder) load() map[string]string {
	why := map[string]string{}
	if _, err := os.Stat(sandboxExec); runtime.GOOS != "darwin" || err != nil {
		why[Seatbelt] = "this system is not macOS"
	}
	return why
}

// enforcers are what enforces each restriction on a rung.
func (b *Box) enforcers(rung string) map[string]string {
	by := map[string]string{"environment": "the start"}
	if rung == Seatbelt {
		by["read"], by["write"], by["network"], by["protected files"], by["signals"] = Seatbelt, Seatbelt, Seatbelt, Seatbelt, Seatbelt
	}
	return by
}

// Confine implements process.Sandbox.
func (b *Box) Confine(c *process.Command) (*process.Confined, error) {
	rung := b.place.Ladder.Rung()
	if err := b.check(rung); err != nil {
		return nil, err
	}
	folder, env, err := b.privateTemp(b.environ(c))
	if err != nil {
		return nil, err
	}
	temp := ""
	if folder != nil {
		temp = folder.Dir
	}
	w := &process.Confined{Path: c.Path, Args: c.Args, Env: env}
	var proxy *Proxy
	var denied refusals
	w.Refused = denied.take
	w.Ended = func(e *process.Exit) error {
		if proxy != nil {
			proxy.Close()
		}
		_ = folder.Remove()
		return nil
	}
	if rung != Seatbelt {
		return w, nil
	}
	s := seatbelt{readAll: b.config.Read == nil, writeAll: b.config.Write == nil, network: b.config.Network,
		read: append(b.readable(c.Path), temp, c.Share), write: append(slices.Clone(b.config.Write), temp, c.Share)}
	kept := b.lately()
	s.protected, s.pinned = slices.Concat(kept.exist, kept.absent), kept.pin
	if b.config.Read != nil {
		s.secrets = b.patterns
	}
	if n := b.config.Network; n != nil && len(n.Domains) > 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			_ = w.Ended(nil)
			return nil, fmt.Errorf("sandbox: proxy: %w", err)
		}
		proxy = b.proxyFor(n.Domains, &denied)
		go proxy.Serve(l)
		s.ports = append(s.ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		w.Env = withProxy(w.Env, l.Addr().String())
	}
	if _, port, err := net.SplitHostPort(c.Local); err == nil {
		s.ports = append(s.ports, port)
	}
	empty := func(p string) bool { return p == "" }
	s.read, s.write = slices.DeleteFunc(s.read, empty), slices.DeleteFunc(s.write, empty)
	line := s.command(append([]string{c.Path}, c.Args...))
	w.Path, w.Args = line[0], line[1:]
	return w, nil
}
