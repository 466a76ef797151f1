package observe

import (
	"bytes"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

func TestNoKeyReachesASink(t *testing.T) {
	var log, lines, progress bytes.Buffer
	secret := "sk-abcdefgh12345678"
	observe := runner.Redact(redact.New([]string{secret}), Tee((&view.LogText{W: &log}).Observe, (&JSONLines{W: &lines, Pieces: true}).Observe, (&view.Text{W: &progress}).Observe))
	observe(agenttest.Call(1, "k", "curl", `{"header":"Authorization: Bearer `+secret+`"}`))
	observe(agent.Event{Kind: agent.EventText, Text: "it is sk-abcdefgh"})
	observe(agent.Event{Kind: agent.EventText, Text: "12345678"})
	observe(agent.Event{Kind: agent.EventWarning, Text: secret})
	observe(agenttest.CallResult(1, "k", "curl", "error: > Bearer "+secret, true, 1))
	for name, out := range map[string]string{"log": log.String(), "lines": lines.String(), "progress": progress.String()} {
		if strings.Contains(out, "12345678") || !strings.Contains(out, redact.Mark) {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}
