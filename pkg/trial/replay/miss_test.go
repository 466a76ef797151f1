package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/replay"
)

func TestAMissShowsWhatDiffers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*loaded)
		player *replay.Player
		want   string
	}{
		"a changed system prompt": {change: func(l *loaded) { l.root.System = "you are\nroot, and kind" }, want: `agent root, turn 1: the request is not the recorded one
--- recorded
+++ now
@@ line 1 @@
 system:
-  you are root
+  you are
+  root, and kind
 tool ask_expert:
   knows expert
   {`},
		"a changed sub-agent": {change: func(l *loaded) { l.expert.System += "!" }, want: `agent expert (session /1.2), turn 1: the request is not the recorded one
--- recorded
+++ now
@@ line 1 @@
 system:
-  you are expert
+  you are expert!
 tool look:`},
		"a new tool": {change: func(l *loaded) { l.root.Toolsets = append(l.root.Toolsets, agent.ToolList{works("zeta")}) }, want: `
+tool zeta:
+  does <zeta>
   {`},
		"a changed description": {change: func(l *loaded) { l.expert.Announce = "knows more" }, want: `
-  knows expert
+  knows more`},
		"a changed opening": {change: func(l *loaded) { opening(l.root) }, want: `
+  hi
+message 2, assistant:
+  hello
+message 3, user:
   go`},
		"with real tools, a changed prompt": {player: &replay.Player{LiveTools: true}, change: func(l *loaded) { l.root.System = "other" }, want: `
-  you are root
+  other`},
	} {
		t.Run(name, func(t *testing.T) {
			now := load("seen", " says")
			tc.change(now)
			p := tc.player
			if p == nil {
				p = &replay.Player{}
			}
			_, out, err := now.play(t, recorded(t), p)
			if miss, ok := errors.AsType[*replay.Miss](err); !ok || !strings.Contains(miss.Error(), tc.want) || out.Status != agent.StatusFailed {
				t.Errorf("Run = %s, %v\nwant %s", out.Status, err, tc.want)
			}
			if !p.LiveTools && len(now.did) > 0 {
				t.Errorf("it did %q", now.did)
			}
		})
	}
}

func TestAMissOfAResultShowsTheResult(t *testing.T) {
	events := recorded(t)
	for i := range events {
		if e := &events[i]; e.Kind == agent.EventCallEnded && e.Tool == "ask_expert" {
			e.Result.Parts[0].Text = strings.Repeat("what it said then. ", 20)
		}
	}
	// With a loaded tree the expert's own answer counts.
	_, _, err := load("seen", " says").play(t, events, &replay.Player{})
	want := "\n result of ask_expert:\n-  what it said then. what"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "+  expert says") {
		t.Errorf("Run = %v, want %s", err, want)
	}
	if !strings.Contains(err.Error(), "agent root, turn 2") {
		t.Errorf("Run = %v, want turn 2", err)
	}
}

func TestALimitThatNoLongerAppliesIsAMiss(t *testing.T) {
	model := answers(calls("work"), calls("work"), "done")
	events, _ := record(t, &runner.Runner{Agent: limited(newAgent("root", model, works("work")), 1)}, "go")
	now := newAgent("root", model, works("work"))
	p := &replay.Player{Record: newRecord(t, events)}
	p.Wrap(now)
	_, err := p.Run(t.Context(), runners(&runner.Runner{Agent: now}))
	if err == nil || err.Error() != "agent root, turn 3: the recorded run ended here: turn limit reached: 1 turns with tool calls and no answer" {
		t.Errorf("Run = %v", err)
	}
}

func TestANewAgentIsAMiss(t *testing.T) {
	sub := newAgent("sub", answers("x"))
	model := answers(calls("sub {\"prompt\":\"x\"}"), "done")
	events, _ := record(t, &runner.Runner{Agent: newAgent("root", model, tool{"sub", works("sub").call})}, "go")
	now := newAgent("root", model, expert("sub", sub))
	p := &replay.Player{Record: newRecord(t, events)}
	p.Wrap(now)
	p.Wrap(sub)
	if _, err := p.Run(t.Context(), runners(&runner.Runner{Agent: now})); err == nil || !strings.Contains(err.Error(), "-  does <sub>\n") {
		t.Errorf("Run = %v", err)
	}
}

func TestADifferenceIsBounded(t *testing.T) {
	events := recorded(t)
	now := load("seen", " says")
	now.root.System = strings.Repeat("another line\n", 1000) + strings.Repeat("long", 10_000)
	_, _, err := now.play(t, events, &replay.Player{})
	if err == nil || len(err.Error()) > 10_000 || !strings.Contains(err.Error(), "\n… and ") {
		t.Errorf("a difference of %d bytes", len(err.Error()))
	}
}

func TestInvalidRecordsAreErrors(t *testing.T) {
	events := recorded(t)
	for name, tc := range map[string]struct {
		events []agent.Event
		want   string
	}{
		"nothing":          {nil, "the record is empty"},
		"only display":     {[]agent.Event{{Kind: agent.EventText}}, "the record is empty"},
		"no prompt":        {events[:1], "has no prompt"},
		"no beginning":     {events[2:], "does not begin at its beginning, but with an event setup"},
		"an answer twice":  {append(events[:4:4], events[3]), "2 calls have no result"},
		"an empty message": {[]agent.Event{events[0], {Kind: agent.EventMessage, Session: events[0].Session}}, "without a message"},
		"an empty answer":  {[]agent.Event{events[0], events[1], {Kind: agent.EventAnswer, Session: events[0].Session}}, "without a model's message"},
	} {
		if _, err := replay.New(seq(tc.events)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: New = %v, want %q", name, err, tc.want)
		}
	}
	broken := func(yield func(agent.Event, error) bool) {
		_ = yield(events[0], nil) && yield(agent.Event{}, errors.New("damaged"))
	}
	if _, err := replay.New(broken); err == nil || err.Error() != "damaged" {
		t.Errorf("New = %v", err)
	}
}
