package runner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestHowAnAgentHasChanged since its session was last used.
func TestHowAnAgentHasChanged(t *testing.T) {
	was := agent.Setup{System: "s", Tools: []string{"a", "b"}}
	for _, tt := range []struct {
		was    agent.Setup
		system string
		tools  string
		want   string
	}{
		{agent.Setup{}, "s", "a", "its system prompt or its tools differ"}, {agent.Setup{System: "s"}, "s", "a", "new tools: a"}, {agent.Setup{Tools: []string{"a"}}, "s", "a", "another system prompt"},
		{was, "t", "a b", "another system prompt"}, {was, "s", "a b c", "new tools: c"}, {was, "s", "a", "without the tools: b"}, {was, "s", "a b", "its tools are described differently"}, {was, "t", "c", "another system prompt; new tools: c; without the tools: a, b"},
	} {
		var tools []agent.ToolSpec
		for _, name := range strings.Fields(tt.tools) {
			tools = append(tools, agent.ToolSpec{Name: name})
		}
		if got := difference(tt.was, tt.system, tools); got != tt.want {
			t.Errorf("from %+v to %s and %s: %q, want %q", tt.was, tt.system, tt.tools, got, tt.want)
		}
	}
	one := agent.ToolSpec{Name: "n", Description: "d", Schema: json.RawMessage("1"), Effects: agent.EffectsNone}
	for i, other := range []agent.ToolSpec{{Name: "x", Description: "d", Schema: json.RawMessage("1"), Effects: agent.EffectsNone}, {Name: "n", Description: "x", Schema: json.RawMessage("1"), Effects: agent.EffectsNone}, {Name: "n", Description: "d", Schema: json.RawMessage("2"), Effects: agent.EffectsNone}, {Name: "n", Description: "d", Schema: json.RawMessage("1")}} {
		if sameSpec(one, other) || !sameSpec(other, other) {
			t.Errorf("tool %d is the same", i)
		}
	}
}
