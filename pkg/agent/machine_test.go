package agent_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestTheMachineHoldsForEveryOrderOfEvents feeds a session with random events,
// those that its own methods make and others. What it refuses changes nothing;
// what it takes keeps every call answered once, ids unique and limits held; and at
// every point its JSON and the replay of its events are the session itself.
func TestTheMachineHoldsForEveryOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, replayed, a := &agent.Session{}, &agent.Session{}, &agent.Agent{Slug: "root", Model: "test", LoopWarn: -1, LoopEnd: -1}
		a.MaxTurns, a.ContextTokens = rapid.IntRange(1, 3).Draw(t, "turns"), rapid.SampledFrom([]int{0, 60}).Draw(t, "context")
		limits := a.Limits()
		limits.LoopWarn, limits.LoopEnd = rapid.IntRange(0, 2).Draw(t, "loop warn"), rapid.IntRange(0, 3).Draw(t, "loop end")
		limits.Answers = rapid.IntRange(0, 2).Draw(t, "answers")
		apply := func(list ...agent.Event) {
			for _, e := range list {
				before := state(t, s)
				if err := s.Apply(e); err != nil {
					if after := state(t, s); after != before {
						t.Fatalf("%s was refused (%v) and changed the session:\n%s\n%s", e.Kind, err, before, after)
					}
				} else if err := replayed.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			legal := rapid.IntRange(0, 3).Draw(t, "legal") > 0
			if legal {
				apply(next(t, s, a, limits)...)
			} else {
				apply(arbitrary(t, s))
			}
			holds(t, s, replayed)
		}
	})
}

func state(t *rapid.T, s *agent.Session) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// next is what may come of the step that s needs.
func next(t *rapid.T, s *agent.Session, a *agent.Agent, limits agent.Limits) []agent.Event {
	if s.ID == "" {
		return s.Opened(a, "S", "", 0)
	}
	step := s.Next()
	if most := s.Limits.Turns; step.Kind == agent.StepCalls && most > 0 && s.RunTurns > most {
		t.Fatalf("calls of turn %d of %d", s.RunTurns, most)
	}
	switch step.Kind {
	case agent.StepPrompt:
		if s.Unfinished() && rapid.Bool().Draw(t, "resume") {
			return []agent.Event{s.Resumed(limits)}
		}
		return []agent.Event{s.Prompted(agent.UserText("go"), limits)}
	case agent.StepApply:
		if len(step.Events) == 0 {
			t.Fatal("a step without an event")
		}
		return step.Events
	case agent.StepAccept:
		var wrong error
		if rapid.Bool().Draw(t, "wrong") {
			wrong = fmt.Errorf("it is short")
		}
		return s.Judged("fine", wrong).Events
	case agent.StepCalls:
		c := rapid.SampledFrom(step.Calls).Draw(t, "call")
		result := agent.TextResult(rapid.SampledFrom([]string{"x", string(make([]byte, 900))}).Draw(t, "result"))
		result.End = rapid.SampledFrom([]agent.Status{"", "", "", agent.StatusOK, agent.StatusRefused}).Draw(t, "ends")
		if id := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "task"); id != "" {
			result.Task = &agent.Task{ID: id, Title: "title", Parent: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "parent")}
		}
		return []agent.Event{s.CallEnded(c, result, nil)}
	}
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
		return []agent.Event{s.Failed(step, &agent.ModelError{Message: "no", TooLong: rapid.Bool().Draw(t, "too long")})}
	}
	if rapid.IntRange(0, 4).Draw(t, "nearly spent") == 0 {
		return []agent.Event{s.Failed(step, &agent.NearlySpent{Reason: "little is left", Text: "answer now"})}
	}
	r := &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text("answer")}}, Usage: agent.Usage{InputTokens: 10, OutputTokens: 2}}
	for range rapid.IntRange(0, 3).Draw(t, "calls") {
		r.Message.Calls = append(r.Message.Calls, agent.ToolCall{ID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"), Name: "echo", Args: "{}"})
	}
	r.Finish = rapid.SampledFrom([]agent.Finish{"", agent.FinishLength, agent.FinishContentFilter}).Draw(t, "finish")
	r.Fallback = rapid.SampledFrom([]string{"", "fast"}).Draw(t, "fallback")
	return []agent.Event{s.Answered(step, r)}
}

// arbitrary is an event that need not be possible now.
func arbitrary(t *rapid.T, s *agent.Session) agent.Event {
	e := agent.Event{Session: rapid.SampledFrom([]string{s.ID, "S", "other"}).Draw(t, "session"), Agent: "root",
		Kind: rapid.SampledFrom([]agent.EventKind{agent.EventSession, agent.EventMessage, agent.EventResume, agent.EventAnswer, agent.EventSetup,
			agent.EventFailure, agent.EventCompaction, agent.EventCallStarted, agent.EventCallEnded, agent.EventVerdict, agent.EventEnd, agent.EventText}).Draw(t, "kind"),
		CallID: rapid.SampledFrom([]string{"", "a", "b", "c00000001"}).Draw(t, "call id"), N: rapid.IntRange(0, 2).Draw(t, "n"),
		Attempt: rapid.IntRange(0, 2).Draw(t, "attempt"), Closing: rapid.Bool().Draw(t, "closing"), Status: agent.StatusFailed,
		Summary: rapid.Bool().Draw(t, "summary"), Input: rapid.Bool().Draw(t, "input"), Opening: rapid.Bool().Draw(t, "opening"), TooLong: rapid.Bool().Draw(t, "too long")}
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		e.Messages = append(e.Messages, agenttest.Messages()[rapid.IntRange(0, len(agenttest.Messages())-1).Draw(t, "which")])
	}
	if rapid.Bool().Draw(t, "message") {
		e.Message = &agent.Message{Role: rapid.SampledFrom([]agent.Role{agent.RoleUser, agent.RoleAssistant, agent.RoleTool}).Draw(t, "role")}
		if rapid.Bool().Draw(t, "calls") {
			e.Message.Calls = []agent.ToolCall{{ID: "a", Name: "echo", Args: "{}"}, {ID: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "second"), Name: "echo", Args: "{}"}}
		}
	}
	if rapid.Bool().Draw(t, "has a result") {
		e.Result = &agent.ToolResult{CallID: e.CallID}
	}
	return e
}

// holds checks what is true at every point. The events that s took are in replayed too.
func holds(t *rapid.T, s, replayed *agent.Session) {
	ids := map[string]bool{}
	for i, m := range s.Messages {
		for _, c := range m.Calls {
			if ids[c.ID] || c.ID == "" {
				t.Fatalf("the id %q is there twice", c.ID)
			}
			ids[c.ID] = true
		}
		if m.Role == agent.RoleTool && (i == 0 || len(m.Results) != len(s.Messages[i-1].Calls)) {
			t.Fatalf("message %d has %d results", i, len(m.Results))
		}
		if len(m.Calls) > 0 && i < len(s.Messages)-1 && s.Messages[i+1].Role != agent.RoleTool {
			t.Fatalf("the calls of message %d have no results", i)
		}
	}
	if most := s.Limits.LoopEnd; most > 0 && s.Loop.Count > most {
		t.Fatalf("turn repeated %d times of %d", s.Loop.Count, most)
	}
	if s.Closing != "" && s.Next().Kind == agent.StepCalls {
		t.Fatal("calls run after the model was asked for its answer")
	}
	if !s.Running && s.Next().Kind != agent.StepPrompt {
		t.Fatalf("the run is over and Next says %v", s.Next().Kind)
	}
	var back agent.Session
	if err := json.Unmarshal([]byte(state(t, s)), &back); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*agent.Session{"read back": &back, "replayed": replayed} {
		if reflect.DeepEqual(s, other) {
			continue // cmp takes 50 times as long, and equates more
		}
		if diff := cmp.Diff(s, other, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s (-live +%s):\n%s", name, name, diff)
		}
	}
}

func TestAStateThatNoEventsLeadToIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"id":"S","running":true}`,
		`{"id":"S","calls":[{}]}`,
		`{"id":"S","running":true,"messages":[{"role":"user"}],"calls":[{"state":"started"}]}`,
	} {
		var s agent.Session
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("read %s: no error; Next says %v", text, s.Next().Kind)
		}
	}
}

func TestWalkShowsEveryTaskOnce(t *testing.T) {
	var b strings.Builder
	agent.Plan{{ID: "x", Parent: "y"}, {ID: "b", Parent: "a"}, {ID: "a"}, {ID: "lost", Parent: "gone"}, {ID: "c", Parent: "b"}, {ID: "y", Parent: "x"}}.
		Walk(func(task agent.Task, depth int) { fmt.Fprintf(&b, "%s%d ", task.ID, depth) })
	if got := b.String(); got != "a0 b1 c2 lost0 x0 y1 " {
		t.Errorf("Walk visits %s", got)
	}
}

func TestNoRunWithinACallOfNobody(t *testing.T) {
	out, err := (&agent.Invocation{}).Run(t.Context(), &agent.Agent{}, agent.UserText("hi"))
	if err == nil || out.Status != agent.StatusFailed {
		t.Errorf("Run = %+v, %v; want an error", out, err)
	}
}
