package agentfile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// mcpServer is an MCP server in a few lines of shell: one tool, which tells a
// variable of its environment and the arguments that it was started with.
const mcpServer = `#!/bin/sh
while read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
	case $line in
	*'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"},"instructions":"Ask for the greeting."}}' ;;
	*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"greet","description":"greets","inputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}}]}}' ;;
	*'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"'"$GREETING $* ${SECRET_TOKEN:-no secret}"'"}]}}' ;;
	*'"id"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"unknown method"}}' ;;
	esac
done
`

func TestMCPServersAreSourcesOfTools(t *testing.T) {
	write(t, `
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","systemPrompt":"You are tested.",
 "mcpServers":[
  {"tag":"McpSimpleBinary","contents":{"name":"sh","executable":"bin/server","args":["one","two"],"env":{"GREETING":"hello ${WHO}"}}},
  {"tag":"McpSimpleBinary","contents":{"name":"off","executable":"bin/nowhere","disabled":true}},
  {"tag":"McpSimpleBinary","contents":{"name":"gone","executable":"bin/nowhere"}},
  {"tag":"McpHttp","contents":{"name":"web","url":"https://example.org/mcp","headers":{"Authorization":"Bearer ${key:none}"}}}],
 "mcpConfigFiles":["others/mcp.json"]}}
-- others/mcp.json --
{"mcpServers":{"common":{"command":"../bin/server","args":["three"],"env":{"GREETING":"hi"},"sampling":{"model":"m"}},"sh":{"command":"x"},"nothing":{}}}
-- script.json --
{"rules":[
 {"when":{"role":"user"},"answer":{"calls":[{"tool":"mcp_sh_greet","args":{"n":1}},{"tool":"mcp_common_greet","args":{"n":0}}]}},
 {"when":{},"answer":{"text":"${system} | ${result.0} | ${result.mcp_common_greet}"}}]}
-- bin/server --
`+mcpServer)
	environ := append(os.Environ(), "WHO=world", "SECRET_TOKEN=hunter2")
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	want := []string{
		`left out [mcp]: agent.json:6:3: contents.mcpServers[3]: server web: header Authorization: there is no key "none", which has none`,
		`left out [mcp]: agent.json:7:20: contents.mcpConfigFiles[0]: others/mcp.json: server nothing has neither command nor url`,
		`left out [collision]: agent.json:7:20: contents.mcpConfigFiles[0]: another MCP server of this agent has the name "sh"`,
	}
	if diff := cmp.Diff(want, lines(tree)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	var warnings []string
	watch := func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}
	out, err := (&runner.Runner{Agent: tree.Root, Observe: watch}).Run(t.Context(), agent.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "You are tested.\n\nAsk for the greeting.\n\nAsk for the greeting. | hello world one two no secret | "; !strings.HasPrefix(out.Answer, want) {
		t.Errorf("answer = %q, want %q and more", out.Answer, want)
	}
	if want := "argument /n [minimum]: got 0, want at least 1"; !strings.Contains(out.Answer, want) {
		t.Errorf("answer = %q, want %q in it", out.Answer, want)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "bin/nowhere") {
		t.Errorf("warnings = %q, want one about bin/nowhere", warnings)
	}
	if strings.Contains(out.Answer, "hunter2") {
		t.Error("a secret of the environment reached the server")
	}

	tree.Connect(t.Context())
	if got := toolNames(tree.Nodes[0]); got != "mcp_common_greet mcp_sh_greet" {
		t.Errorf("tools = %s", got)
	}
}

// TestPastedServers: mcpServers as other clients write it, in the agent file.
func TestPastedServers(t *testing.T) {
	write(t, `
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json",
 "mcpServers":{
  "sh":{"command":"bin/server","args":["one"],"env":{"GREETING":"hello"},"envFile":".env"},
  "off":{"command":"gone","disabled":true},
  "a/b":{"args":[]}}}}
-- script.json --
{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"mcp_sh_greet","args":{"n":1}}]}},{"when":{},"answer":{"text":"${result.0}"}}]}
-- bin/server --
`+mcpServer)
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	want := []string{
		`left out [mcp]: agent.json:5:9: contents.mcpServers["a/b"]: server a/b has neither command nor url`,
		`warning [mcp]: agent.json:3:8: contents.mcpServers.sh: server sh: envFile is not read`,
	}
	if diff := cmp.Diff(want, lines(tree)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(tree.Nodes[0].File.Spec.MCPServers) != 3 {
		t.Errorf("servers = %+v, want 3", tree.Nodes[0].File.Spec.MCPServers)
	}
	out, err := (&runner.Runner{Agent: tree.Root}).Run(t.Context(), agent.UserText("go"))
	if err != nil || !strings.HasPrefix(out.Answer, "hello one") {
		t.Errorf("Run = %q, %v, want hello one", out.Answer, err)
	}
}

// TestConfigFilesOfOtherClients: what is read of them, and what is said about the
// rest.
func TestConfigFilesOfOtherClients(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		want  []string // problems, behind the name of the file
		tools string
	}{
		"Claude Desktop": {text: `{"globalShortcut":"","mcpServers":{"a":{"command":"bin/server","args":["-y","x"],"env":{"GREETING":"hi"}}}}`, tools: "mcp_a_greet"},
		"Claude Code":    {text: `{"mcpServers":{"a":{"type":"stdio","command":"bin/server","args":[],"env":{"GREETING":"${WHO}"}}}}`, tools: "mcp_a_greet"},
		"Copilot":        {text: `{"mcpServers":{"a":{"type":"local","command":"bin/server","args":[],"tools":["*"]}}}`, tools: "mcp_a_greet"},
		"Cline":          {text: `{"mcpServers":{"a":{"command":"bin/server","disabled":false,"autoApprove":[],"timeout":60},"b":{"command":"gone","disabled":true,"envFile":".env"}}}`, tools: "mcp_a_greet"},
		"Cursor": {text: `{"mcpServers":{"a":{"type":"stdio","command":"bin/server","args":["${workspaceFolder}/x","${HOME}"],"env":{"GREETING":"${env:WHO}"},"envFile":".env"}}}`, tools: "mcp_a_greet",
			want: []string{"warning: server a: ${env:WHO}, ${workspaceFolder}: passed on as written; only ${VAR} in env and ${key:ID} in headers are replaced; envFile is not read"}},
		"references in headers": {text: `{"mcpServers":{"a":{"type":"http","url":"${BASE:-http://127.0.0.1:1}/mcp","headers":{"Authorization":"Bearer ${TOKEN}"}}}}`,
			want: []string{`left out [mcp]: agent.json:1:120: contents.mcpConfigFiles[0]: server a: url: "${BASE:-http://127.0.0.1:1}/mcp" is not a usable URL; want http:// or https:// and a host`,
				"warning: server a: ${BASE:-http://127.0.0.1:1}, ${TOKEN}: passed on as written; only ${VAR} in env and ${key:ID} in headers are replaced"}},
		"Windsurf":        {text: `{"mcpServers":{"a":{"serverUrl":"https://example.org/"}}}`, want: []string{"left out: server a has neither command nor url; serverUrl and httpUrl are not read"}},
		"VS Code":         {text: `{"inputs":[],"servers":{"a":{"type":"stdio","command":"bin/server"}}}`, want: []string{`left out: it has servers in place of mcpServers, which are not read`}},
		"Zed":             {text: `{"context_servers":{"a":{"command":"bin/server"}}}`, want: []string{`left out: it has context_servers in place of mcpServers, which are not read`}},
		"something else":  {text: `{"a":{"command":"bin/server"}}`, want: []string{"left out: it has no mcpServers"}},
		"with comments":   {text: "{\n// mine\n\"mcpServers\":{}}", want: []string{"left out:2:1: comments are not allowed in JSON"}},
		"no servers":      {text: `{"mcpServers":[]}`, want: []string{"left out: mcpServers is not an object"}},
		"one that is bad": {text: `{"mcpServers":{"bad":{"command":"x","env":{"PORT":1}},"a":{"command":"bin/server"}}}`, tools: "mcp_a_greet", want: []string{"left out: server bad: env has a value of the wrong type, a JSON number"}},
		"no object":       {text: `{"mcpServers":{"a":"bin/server"}}`, want: []string{"left out: server a: it has a value of the wrong type, a JSON string"}},
		"times":           {text: `{"mcpServers":{"a":{"command":"bin/server","timeoutSeconds":-1}}}`, want: []string{"left out: server a: timeoutSeconds is -1, which is not between 0 and 604800"}},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, `
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","mcpConfigFiles":["mcp.json"]}}
-- script.json --
{"rules":[{"answer":{"text":"ok"}}]}
-- mcp.json --
`+c.text+`
-- bin/server --
`+mcpServer)
			tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: append(os.Environ(), "WHO=world")})
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			var got []string
			for _, line := range lines(tree) {
				got = append(got, strings.Replace(line, " [mcp]: agent.json:1:120: contents.mcpConfigFiles[0]: mcp.json", "", 1))
			}
			tree.Connect(t.Context())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if names := toolNames(tree.Nodes[0]); names != c.tools {
				t.Errorf("tools = %q, want %q", names, c.tools)
			}
		})
	}
}
