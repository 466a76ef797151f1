package runner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestAttachmentsAreKeptUpToTheirLimit, beside a text that is cut too.
func TestAttachmentsAreKeptUpToTheirLimit(t *testing.T) {
	g := &Gate{Redact: func(s string) string { return strings.ReplaceAll(s, "a", "b") }}
	image := agent.Part{Kind: agent.PartMedia, Text: "a", Data: make([]byte, maxMedia)}
	if got, _ := g.limit(agent.Result{Parts: []agent.Part{image}}, nil); got.Parts[0].Text != "a" {
		t.Error("a result within its limits is changed")
	}
	if got, _ := g.limit(agent.Result{Parts: []agent.Part{agent.Text(strings.Repeat("x", 2*MaxResult)), image}}, nil); len(got.Parts[1].Data) != maxMedia {
		t.Error("an attachment within its limit is left out")
	}
	text := strings.Repeat("h", 600) + strings.Repeat("t", 600)
	cut := cutMiddle(text, 400)
	heads, tails, left := strings.Count(strings.Split(cut, "\n")[0], "h"), 0, 0
	lines := strings.Split(cut, "\n")
	tails = strings.Count(lines[len(lines)-1], "t")
	if _, err := fmt.Sscanf(lines[2], "[%d of 1200 bytes", &left); err != nil || heads == 0 || tails == 0 || heads+tails+left != 1200 {
		t.Errorf("%q: %d + %d + %d bytes of 1200, %v", cut, heads, tails, left, err)
	}
}
