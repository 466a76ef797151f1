// Package agenttest holds the tests that every implementation of an interface
// of package agent must pass, and [Event]. An implementation calls them from its own
// tests:
//
//	func TestConformance(t *testing.T) {
//		agenttest.Provider(t, newProvider(t), agent.UserText("hello"))
//	}
package agenttest

import (
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Provider tests p, which must answer prompt with a text every time it is asked.
func Provider(t *testing.T, p agent.Provider, prompt agent.Message) {
	t.Helper()
	request := func(session string) *agent.Request {
		return &agent.Request{System: "You are tested.", Messages: []agent.Message{prompt}, Session: session, Agent: "test", Turn: 1}
	}
	t.Run("answer", func(t *testing.T) {
		req := request("one")
		before := mustJSON(t, req)
		var shown strings.Builder
		resp, err := p.Generate(t.Context(), req, func(d agent.Delta) {
			if d.Kind == agent.DeltaText {
				shown.WriteString(d.Text)
			}
		})
		if err != nil {
			t.Fatalf("Generate: %v", err)
		}
		if resp.Message.Role != agent.RoleAssistant || resp.Message.Text() == "" {
			t.Errorf("message = %+v, want a text of the assistant", resp.Message)
		}
		if resp.Finish != agent.FinishStop {
			t.Errorf("finish = %q, want %q", resp.Finish, agent.FinishStop)
		}
		if s := shown.String(); s != "" && s != resp.Message.Text() {
			t.Errorf("the pieces shown are %q, the answer is %q", s, resp.Message.Text())
		}
		if after := mustJSON(t, req); after != before {
			t.Errorf("Generate changed its request:\n%s\n%s", before, after)
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := p.Generate(t.Context(), request(string(rune('a'+i))), func(agent.Delta) {}); err != nil {
					t.Errorf("Generate: %v", err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := p.Generate(ctx, request("cancelled"), func(agent.Delta) {})
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("Generate answered although its context had ended")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("Generate did not return after its context had ended")
		}
	})
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Toolset tests that s gives the same well-formed tools every time.
func Toolset(t *testing.T, s agent.Toolset) {
	t.Helper()
	specs := func() []agent.ToolSpec {
		tools, err := s.Tools(t.Context())
		if err != nil {
			t.Errorf("Tools: %v", err)
		}
		var list []agent.ToolSpec
		for _, tool := range tools {
			list = append(list, tool.Spec())
		}
		return list
	}
	first := specs()
	seen := map[string]bool{}
	for _, spec := range first {
		if !toolName.MatchString(spec.Name) {
			t.Errorf("tool name %q does not match %s", spec.Name, toolName)
		}
		if seen[spec.Name] {
			t.Errorf("two tools are named %s", spec.Name)
		}
		seen[spec.Name] = true
		var schema struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema.Type != "object" {
			t.Errorf("schema of %s = %s, want that of an object", spec.Name, spec.Schema)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again := specs(); !reflect.DeepEqual(first, again) {
				t.Errorf("asked again, the tools are %v, want %v", again, first)
			}
		})
	}
	wg.Wait()
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Event returns an event that holds s in every text that there is.
func Event(s string) agent.Event {
	inJSON, _ := json.Marshal("x " + s + " y")
	parts := []agent.Part{{Kind: agent.PartText, Text: "a" + s, MIME: s, Data: []byte("b" + s), Name: s, Extra: inJSON}}
	result := agent.ToolResult{CallID: s, Name: s, Parts: parts}
	message := agent.Message{Parts: parts, Calls: []agent.ToolCall{{ID: s, Name: s, Args: string(inJSON), Extra: inJSON}},
		Results: []agent.ToolResult{result}}
	return agent.Event{Kind: agent.EventEnd, Session: s, Agent: s, Parent: s, Source: s, Model: s, CallID: s, Tool: s,
		Args: `{"a":` + string(inJSON) + `}`, Key: s, Text: "t" + s + s, Error: "e " + s, Code: s,
		Message: &message, Messages: []agent.Message{message}, Result: &result,
		System: s, Specs: []agent.ToolSpec{{Name: s, Description: s, Source: s, Schema: inJSON}}, Argv: []string{s},
		Path: []string{s}, Schema: inJSON, Choices: []string{s}, URL: s,
		Total: &agent.TotalUsage{Agents: map[string]agent.Usage{s: {}}, Tools: map[string]agent.ToolUsage{s: {Calls: 1}}},
	}
}
