package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// TestAReceiptCountsACallByTheEndOfItsAgent, and not by its handle; read back it is the same.
func TestAReceiptCountsACallByTheEndOfItsAgent(t *testing.T) {
	stops := func(last string) *agent.Response {
		if strings.Contains(last, "background as") {
			return calls(call("", "agent_stop", `{"agent":"slow-1-1"}`))
		}
		return waits(last)
	}
	for name, tc := range map[string]struct {
		each time.Duration
		say  func(string) *agent.Response
		want agent.CallCount
	}{
		"a quick answer":        {time.Millisecond, waits, agent.CallCount{Tool: "expert_slow", Calls: 1}},
		"an answer":             {5 * time.Second, waits, agent.CallCount{Tool: "expert_slow", Calls: 1}},
		"no answer":             {5 * time.Second, stops, agent.CallCount{Tool: "expert_slow", Calls: 1, Failed: 1}},
		"ended with its caller": {5 * time.Second, func(string) *agent.Response { return text("early") }, agent.CallCount{Tool: "expert_slow", Calls: 1, Failed: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			j := &journal{}
			out, err := (&runner.Runner{Agent: leaving(tc.each, &done, tc.say), Journal: j}).Run(t.Context(), agent.UserText("go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(out.Receipt.Calls, tc.want) || out.Receipt.Open != 0 {
				t.Errorf("%s: %+v, %d open; want %+v", name, out.Receipt.Calls, out.Receipt.Open, tc.want)
			}
			var facts agent.Facts
			for _, e := range j.events {
				facts.Note(&e)
			}
			if again := facts.Receipt(time.Now()); !slices.Equal(again.Calls, out.Receipt.Calls) {
				t.Errorf("%s: read back: %+v, live %+v", name, again.Calls, out.Receipt.Calls)
			}
		})
	}
}

// TestAConditionAboutACallWaitsForTheEndOfItsAgent: a handle is no outcome.
func TestAConditionAboutACallWaitsForTheEndOfItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		a := leaving(5*time.Second, &done, func(last string) *agent.Response {
			if strings.Contains(last, "not accepted") {
				return text("after a correction")
			}
			return waits(last)
		})
		a.Accept = []agent.Condition{{Call: "expert_slow"}}
		out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
		if err != nil || !strings.Contains(out.Answer, "slow's answer") {
			t.Errorf("%q, %v", out.Answer, err)
		}
		a = leaving(5*time.Second, &done, func(string) *agent.Response { return text("early") })
		a.Accept = []agent.Condition{{Call: "expert_slow"}}
		if _, err = (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrAnswer) {
			t.Errorf("a handle satisfies the condition: %v", err)
		}
	})
}

// TestWhatWorkedInTheBackgroundIsJudgedAgainAfterACrash, by the policy, the rights and the hooks of
// the process that resumes it.
func TestWhatWorkedInTheBackgroundIsJudgedAgainAfterACrash(t *testing.T) {
	for _, by := range []string{"nothing", "policy", "hook", "schema"} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			died := &dying{at: 12}
			_, _ = (&runner.Runner{Agent: leaving(5*time.Second, &done, waits), Journal: died}).Run(t.Context(), agent.UserText("go"))
			var b runner.Rebuilder
			for _, e := range died.events {
				if err := b.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			from, _ := b.Resume()
			if len(from.Session.Left) != 1 {
				t.Fatal("no agent worked in the background")
			}
			a, asked := leaving(5*time.Second, &done, waits), 0
			r := &runner.Runner{Agent: a, Journal: &died.journal, From: from, Policy: func(_ context.Context, inv *agent.Invocation) agent.Verdict {
				if inv.Spec.Name == "expert_slow" {
					if asked++; by == "policy" {
						return agent.Verdict{Decision: agent.Deny, Reason: "no longer", Rule: "r"}
					}
				}
				return agent.Verdict{Decision: agent.Allow}
			}}
			switch by {
			case "hook":
				a.Rights = &hookedRights{hook: func(c *agent.HookCall) (h agent.HookAnswer, err error) {
					if c.Hook == agent.HookBeforeCall && c.Tool == "expert_slow" {
						h.Deny = "no longer"
					}
					return h, nil
				}}
			case "schema":
				list := a.Toolsets[0].(agent.ToolList)
				list[0] = noLongerValid{list[0].(*backgroundAgent)}
			}
			begin := len(died.events)
			out, err := r.Resume(t.Context())
			ran := slices.ContainsFunc(died.events[begin:], func(e agent.Event) bool { return e.Agent == "slow" })
			if err != nil || ran != (by == "nothing") || asked == 0 && by != "schema" && by != "hook" {
				t.Errorf("denied by %s: it ran: %t; the policy was asked %d times; %v", by, ran, asked, err)
			}
			if by != "nothing" && (!strings.Contains(out.Answer, "it was not continued") || !strings.Contains(out.Answer, "no longer")) {
				t.Errorf("denied by %s: the answer is %q", by, out.Answer)
			}
			again := runner.Rebuilder{}
			for _, e := range died.events { // what was recorded can be read
				if err := again.Apply(e); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// noLongerValid is an agent whose arguments are no longer valid.
type noLongerValid struct{ *backgroundAgent }

func (noLongerValid) Validate(context.Context, *agent.Invocation) error {
	return errors.New("no longer")
}

// TestAgentStopDoesNotWaitForHooks, but the model still reads what they say.
func TestAgentStopDoesNotWaitForHooks(t *testing.T) {
	for _, then := range []func(string) *agent.Response{waits, func(last string) *agent.Response {
		if strings.Contains(last, "has ended]") {
			return text("told: " + last)
		}
		return text("enough") // which would end the run
	}} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			stopped := time.Duration(-1)
			var begin time.Time
			a := leaving(5*time.Second, &done, func(last string) *agent.Response {
				switch {
				case strings.Contains(last, "background as"):
					begin = time.Now()
					return calls(call("", "agent_stop", `{"agent":"slow-1-1"}`))
				case stopped < 0:
					stopped = time.Since(begin)
				}
				if strings.Contains(last, "still at work") {
					t.Error("a stopped agent is said to be at work")
				}
				if !strings.Contains(last, "has ended]") && stopped >= 0 {
					return then("still at work")
				}
				return then(last)
			})
			a.Rights = &hookedRights{hook: func(c *agent.HookCall) (h agent.HookAnswer, err error) {
				if c.Hook == agent.HookAfterCall && c.Tool == "expert_slow" {
					time.Sleep(9 * time.Second)
					h.Result = new("checked")
				}
				return h, nil
			}}
			out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
			if err != nil || !strings.Contains(out.Answer, "checked") || stopped > time.Second {
				t.Errorf("%q, %v; agent_stop took %s", out.Answer, err, stopped)
			}
		})
	}
}
