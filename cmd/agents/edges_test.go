package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
)

// edgeFiles are an agent that needs --set to be loaded, and calls a tool until its budget ends.
var edgeFiles = map[string]string{
	"agent.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "edge", "flavor": "scripted", "script": "script.json", "toolDirectory": "tools",
		"systemPrompt": ["You are ${NAME}."]}}`,
	"script.json": `{"rules": [{"answer": {"calls": [{"tool": "bash_look", "args": {}}]}}]}`,
	"tools/look":  "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{\"slug\":\"look\",\"description\":\"Looks.\",\"args\":[]}'; else echo seen; fi\n",
	"broken.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "edge", "flavor": "scripted", "script": "script.json", "toolDirectory": "absent"}}`,
}

// edges start a run with the prompt "go" in the ways that the program has.
var edges = map[string]struct {
	args []string
	do   func(t *testing.T, cmd *exec.Cmd)
}{
	"run": {[]string{"run", "--quiet", "-p", "go"}, func(_ *testing.T, cmd *exec.Cmd) { _ = cmd.Run() }},
	"cli": {[]string{"cli", "--quiet"}, input("go\n")},
	"acp": {[]string{"acp"}, func(t *testing.T, cmd *exec.Cmd) {
		c := serveACP(t, cmd)
		var answer acp.PromptResponse
		_ = c.conn.Call(t.Context(), acp.MethodPrompt, acp.PromptRequest{SessionID: c.session(), Prompt: []acp.Block{*acp.TextBlock("go")}}, &answer)
		c.in.Close()
		c.wait()
	}},
	"mcp-server": {[]string{"mcp-server"}, input(mcpGreeting + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edge","arguments":{"prompt":"go"}}}` + "\n")},
	"serve": {[]string{"serve", "--listen", "127.0.0.1:0", "--no-token"}, func(t *testing.T, cmd *exec.Cmd) {
		s := serveSite(t, cmd)
		s.request("", "/v1/chat/completions", `{"model": "edge", "messages": [{"role": "user", "content": "go"}]}`)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}},
}

func input(text string) func(*testing.T, *exec.Cmd) {
	return func(_ *testing.T, cmd *exec.Cmd) {
		cmd.Stdin = strings.NewReader(text)
		_ = cmd.Run() // the run fails
	}
}

// The flags of runs have the same names and effects wherever a run starts.
func TestFlagsOfRunsAreThoseOfEveryEdge(t *testing.T) {
	t.Parallel()
	const incomplete = "--strict: the tree is not complete"
	for name, edge := range edges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(edge.args, "--agent-file", "agent.json", "--set", "NAME=somebody", "--model", "chosen", "--budget", "turns=2", "--trace-file", "spans.jsonl")
			cmd := agentsCommand(t, edgeFiles, args...)
			edge.do(t, cmd)
			spans := string(readFile(t, cmd, "spans.jsonl"))
			for _, want := range []string{`"chosen"`, "budget turns 2 of agent edge"} {
				if !strings.Contains(spans, want) {
					t.Errorf("the spans have no %s: %s", want, spans)
				}
			}
			strict := agentsCommand(t, edgeFiles, append(edge.args, "--agent-file", "broken.json", "--strict")...)
			if name == "acp" { // a conversation loads the agent
				c := serveACP(t, strict)
				err := c.conn.Call(t.Context(), acp.MethodNew, acp.SessionRequest{CWD: strict.Dir, MCPServers: []acp.MCPServer{}}, &acp.SessionResponse{})
				if err == nil || !strings.Contains(err.Error(), incomplete) {
					t.Errorf("--strict with an incomplete tree: %v", err)
				}
				return
			}
			strict.Stdin = strings.NewReader("")
			if out, err := strict.CombinedOutput(); err == nil || !strings.Contains(string(out), incomplete) {
				t.Errorf("--strict with an incomplete tree: %s", out)
			}
		})
	}
}

// What a server cannot do with --yes, TestServeRefuses has too.
func TestServeHasNoYes(t *testing.T) {
	if text := help(t, "serve"); strings.Contains(text, "--yes") {
		t.Errorf("serve --help has --yes: %s", text)
	}
}
