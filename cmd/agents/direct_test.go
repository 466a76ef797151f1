package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
)

// ownProcess runs an agent in a process of its own.
var ownProcess = []string{"sh", "-c", `exec "$@"`, "sh"}

// directedFiles are the agents top, mid in a process of its own, and leaf, which mid calls
// twice and which waits until somebody speaks to it.
func directedFiles(dir string) map[string]string {
	runner, _ := json.Marshal(ownProcess) // strings always encode
	return map[string]string{
		"top/agent.json": fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"top","flavor":"scripted","script":"script.json","extraAgents":[{"slug":"mid","path":"%s/mid/agent.json","runner":%s}]}}`, dir, runner),
		"top/script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"expert_mid","args":{"prompt":"p"}}]}},
			{"answer":{"text":"${lastMessage}"}}]}`,
		"mid/script.json": `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_leaf","args":{"prompt":"p"}}]}},
			{"when":{"turn":2},"answer":{"calls":[{"tool":"expert_leaf","args":{"prompt":"p"}}]}},
			{"answer":{"text":"${lastMessage}"}}]}`,
		"leaf/agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"leaf","announce":"a","flavor":"scripted","script":"script.json","toolDirectory":"tools","maxTurns":10000,"loopLimit":false}}`,
		"leaf/script.json": `{"rules":[{"when":{"role":"user","lastMessage":"hurry"},"answer":{"text":"I heard: ${lastMessage}"}},
			{"answer":{"calls":[{"tool":"bash_wait","args":{}}]}}]}`,
		"leaf/tools/wait": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"wait","description":"d","args":[]}'; exit; }
sleep 0.05`,
	}
}

// hold runs top over a channel and gives the events to do. The last one is returned.
func hold(t *testing.T, dir string, do func(*channel.Conn, agent.Event)) (end agent.Event) {
	t.Helper()
	cmd := agentsCommand(t, nil, "run", "--channel", "--agent-file", "top/agent.json")
	cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "AGENTS_API_KEYS_FILE="+filepath.Join(dir, "keys.json"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c := channel.Open(out, in, agent.Start{Args: json.RawMessage(`{"prompt":"go"}`)})
	defer c.Close()
	for e, err := range c.Events() {
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		if e.Kind == agent.EventWarning {
			t.Errorf("a warning: %s", e.Text)
		}
		do(c, e)
		end = e
	}
	return end
}

// TestAPersonDirectsAnAgentOverEveryBorder speaks to an agent two processes below, and stops
// it alone when it is called again.
func TestAPersonDirectsAnAgentOverEveryBorder(t *testing.T) {
	runner := func(dir string, command []string) string {
		text, _ := json.Marshal(command) // strings always encode
		return fmt.Sprintf(`"extraAgents":[{"slug":"leaf","path":"%s/leaf/agent.json","runner":%s}]`, dir, text)
	}
	var line *wire // to the server
	var server *library
	borders := map[string]func(t *testing.T, dir string) string{
		"in the same process": func(*testing.T, string) string {
			return `"extraAgents":[{"slug":"leaf","path":"../leaf/agent.json"}]`
		},
		"in a process": func(_ *testing.T, dir string) string { return runner(dir, ownProcess) },
		"in a container": func(t *testing.T, dir string) string {
			c := newContainers(t, dir)
			if c == nil {
				t.Skip("podman runs no containers here")
			}
			t.Cleanup(func() { waitFor(t, c.gone) })
			return runner(dir, slices.Concat(c.runner(), ownProcess))
		},
		"on a server": func(t *testing.T, dir string) string {
			writeFiles(t, dir, map[string]string{"token": librarianToken, "keys.json": `{"keys":[{"id":"library","value":"` + librarianToken + `"}]}`})
			if err := os.Chmod(filepath.Join(dir, "token"), 0o600); err != nil {
				t.Fatal(err)
			}
			server = serveAgent(t, dir, "leaf/agent.json")
			line = newWire(t, server.address)
			writeFiles(t, dir, map[string]string{"mid/tools/leaf.json": fmt.Sprintf(`{"tag":"RemoteAgent","contents":{"url":"http://%s","agent":"leaf","apiKeyId":"library"}}`, line.Addr())})
			return `"toolDirectory":"tools"`
		},
	}
	for name, extra := range borders {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "work")
			writeFiles(t, dir, map[string]string{"keys.json": `{"keys":[]}`})
			writeFiles(t, dir, directedFiles(dir))
			self, err := os.Executable()
			if err == nil {
				err = os.Symlink(self, filepath.Join(dir, "agents"))
			}
			if err != nil {
				t.Fatal(err)
			}
			writeFiles(t, dir, map[string]string{"mid/agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"mid","announce":"a","flavor":"scripted","script":"script.json",` + extra(t, dir) + `}}`})
			leaf := ""
			waits := func(e agent.Event) bool {
				if e.Kind == agent.EventSession && e.Agent == "leaf" {
					leaf = e.Session
				}
				return e.Kind == agent.EventCallStarted && e.Agent == "leaf"
			}
			heard, first := "", ""
			end := hold(t, dir, func(c *channel.Conn, e agent.Event) {
				lost := e.Kind == agent.EventProgress && strings.Contains(e.Text, "connecting again")
				switch begun := waits(e) && e.Turn == 1; {
				case begun && first != "":
					_ = c.Direct(agent.Directive{Session: leaf, Stop: true, Reason: "enough"})
				case begun && name == "on a server":
					line.cut("") // it reconnects, and sends what could not be sent
				case begun, lost:
					m := agent.UserText("hurry")
					_ = c.Direct(agent.Directive{Session: leaf, Message: &m})
				}
				if lost {
					line.cut(server.address)
				}
				if e.Kind == agent.EventMessage && e.Input {
					heard += e.Agent + ": " + e.Message.Text() + "\n"
				}
				if e.Kind == agent.EventCallEnded && e.Agent == "mid" && first == "" {
					first = e.Result.Answer()
				}
			})
			if heard != "leaf: hurry\n" || first != "I heard: hurry" {
				t.Errorf("heard: %q, and then: %q", heard, first)
			}
			// The answer of the agent between them repeats the line of the runtime, and is marked as its own.
			if want := "[ok] agent mid answered:\n[interrupted] agent leaf did not answer: a person stopped it: enough"; end.Status != agent.StatusOK || end.Text != want {
				t.Errorf("stopped: %s, %q, want %q", end.Status, end.Text, want)
			}
		})
	}
}
