package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const mcpGreeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// An mcpPeer is a process that serves MCP.
type mcpPeer struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	pipe   io.Closer
	stderr *strings.Builder

	stderrMu sync.Mutex // while it runs
}

// Write takes what the process writes to stderr.
func (p *mcpPeer) Write(b []byte) (int, error) {
	p.stderrMu.Lock()
	defer p.stderrMu.Unlock()
	return p.stderr.Write(b)
}

func startMCP(t *testing.T, files map[string]string, args ...string) *mcpPeer {
	t.Helper()
	p := &mcpPeer{Cmd: agentsCommand(t, files, append([]string{"mcp-server", "--agent-file", "agent.json"}, args...)...), stderr: &strings.Builder{}}
	p.Stderr = p
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out, p.pipe = in, bufio.NewReader(out), out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	p.send(t, mcpGreeting)
	p.line(t)
	return p
}

func (p *mcpPeer) send(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
}

func (p *mcpPeer) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("read: %v\n%s", err, p.stderr)
	}
	return line
}

func TestMCPServerLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	const interrupted = `"agents-exe/status":"interrupted"`
	tests := map[string]struct {
		drop bool // a call before
		end  func(p *mcpPeer)
		want string // in what is written then
	}{
		"end of stdin":               {false, func(p *mcpPeer) { p.in.Close() }, interrupted},
		"a dropped call and SIGTERM": {true, func(p *mcpPeer) { p.Process.Signal(syscall.SIGTERM) }, interrupted},
		"client is gone":             {false, func(p *mcpPeer) { p.in.Close(); p.pipe.Close() }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := startMCP(t, hangFiles(), "--linger", "100ms")
			file := filepath.Join(p.Dir, "pids")
			begun := 0
			call := func(id int) {
				p.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"root","arguments":{"prompt":"hang"}}}`, id))
				begun += 12
				waitFor(t, func() bool { pids, _ := alive(t, file); return len(pids) == begun })
			}
			call(1)
			if tt.drop {
				p.send(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				waitFor(t, func() bool { _, running := alive(t, file); return len(running) == 0 })
				p.send(t, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
				if got := p.line(t); !strings.Contains(got, `"id":2`) {
					t.Errorf("after the cancellation it wrote %s", got)
				}
				call(3)
			}
			tt.end(p)
			rest, _ := io.ReadAll(p.out)
			p.Wait()
			if code := p.ProcessState.ExitCode(); code != 0 || p.stderr.Len() > 0 {
				t.Errorf("exit code %d, want 0\n%s", code, p.stderr)
			}
			if _, running := alive(t, file); len(running) > 0 {
				t.Errorf("%v still run", running)
			}
			if !strings.Contains(string(rest), tt.want) {
				t.Errorf("it wrote %q, want %q", rest, tt.want)
			}
		})
	}
}

func TestMCPServerFollowsTheToolFolder(t *testing.T) {
	t.Parallel()
	p := startMCP(t, oneTool(), "--expose", "tools", "--watch")
	p.addTool(t, "two", sayTool("two"))
	timer := time.AfterFunc(3*time.Minute, func() { p.Process.Kill() })
	defer timer.Stop()
	if got := p.line(t); !strings.Contains(got, "notifications/tools/list_changed") {
		t.Fatalf("it wrote %s", got)
	}
	p.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash_two"}}`)
	if got := p.line(t); !strings.Contains(got, "it is two") {
		t.Errorf("the new tool: %s", got)
	}
	p.in.Close()
	p.Wait()
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
}

// TestMCPServerExecutesNothingNew: without --watch a tool that writes files cannot have
// them executed, neither a new tool's describe nor a changed tool.
func TestMCPServerExecutesNothingNew(t *testing.T) {
	p := startMCP(t, oneTool(), "--expose", "tools")
	trap := "#!/bin/sh\ntouch ../executed\n" + sayTool("two")
	p.addTool(t, "two", trap)
	p.addTool(t, "one", trap)
	p.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash_one"}}`)
	if got := p.line(t); !strings.Contains(got, "has changed since the server started") {
		t.Errorf("the changed tool: %s", got)
	}
	waitFor(t, func() bool { // the server has looked, and says so
		p.stderrMu.Lock()
		defer p.stderrMu.Unlock()
		return strings.Contains(p.stderr.String(), "have changed since the start and are not loaded")
	})
	if _, err := os.Stat(filepath.Join(p.Dir, "executed")); err == nil {
		t.Error("a file that was written while the server ran was executed")
	}
}

func oneTool() map[string]string {
	return map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`,
		"script.json": `{"rules":[{"answer":{"text":"ok"}}]}`,
		"tools/one":   sayTool("one"),
	}
}

func sayTool(slug string) string {
	return fmt.Sprintf("#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":%q,\"description\":\"says it\",\"args\":[]}'; exit 0; }\necho it is %s\n", slug, slug)
}

// addTool writes a tool beside the folder of tools and moves it there: one that is half
// written would be described.
func (p *mcpPeer) addTool(t *testing.T, name, text string) {
	t.Helper()
	beside := filepath.Join(p.Dir, name)
	if err := os.WriteFile(beside, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, filepath.Join(p.Dir, "tools", name)); err != nil {
		t.Fatal(err)
	}
}
