package view

import (
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// What a server had cached and no longer has is said in the last line, with the first cause.
func TestFooterNamesLostCaches(t *testing.T) {
	for more, want := range map[int]string{
		0: "✓ 0.0 s · 1 turn · 2.6k in / 40 out · unpriced · 2.0k cached tokens paid for again: the tools changed (added x) · session S\n",
		2: "✓ 0.0 s · 1 turn · 2.6k in / 40 out · unpriced · 6.0k cached tokens paid for again: the tools changed (added x) (and 2 more) · session S\n",
	} {
		var b strings.Builder
		text := &Text{W: &b}
		usage := func(cached int) *agent.Usage {
			return &agent.Usage{Requests: 1, InputTokens: 2000, CachedTokens: cached}
		}
		text.Observe(agent.Event{Kind: agent.EventSetup, Digest: "1"})
		text.Observe(agent.Event{Kind: agent.EventAnswer, Usage: usage(1900)})
		text.Observe(agent.Event{Kind: agent.EventSetup, Digest: "2", Specs: []agent.ToolSpec{{Name: "\x1b[31mx"}}})
		for range 1 + more {
			text.Observe(agent.Event{Kind: agent.EventAnswer, Usage: usage(0)})
		}
		text.Close()
		b.Reset()
		text.Footer(&agent.Outcome{Status: agent.StatusOK, Turns: 1, Session: "S", Total: agent.TotalUsage{Usage: agent.Usage{Requests: 1, InputTokens: 2600, OutputTokens: 40}}}, true)
		if b.String() != want {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	}
}

func TestFooter(t *testing.T) {
	usage := agent.Usage{Requests: 5, InputTokens: 2600, CachedTokens: 1900, OutputTokens: 412, Cost: agent.Dollar * 6 / 1000, Priced: 5}
	partly, none := usage, usage
	partly.Priced, none.Priced, none.Cost, none.CachedTokens = 3, 0, 0, 0
	for _, test := range []struct {
		name string
		out  agent.Outcome
		text *Text
		kept bool
		want string
	}{
		{"ok", agent.Outcome{Status: agent.StatusOK, Turns: 5, Duration: 12345 * time.Millisecond, Total: agent.TotalUsage{Usage: usage}}, &Text{}, true,
			"✓ 12.3 s · 5 turns · 2.6k in (1.9k cached) / 0.4k out · $0.006 · session S1\n"},
		{"not kept, partly unpriced", agent.Outcome{Status: agent.StatusOK, Turns: 1, Duration: 61 * time.Second, Total: agent.TotalUsage{Usage: partly}}, &Text{}, false,
			"✓ 1 m 01 s · 1 turn · 2.6k in (1.9k cached) / 0.4k out · $0.006 + 2 unpriced\n"},
		{"it did not end well", agent.Outcome{Status: agent.StatusBudget, Turns: 2, Duration: 999 * time.Millisecond, Total: agent.TotalUsage{Usage: none}}, &Text{}, false,
			"✗ budget · 0.9 s · 2 turns · 2.6k in / 0.4k out · unpriced\n"},
		{"partial", agent.Outcome{Status: agent.StatusPartial, Turns: 2, Total: agent.TotalUsage{Usage: none}}, &Text{}, false,
			"! partial · 0.0 s · 2 turns · 2.6k in / 0.4k out · unpriced\n"},
		{"ASCII", agent.Outcome{Status: agent.StatusOK, Turns: 2, Total: agent.TotalUsage{Usage: none}}, &Text{ASCII: true}, true,
			"+ 0.0 s, 2 turns, 2.6k in / 0.4k out, unpriced, session S1\n"},
		{"colour", agent.Outcome{Status: agent.StatusFailed, Turns: 2, Total: agent.TotalUsage{Usage: none}}, &Text{Color: true}, false,
			"\x1b[31m✗\x1b[0m failed · 0.0 s · 2 turns · 2.6k in / 0.4k out · unpriced\n"},
		{"a status of another server", agent.Outcome{Status: "gone\x1b[2J", Turns: 2, Total: agent.TotalUsage{Usage: none}}, &Text{}, false,
			"✗ gone\\x1b[2J · 0.0 s · 2 turns · 2.6k in / 0.4k out · unpriced\n"},
		{"no model was asked", agent.Outcome{Status: agent.StatusFailed}, &Text{}, true, ""},
		{"quiet", agent.Outcome{Status: agent.StatusOK, Turns: 5, Total: agent.TotalUsage{Usage: usage}}, &Text{Quiet: true}, true, ""},
	} {
		var b strings.Builder
		test.out.Session, test.text.W = "S1", &b
		test.text.Close()
		test.text.Footer(&test.out, test.kept)
		if b.String() != test.want {
			t.Errorf("%s:\n got %q\nwant %q", test.name, b.String(), test.want)
		}
	}
}
