package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// counting is a model that calls a tool until it was asked often enough, counts
// tokens as four bytes each, and refuses what is longer than its context.
type counting struct {
	turns    int
	context  int // in tokens; 0 is no limit
	summary  string
	parallel int // calls in a turn, 1 if it is 0
	largest  int
	asked    []agent.Request
}

func (c *counting) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	n := 0
	for _, m := range req.Messages {
		n += len(m.Text())
		for _, r := range m.Results {
			n += len(r.Text())
		}
	}
	n /= 4
	if c.context > 0 && n > c.context {
		return nil, &agent.ModelError{Status: 400, Code: "context_length_exceeded", Message: "too long", TooLong: true}
	}
	c.largest = max(c.largest, n)
	copied := *req
	c.asked = append(c.asked, copied)
	if req.Summary {
		return text(c.summary), nil
	}
	c.turns--
	if c.turns < 0 {
		return text("the end"), nil
	}
	r := calls(slices.Repeat([]agent.ToolCall{call("", "read", "{}")}, max(c.parallel, 1))...)
	r.Usage = agent.Usage{InputTokens: n, OutputTokens: 10}
	return r, nil
}

func reader(size int) tool {
	return tool{"read", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(strings.Repeat("word ", size/5)), nil
	}}
}

func TestALongConversationKeepsFitting(t *testing.T) {
	for _, tc := range []struct {
		name   string
		turns  int
		result int
	}{
		{"large results are cut", 30, 8000},
		{"many small turns are summed up", 300, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &counting{turns: tc.turns, context: 20_000, summary: "read a lot"}
			j := &journal{}
			a := newAgent(m, reader(tc.result))
			a.ContextTokens, a.MaxTurns = 20_000, 1000
			r := &runner.Runner{Agent: a, Journal: j}
			out, err := r.Run(t.Context(), agent.UserText("read everything"))
			if err != nil || out.Answer != "the end" {
				t.Fatalf("Run = %+v, %v", out, err)
			}
			if !strings.Contains(j.kinds(), "compaction") || m.largest > 20_000 {
				t.Errorf("largest request %d tokens; %s", m.largest, j.kinds())
			}
			last := m.asked[len(m.asked)-1].Messages
			if !strings.Contains(last[0].Text(), "read everything") {
				t.Errorf("the first prompt is lost: %q", last[0].Text())
			}
			if got := last[len(last)-1].Results[0].Text(); len(got) < tc.result-5 {
				t.Errorf("the latest result was cut to %d bytes", len(got))
			}
			checkPairs(t, m.asked)
			again := load(t, j.events)
			if diff := cmp.Diff(r.Session(), again.Session(), everything, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("replay differs (-live +replayed):\n%s", diff)
			}
			if fromLast := load(t, lastCompaction(j.events)); cmp.Diff(r.Session().Messages, fromLast.Session().Messages) != "" || fromLast.Session().Turn != r.Session().Turn {
				t.Error("a session read from the last compaction on is another one")
			}
		})
	}
}

// checkPairs looks for results without their calls, which models refuse.
func checkPairs(t *testing.T, requests []agent.Request) {
	t.Helper()
	for _, req := range requests {
		for i, m := range req.Messages {
			if m.Role == agent.RoleTool && (i == 0 || len(req.Messages[i-1].Calls) != len(m.Results)) {
				t.Fatalf("message %d has results without calls", i)
			}
			if i > 0 && m.Role == agent.RoleUser && req.Messages[i-1].Role == agent.RoleUser {
				t.Fatalf("messages %d and %d are both the user's", i-1, i)
			}
		}
	}
}

func lastCompaction(events []agent.Event) []agent.Event {
	for i := len(events) - 1; i > 0; i-- {
		if events[i].Kind == agent.EventCompaction {
			return events[i:]
		}
	}
	return nil
}

func TestASummaryIsCountedAndRefersToTheFirstPromptAgain(t *testing.T) {
	m := &counting{turns: 700, context: 20_000, summary: "so far so good"}
	a := newAgent(m, reader(500))
	a.ContextTokens, a.MaxTurns = 20_000, 1000
	out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("count the words"))
	if err != nil {
		t.Fatal(err)
	}
	summaries := 0
	for _, req := range m.asked {
		if req.Summary {
			summaries++
		}
	}
	if summaries < 2 {
		t.Fatalf("%d summaries; the test wants one of a summary", summaries)
	}
	if out.Total.Usage.Requests != len(m.asked) {
		t.Errorf("%d requests counted, %d made", out.Total.Usage.Requests, len(m.asked))
	}
	first := m.asked[len(m.asked)-1].Messages[0].Text()
	if strings.Count(first, "count the words") != 1 || strings.Count(first, "Summary:") != 1 {
		t.Errorf("first message = %q", first)
	}
}

func TestAContextSmallerThanSaidIsNoticed(t *testing.T) {
	m := &counting{turns: 30, context: 10_000, summary: "short"}
	a := newAgent(m, reader(4000))
	if out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err != nil || out.Answer != "the end" {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	a.NoCompaction = true
	m.turns = 30
	if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("without compaction: %v", err)
	}
}

// A result that is larger than the context, or many at once that are, must not end
// the run: it could never go on.
func TestResultsLargerThanTheContextAreCut(t *testing.T) {
	for name, parallel := range map[string]int{"one": 1, "many at once": 12} {
		t.Run(name, func(t *testing.T) {
			m := &counting{turns: 1, context: 2000, summary: "short", parallel: parallel}
			j := &journal{}
			r := &runner.Runner{Agent: newAgent(m, reader(50_000)), Journal: j}
			out, err := r.Run(t.Context(), agent.UserText("read it"))
			if err != nil || out.Answer != "the end" {
				t.Fatalf("Run = %+v, %v", out, err)
			}
			last := m.asked[len(m.asked)-1].Messages
			results := last[len(last)-1].Results
			if len(results) != parallel {
				t.Fatalf("the last request has %d results, want %d", len(results), parallel)
			}
			for _, got := range results {
				if text := got.Text(); !strings.HasPrefix(text, "word word") || !strings.Contains(text, "it is too long for this conversation") {
					t.Errorf("a result became %q", text)
				}
			}
			checkPairs(t, m.asked)
			if diff := cmp.Diff(r.Session(), load(t, j.events).Session(), everything, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("replay differs (-live +replayed):\n%s", diff)
			}
		})
	}
}

// A run that such a result ended goes on when conversations may be shortened.
func TestARunThatWasTooLongGoesOn(t *testing.T) {
	m := &counting{turns: 1, context: 2000, summary: "short"}
	j := &journal{}
	a := newAgent(m, reader(50_000))
	a.NoCompaction = true
	if _, err := (&runner.Runner{Agent: a, Journal: j}).Run(t.Context(), agent.UserText("read it")); err == nil {
		t.Fatal("the model took a conversation that is too long")
	}
	again := load(t, j.events)
	a.NoCompaction = false
	out, err := (&runner.Runner{Agent: a, From: &runner.Resume{Session: again.Session()}}).Run(t.Context(), agent.UserText("and then?"))
	if err != nil || out.Answer != "the end" {
		t.Fatalf("Run = %+v, %v", out, err)
	}
}

func TestNothingToShortenIsTheModelsError(t *testing.T) {
	m := &counting{turns: 1, context: 100}
	_, err := (&runner.Runner{Agent: newAgent(m)}).Run(t.Context(), agent.UserText(strings.Repeat("long ", 1000)))
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("Run = %v", err)
	}
}

// An interrupt while a conversation is summed up is an interrupt and nothing else.
func TestAnInterruptWhileShorteningIsAnInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	turns := 0
	a := newAgent(providerFunc(func(req *agent.Request) (*agent.Response, error) {
		switch turns++; {
		case req.Summary:
			cancel()
			return nil, ctx.Err()
		case turns > 10:
			return nil, &agent.ModelError{Message: "too long", TooLong: true}
		}
		return calls(call("", "read", "{}")), nil
	}), reader(500))
	_, err := (&runner.Runner{Agent: a}).Run(ctx, agent.UserText("go"))
	if err == nil || err.Error() != "context canceled" {
		t.Errorf("Run = %v, want context canceled alone", err)
	}
}

// TestTheErrorOfARunIsTheRecordedOne fails if the failure of a summary hides why
// the run ended.
func TestTheErrorOfARunIsTheRecordedOne(t *testing.T) {
	turns := 0
	a := newAgent(providerFunc(func(req *agent.Request) (*agent.Response, error) {
		switch turns++; {
		case req.Summary:
			return nil, errors.New("no summary")
		case turns > 10:
			return nil, &agent.ModelError{Message: "too long", TooLong: true}
		}
		return calls(call("", "read", "{}")), nil
	}), reader(500))
	var end agent.Event
	_, err := (&runner.Runner{Agent: a, Observe: func(e agent.Event) { end = e }}).Run(t.Context(), agent.UserText("go"))
	if err == nil || err.Error() != end.Error || !strings.Contains(end.Error, "too long") {
		t.Errorf("Run = %v, recorded as %q", err, end.Error)
	}
}
