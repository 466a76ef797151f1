package session_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type memory struct{ events []agent.Event }

func (m *memory) Append(_ context.Context, e agent.Event) error {
	m.events = append(m.events, e)
	return nil
}

func (m *memory) Sync(context.Context) error { return nil }

// slow answers after a time.
type slow struct{ model }

func (s slow) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	select {
	case <-time.After(7 * time.Second):
		return s.model(req), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type inBackground struct{ agent.Subagent }

func (b *inBackground) Spec() agent.ToolSpec {
	spec := b.Subagent.Spec()
	spec.Background = true
	return spec
}

// withBackground returns the events of a run with two agents in the background, and the
// conversation shortened while they work.
func withBackground(t *testing.T) []agent.Event {
	j := &memory{}
	idem := (&effects{}).tool("idem", agent.EffectsIdempotent)
	expert := &agent.Agent{Slug: "expert", Toolsets: []agent.Toolset{agent.ToolList{idem}}, Provider: slow{func(req *agent.Request) *agent.Response {
		if len(req.Messages) == 1 {
			return calls(call("e", "idem", "{}"))
		}
		return text("expert's answer")
	}}}
	wait := tool{"wait", agent.EffectsNone, func(inv *agent.Invocation) agent.Result {
		ended, err := inv.Caller.Agents(inv).Await(t.Context(), nil, time.Minute)
		if err != nil {
			t.Error(err)
		}
		return agent.TextResult(strings.Join(ended, " "))
	}}
	look := tool{"look", agent.EffectsNone, func(*agent.Invocation) agent.Result { return agent.TextResult("seen") }}
	r := &runner.Runner{Journal: j}
	r.Agent = &agent.Agent{Slug: "root", Toolsets: []agent.Toolset{agent.ToolList{wait, look, &inBackground{agent.Subagent{Name: "ask", Agent: expert}}}}}
	r.Agent.Provider = model(func(req *agent.Request) *agent.Response {
		last := req.Messages[len(req.Messages)-1]
		switch {
		case req.Summary:
			return text("a summary")
		case len(req.Messages) == 1 && last.Text() == "go":
			return calls(call("a", "ask", `{"prompt":"1"}`), call("b", "ask", `{"prompt":"2"}`))
		case len(last.Results) > 0 && strings.Contains(last.Results[0].Text(), "in the background"):
			r.Direct(agent.Directive{Compact: true})
			return calls(call("", "look", "{}"))
		case strings.Contains(last.Text(), "a summary"):
			return calls(call("", "wait", "{}"))
		case len(last.Results) > 0, strings.Contains(last.Text(), "still at work"):
			return calls(call("", "wait", "{}"))
		}
		return text("done: " + last.Text())
	})
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Error(err)
	}
	return j.events
}

// receiptOf returns what a run would say of its root now.
func receiptOf(r *runner.Resume) *agent.Receipt {
	if r.Facts == nil {
		return nil
	}
	return r.Facts.Receipt(r.Facts.Began())
}

// TestAgentsInTheBackgroundAreReadAgain from a journal that ends at any event, as from memory.
func TestAgentsInTheBackgroundAreReadAgain(t *testing.T) {
	var events []agent.Event
	synctest.Test(t, func(t *testing.T) { events = withBackground(t) })
	pending := func(r *runner.Resume) map[string]string {
		m := map[string]string{}
		for key, p := range r.Pending {
			m[key] = p.Session.ID + " " + string(p.Session.Ended)
		}
		return m
	}
	compacted, left := false, 0
	for n := 2; n <= len(events); n++ {
		j := session.Create(t.TempDir(), session.Options{})
		var b runner.Rebuilder
		for _, e := range events[:n] {
			if err := b.Apply(e); err != nil {
				t.Fatal(err)
			}
			if err := j.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := b.Resume()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		again, past, err := session.Open(j.Path(), session.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		open := maps.Clone(pending(want))
		if diff := cmp.Diff(open, pending(&past.Resume)); diff != "" {
			t.Errorf("after %d events, %s: the sessions in progress (-memory +file):\n%s", n, events[n-1].Kind, diff)
		}
		if diff := cmp.Diff(want.Session.Left, past.Session.Left, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %d events: left (-memory +file):\n%s", n, diff)
		}
		if diff := cmp.Diff(want.Total, past.Total); diff != "" {
			t.Errorf("after %d events: the total (-memory +file):\n%s", n, diff)
		}
		if diff := cmp.Diff(receiptOf(want), receiptOf(&past.Resume)); diff != "" {
			t.Errorf("after %d events, %s: the facts (-memory +file):\n%s", n, events[n-1].Kind, diff)
		}
		compacted = compacted || slices.ContainsFunc(events[:n], func(e agent.Event) bool { return e.Kind == agent.EventCompaction }) && len(want.Session.Left) > 0
		left += len(want.Session.Left)
	}
	if !compacted || left < 5 {
		t.Errorf("agents in the background at a compaction: %t; in all: %d", compacted, left)
	}
}
