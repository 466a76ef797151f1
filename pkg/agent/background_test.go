package agent

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestOutsideARunNothingIsStartedOrKept.
func TestOutsideARunNothingIsStartedOrKept(t *testing.T) {
	none := &Invocation{}
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
	inv := &Invocation{run: &run{tree: &tree{}}}
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
	if inv.run.background.end(); inv.State("a", count) != 3 {
		t.Error("state is kept after the end")
	}
}

// TestNoticesWaitForTheModel: in their order, none that is empty, and none from after the end.
func TestNoticesWaitForTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := &Invocation{run: &run{tree: &tree{}}}
		b := &inv.run.background
		next := func(kind StepKind, want string) {
			t.Helper()
			if m, ok := b.notice(Step{Kind: kind}); ok != (want != "") || m.Text() != want {
				t.Errorf("the notice is %q (%t), want %q", m.Text(), ok, want)
			}
		}
		awaited := 0
		await := func() {
			go func() { inv.AwaitNotice(t.Context()); awaited++ }()
			synctest.Wait()
		}
		await()
		await()
		next(StepModel, "")
		for _, text := range []string{"", "one", "two"} {
			if err := inv.Background(t.Context(), func(context.Context) string { return text }); err != nil {
				t.Error(err)
			}
			if synctest.Wait(); (awaited == 0) != (text == "") {
				t.Errorf("after the notice %q, %d no longer wait", text, awaited)
			}
		}
		if await(); awaited != 3 {
			t.Errorf("%d have a notice, want 3", awaited)
		}
		for _, kind := range []StepKind{StepPrompt, StepApply, StepSummary, StepCalls, StepAccept} {
			next(kind, "")
		}
		next(StepModel, "one")
		next(StepModel, "two")
		next(StepModel, "")
		if err := inv.Background(t.Context(), func(ctx context.Context) string { <-ctx.Done(); return "late" }); err != nil {
			t.Error(err)
		}
		b.end()
		next(StepModel, "")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		inv.AwaitNotice(ended)
	})
}
