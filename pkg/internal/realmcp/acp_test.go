//go:build unix

package realmcp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example client and the example agent of the Agent Client Protocol's SDK. The client
// starts its agent with npx, the agent is a conversation that is written in advance.
const (
	acpClient = "@agentclientprotocol/sdk/dist/examples/client.js"
	acpAgent  = "@agentclientprotocol/sdk/dist/examples/agent.js"
	acpSDK    = "@agentclientprotocol/sdk/dist/acp.js"
	acpSDK2   = "@agentclientprotocol/sdk/dist/v2/acp.js"
)

// acpTree writes an agent that writes a file and asks the SDK's example agent.
func acpTree(t *testing.T, k *installation) string {
	t.Helper()
	dir := t.TempDir()
	command, err := json.Marshal([]string{k.node, k.module(acpAgent)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"agent.json":         `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`,
		"script.json":        `{"rules":[{"when":{"role":"user"},"answer":{"text":"I begin.","calls":[{"tool":"expert_example","args":{"prompt":"go"}}]}},{"answer":{"text":"It said: ${result.expert_example}"}}]}`,
		"tools/example.json": `{"tag":"AcpAgent","contents":{"slug":"example","command":` + string(command) + `}}`,
		"bin/npx":            "#!/bin/sh\nexec " + k.agents + " acp --no-session --agent-file agent.json\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestACPExamples runs the example client with an agent whose sub-agent is the example
// agent: the permission that this asks for reaches the client.
func TestACPExamples(t *testing.T) {
	k := installed(t)
	for answer, want := range map[string]string{
		"1": "It said:  Perfect! I've successfully updated the configuration.",
		"4": "It said:  I understand you prefer not to make that change.",
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			dir := acpTree(t, k)
			cmd := exec.Command(k.node, k.module(acpClient))
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(answer+"\n")
			cmd.Env = append(k.environ(dir), "PATH="+filepath.Join(dir, "bin")+":"+filepath.Dir(k.node)+":/usr/bin:/bin")
			got := finish(t, cmd)
			solid := func(s string) string { return strings.Join(strings.Fields(s), "") } // pieces are lines
			text := solid(got.stdout)
			for _, part := range []string{"Connected to agent (protocol v1)", "I begin.", "🔧 expert_example prompt=go (pending)", "🔧 example: edit", "Permission requested: example: edit",
				"1. Allow (allow_once)", "4. Reject (reject_once)", want, "Agent completed with: end_turn"} {
				before, rest, ok := strings.Cut(text, solid(part))
				if !ok {
					t.Errorf("the client does not print %q behind %q; it printed:\n%s\n%s", part, tail(before), got.stdout, got.stderr)
					break
				}
				text = rest
			}
			if got.stderr != "" {
				t.Errorf("stderr: %s", got.stderr)
			}
		})
	}
}

// TestACPExampleAgent asks the example agent without an editor.
func TestACPExampleAgent(t *testing.T) {
	k := installed(t)
	dir := acpTree(t, k)
	cmd := exec.Command(k.agents, "run", "--no-session", "--agent-file", "agent.json", "-p", "go")
	cmd.Dir, cmd.Env = dir, k.environ(dir)
	got := finish(t, cmd)
	if !strings.HasPrefix(got.stdout, "It said:  Perfect!") || !strings.Contains(got.stderr, "✓ example: edit") {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
}

// acpForest is an agent with an agent of the protocol, which is `agents acp` with a sub-agent
// that has an agent made with the SDK.
func acpForest(t *testing.T, k *installation) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script, err := filepath.Abs("testdata/acp-agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	recorded := func(name string, command ...string) []string {
		return append([]string{"sh", "-c", `in=$1 out=$2; shift 2; tee "$in" | "$@" | tee "$out"`, "sh", filepath.Join(dir, name+".in"), filepath.Join(dir, name+".out")}, command...)
	}
	described := func(slug string, rules []object, fields object) object {
		contents := object{"slug": slug, "flavor": "scripted", "script": slug + "-script.json"}
		for key, value := range fields {
			contents[key] = value
		}
		k.writeJSON(t, dir, slug+"-script.json", object{"rules": rules})
		return object{"tag": "OpenAIAgentDescription", "contents": contents}
	}
	passOn := func(expert string) []object {
		return []object{{"when": object{"role": "user"}, "answer": object{"calls": []call{{expert, object{"prompt": "${prompt}"}}}}}, {"answer": object{"text": "${result." + expert + "}"}}}
	}
	program := func(slug string, command []string, more object) object {
		contents := object{"slug": slug, "command": command, "cwd": "."}
		for key, value := range more {
			contents[key] = value
		}
		return object{"tag": "AcpAgent", "contents": contents}
	}
	deep := passOn("expert_middle")
	deep[0]["when"] = object{"role": "user", "prompt": "deep"}
	k.writeJSON(t, dir, "root.json", described("root", append([]object{
		{"when": object{"role": "user", "prompt": "servers"}, "answer": object{"calls": []call{{"mcp_local_echo", object{"message": "stdio"}}, {"mcp_far_echo", object{"message": "http"}}, {"mcp_local_get-env", object{}}}}},
		{"when": object{"prompt": "servers"}, "answer": object{"text": "${result.mcp_local_echo}; ${result.mcp_far_echo}; ${result.mcp_local_get-env}"}},
		{"when": object{"prompt": "media"}, "answer": object{"text": "I read ${prompt}"}},
		{"when": object{"role": "user", "prompt": "slow"}, "answer": object{"calls": []call{{"bash_slow", object{}}}}},
	}, deep...), object{"toolDirectory": "tools", "extraAgents": []object{program("middle", recorded("middle", k.agents, "acp", "--agent-file", "middle.json", "--no-session"), nil)}}))
	k.writeJSON(t, dir, "middle.json", described("middle", passOn("expert_inner"), object{"extraAgents": []object{{"slug": "inner", "path": "inner.json"}}}))
	k.writeJSON(t, dir, "inner.json", described("inner", passOn("expert_coder"), object{"extraAgents": []object{program("coder", recorded("coder", k.node, script, k.module(acpSDK)), object{"sandbox": object{"write": []string{"."}}})}}))
	for name, text := range map[string]string{
		"in.txt":     "from the disk\n",
		"tools/slow": "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"slow\",\"description\":\"waits\",\"args\":[],\"effects\":\"none\"}'; exit; }\nexec sleep 600\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// writeJSON writes a file of JSON.
func (k *installation) writeJSON(t *testing.T, dir, name string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestACPForest runs an editor made with the SDK: it sends media and MCP servers, answers what
// an agent asks three levels below it, loads the session and cancels. Each message of the three
// connections fits the schema.
func TestACPForest(t *testing.T) {
	k := installed(t)
	dir := acpForest(t, k)
	client, err := filepath.Abs("testdata/acp-client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	far := (&testAgent{installation: k, dir: dir, home: dir}).serveEverything(t)
	cmd := exec.Command(k.node, client, k.module(acpSDK), k.module(everything), far,
		"sh", "-c", `tee root.in | "$0" acp --agent-file root.json | tee root.out`, k.agents)
	cmd.Dir, cmd.Env = dir, k.environ(dir)
	got := finish(t, cmd)
	lines := got.stdout
	for _, part := range []string{
		`{"kind":"modes","what":["ask","allow","read-only"]}`,
		`Echo: stdio; Echo: http; `, `FROM_EDITOR`, `"stop","what":"end_turn"`,
		`I read media \n\n<file path=\"/src/main.go\">\npackage main\n</file>\n/src/go.mod`,
		`"permission","what":"middle: edit`, `"terminal_info":{`, `"permission","what":"middle: execute`, `"terminal_exit":{`,
		`\"fs\":{\"readTextFile\":true,\"writeTextFile\":true},\"terminal\":true`, `; yes; 0 false FROM THE DISK`,
		`9 requests`, `"list","what":1`, `"load"`, `"user_message_chunk","what":{"text":"servers"`, `"user_message_chunk","what":{"type":"image"}`, `FROM THE DISK`,
		`refused by policy: the person has chosen the mode read-only`, `{"kind":"stop","what":"cancelled"}`,
	} {
		_, rest, ok := strings.Cut(lines, part)
		if !ok {
			t.Fatalf("the client does not print %s, in this order; it printed:\n%s\n%s", part, got.stdout, got.stderr)
		}
		lines = rest
	}
	if text, err := os.ReadFile(filepath.Join(dir, "in.txt")); string(text) != "FROM THE DISK\n" {
		t.Errorf("in.txt is %q, %v", text, err)
	}
	if n := strings.Count(got.stdout, `"permission","what":"middle: edit`); n != 1 {
		t.Errorf("%d questions about the edit", n)
	}
	c := newACPChecker(t, k)
	for name, side := range map[string]string{"root": "agent", "middle": "agent", "coder": "client"} {
		in, out := filepath.Join(dir, name+".in"), filepath.Join(dir, name+".out")
		if side == "agent" {
			c.recording("agent", out, in)
		}
		if name != "root" {
			c.recording("client", in, out)
		}
	}
	for _, method := range []string{"initialize", "session/new", "session/load", "session/list", "session/close", "session/set_mode", "session/prompt", "session/update", "session/request_permission",
		"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/release"} {
		if c.seen[method] == 0 {
			t.Errorf("no message of %s was checked", method)
		}
	}
}

// TestACPVersion2: a client of version 2 reads that the agent speaks version 1. An agent of version
// 2 cannot be a sub-agent, which says why, and one of both versions can.
func TestACPVersion2(t *testing.T) {
	k := installed(t)
	script, err := filepath.Abs("testdata/acp-v2.mjs")
	if err != nil {
		t.Fatal(err)
	}
	command := func(role string) []string {
		return []string{k.node, script, k.module(acpSDK), k.module(acpSDK2), role}
	}
	for role, want := range map[string]string{
		"client": `{"code":-32600,"message":"Invalid request: The v2 API only supports protocol version 2","data":{"expectedProtocolVersion":2,"receivedProtocolVersion":1}}`,
		"agent":  "initialize with version 1 of the protocol: Unsupported protocol version",
		"both":   "It said: version 1 works",
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			dir := acpTree(t, k)
			run := []string{k.agents, "run", "--no-session", "--agent-file", "agent.json", "-p", "go"}
			if role == "client" {
				run = append(command(role), k.agents, "acp", "--no-session", "--agent-file", "agent.json")
			}
			k.writeJSON(t, dir, "tools/example.json", object{"tag": "AcpAgent", "contents": object{"slug": "example", "command": command(role)}})
			cmd := exec.Command(run[0], run[1:]...)
			cmd.Dir, cmd.Env = dir, k.environ(dir)
			if got := finish(t, cmd); !strings.Contains(got.stdout, want) {
				t.Errorf("printed %s%s, want %s", got.stdout, got.stderr, want)
			}
		})
	}
}
