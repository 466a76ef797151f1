package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// TestHooksAfterACallSeeWhatAnAgentInTheBackgroundDid, once, and not its handle; also after a crash.
func TestHooksAfterACallSeeWhatAnAgentInTheBackgroundDid(t *testing.T) {
	for name, tc := range map[string]struct {
		each time.Duration
		dies bool
	}{"a quick one": {time.Millisecond, false}, "a slow one": {5 * time.Second, false}, "a slow one after a crash": {5 * time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			var seen, done []string
			create := func() *agent.Agent {
				a := leaving(tc.each, &done, waits)
				a.Rights = &hookedRights{hook: func(c *agent.HookCall) (h agent.HookAnswer, err error) {
					if c.Hook == agent.HookAfterCall && c.Tool == "expert_slow" {
						seen = append(seen, *c.Result)
						h.Result = new("slow's answer, checked")
					}
					return h, nil
				}}
				return a
			}
			j := &dying{at: 1 << 30}
			if tc.dies {
				j.at = 12
			}
			out, err := (&runner.Runner{Agent: create(), Journal: j}).Run(t.Context(), agent.UserText("go"))
			if tc.dies {
				from := resumeOf(t, j.events)
				if seen = nil; len(from.Session.Left) != 1 {
					t.Fatalf("%s: no agent worked in the background", name)
				}
				out, err = (&runner.Runner{Agent: create(), From: from}).Resume(t.Context())
			}
			if want := []string{"slow's answer"}; err != nil || !slices.Equal(seen, want) || !strings.HasSuffix(strings.TrimSpace(out.Answer), "slow's answer, checked") {
				t.Errorf("%s: hooks saw %q, want %q; the answer is %q (%v)", name, seen, want, out.Answer, err)
			}
		})
	}
}

// TestHooksAfterACallHoldAfterACrash at any event: the model reads only what they let through.
func TestHooksAfterACallHoldAfterACrash(t *testing.T) {
	for name, each := range map[string]time.Duration{"waited for": time.Millisecond, "in the background": 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			create := func() *agent.Agent {
				a := leaving(each, new([]string), func(last string) *agent.Response {
					if strings.Contains(last, "checked") {
						return text("done")
					}
					return waits(last)
				})
				a.Rights = &hookedRights{hook: func(c *agent.HookCall) (h agent.HookAnswer, err error) {
					if c.Hook == agent.HookAfterCall && c.Tool == "expert_slow" {
						h.Result = new("checked")
					}
					return h, nil
				}}
				return a
			}
			whole := &journal{}
			if _, err := (&runner.Runner{Agent: create(), Journal: whole}).Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			for at := 2; at < len(whole.events); at++ {
				died := &dying{at: at}
				_, _ = (&runner.Runner{Agent: create(), Journal: died}).Run(t.Context(), agent.UserText("go"))
				from := resumeOf(t, died.events)
				out, err := (&runner.Runner{Agent: create(), From: from}).Resume(t.Context())
				if err != nil || out.Answer != "done" {
					t.Errorf("%s: after event %d (%s), the answer is %q (%v)", name, at, whole.events[at].Kind, out.Answer, err)
				}
			}
		})
	}
}

func resumeOf(t *testing.T, events []agent.Event) *runner.Resume {
	t.Helper()
	var b runner.Rebuilder
	for _, e := range events {
		if err := b.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	from, _ := b.Resume()
	return from
}

// TestACheckpointEndsIfTheAgentNeverStarts, because the run ended while the start was recorded.
func TestACheckpointEndsIfTheAgentNeverStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var done []string
	a := leaving(0, &done, waits)
	b := a.Toolsets[0].(agent.ToolList)[0].(*backgroundAgent)
	a.Toolsets[0].(agent.ToolList)[0] = channeled{b}
	open := 0
	r := &runner.Runner{Agent: a, Checkpoint: func(context.Context, int) (func(), error) {
		open++
		cancel()
		return func() { open-- }, nil
	}}
	_, _ = r.Run(ctx, agent.UserText("go"))
	if open != 0 || ctx.Err() == nil {
		t.Errorf("%d checkpoints have not ended (%v)", open, ctx.Err())
	}
}

// channeled is an agent that is another program.
type channeled struct{ *backgroundAgent }

func (c channeled) Spec() agent.ToolSpec {
	spec := c.backgroundAgent.Spec()
	spec.Channel = 3
	return spec
}
