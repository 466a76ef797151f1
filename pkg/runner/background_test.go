package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestOutsideARunNothingIsStartedOrKept.
func TestOutsideARunNothingIsStartedOrKept(t *testing.T) {
	none := &agent.Invocation{}
	if none.Background(t.Context(), func(context.Context) string { panic("started") }) == nil {
		t.Error("something was started")
	}
	made := 0
	count := func() any { made++; return made }
	if a, b := none.State("k", count), none.State("k", count); a == b {
		t.Error("state is kept")
	}
	none.AwaitNotice(t.Context())
}

// TestStateIsKeptUntilTheRunEnds, by its key.
func TestStateIsKeptUntilTheRunEnds(t *testing.T) {
	r := &run{node: node{tree: &tree{}}}
	inv := &agent.Invocation{Caller: r}
	made := 0
	count := func() any { made++; return made }
	for _, tt := range []struct {
		key  string
		want int
	}{{"a", 1}, {"b", 2}, {"a", 1}, {"b", 2}} {
		if got := inv.State(tt.key, count); got != tt.want {
			t.Errorf("State(%s) = %v, want %d", tt.key, got, tt.want)
		}
	}
	if r.background.end(r.tree); inv.State("a", count) != 3 {
		t.Error("state is kept after the end")
	}
}

// TestNoticesWaitForTheModel: in their order, none that is empty, and none from after the end.
func TestNoticesWaitForTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{node: node{tree: &tree{}}}
		inv := &agent.Invocation{Caller: r}
		b := &r.background
		next := func(kind agent.StepKind, want string) {
			t.Helper()
			text := ""
			d, ok := b.notice(agent.Step{Kind: kind}, true, false)
			if ok {
				text = d.Message.Text()
			}
			if ok != (want != "") || text != want {
				t.Errorf("the notice is %q (%t), want %q", text, ok, want)
			}
		}
		var awaited atomic.Int32
		await := func() {
			go func() { inv.AwaitNotice(t.Context()); awaited.Add(1) }()
			synctest.Wait()
		}
		await()
		await()
		next(agent.StepModel, "")
		for _, text := range []string{"", "one", "two"} {
			if err := inv.Background(t.Context(), func(context.Context) string { return text }); err != nil {
				t.Error(err)
			}
			if synctest.Wait(); (awaited.Load() == 0) != (text == "") {
				t.Errorf("after the notice %q, %d no longer wait", text, awaited.Load())
			}
		}
		if await(); awaited.Load() != 3 {
			t.Errorf("%d have a notice, want 3", awaited.Load())
		}
		for _, kind := range []agent.StepKind{agent.StepPrompt, agent.StepApply, agent.StepSummary, agent.StepCalls, agent.StepAccept} {
			next(kind, "")
		}
		next(agent.StepModel, "one")
		next(agent.StepModel, "two")
		next(agent.StepModel, "")
		if err := inv.Background(t.Context(), func(ctx context.Context) string { <-ctx.Done(); return "late" }); err != nil {
			t.Error(err)
		}
		b.end(r.tree)
		next(agent.StepModel, "")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		inv.AwaitNotice(ended)
	})
}
