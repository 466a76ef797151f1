package observe

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/redact"
)

// everywhere is an event that holds s in every text that there is.
func everywhere(s string) agent.Event {
	inJSON, _ := json.Marshal("x " + s + " y")
	parts := []agent.Part{{Kind: agent.PartText, Text: "a" + s, MIME: s, Data: []byte("b" + s), Name: s, Extra: inJSON}}
	result := agent.ToolResult{CallID: s, Name: s, Parts: parts}
	return agent.Event{Kind: agent.EventEnd, Session: s, Agent: s, Parent: s, Source: s, Model: s, CallID: s, Tool: s,
		Args: `{"a":` + string(inJSON) + `}`, Key: s, Text: "t" + s + s, Error: "e " + s,
		Message: &agent.Message{Parts: parts, Calls: []agent.ToolCall{{ID: s, Name: s, Args: string(inJSON), Extra: inJSON}},
			Results: []agent.ToolResult{result}},
		Result: &result,
		Total:  &agent.TotalUsage{Agents: map[string]agent.Usage{s: {}}, Tools: map[string]agent.ToolUsage{s: {Calls: 1}}},
	}
}

func TestNoKeyReachesASink(t *testing.T) {
	var log, lines, progress bytes.Buffer
	secret := "sk-abcdefgh12345678"
	observe := agent.Redact(redact.New([]string{secret}), Tee((&LogText{W: &log}).Observe, (&JSONLines{W: &lines, Pieces: true}).Observe, (&Text{W: &progress}).Observe))
	observe(call(1, "k", "curl", `{"header":"Authorization: Bearer `+secret+`"}`))
	observe(agent.Event{Kind: agent.EventText, Text: "it is sk-abcdefgh"})
	observe(agent.Event{Kind: agent.EventText, Text: "12345678"})
	observe(agent.Event{Kind: agent.EventWarning, Text: secret})
	observe(result(1, "k", "curl", "error: > Bearer "+secret, true, 1))
	for name, out := range map[string]string{"log": log.String(), "lines": lines.String(), "progress": progress.String()} {
		if strings.Contains(out, "12345678") || !strings.Contains(out, redact.Mark) {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}
