package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/acp/acptest"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// An acpClient is an editor whose agent is `agents acp`.
type acpClient struct {
	t    *testing.T
	conn *acp.Conn
	dir  string
	in   io.Closer
	wait func() int // for the end of the program; it returns the exit code
	kill func(os.Signal) error

	mu      sync.Mutex
	updates []acp.Update
	asked   []acp.PermissionRequest
	choose  string // the option that answers the next question, "" cancels it
}

// acpFiles are an agent that writes a file, plans and shows its context.
func acpFiles() map[string]string {
	return map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools","builtinToolboxes":[{"tag":"PlanToolbox"}]}}`,
		"tools/write_note": `#!/bin/sh
case $1 in
describe) echo '{"slug":"write_note","description":"writes","args":[{"name":"path","description":"file","type":"string","mode":"dashdashequal"},{"name":"content","description":"text","type":"string","mode":"dashdashequal"}]}' ;;
run) shift; for a; do case $a in --path=*) p=${a#*=} ;; --content=*) c=${a#*=} ;; esac; done; echo writing >&2; printf '%s' "$c" >"$p"; echo "wrote $p" ;;
esac
`,
		"script.json": `{"rules":[
			{"when":{"prompt":"write","role":"user"},"answer":{"text":"Now I write.","reasoning":"hm","calls":[{"tool":"bash_write_note","args":{"path":"note.txt","content":"new\n"}}]}},
			{"when":{"prompt":"plan","role":"user"},"answer":{"calls":[{"tool":"add_task","args":{"id":"a","title":"First"}}]}},
			{"when":{"prompt":"echo"},"answer":{"text":"${prompt}"}},
			{"when":{"prompt":"fail"},"fault":{"status":400}},
			{"answer":{"text":"done"}}]}`,
	}
}

func startACP(t *testing.T, files map[string]string, args ...string) *acpClient {
	t.Helper()
	return serveACP(t, agentsCommand(t, files, append([]string{"acp", "--agent-file", "agent.json"}, args...)...))
}

// serveACP starts a command that serves ACP.
func serveACP(t *testing.T, cmd *exec.Cmd) *acpClient {
	t.Helper()
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
	check, err := acptest.New(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	conn := acp.NewConn(io.TeeReader(out, check.Ours()), io.MultiWriter(check.Theirs(), in))
	c := &acpClient{t: t, conn: conn, dir: cmd.Dir, in: in, kill: cmd.Process.Signal}
	c.conn.Notify = func(_ string, params json.RawMessage) {
		var n acp.Notification
		if err := acp.Decode(params, &n); err != nil {
			t.Errorf("update %s: %v", params, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.updates = append(c.updates, n.Update)
	}
	c.conn.Request = c.request
	served := make(chan error, 1)
	go func() { served <- c.conn.Serve(context.Background()) }()
	c.wait = sync.OnceValue(func() int {
		<-served
		cmd.Wait()
		if stderr.Len() > 0 {
			t.Logf("stderr: %s", &stderr)
		}
		return cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		cmd.Process.Kill()
		c.wait()
	})
	hello := acp.InitializeRequest{ProtocolVersion: acp.Version}
	if err := json.Unmarshal([]byte(`{"form":{}}`), &hello.ClientCapabilities.Elicitation); err != nil {
		t.Fatal(err)
	}
	c.call(acp.MethodInitialize, hello, &acp.InitializeResponse{})
	return c
}

func (c *acpClient) request(method string, params json.RawMessage) acp.Answer {
	return func(context.Context) (any, error) {
		var form acp.ElicitRequest
		if method == acp.MethodElicit && acp.Decode(params, &form) == nil && form.Mode == "form" && form.SessionID != "" {
			return acp.ElicitResponse{Action: "accept", Content: json.RawMessage(fmt.Sprintf(`{"answer":"the editor answers %s"}`, form.Message))}, nil
		}
		var r acp.PermissionRequest
		if err := acp.Decode(params, &r); err != nil || method != acp.MethodPermission {
			return nil, jsonrpc.Errorf(acp.MethodNotFound, "%s: %v", method, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, r)
		return acp.Choose(c.choose), nil
	}
}

func (c *acpClient) call(method string, params, result any) {
	c.t.Helper()
	if err := c.conn.Call(c.t.Context(), method, params, result); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// session opens a new session.
func (c *acpClient) session() string {
	c.t.Helper()
	var r acp.SessionResponse
	c.call(acp.MethodNew, acp.SessionRequest{CWD: c.dir, MCPServers: []acp.MCPServer{}}, &r)
	return r.SessionID
}

// prompt sends a prompt and returns why the turn stopped.
func (c *acpClient) prompt(session, text string) string {
	c.t.Helper()
	var r acp.PromptResponse
	c.call(acp.MethodPrompt, acp.PromptRequest{SessionID: session, Prompt: []acp.Block{*acp.TextBlock(text)}}, &r)
	return r.StopReason
}

// taken returns the updates since the last time, one a line: their kind and what is in them.
func (c *acpClient) taken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	last := ""
	for _, u := range c.updates {
		if u.Kind == acp.CommandsUpdate || u.Kind == acp.UsageUpdate { // they come at any time
			continue
		}
		before := last
		last = u.Kind
		switch text := string(u.Content); u.Kind {
		case acp.UserChunk, acp.AgentChunk, acp.ThoughtChunk:
			var block acp.Block
			json.Unmarshal(u.Content, &block)
			if before == u.Kind {
				b.WriteString(*block.Text)
				break
			}
			fmt.Fprintf(&b, "\n%s %s", u.Kind, *block.Text)
		case acp.PlanUpdate:
			fmt.Fprintf(&b, "\nplan %+v", u.Entries)
		default:
			fmt.Fprintf(&b, "\n%s %s %s %s", u.Kind, u.Call.Kind, u.Status, u.Title)
			for _, l := range u.Locations {
				fmt.Fprintf(&b, " at %s", l.Path)
			}
			b.WriteString(" " + text)
		}
	}
	c.updates = nil
	return strings.ReplaceAll(b.String(), c.dir, "DIR")
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		i := strings.Index(text, part)
		if i < 0 {
			t.Errorf("there is no %q, in this order, in:\n%s", part, text)
			return
		}
		text = text[i+len(part):]
	}
}

func TestAnEditorSeesWhatAnAgentDoes(t *testing.T) {
	c := startACP(t, acpFiles())
	c.choose = "yes"
	id := c.session()
	if stop := c.prompt(id, "write"); stop != acp.EndTurn {
		t.Errorf("the turn stopped with %s", stop)
	}
	want(t, c.taken(), "session_info_update", "write", "agent_thought_chunk hm", "agent_message_chunk Now I write.",
		"tool_call edit pending bash_write_note path=note.txt", " at DIR/note.txt",
		`tool_call_update  pending`, `"type":"diff","path":"DIR/note.txt","newText":"new\n"`,
		"tool_call_update  in_progress", "writing",
		"tool_call_update  completed", `"type":"diff","path":"DIR/note.txt","newText":"new\n"`, "wrote note.txt",
		"agent_message_chunk", "done")
	var kinds []string
	for _, o := range c.asked[0].Options {
		kinds = append(kinds, o.Kind)
	}
	if got := strings.Join(kinds, " "); got != "allow_once allow_always allow_always reject_once reject_always" || len(c.asked) != 1 {
		t.Errorf("%d questions with the options %s", len(c.asked), got)
	}
	c.prompt(id, "plan")
	want(t, c.taken(), "plan [{Content:First Priority:medium Status:pending}]")

	// The session is on disk: another conversation continues it, and is shown what was.
	c.call(acp.MethodClose, acp.SessionID{SessionID: id}, nil)
	c.call(acp.MethodLoad, acp.SessionRequest{SessionID: id, CWD: c.dir, MCPServers: []acp.MCPServer{}}, nil)
	want(t, c.taken(), "user_message_chunk write", "agent_thought_chunk hm", "agent_message_chunk Now I write.", "tool_call_update  completed", "wrote note.txt", "done",
		"user_message_chunk plan", "plan [{Content:First")
	var list acp.ListResponse
	c.call(acp.MethodList, acp.ListRequest{CWD: c.dir}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != id || list.Sessions[0].Title != "write" {
		t.Errorf("session/list: %+v", list)
	}
	c.in.Close()
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d at the end of input", code)
	}
}

func TestAnEditorDecidesAboutCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		choose, mode string
		asked        int // in two turns
		written      bool
	}{
		"always":           {"session", "", 1, true},
		"never":            {"never", "", 1, false},
		"no":               {"no", "", 2, false},
		"no answer":        {"", "", 2, false},
		"an unknown one":   {"maybe", "", 2, false},
		"mode allow":       {"no", "allow", 0, true},
		"mode read-only":   {"yes", "read-only", 0, false},
		"started with yes": {"no", "--yes", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if tt.mode == "--yes" {
				args, tt.mode = []string{"--yes"}, ""
			}
			c := startACP(t, acpFiles(), args...)
			c.choose = tt.choose
			id := c.session()
			if tt.mode != "" {
				c.call(acp.MethodSetMode, acp.SetModeRequest{SessionID: id, ModeID: tt.mode}, nil)
			}
			c.prompt(id, "write")
			c.prompt(id, "write again")
			_, err := os.Stat(filepath.Join(c.dir, "note.txt"))
			if written := err == nil; written != tt.written || len(c.asked) != tt.asked {
				t.Errorf("written: %v after %d questions\n%s", written, len(c.asked), c.taken())
			}
		})
	}
}

func TestASignalEndsTheRunsOfAnEditor(t *testing.T) {
	t.Parallel()
	c := startACP(t, hangFiles(), "--yes")
	id := c.session()
	stop := make(chan string, 1)
	go func() {
		var r acp.PromptResponse
		err := c.conn.Call(context.Background(), acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{*acp.TextBlock("hang")}}, &r)
		stop <- fmt.Sprint(r.StopReason, " ", err)
	}()
	file := filepath.Join(c.dir, "pids")
	waitFor(t, func() bool { pids, _ := alive(t, file); return len(pids) == 12 })
	err := c.conn.Call(t.Context(), acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{*acp.TextBlock("two")}}, nil)
	if err == nil || !strings.Contains(err.Error(), "in progress") {
		t.Errorf("a second prompt: %v", err)
	}
	c.kill(syscall.SIGTERM)
	if got := <-stop; got != "cancelled <nil>" {
		t.Errorf("the prompt: %s", got)
	}
	waitFor(t, func() bool { _, running := alive(t, file); return len(running) == 0 })
}

func TestCommandsAndContentOfAnEditor(t *testing.T) {
	c := startACP(t, acpFiles(), "--no-session")
	id := c.session()
	text := "x := 1\n"
	var r acp.PromptResponse
	c.call(acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{
		*acp.TextBlock("echo "), {Type: "resource_link", URI: "file:///src/a.go"},
		{Type: "resource", Resource: &acp.Resource{URI: "file:///src/b.go", Text: &text}},
	}}, &r)
	want(t, c.taken(), "agent_message_chunk echo /src/a.go\n\n<file path=\"/src/b.go\">\nx := 1\n</file>")
	c.prompt(id, "/tools")
	want(t, c.taken(), "agent_message_chunk", "bash_write_note")
	c.prompt(id, "/cost")
	want(t, c.taken(), "1 request")
	c.prompt(id, "/compact")
	want(t, c.taken(), "shortened")
	c.prompt(id, "echo /unknown")
	want(t, c.taken(), "echo /unknown")
	for name, tt := range map[string]struct {
		method string
		params any
		want   string
	}{
		"model":           {acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{*acp.TextBlock("fail")}}, "400"},
		"empty":           {acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{}}, "the prompt is empty"},
		"unknown content": {acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{{Type: "video"}}}, `"video" is not supported`},
		"bad image":       {acp.MethodPrompt, acp.PromptRequest{SessionID: id, Prompt: []acp.Block{{Type: "image", Data: "?"}}}, "illegal base64"},
		"unknown session": {acp.MethodPrompt, acp.PromptRequest{SessionID: "x"}, `no open session "x"`},
		"unknown mode":    {acp.MethodSetMode, acp.SetModeRequest{SessionID: id, ModeID: "x"}, `no mode "x"`},
		"relative folder": {acp.MethodNew, acp.SessionRequest{CWD: "here"}, "not an absolute path"},
		"missing folder":  {acp.MethodNew, acp.SessionRequest{CWD: filepath.Join(t.TempDir(), "none")}, "is not a folder"},
		"wrong type":      {acp.MethodNew, map[string]any{"cwd": 5}, "cwd: wrong type: a JSON number"},
		"unknown method":  {"session/dance", nil, "no method"},
		"not kept":        {acp.MethodLoad, acp.SessionRequest{SessionID: id + "x", CWD: c.dir}, "no session"},
	} {
		if err := c.conn.Call(t.Context(), tt.method, tt.params, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if !slices.ContainsFunc([]string{c.prompt(id, "still there")}, func(s string) bool { return s == acp.EndTurn }) {
		t.Error("the session does not survive errors")
	}
}

func TestAnEditorNamesFoldersAndServers(t *testing.T) {
	files := acpFiles()
	files["other/README"] = "x"
	files["served.json"] = `{"tag":"OpenAIAgentDescription","contents":{"slug":"served","flavor":"scripted","script":"served-script.json"}}`
	files["served-script.json"] = `{"rules":[{"answer":{"text":"hello from the server"}}]}`
	files["script.json"] = strings.Replace(files["script.json"], `{"rules":[`, `{"rules":[{"when":{"prompt":"server","role":"user"},"answer":{"calls":[{"tool":"mcp_mine_served","args":{"prompt":"hi"}}]}},`, 1)
	c := startACP(t, files)
	c.choose = "folder"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(c.dir, "agents")); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(c.dir, "other")
	open := func(method, id string) string {
		t.Helper()
		var r acp.SessionResponse
		c.call(method, acp.SessionRequest{SessionID: id, CWD: other, MCPServers: []acp.MCPServer{
			{Name: "mine", Command: filepath.Join(c.dir, "agents"), Args: []string{"mcp-server", "--no-session", "--agent-file", filepath.Join(c.dir, "served.json")}, Env: []acp.Pair{{Name: "X", Value: "y"}}},
		}}, &r)
		return r.SessionID
	}
	id := open(acp.MethodNew, "")
	c.prompt(id, "write")
	if text, err := os.ReadFile(filepath.Join(other, "note.txt")); string(text) != "new\n" {
		t.Errorf("the tool did not work in the folder of the session: %q, %v", text, err)
	}
	c.prompt(id, "server")
	want(t, c.taken(), "mcp_mine_served", "hello from the server")
	var list acp.ListResponse
	c.call(acp.MethodList, acp.ListRequest{CWD: other}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].CWD != other {
		t.Errorf("the sessions of the folder: %+v", list)
	}
	if c.call(acp.MethodList, acp.ListRequest{CWD: c.dir}, &list); len(list.Sessions) != 0 {
		t.Errorf("the sessions of another folder: %+v", list)
	}
	// What was allowed in the folder holds in another session, and a session can be resumed
	// without its history.
	asked := len(c.asked)
	c.prompt(open(acp.MethodNew, ""), "write")
	open(acp.MethodResume, id)
	if shown := c.taken(); strings.Contains(shown, "user_message_chunk") || len(c.asked) != asked {
		t.Errorf("%d questions, then\n%s", len(c.asked)-asked, shown)
	}
	c.prompt(id, "write")
}

// formFiles are an agent with an MCP server that asks who is there.
func formFiles(t *testing.T) map[string]string {
	t.Helper()
	files := acpFiles()
	files["agent.json"] = `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"fake","executable":"./mcp-fake"}}]}}`
	files["script.json"] = `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"mcp_fake_ask","args":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}}}]}},{"answer":{"text":"${result.mcp_fake_ask}"}}]}`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files["mcp-fake"] = fmt.Sprintf("#!/bin/sh\nln -sf %q fake/mcp-fake\nexec fake/mcp-fake\n", self)
	files["fake/README"] = "x"
	return files
}

func TestAnEditorAnswersForms(t *testing.T) {
	c := startACP(t, formFiles(t), "--yes")
	c.prompt(c.session(), "ask")
	want(t, c.taken(), "the editor answers", "Who?")
}

// TestAnEditorOfAnotherVersion: clients are answered with version 1, whatever they ask for. What a
// client of a later version can do counts, wherever it says so, and the answer has what version 2
// requires.
func TestAnEditorOfAnotherVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		hello       string
		info, forms bool
	}{
		"1":                  {`{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}}}}`, false, true},
		"1, members of 2":    {`{"protocolVersion":1,"info":{"name":"e","version":"1"},"capabilities":{"elicitation":{"form":{}}}}`, false, false},
		"0":                  {`{"protocolVersion":0}`, false, false},
		"2":                  {`{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{"elicitation":{"form":{},"url":null}}}`, true, true},
		"2, nothing":         {`{"protocolVersion":2,"info":{"name":"e","version":"1"}}`, true, false},
		"2, null":            {`{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{"auth":{"terminal":{}},"elicitation":null}}`, true, false},
		"2, members of both": {`{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{},"clientInfo":{"name":"e","version":"1"},"clientCapabilities":{"elicitation":{"form":{}}}}`, true, true},
		"the last":           {`{"protocolVersion":65535,"info":{"name":"e","version":"1"},"capabilities":{"elicitation":{"form":{}}}}`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startACP(t, formFiles(t), "--yes", "--no-session")
			var text json.RawMessage
			c.call(acp.MethodInitialize, json.RawMessage(tt.hello), &text)
			var r acp.InitializeResponse
			if err := json.Unmarshal(text, &r); err != nil || r.ProtocolVersion != acp.Version || r.AgentInfo == nil || (r.Info != nil) != tt.info || tt.info && *r.Info != *r.AgentInfo {
				t.Errorf("the answer is %s, %v", text, err)
			}
			if stop := c.prompt(c.session(), "ask"); stop != acp.EndTurn {
				t.Errorf("the turn stopped with %s", stop)
			}
			if shown := c.taken(); strings.Contains(shown, "the editor answers") != tt.forms {
				t.Errorf("a form was shown: %v, in\n%s", !tt.forms, shown)
			}
		})
	}
}
