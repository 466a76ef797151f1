package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A wire passes connections on to a server, until it is cut.
type wire struct {
	net.Listener
	mu    sync.Mutex
	to    string // where it leads; "" accepts nothing
	conns []net.Conn
	made  int // connections so far
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: to}
	t.Cleanup(func() { l.Close(); w.cut("") })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.join(c)
		}
	}()
	return w
}

func (w *wire) join(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		c.Close()
		return
	}
	w.conns = append(w.conns, c, far)
	w.made++
	go func() { _, _ = io.Copy(far, c); far.Close() }()
	go func() { _, _ = io.Copy(c, far); c.Close() }()
}

// cut ends all connections. Further ones lead to another server.
func (w *wire) cut(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns, w.to = nil, to
}

// A library is a server with an agent whose tool notes that it has started, and ends when
// the file "go" is there.
type library struct {
	*exec.Cmd
	address string
}

const librarianToken = "a-token-of-the-librarian"

func libraryFiles() map[string]string {
	return map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"librarian","announce":"knows books","flavor":"scripted","script":"script.json","toolDirectory":"tools","toolWorkingDirectory":"."}}`,
		"script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_read","args":{}}]}},{"answer":{"text":"the book says: ${lastMessage}"}}]}`,
		"tools/read": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"read","description":"d","args":[]}'; exit; }
echo $$ >>pids
while [ ! -e go ]; do sleep 0.02; done
echo 42`,
		"token": librarianToken + "\n",
	}
}

// serveLibrary starts the server in the folder of cmd, which is that of an earlier one or new.
func serveLibrary(t *testing.T, dir string) *library {
	t.Helper()
	return serveAgent(t, dir, "agent.json")
}

// serveAgent starts a server for the agent in file, for those who have the token of the
// librarian.
func serveAgent(t *testing.T, dir, file string) *library {
	t.Helper()
	cmd := agentsCommand(t, nil, "serve", "--listen", "127.0.0.1:0", "--agent-file", file, "--token-file", "token")
	cmd.Dir = dir
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(pipe).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "serving agents at http://")
	if !ok {
		t.Fatalf("the server says %q", line)
	}
	go io.Copy(io.Discard, pipe)
	return &library{cmd, address}
}

// askLibrarian starts an agent that asks the librarian over a wire.
func askLibrarian(t *testing.T, w *wire, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	cmd := agentsCommand(t, map[string]string{
		"agent.json":           `{"tag":"OpenAIAgentDescription","contents":{"slug":"reader","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`,
		"script.json":          `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"expert_librarian","args":{"prompt":"${prompt}"}}]}},{"answer":{"text":"${lastMessage}"}}]}`,
		"tools/librarian.json": fmt.Sprintf(`{"tag":"RemoteAgent","contents":{"url":"http://%s","agent":"librarian","apiKeyId":"library"}}`, w.Addr()),
		"keys.json":            `{"keys":[{"id":"library","value":"` + librarianToken + `"}]}`,
	}, append([]string{"run", "--agent-file", "agent.json", "--api-keys", "keys.json", "-p", "What is the answer?"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, &stdout, &stderr
}

func newLibrary(t *testing.T) (dir string, started func() bool) {
	t.Helper()
	dir = t.TempDir()
	writeFiles(t, dir, libraryFiles())
	if err := os.Chmod(filepath.Join(dir, "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, func() bool { pids, _ := alive(t, filepath.Join(dir, "pids")); return len(pids) > 0 }
}

// letGo lets the librarian's tool end.
func letGo(t *testing.T, dir string) {
	t.Helper()
	writeFiles(t, dir, map[string]string{"go": ""})
}

// A run on a server survives the connection: nothing is lost and nothing happens twice.
func TestARemoteAgentWhoseConnectionIsLost(t *testing.T) {
	dir, started := newLibrary(t)
	server := serveLibrary(t, dir)
	w := newWire(t, server.address)
	cmd, stdout, stderr := askLibrarian(t, w)
	waitFor(t, started)
	w.cut(server.address)
	w.cut("") // the server is away for a while
	letGo(t, dir)
	w.cut(server.address)
	if err := cmd.Wait(); err != nil || stdout.String() != "the book says: 42\n\n" && stdout.String() != "the book says: 42\n" {
		t.Errorf("the answer is %q (%v)\n%s", stdout, err, stderr)
	}
	if pids, _ := alive(t, filepath.Join(dir, "pids")); len(pids) != 1 {
		t.Errorf("the tool ran %d times", len(pids))
	}
	for _, want := range []string{"librarian: bash_read", " 2 turns "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made != 3 { // the description, and the run twice
		t.Errorf("there were %d connections, want 3", w.made)
	}
	cost := agentsCommand(t, nil, "session", "cost", "--json", lastSession(t, stderr.String()))
	cost.Dir, cost.Env = cmd.Dir, cmd.Env
	if out, err := cost.Output(); err != nil || !strings.Contains(string(out), `"requests": 4`) {
		t.Errorf("the cost does not have the 4 requests of both agents: %v\n%s", err, out)
	}
}

// lastSession is the id in the last line of the progress.
func lastSession(t *testing.T, stderr string) string {
	t.Helper()
	_, id, ok := strings.Cut(stderr, "· session ")
	if !ok {
		t.Fatalf("there is no session in\n%s", stderr)
	}
	return strings.Fields(id)[0]
}

// A server that has lost its runs continues with what the caller has kept. A call whose
// outcome is not known does not run again.
func TestARemoteAgentWhoseServerIsKilled(t *testing.T) {
	dir, started := newLibrary(t)
	server := serveLibrary(t, dir)
	w := newWire(t, server.address)
	cmd, stdout, stderr := askLibrarian(t, w)
	waitFor(t, started)
	_ = server.Process.Kill()
	_ = server.Wait()
	w.cut("")
	letGo(t, dir)
	w.cut(serveLibrary(t, dir).address)
	if err := cmd.Wait(); err != nil || !strings.Contains(stdout.String(), "the book says: ") || strings.Contains(stdout.String(), "42") {
		t.Errorf("the answer is %q (%v), want that the outcome of the tool is not known\n%s", stdout, err, stderr)
	}
	if pids, _ := alive(t, filepath.Join(dir, "pids")); len(pids) != 1 {
		t.Errorf("the tool ran %d times", len(pids))
	}
}

// The end of the caller ends the run on the server.
func TestARemoteAgentEndsWithItsCaller(t *testing.T) {
	dir, started := newLibrary(t)
	w := newWire(t, serveLibrary(t, dir).address)
	cmd, _, stderr := askLibrarian(t, w)
	waitFor(t, started)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v\n%s", err, stderr)
	}
	waitFor(t, func() bool { _, running := alive(t, filepath.Join(dir, "pids")); return len(running) == 0 })
}

// What the caller denies does not run on the server, and a wrong token gets nothing.
func TestARemoteAgentHasItsCallersRights(t *testing.T) {
	dir, started := newLibrary(t)
	letGo(t, dir)
	w := newWire(t, serveLibrary(t, dir).address)
	cmd, stdout, stderr := askLibrarian(t, w, "--deny", `{"tool":"read","effects":["once"],"reason":"not here"}`)
	if err := cmd.Wait(); err != nil || started() || !strings.Contains(stdout.String(), "bash_read") {
		t.Errorf("the tool ran: %t; the answer is %q (%v)\n%s", started(), stdout, err, stderr)
	}
	writeFiles(t, dir, map[string]string{"token": "another-token-of-the-library\n"})
	other := newWire(t, serveLibrary(t, dir).address)
	cmd, stdout, stderr = askLibrarian(t, other)
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "401 Unauthorized") || strings.Contains(stderr.String()+stdout.String(), librarianToken) {
		t.Errorf("with a wrong token: %v\n%s%s", err, stdout, stderr)
	}
}
