package acpserver

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

func TestKindsOfTools(t *testing.T) {
	for name, want := range map[string]string{
		"bash_read_file": "read", "bash_bash": "execute", "bash_edit_file": "edit", "bash_grep": "search", "mcp_web_fetch": "fetch",
		"think": "think", "python": "execute", "bash_frobnicate": "other", "bash_date": "read", "expert_poet": "think", "mcp_fs_move_file": "move",
	} {
		spec := &agent.ToolSpec{}
		switch name {
		case "bash_date":
			spec.Effects = agent.EffectsNone
		case "expert_poet":
			spec.Agent = "poet"
		}
		if got := kind(name, spec); got != want {
			t.Errorf("kind(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestMessages(t *testing.T) {
	text, data := "package a\n", base64.StdEncoding.EncodeToString([]byte("%PDF"))
	m, err := message([]acp.Block{*acp.TextBlock("Look at "), {Type: "resource_link", URI: "file:///a%20b.go"}, *acp.TextBlock(" and "), {Type: "resource_link", URI: "https://example.com/x"},
		{Type: "resource", Resource: &acp.Resource{URI: "file:///a.go", Text: &text}}, {Type: "image", Data: data, MIMEType: "image/png"},
		{Type: "resource", Resource: &acp.Resource{URI: "file:///dir/b.pdf", Blob: &data, MIMEType: "application/pdf"}}})
	want := agent.Message{Role: agent.RoleUser, Parts: []agent.Part{
		agent.Text("Look at /a b.go and https://example.com/x\n\n<file path=\"/a.go\">\npackage a\n</file>\n"),
		{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("%PDF")},
		{Kind: agent.PartMedia, MIME: "application/pdf", Data: []byte("%PDF"), Name: "b.pdf"},
	}}
	if diff := cmp.Diff(want, m); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, p := range want.Parts { // and back, for the history
		if b := block(p); b.Type != map[string]string{"": "text", "image/png": "image", "application/pdf": "resource"}[p.MIME] {
			t.Errorf("the block of %+v is %+v", p, b)
		}
	}
}

// shown are the updates as lines of JSON.
func shown(list []acp.Update) string {
	var lines []string
	for _, u := range list {
		lines = append(lines, string(acp.Raw(u)))
	}
	return strings.Join(lines, "\n")
}

func TestAnAnswerThatBreaksOff(t *testing.T) {
	u := &updates{}
	var list []acp.Update
	for _, e := range []agent.Event{{Kind: agent.EventRequest}, {Kind: agent.EventText, Text: "one\x1b[31"}, {Kind: agent.EventText, Text: "m two"}, {Kind: agent.EventText, Depth: 1, Text: "a sub-agent"},
		{Kind: agent.EventRetry, Error: "reset"}, {Kind: agent.EventText, Text: "three"}, {Kind: agent.EventAnswer, Message: &agent.Message{Parts: []agent.Part{agent.Text("three")}}, Usage: &agent.Usage{Requests: 1, InputTokens: 7, OutputTokens: 3, Cost: agent.Dollar / 2, Priced: 1}},
		{Kind: agent.EventWarning, Depth: 1, Text: "a server\ndid not start"}, {Kind: agent.EventRequest}, {Kind: agent.EventAnswer, Message: &agent.Message{Parts: []agent.Part{agent.Text("four")}}}} {
		list = append(list, u.of(&e, false)...)
	}
	want := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"one"}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" two"}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\n[the answer broke off; the request is repeated]\n\n"}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"three"}}
{"sessionUpdate":"usage_update","used":10,"size":0,"cost":{"amount":0.5,"currency":"USD"}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\n> warning: a server did not start"}}
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\nfour"}}`
	if diff := cmp.Diff(want, shown(list)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestChangesOfFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u := &updates{dir: dir, redact: func(s string) string { return strings.ReplaceAll(s, "secret", "***") }}
	change := func(before, after string) string {
		t.Helper()
		write(before)
		u.watch(agent.Event{Kind: agent.EventCallStarted, Key: "k", Args: `{"path":"a.txt"}`})
		write(after)
		return strings.ReplaceAll(string(acp.Raw(u.changed("k"))), dir, "DIR")
	}
	const none = "null"
	if got := change("one secret\n", "two secret\n"); got != `[{"type":"diff","path":"DIR/a.txt","oldText":"one ***\n","newText":"two ***\n"}]` {
		t.Errorf("a change: %s", got)
	}
	for name, c := range map[string][2]string{"the same": {"a", "a"}, "binary": {"a", "\xff\xfe"}, "large": {"a", strings.Repeat("x", maxFile+1)}} {
		if got := change(c[0], c[1]); got != none {
			t.Errorf("%s: %s", name, got)
		}
	}
	write("one two one\n")
	for args, want := range map[string]string{
		`{"path":"a.txt","content":"x"}`:                   `[{"type":"diff","path":"DIR/a.txt","oldText":"one two one\n","newText":"x"}]`,
		`{"file_path":"a.txt","old":"two","new":"2"}`:      `[{"type":"diff","path":"DIR/a.txt","oldText":"one two one\n","newText":"one 2 one\n"}]`,
		`{"path":"b.txt","content":"x"}`:                   `[{"type":"diff","path":"DIR/b.txt","newText":"x"}]`,
		`{"path":"a.txt","old":"three","new":"3"}`:         none,
		`{"path":"a.txt"}`:                                 none,
		`{"path":".","content":"x"}`:                       none,
		`{"path":5,"content":"x"}`:                         none,
		`["path"]`:                                         none,
		`{"path":"a.txt\nb","content":"x"}`:                none,
		`{"path":"a.txt","old_string":"","new_string":""}`: none,
	} {
		if got := strings.ReplaceAll(string(acp.Raw(u.proposal(args))), dir, "DIR"); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func TestFences(t *testing.T) {
	for text, want := range map[string]string{"a\n": "```\na\n```", "```go\nx\n```": "````\n```go\nx\n```\n````"} {
		if got := fenced(text); got != want {
			t.Errorf("fenced(%q) = %q", text, got)
		}
	}
	long := &agent.ToolResult{Parts: []agent.Part{agent.Text(strings.Repeat("x", maxOutput+5)), {Kind: agent.PartMedia, MIME: "image/png", Data: []byte("i")}}}
	if text, list := result(long); len(list) != 1 || !strings.HasSuffix(text, "[5 more bytes]") || list[0].Content.Type != "image" {
		t.Errorf("a long result: %d parts", len(list))
	}
}

func TestTheOutputOfACommandIsATerminal(t *testing.T) {
	var list []acp.Update
	u := &updates{dir: "/work", terminals: true, redact: func(s string) string { return s }}
	for _, e := range []agent.Event{
		{Kind: agent.EventQuestion, What: "approve", Key: "k", Tool: "bash_run", Args: `{"command":"make"}`, Text: "why"},
		{Kind: agent.EventCallStarted, Key: "k", Tool: "bash_run", Args: `{"command":"make"}`},
		{Kind: agent.EventProgress, Key: "k", Tool: "bash_run", Text: "\x1b[31mcc a.c"},
		{Kind: agent.EventCallEnded, Key: "k", Tool: "bash_run", Result: &agent.ToolResult{Failed: true, Parts: []agent.Part{agent.Text("error: exit status 2")}}},
	} {
		list = append(list, u.of(&e, false)...)
	}
	want := `{"sessionUpdate":"tool_call","content":[{"type":"terminal","terminalId":"k"}],"_meta":{"terminal_info":{"cwd":"/work","terminal_id":"k"}},"toolCallId":"k","title":"bash_run command=make","kind":"execute","status":"pending","rawInput":{"command":"make"}}
{"sessionUpdate":"tool_call_update","content":[{"type":"terminal","terminalId":"k"},{"type":"content","content":{"type":"text","text":"why"}}],"toolCallId":"k","status":"pending"}
{"sessionUpdate":"tool_call_update","toolCallId":"k","status":"in_progress"}
{"sessionUpdate":"tool_call_update","_meta":{"terminal_output":{"data":"cc a.c\n","terminal_id":"k"}},"toolCallId":"k","status":"in_progress"}
{"sessionUpdate":"tool_call_update","_meta":{"terminal_output":{"data":"error: exit status 2","terminal_id":"k"}},"toolCallId":"k"}
{"sessionUpdate":"tool_call_update","_meta":{"terminal_exit":{"exit_code":1,"terminal_id":"k"}},"toolCallId":"k","status":"failed"}`
	if diff := cmp.Diff(want, shown(list)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
