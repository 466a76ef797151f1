//go:build unix

package realmcp

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type object = map[string]any

// A call is a tool call of the scripted model.
type call struct {
	Tool string `json:"tool"`
	Args object `json:"args"`
}

// A testAgent is an agent with a scripted model, in a temporary folder.
type testAgent struct {
	*installation
	dir     string
	home    string
	servers []object
	fields  object // additional keys of the agent file
	rules   []object
}

func newTestAgent(t *testing.T, servers ...object) *testAgent {
	t.Helper()
	return &testAgent{installation: installed(t), dir: t.TempDir(), home: t.TempDir(), servers: servers}
}

// stdio returns the entry of an agent file for a server that node runs.
func (k *installation) stdio(name, script string, args ...string) object {
	return object{"tag": "McpSimpleBinary", "contents": object{
		"name": name, "executable": k.node, "args": append([]string{k.module(script)}, args...),
	}}
}

// overHTTP returns the entry of an agent file for a server at url.
func overHTTP(name, url string) object {
	return object{"tag": "McpHttp", "contents": object{"name": name, "url": url}}
}

// with adds fields to the entry of a server.
func with(server object, fields object) object {
	for key, value := range fields {
		server["contents"].(object)[key] = value
	}
	return server
}

// calls returns a script rule that answers the prompt with calls.
func calls(list ...call) object {
	for i := range list {
		if list[i].Args == nil {
			list[i].Args = object{}
		}
	}
	return object{"when": object{"turn": 1}, "answer": object{"calls": list}}
}

// write writes the agent and its script, and returns the agent file's path.
func (p *testAgent) write() (string, error) {
	contents := object{"slug": "tester", "flavor": "scripted", "script": "script.json", "mcpServers": p.servers, "maxParallelTools": 128}
	for key, value := range p.fields {
		contents[key] = value
	}
	rules := append(p.rules, object{"answer": object{"text": "done"}})
	file := filepath.Join(p.dir, "agent.json")
	for path, value := range map[string]object{
		file:                                {"tag": "OpenAIAgentDescription", "contents": contents},
		filepath.Join(p.dir, "script.json"): {"rules": rules},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return "", err
		}
	}
	return file, nil
}

// command returns the command of a run.
func (p *testAgent) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	file, err := p.write()
	if err != nil {
		t.Fatal(err)
	}
	return p.agentsCommand(append([]string{"run", "--agent-file", file, "--prompt", "go", "--output", "jsonl"}, args...)...)
}

// An event is a line of the output of a run.
type event struct {
	Kind, Tool, Text, Status, Error string
	N, Turn                         int
	Result                          result
}

// A result is the result of a call as the model gets it.
type result struct {
	Failed bool
	Parts  []part
}

type part struct {
	Kind, Text, MIME, Name string
	Data                   []byte
}

// text returns the text of all parts.
func (r *result) text() string {
	var b strings.Builder
	for _, p := range r.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// A runOutput is the output of a run and its events.
type runOutput struct {
	processOutput
	events []event
}

// run runs the agent. It is an error if there is no answer.
func (p *testAgent) run(t *testing.T, args ...string) *runOutput {
	t.Helper()
	s := &runOutput{processOutput: finish(t, p.command(t, args...))}
	events := json.NewDecoder(strings.NewReader(s.stdout))
	for {
		var e event
		if err := events.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v: the run printed %s", err, tail(s.stdout))
		}
		s.events = append(s.events, e)
	}
	if n := len(s.events); s.code != 0 || n == 0 || s.events[n-1].Status != "ok" {
		t.Fatalf("exit code %d\n%s\n%s", s.code, tail(s.stderr), tail(s.stdout))
	}
	return s
}

// result returns the result of the nth call of a tool, in the order of the calls,
// from 1. It must not have failed.
func (s *runOutput) result(t *testing.T, tool string, n int) *result {
	t.Helper()
	r := s.anyResult(t, tool, n)
	if r.Failed {
		t.Errorf("call %d of %s failed: %s", n, tool, r.text())
	}
	return r
}

func (s *runOutput) anyResult(t *testing.T, tool string, n int) *result {
	t.Helper()
	ended := slices.DeleteFunc(slices.Clone(s.events), func(e event) bool { return e.Kind != "call_ended" || e.Tool != tool })
	slices.SortFunc(ended, func(a, b event) int { return cmp.Or(a.Turn-b.Turn, a.N-b.N) })
	if len(ended) < n {
		t.Fatalf("%d calls of %s, want %d\n%s", len(ended), tool, n, tail(s.stderr))
	}
	return &ended[n-1].Result
}

// lines calls f with the events of a running process until f returns true.
func lines(r io.Reader, f func(event) (stop bool)) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the run ended early: %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if f(e) {
			return nil
		}
	}
}
