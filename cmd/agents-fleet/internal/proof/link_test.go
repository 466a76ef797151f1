package proof

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A link forwards connections, unless it is cut: then nothing arrives until it is repaired.
type link struct {
	to  string
	mu  sync.Mutex
	cut chan struct{} // closed while bytes pass
}

func newLink(t *testing.T, to string) (*link, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	l := &link{to: to}
	l.mend()
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			go l.forward(from)
		}
	}()
	return l, ln.Addr().String()
}

func (l *link) forward(from net.Conn) {
	defer from.Close()
	l.wait()
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	go l.copy(to, from)
	l.copy(from, to)
}

func (l *link) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.wait()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	to.Close()
	from.Close()
}

func (l *link) wait() {
	l.mu.Lock()
	open := l.cut
	l.mu.Unlock()
	<-open
}

func (l *link) sever() {
	l.mu.Lock()
	l.cut = make(chan struct{})
	l.mu.Unlock()
}

func (l *link) mend() {
	l.mu.Lock()
	if l.cut == nil {
		l.cut = make(chan struct{})
	}
	close(l.cut)
	l.mu.Unlock()
}

// outage is how long a link is cut. A worker may be silent for less.
func outage() time.Duration { return time.Duration(size(5, 60)) * time.Second }

// TestLinkCut cuts the connection between a worker and the server.
func TestLinkCut(t *testing.T) {
	f := newFleet(t)
	l, address := newLink(t, f.address)
	f.cutOff(f.worker("PROOF_ADDRESS="+address), l.sever, l.mend)
}

// cutOff cuts the link of the worker first while its tool is running. Another worker takes
// over, and what the first one does meanwhile has no effect. When the link is repaired, the
// first one continues alone.
func (f *fleet) cutOff(first *process, sever, mend func()) {
	f.Helper()
	folder, start := f.pack(noting("sleep 1; echo noted")), f.prompt(agent.Budget{})
	id := f.submit(folder, start)
	f.until("a call is made", func() bool { return len(f.notes()) > 0 })
	sever()
	began := time.Now()
	second := f.worker()
	if r := f.await(id); r.Status != string(agent.StatusOK) {
		f.Errorf("the run ended as %s\n%s%s", r.Status, f.story(id), second.stderr)
	}
	f.calledOnce(id, f.notes())
	if len(f.workers(id)) < 2 {
		f.Errorf("the worker that was cut off was alone at work: %q", f.workers(id))
	}
	took := time.Since(began)
	time.Sleep(outage() - took)
	second.kill()
	mend()
	id = f.submit(folder, start)
	if r := f.await(id); r.Status != string(agent.StatusOK) {
		f.Errorf("after the cut, a run ended as %s\n%s%s", r.Status, f.story(id), first.stderr)
	}
	f.calledOnce(id, f.notes())
	f.Logf("cut for %v; the other worker ended the run after %v", outage(), took.Round(time.Millisecond))
}

// TestLinkCutInNamespace does so with a worker in a network namespace, whose interface goes
// down.
func TestLinkCutInNamespace(t *testing.T) {
	name := fmt.Sprintf("fleet%d", os.Getpid()%10000)
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return err
	}
	if err := ip("netns", "add", name); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	t.Cleanup(func() { _ = ip("netns", "delete", name) })
	host, there := name+"h", name+"c"
	err := errors.Join(
		ip("link", "add", host, "type", "veth", "peer", "name", there, "netns", name),
		ip("address", "add", "198.18.77.1/30", "dev", host),
		ip("link", "set", host, "up"),
		ip("-n", name, "address", "add", "198.18.77.2/30", "dev", there),
		ip("-n", name, "link", "set", there, "up"),
		ip("-n", name, "link", "set", "lo", "up"))
	t.Cleanup(func() { _ = ip("link", "delete", host) })
	if err != nil {
		t.Skipf("pairs of network interfaces are not available: %v", err)
	}
	f := newFleetAt(t, "198.18.77.1:0")
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	f.cutOff(f.workerIn([]string{"ip", "netns", "exec", name}), func() { must(ip("link", "set", host, "down")) }, func() { must(ip("link", "set", host, "up")) })
}
