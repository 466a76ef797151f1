package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

const manyTurns = 10_000

// longSession writes a session of so many turns of one call each, as a run would,
// with a compaction after every so many turns, if that is not 0.
func longSession(tb testing.TB, turns, compactEvery int) string {
	tb.Helper()
	j := session.Create(tb.TempDir(), session.Options{})
	id := session.NewID()
	var live agent.Session
	add := func(e agent.Event) {
		e.Time, e.Session, e.Agent = time.Now(), id, "root"
		if err := live.Apply(e); err != nil {
			tb.Fatal(err)
		}
		if err := j.Append(tb.Context(), e); err != nil {
			tb.Fatal(err)
		}
	}
	add(agent.Event{Kind: agent.EventSession, Model: "m"})
	prompt := agent.UserText("do all of it")
	add(agent.Event{Kind: agent.EventMessage, Message: &prompt})
	add(agent.Event{Kind: agent.EventSetup, Model: "m", Digest: "sha256:1", System: "be good", Specs: []agent.ToolSpec{{Name: "grep", Schema: []byte(`{}`)}}})
	output := strings.Repeat("some/path/to/a/file.go:123:\tif err := \"the line that was found\"; err != nil {\n", 12)
	for turn := 1; turn <= turns; turn++ {
		callID, key := fmt.Sprintf("call_%08d", turn), fmt.Sprintf("%s.%d.1", id, turn)
		args := fmt.Sprintf(`{"pattern":"the line %d","path":"some/path"}`, turn)
		add(agent.Event{Kind: agent.EventAnswer, Turn: turn, Model: "m-2026", Finish: agent.FinishStop, Millis: 1234,
			Usage: &agent.Usage{Requests: 1, InputTokens: 12345, CachedTokens: 12000, OutputTokens: 67},
			Message: &agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("I look for the next one, since the last was not it.")},
				Calls: []agent.ToolCall{{ID: callID, Name: "grep", Args: args}}}})
		add(agent.Event{Kind: agent.EventCallStarted, Turn: turn, CallID: callID, Tool: "grep", Args: args, Key: key, N: 1,
			Argv: []string{"/usr/bin/grep", "-rn", "the line", "some/path"}, Digest: "sha256:" + strings.Repeat("0123456789abcdef", 4)})
		add(agent.Event{Kind: agent.EventCallEnded, Turn: turn, CallID: callID, Tool: "grep", Key: key, N: 1, Millis: 12,
			Result: &agent.ToolResult{CallID: callID, Name: "grep", Parts: []agent.Part{agent.Text(output)}}})
		if compactEvery > 0 && turn%compactEvery == 0 {
			add(agent.Event{Kind: agent.EventCompaction, Model: "m", Turn: turn, N: turn, Digest: "sha256:1",
				Messages: append([]agent.Message{agent.UserText("summary")}, live.Messages[len(live.Messages)-10:]...),
				Total:    &agent.TotalUsage{Usage: agent.Usage{Requests: turn}}})
		}
	}
	add(agent.Event{Kind: agent.EventAnswer, Turn: turns + 1, Message: &agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}, Finish: agent.FinishStop})
	add(agent.Event{Kind: agent.EventEnd, Turn: turns + 1, Status: agent.StatusOK, Text: "done"})
	if err := j.Close(); err != nil {
		tb.Fatal(err)
	}
	return j.Path()
}

func BenchmarkOpen(b *testing.B) {
	for _, c := range []struct {
		name    string
		turns   int
		compact int
	}{{"1000 turns", 1000, 0}, {"10000 turns", manyTurns, 0}, {"10000 turns, compacted every 200", manyTurns, 200}, {"10000 turns, compacted at 9000", manyTurns, 9000}} {
		path := longSession(b, c.turns, c.compact)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				j, _, err := session.Open(path, session.Options{})
				if err != nil {
					b.Fatal(err)
				}
				j.Close()
			}
		})
		b.Run(c.name+", inspect", func(b *testing.B) {
			for b.Loop() {
				if _, err := session.Inspect(path); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+", events", func(b *testing.B) {
			for b.Loop() {
				for _, err := range session.Events(path) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkTurn is what a turn of one call costs on top: three events, two syncs.
func BenchmarkTurn(b *testing.B) {
	j := session.Create(b.TempDir(), session.Options{})
	defer j.Close()
	b.ReportAllocs()
	for b.Loop() {
		for i := range 3 {
			if err := j.Append(b.Context(), ended); err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				continue
			}
			if err := j.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

var ended = agent.Event{Kind: agent.EventCallEnded, Session: "s", Agent: "a", CallID: "call_1", Tool: "grep", Key: "s.1.1",
	Result: &agent.ToolResult{CallID: "call_1", Name: "grep", Parts: []agent.Part{agent.Text(strings.Repeat("a line\n", 150))}}}

func BenchmarkAppend(b *testing.B) {
	j := session.Create(b.TempDir(), session.Options{})
	defer j.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := j.Append(b.Context(), ended); err != nil {
			b.Fatal(err)
		}
	}
}
