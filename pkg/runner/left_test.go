package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/background"
)

// thinker answers by what it is asked, after a time.
type thinker func(last string) (*agent.Response, time.Duration)

func (f thinker) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := req.Messages[len(req.Messages)-1]
	last := m.Text()
	for _, r := range m.Results {
		last += r.Text() + "\n"
	}
	resp, after := f(last)
	select {
	case <-time.After(after):
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// backgroundAgent is a sub-agent that may work in the background.
type backgroundAgent struct{ agent.Subagent }

func (b *backgroundAgent) Spec() agent.ToolSpec {
	spec := b.Subagent.Spec()
	spec.Background = true
	return spec
}

func (b *backgroundAgent) Unwrap() any { return &b.Subagent }

// leaving is an agent that asks slow, which needs a time for each of two turns, with say for the rest.
func leaving(each time.Duration, done *[]string, say func(last string) *agent.Response) *agent.Agent {
	work := tool{"work", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		*done = append(*done, inv.Key)
		return agent.TextResult("worked"), nil
	}}
	slow := &agent.Agent{Slug: "slow", Toolsets: []agent.Toolset{agent.ToolList{idempotent{work}}}, Provider: thinker(func(last string) (*agent.Response, time.Duration) {
		if strings.Contains(last, "worked") {
			return text("slow's answer"), each
		}
		return calls(call("w", "work", "{}")), each
	})}
	return &agent.Agent{Slug: "main",
		Toolsets: []agent.Toolset{append(agent.ToolList{&backgroundAgent{agent.Subagent{Name: "expert_slow", Agent: slow}}}, background.Tools()...)},
		Provider: thinker(func(last string) (*agent.Response, time.Duration) {
			if last == "go" {
				return calls(call("s", "expert_slow", `{"prompt":"x"}`)), 0
			}
			return say(last), 0
		})}
}

// idempotent is a tool that may be called again.
type idempotent struct{ tool }

func (t idempotent) Spec() agent.ToolSpec {
	spec := t.tool.Spec()
	spec.Effects = agent.EffectsIdempotent
	return spec
}

// waits waits for the agent, and answers with what it is told.
func waits(last string) *agent.Response {
	switch {
	case strings.Contains(last, "works in the background"), strings.Contains(last, "still at work"):
		return calls(call("", "agent_wait", "{}"))
	case strings.Contains(last, "has ended]"), strings.Contains(last, "slow's answer"):
		return text("told: " + last)
	}
	return text("early")
}

// told returns the texts of messages that arrive during the run of the root.
func told(events []agent.Event) (list []string) {
	for _, e := range events {
		if e.Kind == agent.EventMessage && e.Input && e.Depth == 0 {
			list = append(list, e.Message.Text())
		}
	}
	return list
}

func TestAnAgentWorksOnWhileItsCallerDoes(t *testing.T) {
	ended := "[agent slow-1-1 has ended]\n"
	for name, tc := range map[string]struct {
		each   time.Duration
		say    func(string) *agent.Response
		answer string
		told   []string
		slow   agent.Status
	}{
		"a quick one answers at once": {500 * time.Millisecond, waits, "told: slow's answer\n", nil, agent.StatusOK},
		"a slow one later":            {5 * time.Second, waits, "told: " + ended + "slow's answer", []string{ended + "slow's answer"}, agent.StatusOK},
		"the caller is told once that it would end it": {5 * time.Second, func(last string) *agent.Response {
			if strings.Contains(last, "background as") {
				return text("early")
			}
			return waits(last)
		}, "told: " + ended + "slow's answer", []string{"[still at work for you: slow-1-1. Wait for them with agent_wait. If you answer again without that, they are ended.]", ended + "slow's answer"}, agent.StatusOK},
		"and then ends it": {5 * time.Second, func(string) *agent.Response { return text("early") }, "early",
			[]string{"[still at work for you: slow-1-1. Wait for them with agent_wait. If you answer again without that, they are ended.]"}, agent.StatusInterrupted},
		"or stops it": {5 * time.Second, func(last string) *agent.Response {
			if strings.Contains(last, "background as") {
				return calls(call("", "agent_send", `{"agent":"slow-1-1","message":"hurry"}`), call("", "agent_stop", `{"agent":"slow-1-1","reason":"enough"}`), call("", "agent_list", `{}`))
			}
			return waits(last)
		}, "", []string{ended + "[interrupted] agent slow did not answer: its caller stopped it: enough"}, agent.StatusInterrupted},
		"an unknown one is an error": {5 * time.Second, func(last string) *agent.Response {
			if strings.Contains(last, "background as") {
				return calls(call("", "agent_wait", `{"agents":["other"]}`))
			}
			if strings.Contains(last, `there is no agent "other"; there are: slow-1-1`) {
				return calls(call("", "agent_stop", `{"agent":"slow-1-1"}`))
			}
			return waits(last)
		}, "told: " + ended + "[interrupted] agent slow did not answer: its caller stopped it", nil, agent.StatusInterrupted},
	} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			j := &journal{}
			r := &runner.Runner{Agent: leaving(tc.each, &done, tc.say), Journal: j}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if err != nil || tc.answer != "" && out.Answer != tc.answer {
				t.Errorf("%s: the answer is %q (%v), want %q", name, out.Answer, err, tc.answer)
			}
			if got := told(j.events); tc.told != nil && !slices.Equal(got, tc.told) {
				t.Errorf("%s: told %q, want %q", name, got, tc.told)
			}
			last := j.events[len(j.events)-1]
			i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Depth > 0 })
			if last.Kind != agent.EventEnd || last.Depth != 0 || i < 0 || j.events[i].Status != tc.slow {
				t.Errorf("%s: the last event is %s at depth %d, the end of slow is event %d of %d", name, last.Kind, last.Depth, i, len(j.events))
			}
			if len(r.Session().Left) > 0 {
				t.Errorf("%s: left %v", name, r.Session().Left)
			}
		})
	}
}

// TestAgentsInTheBackgroundSurviveACrash at every event: the answer is told once, and a call that
// may not be repeated is not.
func TestAgentsInTheBackgroundSurviveACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		whole := &journal{}
		if _, err := (&runner.Runner{Agent: leaving(5*time.Second, &done, waits), Journal: whole}).Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		handles, deaths := 0, 0
		for at := 2; at < len(whole.events); at++ {
			died := &dying{at: at}
			done = nil
			_, err := (&runner.Runner{Agent: leaving(5*time.Second, &done, waits), Journal: died}).Run(t.Context(), agent.UserText("go"))
			if errors.Is(err, agent.ErrJournal) {
				deaths++
			}
			var b runner.Rebuilder
			for _, e := range died.events {
				if err := b.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			from, _ := b.Resume()
			handles += len(from.Session.Left)
			rest := &journal{}
			out, err := (&runner.Runner{Agent: leaving(5*time.Second, &done, waits), Journal: rest, From: from}).Resume(t.Context())
			all := slices.Concat(died.events, rest.events)
			n := 0
			for _, e := range all {
				if e.Kind == agent.EventMessage && strings.Contains(e.Message.Text(), "slow's answer") {
					n++
				}
			}
			if err != nil || !strings.Contains(out.Answer, "slow's answer") || n != 1 {
				t.Errorf("dead before event %d (%s): %q, %v; told %d times", at, whole.events[at].Kind, out.Answer, err, n)
			}
		}
		if handles < 5 || deaths < len(whole.events)-3 {
			t.Errorf("%d crashes while an agent worked, %d in all of %d", handles, deaths, len(whole.events))
		}
	})
}

// TestACompactionKeepsWhoWorksInTheBackground, so that a journal that begins there has it.
func TestACompactionKeepsWhoWorksInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		j := &journal{}
		var r *runner.Runner
		a := leaving(5*time.Second, &done, func(last string) *agent.Response {
			switch {
			case strings.Contains(last, "background as"):
				r.Direct(agent.Directive{Compact: true})
				return calls(call("", "agent_list", "{}"))
			case strings.Contains(last, "slow's answer"):
				return text(last)
			}
			return calls(call("", "agent_wait", "{}"))
		})
		a.Provider = summing{a.Provider}
		r = &runner.Runner{Agent: a, Journal: j}
		out, err := r.Run(t.Context(), agent.UserText("go"))
		i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventCompaction })
		if err != nil || i < 0 || len(j.events[i].Left) != 1 || j.events[i].Left[0].Handle != "slow-1-1" || !strings.Contains(out.Answer, "slow's answer") {
			t.Errorf("%q, %v; compaction at %d of %s", out.Answer, err, i, fmt.Sprint(len(j.events)))
		}
	})
}

// summing is a model that also sums up.
type summing struct{ agent.Provider }

func (s summing) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if req.Summary {
		return text("a summary"), nil
	}
	return s.Provider.Generate(ctx, req, delta)
}

// TestTheAgentsInTheBackgroundAreLimited also if the calls of one answer start at the same time: the
// others wait for the answer.
func TestTheAgentsInTheBackgroundAreLimited(t *testing.T) {
	const most, more = 32, 40
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slow := &agent.Agent{Slug: "slow", Provider: thinker(func(string) (*agent.Response, time.Duration) { return text("slow's answer"), time.Minute })}
			handles, answers, turn := 0, 0, 0
			main := &agent.Agent{Slug: "main", MaxParallelTools: more,
				Toolsets: []agent.Toolset{append(agent.ToolList{&backgroundAgent{agent.Subagent{Name: "expert_slow", Agent: slow}}}, background.Tools()...)},
				Provider: withDeltas(func(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
					if turn++; turn > 1 {
						for _, r := range req.Messages[2].Results {
							if r.Handle != "" {
								handles++
							} else {
								answers++
							}
						}
						return nil, errors.New("enough")
					}
					var list []agent.ToolCall
					for i := range more {
						list = append(list, call(fmt.Sprint(i), "expert_slow", `{"prompt":"x"}`))
					}
					return calls(list...), nil
				})}
			r := &runner.Runner{Agent: main, Held: held}
			if _, err := r.Run(t.Context(), agent.UserText("go")); err == nil {
				t.Fatal("the run did not fail")
			}
			if handles != most || answers != more-most {
				t.Errorf("held %v: %d handles and %d answers, want %d and %d", held, handles, answers, most, more-most)
			}
		})
	}
}
