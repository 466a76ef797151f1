package system_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/toolbox/system"
)

// call returns the data of the result, or the error.
func call(t *testing.T, o system.Options, args string) (map[string]any, error) {
	t.Helper()
	r, err := system.Open(o)[0].Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Args: args}, Session: "s-1", Agent: "a"})
	if err != nil {
		return nil, err
	}
	var v struct {
		Capability string
		Data       map[string]any
	}
	if err := json.Unmarshal([]byte(r.Parts[0].Text), &v); err != nil || !strings.Contains(args, v.Capability) {
		t.Fatal(r.Parts[0].Text, err)
	}
	return v.Data, nil
}

func TestTheMachine(t *testing.T) {
	dir := t.TempDir()
	o := system.Options{Name: "sys", Dir: dir, Environ: []string{"KEY=secret", "PATH=/bin", "OTHER=x"}, EnvFilter: "T"}
	host, _ := os.Hostname()
	for capability, want := range map[string]map[string]any{
		"hostname":          {"hostname": host},
		"working-directory": {"path": dir},
		"process-info":      {"pid": float64(os.Getpid())},
		"own-session":       {"sessionId": "s-1", "agent": "a"},
		"disk":              {"path": dir},
		"env-vars":          {},
		"date":              {},
		"operating-system":  {},
		"running-user":      {},
	} {
		got, err := call(t, o, `{"capability":"`+capability+`"}`)
		if err != nil || len(got) == 0 {
			t.Errorf("%s: %v %v", capability, got, err)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %v, want %v", capability, key, got[key], value)
			}
		}
		if text, _ := json.Marshal(got); strings.Contains(string(text), "secret") || capability == "env-vars" && string(text) != `{"names":["OTHER","PATH"]}` {
			t.Errorf("%s: %s", capability, text)
		}
	}
	for _, args := range []string{`{"capability":"list-sessions"}`, `{"capability":"dates"}`, `{}`} {
		if got, err := call(t, o, args); err == nil { // other sessions are shown only where the agent file says so
			t.Errorf("%s: %v", args, got)
		}
	}
}

// past are two sessions.
type past struct{}

func (past) List(context.Context) ([]system.Session, error) {
	return []system.Session{{ID: "b", Turns: 2}, {ID: "a", Turns: 3}}, nil
}

func (past) Search(_ context.Context, words []string, max int) ([]system.Match, int, error) {
	return []system.Match{{ID: strings.Join(words, "+")}}[:min(max, 1)], 7, nil
}

func (past) Read(_ context.Context, id string, p system.Part) (*system.Content, error) {
	text, _ := json.Marshal(p)
	return &system.Content{ID: id, Text: string(text)}, nil
}

func TestOtherSessions(t *testing.T) {
	o := system.Options{Name: "s", Capabilities: system.Capabilities, Sessions: past{}, MaxResults: 1, ToolOutputs: true}
	for args, want := range map[string]string{
		`{"capability":"list-sessions"}`:                      `"sessionId":"b"`,
		`{"capability":"get-session-stats"}`:                  `"totalTurnsAcrossAllSessions":5`,
		`{"capability":"search-sessions","query":"One  TWO"}`: `"sessionId":"one+two"`,
		`{"capability":"read-session","session_id":"a","include_tool_responses":true,"offset":4,"limit":9,"take_n":2}`: `{\"First\":4,\"Last\":2,\"Max\":9,\"Thinking\":false,\"Calls\":true}`,
		`{"capability":"read-session","session_id":"a","drop_n":1,"include_thinking":true}`:                            `{\"First\":1,\"Last\":0,\"Max\":0,\"Thinking\":true,\"Calls\":false}`,
	} {
		got, err := call(t, o, args)
		text, _ := json.Marshal(got)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s %v, want %s", args, text, err, want)
		}
	}
	for _, args := range []string{`{"capability":"search-sessions"}`, `{"capability":"read-session"}`} {
		if got, err := call(t, o, args); err == nil {
			t.Errorf("%s: %v", args, got)
		}
	}
	o.ToolOutputs = false
	if got, _ := call(t, o, `{"capability":"read-session","session_id":"a","include_tool_responses":true}`); !strings.Contains(got["content"].(string), `"Calls":false`) {
		t.Error(got)
	}
}
