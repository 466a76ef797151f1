package replay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

func TestARecordAloneIsRepeatedExactly(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: tree()}, "go")
	got, _ := again(t, events)
	for _, list := range [][]agent.Event{events, got} {
		for i := range list {
			list[i].Time, list[i].Millis = time.Time{}, 0
			list[i].Total = nil // it has durations
			if list[i].Kind == agent.EventSetup {
				list[i].Digest = "" // of schemas with their spaces
			}
		}
	}
	// The prompts and ends of sessions that run at the same time follow of themselves.
	ordered := func(list []agent.Event) []agent.Event {
		return slices.DeleteFunc(list, func(e agent.Event) bool {
			return e.Depth > 0 && (e.Kind == agent.EventMessage || e.Kind == agent.EventSetup || e.Kind == agent.EventEnd)
		})
	}
	if diff := cmp.Diff(ordered(events), ordered(got)); diff != "" {
		t.Errorf("events (-recorded +replayed):\n%s", diff)
	}
}
