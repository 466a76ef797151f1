package agent

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestHowAnAgentHasChanged since its session was last used.
func TestHowAnAgentHasChanged(t *testing.T) {
	was := Setup{System: "s", Tools: []string{"a", "b"}}
	for _, tt := range []struct {
		was    Setup
		system string
		tools  string
		want   string
	}{
		{Setup{}, "s", "a", "its system prompt or its tools differ"}, {Setup{System: "s"}, "s", "a", "new tools: a"}, {Setup{Tools: []string{"a"}}, "s", "a", "another system prompt"},
		{was, "t", "a b", "another system prompt"}, {was, "s", "a b c", "new tools: c"}, {was, "s", "a", "without the tools: b"}, {was, "s", "a b", "its tools are described differently"}, {was, "t", "c", "another system prompt; new tools: c; without the tools: a, b"},
	} {
		var tools []ToolSpec
		for _, name := range strings.Fields(tt.tools) {
			tools = append(tools, ToolSpec{Name: name})
		}
		if got := tt.was.difference(tt.system, tools); got != tt.want {
			t.Errorf("from %+v to %s and %s: %q, want %q", tt.was, tt.system, tt.tools, got, tt.want)
		}
	}
	one := ToolSpec{Name: "n", Description: "d", Schema: json.RawMessage("1"), Effects: EffectsNone}
	for i, other := range []ToolSpec{{Name: "x", Description: "d", Schema: json.RawMessage("1"), Effects: EffectsNone}, {Name: "n", Description: "x", Schema: json.RawMessage("1"), Effects: EffectsNone}, {Name: "n", Description: "d", Schema: json.RawMessage("2"), Effects: EffectsNone}, {Name: "n", Description: "d", Schema: json.RawMessage("1")}} {
		if sameSpec(one, other) || !sameSpec(other, other) {
			t.Errorf("tool %d is the same", i)
		}
	}
}
