package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/runner"
)

// FuzzHistory tests that a run with any history of a client ends, and that what it keeps can
// be read.
func FuzzHistory(f *testing.F) {
	for _, script := range [][]byte{
		{0, 0, 0, 0, 4, 0, 0, 1},                 // a resume without a message
		{0, 0, 0, 0, 4, 0, 0, 1, 1, 0, 0, 32},    // and then a second attempt at no answer
		{6, 0, 0, 0}, {0, 0, 0, 0, 6, 0, 250, 0}, // compactions without a message
		{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 2, 0, 8, 0, 0, 0},                         // a call that has started
		{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 2, 0, 8, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0}, // and its agent has begun
	} {
		f.Add(script, "")
	}
	f.Add([]byte{}, `{"kind":"session","session":"S"}`+"\n"+`{"kind":"resume","session":"S","summary":true}`+"\n"+`{"kind":"message","session":"S","attempt":1,"message":{"role":"user"}}`)
	f.Fuzz(func(t *testing.T, script []byte, lines string) {
		history := agenttest.Events(script[:min(len(script), 4*200)])
		for line := range strings.Lines(lines[:min(len(lines), 20_000)]) {
			var e agent.Event
			if json.Unmarshal([]byte(line), &e) == nil {
				history = append(history, e)
			}
		}
		runWith(t, agent.Start{Channel: agent.ChannelVersion, Args: json.RawMessage(`{"prompt":"go"}`), History: slices.Clone(history)})
		runWith(t, agent.Start{Channel: agent.ChannelVersion, Compact: true, History: history})
	})
}

// runWith runs an agent with a tool and a sub-agent for a holder, to the end.
func runWith(t *testing.T, start agent.Start) {
	m := &model{answers: []*agent.Response{calls(call("", "t", "{}"), call("", "expert_sub", `{"prompt":"go"}`)), text("done")}}
	sub := &agent.Agent{Slug: "sub", Provider: &model{answers: []*agent.Response{text("sub")}}}
	a := newAgent(m, tool{"t", func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.TextResult("x"), nil }}, &agent.Subagent{Name: "expert_sub", Agent: sub})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := (&runner.Runner{Agent: a}).Start(ctx, start)
	events := slices.Collect(c.Events())
	_, err := c.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the run does not end: %v", err)
	}
	if len(events) == 0 || events[len(events)-1].Kind != agent.EventEnd {
		t.Fatalf("the last of %d events is no end", len(events))
	}
	var b runner.Rebuilder
	if events[0].Session == "" || events[0].Kind == agent.EventEnd {
		return // it did not begin
	}
	for _, e := range slices.Concat(start.History, events) {
		if err := b.Apply(e); err != nil {
			t.Fatalf("what the run leaves cannot be read: %v", err)
		}
	}
}

// TestWhatComesFromElsewhereNeverPanics tries every script of up to three events.
func TestWhatComesFromElsewhereNeverPanics(t *testing.T) {
	var letters [][]byte
	for kind := range byte(12) {
		for _, rest := range []string{"\x00\x00\x00", "\x00\x03\x01", "\x00\xfa\x00", "\x00\x12\x28", "\x01\x00\x00", "\xc0\x02\x10"} {
			letters = append(letters, append([]byte{kind}, rest...))
		}
	}
	for _, one := range letters {
		for _, two := range letters {
			for _, before := range []string{"", "\x00\x00\x00\x00", "\x00\x00\x00\x00\x01\x00\x00\x00", "\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x02\x00\x08\x00\x00\x00"} {
				var b runner.Rebuilder
				for _, e := range agenttest.Events(bytes.Join([][]byte{[]byte(before), one, two}, nil)) {
					_ = b.Apply(e)
					resume, _ := b.Resume()
					drive(resume.Session)
				}
			}
		}
	}
}

// drive applies what follows from the session by itself.
func drive(s *agent.Session) {
	s.Shorten()
	s.Answer()
	for range 20 {
		step := s.Next()
		if step.Kind != agent.StepApply {
			return
		}
		for _, e := range step.Events {
			_ = s.Apply(e)
		}
	}
}
