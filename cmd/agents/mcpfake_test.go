package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// An mcpFake is an MCP server for tests, the program mcp-fake. Its tool `ask`
// asks the client {"method", "params"} and returns the answer, `caps` says what
// the client can do. It notes every start in the file `starts`, and with
// MCP_FAKE_META the params of a call of `caps` in the file `meta`. `caps` is described
// as the file `description` says; `change` writes that file and tells the client.
type mcpFake struct {
	in   *bufio.Reader
	caps json.RawMessage
}

type mcpMessage struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

func mcpFakeMain() {
	starts, err := os.OpenFile("starts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(starts, "start")
	starts.Close()
	fmt.Fprintln(os.Stderr, "the fake \x1b[31mstarts, key sk-0123456789")
	f := &mcpFake{in: bufio.NewReader(os.Stdin)}
	for {
		f.answer(f.read())
	}
}

// read is the next message.
func (f *mcpFake) read() mcpMessage {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr, "the fake ends")
		os.Exit(0)
	}
	var m mcpMessage
	if err := json.Unmarshal(line, &m); err != nil {
		panic(err)
	}
	return m
}

func (f *mcpFake) send(format string, args ...any) {
	fmt.Printf(`{"jsonrpc":"2.0",`+format+"}\n", args...)
}

func (f *mcpFake) answer(m mcpMessage) {
	var p struct {
		Name      string          `json:"name"`
		Caps      json.RawMessage `json:"capabilities"`
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(m.Params, &p)
	var result string
	switch m.Method + " " + p.Name {
	case "initialize ":
		f.caps = p.Caps
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{}},"serverInfo":{"name":"fake","version":"1"}}`
	case "tools/list ":
		text, _ := os.ReadFile("description") // mostly there is none
		description, _ := json.Marshal(string(text))
		result = fmt.Sprintf(`{"tools":[{"name":"ask","inputSchema":{"type":"object","properties":{"params":{"type":"object"}}}},{"name":"caps","description":%s,"inputSchema":{"type":"object"}},{"name":"change","inputSchema":{"type":"object"}}]}`, description)
	case "tools/call change":
		_ = os.WriteFile("description", p.Arguments, 0o600) // a test misses it
		f.send(`"method":"notifications/tools/list_changed"`)
		result = `{"content":[{"type":"text","text":"changed"}]}`
	case "prompts/list ":
		result = `{"prompts":[{"name":"review","description":"reviews \u001b[31ma file","arguments":[{"name":"file","description":"the file","required":true},{"name":"tone"}]},{"name":"chat"},{"name":"half"}]}`
	case "prompts/get review":
		result = fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, "Review "+string(p.Arguments))
	case "prompts/get chat":
		result = `{"messages":[{"role":"user","content":{"type":"text","text":"one"}},{"role":"user","content":{"type":"text","text":"two"}},{"role":"assistant","content":{"type":"text","text":"yes"}},{"role":"user","content":{"type":"text","text":"three"}}]}`
	case "prompts/get half":
		result = `{"messages":[{"role":"user","content":{"type":"text","text":"one"}},{"role":"assistant","content":{"type":"text","text":"yes"}}]}`
	case "tools/call caps":
		if os.Getenv("MCP_FAKE_META") != "" {
			_ = os.WriteFile("meta", m.Params, 0o600) // a test misses it
		}
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, f.caps)
	case "tools/call ask":
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, f.ask(p.Arguments))
	default:
		if m.ID != nil {
			f.send(`"id":%s,"error":{"code":-32601,"message":"method not found"}`, m.ID)
		}
		return
	}
	f.send(`"id":%s,"result":%s`, m.ID, result)
}

// ask asks the client and returns its answer, a result or an error.
func (f *mcpFake) ask(question json.RawMessage) string {
	var q mcpMessage
	if err := json.Unmarshal(question, &q); err != nil {
		panic(err)
	}
	f.send(`"id":"q","method":%q,"params":%s`, q.Method, q.Params)
	for {
		if m := f.read(); string(m.ID) == `"q"` {
			return string(m.Result) + string(m.Error)
		}
	}
}
