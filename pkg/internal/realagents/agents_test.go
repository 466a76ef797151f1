//go:build unix

package realagents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A program is a coding agent: what `agents new agent --from` calls it, the tool that it then is, its
// name, where it is in node_modules, and the tool of its own by which it runs a command.
type program struct{ from, tool, name, file, shell, args string }

var programs = []program{
	{"codex", "bash_codex", "codex", "@openai/codex/bin/codex.js", "exec_command", `{"cmd":"echo made >made.txt; echo the-output"}`},
	{"claude-code", "bash_claude_code", "claude", "@anthropic-ai/claude-code-linux-x64/claude", "Bash", `{"command":"echo made >made.txt; echo the-output","description":"makes"}`},
	{"opencode", "bash_opencode", "opencode", "opencode-linux-x64/bin/opencode", "bash", `{"command":"echo made >made.txt; echo the-output","description":"makes"}`},
	{"pi", "bash_pi", "pi", ".bin/pi", "bash", `{"command":"echo made >made.txt; echo the-output"}`},
	{"gemini", "bash_gemini", "gemini", ".bin/gemini", "run_shell_command", `{"command":"echo made >made.txt; echo the-output"}`},
	{"crush", "bash_crush", "crush", "../bin/crush", "bash", `{"command":"echo made >made.txt; echo the-output","description":"makes"}`},
}

// A model is a server of chat completions for a lead, which calls a sub-agent, and for the program of
// the sub-agent, which calls a tool of its own.
type model struct {
	program
	hang bool // at the second request of the program

	mu      sync.Mutex
	served  int // with an answer
	asked   int // by the program
	hanging chan struct{}
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := string(body)
	done := strings.Contains(text, `"role":"tool"`)
	lead := strings.Contains(text, `"name":"expert_coder"`)
	m.mu.Lock()
	if !lead {
		m.asked++
	}
	hang := m.hang && !lead && done
	if !hang {
		m.served++
	}
	m.mu.Unlock()
	if hang {
		close(m.hanging)
		<-r.Context().Done()
		return
	}
	call := func(name, args string) string {
		encoded, _ := json.Marshal(args) // strings always encode
		return fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":%q,"arguments":%s}}]}`, name, encoded)
	}
	delta, reason := `{"content":"I have \"made\" it.\nIt is in made.txt: \ud83d\ude00"}`, "stop"
	switch {
	case lead && !done:
		delta, reason = call("expert_coder", `{"prompt":"Please make the file."}`), "tool_calls"
	case !lead && !done && strings.Contains(text, `"`+m.shell+`"`):
		delta, reason = call(m.shell, m.args), "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", delta)
	fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", reason)
	fmt.Fprint(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":100,\"total_tokens\":1100}}\n\ndata: [DONE]\n\n")
}

// lead returns a run of an agent whose sub-agent is the program, in a sandbox without network. The
// program is killed when there is a file crash.
func lead(t *testing.T, m *model, members string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	binary := os.Getenv("AGENTS_TEST_AGENTS")
	if binary == "" {
		t.Skip("this test needs npm packages: run `make test-agents`")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "build/realagents/node_modules", m.file)
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%s is not installed: %v", m.name, err)
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	dir = t.TempDir()
	for _, name := range []string{"work", "bin", "home"} {
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, name), 0o755)
		}
	}
	start := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] || (until [ -e crash ]; do sleep 0.1; done; kill -9 $$) &\nexec %s \"$@\"\n", program)
	for _, e := range []error{err, os.WriteFile(filepath.Join(dir, "bin", m.name), []byte(start), 0o755),
		os.WriteFile(filepath.Join(dir, "agent.json"), fmt.Appendf(nil, `{"tag":"OpenAIAgentDescription","contents":{"slug":"lead","flavor":"openai-compatible","modelName":"m","modelUrl":"%s/v1",
			"price":{"input":3,"output":15},"toolDirectory":"tools",%s}}`, server.URL, members), 0o644)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Dir = filepath.Join(dir, "work")
		cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "LC_ALL=C.UTF-8"}
		return cmd
	}
	out, err := command("new", "agent", "coder", "--from", m.from, "--dir", "../tools").CombinedOutput()
	if err != nil || strings.Contains(string(out), "tested") || strings.Contains(string(out), "missing") {
		t.Fatalf("%v: %s", err, out)
	}
	return command("run", "--agent-file", "../agent.json", "--prompt", "go", "--output", "jsonl", "--yes"), dir
}

// read returns the result and the progress of the tool's call, and the end of the run.
func read(t *testing.T, out []byte, tool string) (result *agent.ToolResult, progress string, end agent.Event) {
	t.Helper()
	for line := range strings.Lines(string(out)) {
		var e agent.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case e.Kind == agent.EventCallEnded && e.Tool == tool:
			result = e.Result
		case e.Kind == agent.EventProgress && e.Tool == tool:
			progress += e.Text + "\n"
		case e.Kind == agent.EventEnd && e.Depth == 0:
			end = e
		}
	}
	if result == nil || end.Total == nil {
		t.Fatalf("the run did not end: %s", out)
	}
	return result, progress, end
}

// TestACodingAgentAsksForPermission has programs that are agents of the Agent Client Protocol use a
// lent model. The rules of the lead decide about their calls.
func TestACodingAgentAsksForPermission(t *testing.T) {
	for _, p := range programs {
		if p.from != "gemini" && p.from != "opencode" {
			continue
		}
		for _, verdict := range []string{"allow", "deny"} {
			t.Run(p.name+" "+verdict, func(t *testing.T) {
				m := &model{program: p}
				cmd, dir := lead(t, m, `"budget":{"usd":1},"sandbox":"workspace","lend":[{"tool":"expert_coder"}],"permissions":[{"verdict":"`+verdict+`","tool":"execute"}],
					"extraAgents":[{"tag":"AcpAgent","contents":{"slug":"coder","announce":"codes","command":["tools/coder-tools/`+p.from+`","acp"],"models":true}}]`)
				if err := os.Remove(filepath.Join(dir, "tools/coder.json")); err != nil {
					t.Fatal(err)
				}
				var stderr strings.Builder
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, &stderr)
				}
				result, _, end := read(t, out, "execute")
				text, _ := os.ReadFile(filepath.Join(dir, "work/made.txt"))
				if denied := verdict == "deny"; result.Failed != denied || (string(text) == "made\n") == denied {
					t.Errorf("the call ended with %q, and made.txt has %q", result.Text(), text)
				}
				if u := end.Total.Usage; u.Cost != agent.Money(m.served)*each || m.asked < 2 && verdict == "allow" {
					t.Errorf("counted %s for %d answers, %d of them of the program", u.Cost, m.served, m.asked)
				}
			})
		}
	}
}

const each = agent.Dollar * (3*1000 + 15*100) / 1e6

// TestACodingAgentUsesALentModel: it runs a command and answers, without network, and the cost is
// that of what the server has served.
func TestACodingAgentUsesALentModel(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			m := &model{program: p}
			cmd, dir := lead(t, m, `"budget":{"usd":1}`)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			result, progress, end := read(t, out, p.tool)
			if result.Failed || result.Text() != "I have \"made\" it.\nIt is in made.txt: \U0001F600\n" {
				t.Errorf("the tool answered %q", result.Text())
			}
			shown := 1
			if p.name == "crush" { // which prints its answer only
				shown = 0
			}
			if calls := strings.Count(progress, "echo made >made.txt; echo the-output"); calls != shown || strings.Contains(progress, "version") {
				t.Errorf("the progress is %s", progress)
			}
			if text, _ := os.ReadFile(filepath.Join(dir, "work/made.txt")); string(text) != "made\n" {
				t.Errorf("made.txt has %q", text)
			}
			u, own, script := end.Total.Usage, end.Total.Agents[p.tool].Requests, end.Total.Agents["coder"].Requests
			if u.Cost != agent.Money(m.served)*each || u.Requests-script != m.served || own != m.asked || m.asked < 2 {
				t.Errorf("counted %d requests and %s, %d of them of the program; served %d, %d of them to it", u.Requests-script, u.Cost, own, m.served, m.asked)
			}
		})
	}
}

// TestABudgetEndsACodingAgent: the budget is spent after the first request of the program.
func TestABudgetEndsACodingAgent(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			m := &model{program: p}
			cmd, _ := lead(t, m, `"budget":{"turns":3}`) // one each of the lead, the sub-agent and the program
			out, _ := cmd.Output()                       // it fails: the budget is that of the lead too
			_, _, end := read(t, out, p.tool)
			if end.Status != agent.StatusBudget || m.served != 2 || end.Total.Usage.Requests != 3 {
				t.Errorf("the run ended with %s after %d requests, served %d", end.Status, end.Total.Usage.Requests, m.served)
			}
		})
	}
}

// TestACancelEndsACodingAgent: its request to the server ends, and the run with it.
func TestACancelEndsACodingAgent(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			m := &model{program: p, hang: true, hanging: make(chan struct{})}
			cmd, dir := lead(t, m, `"budget":{"usd":1}`)
			var out strings.Builder
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-m.hanging
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // it was interrupted
			_, _, end := read(t, []byte(out.String()), p.tool)
			if end.Status != agent.StatusInterrupted {
				t.Errorf("the run ended with %s: %s", end.Status, end.Error)
			}
			if left, _ := exec.Command("pgrep", "-f", dir).Output(); len(left) > 0 {
				t.Errorf("processes are left: %s", left)
			}
		})
	}
}

// TestACodingAgentThatCrashes is a call that failed, of which the lead reads.
func TestACodingAgentThatCrashes(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			m := &model{program: p, hang: true, hanging: make(chan struct{})}
			cmd, dir := lead(t, m, `"budget":{"usd":1}`)
			go func() {
				<-m.hanging
				if err := os.WriteFile(filepath.Join(dir, "work/crash"), nil, 0o644); err != nil {
					t.Error(err)
				}
			}()
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			result, _, end := read(t, out, p.tool)
			if !result.Failed || !strings.Contains(result.Text(), "137") || end.Status != agent.StatusOK {
				t.Errorf("the call ended with %q, and the run with %s", result.Text(), end.Status)
			}
			if u := end.Total.Usage; u.Cost < agent.Money(m.served)*each {
				t.Errorf("counted %s for %d answers", u.Cost, m.served)
			}
			if left, _ := exec.Command("pgrep", "-f", dir).Output(); len(left) > 0 {
				t.Errorf("processes are left: %s", left)
			}
		})
	}
}
