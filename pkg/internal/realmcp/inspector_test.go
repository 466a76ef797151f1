//go:build unix

package realmcp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An inspector is the Inspector's command line as a client of a server.
type inspector struct {
	*installation
	dir    string
	target []string // how it reaches the server
}

// quickstart is an agent file of the repository.
const quickstart = "../../../examples/quickstart/agent.json"

// inspectStdio lets the Inspector start `agents mcp-server` with args for each
// request.
func inspectStdio(t *testing.T, args ...string) *inspector {
	k := installed(t)
	return &inspector{k, t.TempDir(), slices.Concat([]string{k.agents, "mcp-server"}, args)}
}

// ask sends one request and decodes the result into result, if there is one. It
// returns the Inspector's error message.
func (i *inspector) ask(t *testing.T, result any, method string, args ...string) (complaint string) {
	t.Helper()
	cli := i.module("@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	cmd := exec.Command(i.node, slices.Concat([]string{cli, "--cli"}, i.target, []string{"--method", method}, args)...)
	cmd.Env = append(i.environ(i.dir), "MCP_STORAGE_DIR="+i.dir)
	run := finish(t, cmd)
	if run.code == 0 || run.stdout != "" {
		if err := json.Unmarshal([]byte(run.stdout), result); err != nil {
			t.Fatalf("%s %q: %v: %s\n%s", method, args, err, tail(run.stdout), tail(run.stderr))
		}
	}
	if run.code == 0 {
		return ""
	}
	var said struct{ Error struct{ Message string } }
	if err := json.Unmarshal([]byte(run.stderr), &said); err != nil || said.Error.Message == "" {
		t.Fatalf("%s %q: exit code %d: %s", method, args, run.code, tail(run.stderr))
	}
	return said.Error.Message
}

// A callResult is the result of tools/call.
type callResult struct {
	Content []struct{ Type, Text string }
	IsError bool
	Meta    map[string]any `json:"_meta"`
}

func (r *callResult) text() string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

func TestInspectorWithAgents(t *testing.T) {
	inspectStdio(t, "--agent-file", quickstart).askAll(t)
}

// TestInspectorOverHTTP asks the same, of one server that wants a token.
func TestInspectorOverHTTP(t *testing.T) {
	k := installed(t)
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("a-token-for-tests\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := k.serve(t, ".", "--agent-file", quickstart, "--token-file", tokens)
	i := &inspector{k, dir, []string{"--transport", "http", "--server-url", url, "--header", "Authorization: Bearer a-token-for-tests", "--stored-auth-only"}}
	i.askAll(t)
	i.target[slices.Index(i.target, "--header")+1] = "Authorization: Bearer another-token-for-tests"
	if complaint := i.ask(t, nil, "tools/list"); !strings.Contains(complaint, "a bearer token of this server is needed") {
		t.Errorf("with another token: %q", complaint)
	}
}

// TestInspectorWithServe asks `agents serve`, which has MCP beside other protocols.
func TestInspectorWithServe(t *testing.T) {
	k := installed(t)
	url := k.serveAgents(t, "--agent-file", quickstart, "--no-token")
	i := &inspector{k, t.TempDir(), []string{"--transport", "http", "--server-url", url + "/mcp", "--stored-auth-only"}}
	i.askAgents(t)
}

func (i *inspector) askAll(t *testing.T) {
	t.Run("agents", i.askAgents)
	t.Run("prompts", i.askPrompts)
	t.Run("resources", i.askResources)
	t.Run("mistakes", i.askWrongly)
}

func (i *inspector) askAgents(t *testing.T) {
	folder, err := filepath.Abs("../../../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Tools []struct{ Name string } }
	if complaint := i.ask(t, &list, "tools/list", "--strict"); complaint != "" || len(list.Tools) != 1 || list.Tools[0].Name != "quickstart" {
		t.Errorf("tools/list: %+v, %s", list, complaint)
	}
	var called callResult
	complaint := i.ask(t, &called, "tools/call", "--tool-name", "quickstart", "--tool-arg", "prompt=What is in the folder "+folder+"?")
	if complaint != "" || called.IsError || len(called.Content) != 2 || !strings.Contains(called.Content[0].Text, "script.json") {
		t.Errorf("tools/call: %+v, %s", called, complaint)
	}
	if session, _ := called.Meta["agents-exe/session"].(string); session == "" || called.Content[1].Text != "session: "+session {
		t.Errorf("the session: %+v", called)
	}
	var refused callResult
	complaint = i.ask(t, &refused, "tools/call", "--tool-name", "quickstart", "--tool-arg", "question=what")
	if complaint == "" || !refused.IsError || !strings.Contains(refused.text(), "argument /prompt [required]: missing") {
		t.Errorf("a call without a prompt: %+v, %q", refused, complaint)
	}
}

func (i *inspector) askPrompts(t *testing.T) {
	var list struct{ Prompts []struct{ Name string } }
	complaint := i.ask(t, &list, "prompts/list")
	var names []string
	for _, p := range list.Prompts {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"code-review", "explain", "summarize", "translate"}, names); diff != "" {
		t.Errorf("prompts/list (-want +got):\n%s%s", diff, complaint)
	}
	var prompt struct {
		Messages []struct{ Content struct{ Text string } }
	}
	complaint = i.ask(t, &prompt, "prompts/get", "--prompt-name", "translate", "--prompt-args", "content=Grüße")
	if complaint != "" || len(prompt.Messages) != 1 || !strings.HasSuffix(prompt.Messages[0].Content.Text, "\n\nGrüße") {
		t.Errorf("prompts/get: %+v, %s", prompt, complaint)
	}
}

func (i *inspector) askResources(t *testing.T) {
	const uri = "agents://agent/quickstart"
	var list struct{ Resources []struct{ URI string } }
	complaint := i.ask(t, &list, "resources/list")
	if !slices.Contains(list.Resources, struct{ URI string }{uri}) {
		t.Errorf("resources/list: %+v, %s", list, complaint)
	}
	var read struct {
		Contents []struct{ Text, MIMEType string }
	}
	complaint = i.ask(t, &read, "resources/read", "--uri", uri)
	if complaint != "" || len(read.Contents) != 1 || read.Contents[0].MIMEType != "application/json" || !strings.Contains(read.Contents[0].Text, `"slug": "quickstart"`) {
		t.Errorf("resources/read: %+v, %s", read, complaint)
	}
	var nothing any
	if complaint := i.ask(t, &nothing, "logging/setLevel", "--log-level", "debug"); complaint != "" {
		t.Errorf("logging/setLevel: %s", complaint)
	}
}

func (i *inspector) askWrongly(t *testing.T) {
	for _, bad := range []struct {
		want string
		args []string
	}{
		{"Tool 'nope' not found", []string{"tools/call", "--tool-name", "nope", "--tool-arg", "x=1"}},
		{"unknown prompt: nope", []string{"prompts/get", "--prompt-name", "nope"}},
		{"content", []string{"prompts/get", "--prompt-name", "translate"}},
		{"there is no resource agents://nowhere", []string{"resources/read", "--uri", "agents://nowhere"}},
	} {
		var nothing any
		if complaint := i.ask(t, &nothing, bad.args[0], bad.args[1:]...); !strings.Contains(complaint, bad.want) {
			t.Errorf("%q: %q, want %q in it", bad.args, complaint, bad.want)
		}
	}
}

func TestInspectorWithTools(t *testing.T) {
	i := inspectStdio(t, "--agent-file", quickstart, "--expose", "tools")
	var list struct {
		Tools []struct {
			Name        string
			Annotations struct{ ReadOnlyHint bool }
		}
	}
	complaint := i.ask(t, &list, "tools/list", "--strict")
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if !tool.Annotations.ReadOnlyHint && strings.HasPrefix(tool.Name, "bash_") {
			t.Errorf("%s declares no effects, but has no readOnlyHint", tool.Name)
		}
	}
	if diff := cmp.Diff([]string{"bash_disk_usage", "bash_list_files", "bash_text_stats", "expert_editor"}, names); diff != "" {
		t.Errorf("tools/list (-want +got):\n%s%s", diff, complaint)
	}
	var called callResult
	complaint = i.ask(t, &called, "tools/call", "--tool-name", "bash_text_stats", "--tool-arg", "text=to be or not to be")
	if complaint != "" || len(called.Content) != 1 || called.Content[0].Text != "{\"lines\": 1, \"words\": 6, \"longest\": 18}\n" {
		t.Errorf("tools/call: %+v, %s", called, complaint)
	}
	var failed callResult
	complaint = i.ask(t, &failed, "tools/call", "--tool-name", "bash_list_files", "--tool-arg", "folder=/no/such/folder")
	if complaint == "" || !failed.IsError || !strings.Contains(failed.text(), "there is no folder /no/such/folder") {
		t.Errorf("a tool that fails: %+v, %q", failed, complaint)
	}
	var load struct{ Requests, OK, ToolErrors, Errors int }
	complaint = i.ask(t, &load, "tools/call", "--tool-name", "bash_text_stats", "--tool-arg", "text=x", "--load", "--load-requests", "200", "--load-concurrency", "64")
	if want := (struct{ Requests, OK, ToolErrors, Errors int }{200, 200, 0, 0}); load != want {
		t.Errorf("200 calls: %+v, %s", load, complaint)
	}
}
