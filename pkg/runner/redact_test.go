package runner_test

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

const key = `sk-12/34"<5678`

func TestRedactFindsKeysInEveryText(t *testing.T) {
	var got []agent.Event
	observe := runner.Redact(redact.New([]string{"short", key, "", key + "-longer"}), func(e agent.Event) { got = append(got, e) })
	given := agenttest.Event(key)
	before := agenttest.Event(key)
	observe(given)
	if diff := cmp.Diff(agenttest.Event(redact.Mark), got[0]); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, given); diff != "" {
		t.Errorf("the event that was given changed (-before +after):\n%s", diff)
	}
}

// TestRedactFindsKeysSplitOverPieces splits a text with two keys at every place,
// and into single bytes.
func TestRedactFindsKeysSplitOverPieces(t *testing.T) {
	text := "my key is " + key + " and sk-12/ is none, " + key
	want := "my key is [secret] and sk-12/ is none, [secret]"
	splits := [][]string{strings.Split(text, "")}
	for i := range len(text) + 1 {
		splits = append(splits, []string{text[:i], text[i:]})
	}
	for _, pieces := range splits {
		var got string
		observe := runner.Redact(redact.New([]string{key}), func(e agent.Event) {
			if e.Kind == agent.EventText && e.Session == "S" {
				got += e.Text
			}
		})
		for _, p := range pieces {
			observe(agent.Event{Kind: agent.EventText, Session: "S", Text: p})
			observe(agent.Event{Kind: agent.EventText, Session: "other", Text: "34"})
		}
		observe(agent.Event{Kind: agent.EventAnswer, Session: "S"})
		if got != want {
			t.Errorf("pieces %q: %q, want %q", pieces, got, want)
		}
	}
}

func TestRedactKeepsTheOrderOfASession(t *testing.T) {
	var got []string
	observe := runner.Redact(redact.New([]string{key}), func(e agent.Event) { got = append(got, string(e.Kind)+":"+e.Text) })
	observe(agent.Event{Kind: agent.EventReasoning, Text: "I know sk-"})
	observe(agent.Event{Kind: agent.EventText, Text: "No s"})
	observe(agent.Event{Kind: agent.EventText, Text: "o"})
	observe(agent.Event{Kind: agent.EventText, Text: "sk"})
	observe(agent.Event{Kind: agent.EventRetry})
	want := []string{"reasoning:I know ", "reasoning:sk-", "text:No ", "text:so", "text:sk", "retry:"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestWhatBackgroundAgentsAndWorkspacesAddIsRedacted, also if another process wrote it.
func TestWhatBackgroundAgentsAndWorkspacesAddIsRedacted(t *testing.T) {
	const secret = "correct-horse-battery"
	e := runner.RedactEvent(redact.New([]string{secret}))(agent.Event{
		Kind: agent.EventCompaction,
		Left: []agent.LeftCall{{Key: "s.1.1", Handle: "x", Call: agent.ToolCall{Name: "x", Args: `{"prompt":"` + secret + `"}`}}},
		Result: &agent.ToolResult{Workspace: &agent.Workspace{Path: "/" + secret, Branch: "b-" + secret, Commits: []string{"1 " + secret},
			Stat: secret + " | 1 +", Uncommitted: []string{secret}}},
	})
	w := e.Result.Workspace
	for _, text := range []string{e.Left[0].Call.Args, w.Path, w.Branch, w.Commits[0], w.Stat, w.Uncommitted[0]} {
		if strings.Contains(text, secret) {
			t.Errorf("%q has the secret", text)
		}
	}
}
