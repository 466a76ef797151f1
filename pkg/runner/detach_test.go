package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/background"
)

// detached is a sub-agent that outlives its caller.
type detached struct{ *backgroundAgent }

func (d detached) Spec() agent.ToolSpec {
	spec := d.backgroundAgent.Spec()
	spec.Detach = true
	return spec
}

func (d detached) Unwrap() any { return &d.Subagent }

// leading is an agent that asks others, one below the other, of which the last one starts slow and
// ends; left says that the others work in the background too.
func leading(levels int, left bool, done *[]string, say func(last string) *agent.Response) *agent.Agent {
	a := leaving(5*time.Second, done, func(last string) *agent.Response { return text("started it") })
	list := a.Toolsets[0].(agent.ToolList)
	list[0] = detached{list[0].(*backgroundAgent)}
	for n := range levels {
		below := a
		below.Slug = []string{"lead", "chief", "head"}[n]
		sub := &backgroundAgent{agent.Subagent{Name: "expert_" + below.Slug, Agent: below}}
		var tool agent.Tool = &sub.Subagent
		if left {
			tool = detached{sub}
		}
		a = &agent.Agent{Slug: "main", Toolsets: []agent.Toolset{append(agent.ToolList{tool}, background.Tools()...)},
			Provider: thinker(func(last string) (*agent.Response, time.Duration) {
				switch {
				case last == "go" || last == "x":
					prompt := "go"
					if n > 0 {
						prompt = "x"
					}
					return calls(call("l", tool.Spec().Name, `{"prompt":"`+prompt+`"}`)), 3 * time.Second
				case n < levels-1:
					return text("started it"), 0
				}
				return say(last), 0
			})}
	}
	return a
}

// waitsForAll waits until it has the answer of slow.
func waitsForAll(last string) *agent.Response {
	if strings.Contains(last, "slow's answer") {
		return text("told: " + last)
	}
	return calls(call("", "agent_wait", "{}"))
}

func TestADetachedAgentOutlivesItsCaller(t *testing.T) {
	for name, tc := range map[string]struct {
		levels int
		left   bool
		say    func(string) *agent.Response
		handle string
		answer string
		slow   agent.Status
	}{
		"its caller's caller has it":               {1, false, waitsForAll, "slow-1-1.1-1", "slow's answer", agent.StatusOK},
		"up to the root":                           {3, false, waitsForAll, "slow-1-1.1-1.1-1.1-1", "slow's answer", agent.StatusOK},
		"also if its caller was left":              {2, true, waitsForAll, "slow-1-1.1-1", "slow's answer", agent.StatusOK},
		"the root's end ends it, and that is said": {1, false, func(string) *agent.Response { return text("early") }, "slow-1-1.1-1", "early", agent.StatusInterrupted},
		"the root stops it by its handle": {1, false, func(last string) *agent.Response {
			if strings.Contains(last, "are now yours") {
				return calls(call("", "agent_stop", `{"agent":"slow-1-1.1-1"}`))
			}
			return text(last)
		}, "slow-1-1.1-1", "", agent.StatusInterrupted},
	} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			j := &journal{}
			out, err := (&runner.Runner{Agent: leading(tc.levels, tc.left, &done, tc.say), Journal: j}).Run(t.Context(), agent.UserText("go"))
			if err != nil || !strings.Contains(out.Answer, tc.answer) {
				t.Errorf("%s: %q, %v", name, out.Answer, err)
			}
			said := false
			for _, e := range j.events {
				if e.Kind == agent.EventCallEnded && e.Depth == 0 && strings.Contains(e.Result.Text(), "are now yours, as if you had started them: "+tc.handle) || e.Kind == agent.EventMessage && strings.Contains(e.Message.Text(), tc.handle) {
					said = true
				}
			}
			i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Agent == "slow" })
			if !said || i < 0 || j.events[i].Status != tc.slow {
				t.Errorf("%s: said %t; slow ended at %d of %d", name, said, i, len(j.events))
			}
			if tc.answer == "early" && !slices.ContainsFunc(told(j.events), func(s string) bool { return strings.Contains(s, "still at work for you: "+tc.handle) }) {
				t.Errorf("%s: told %q", name, told(j.events))
			}
		})
	}
}

// TestADetachedAgentEndsWithAStoppedCaller: what is stopped leaves nothing.
func TestADetachedAgentEndsWithAStoppedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		a := leaving(time.Hour, &done, func(string) *agent.Response { return calls(call("", "agent_wait", "{}")) })
		list := a.Toolsets[0].(agent.ToolList)
		list[0] = detached{list[0].(*backgroundAgent)}
		a.Slug = "lead"
		lead := &backgroundAgent{agent.Subagent{Name: "expert_lead", Agent: a}}
		main := &agent.Agent{Slug: "main", Toolsets: []agent.Toolset{append(agent.ToolList{lead}, background.Tools()...)}, Provider: thinker(func(last string) (*agent.Response, time.Duration) {
			switch {
			case last == "go":
				return calls(call("l", "expert_lead", `{"prompt":"go"}`)), 0
			case strings.Contains(last, "background as"):
				return calls(call("", "agent_stop", `{"agent":"lead-1-1"}`)), 10 * time.Second
			}
			return text("done"), 0
		})}
		j := &journal{}
		begin := time.Now()
		_, err := (&runner.Runner{Agent: main, Journal: j}).Run(t.Context(), agent.UserText("go"))
		if i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Agent == "slow" }); err != nil || i < 0 || j.events[i].Status != agent.StatusInterrupted || time.Since(begin) > time.Minute {
			t.Errorf("%v: slow ended at event %d of %d after %s", err, i, len(j.events), time.Since(begin))
		}
	})
}

// TestNobodyKeepsWhatAStoppedAgentHasNotTakenOver: an agent in the background of lead has ended and left
// slow to lead, which is stopped before its model reads that.
func TestNobodyKeepsWhatAStoppedAgentHasNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []string
		starter := leaving(time.Hour, &done, nil)
		list := starter.Toolsets[0].(agent.ToolList)
		list[0] = detached{list[0].(*backgroundAgent)}
		starter.Slug, starter.Provider = "starter", thinker(func(last string) (*agent.Response, time.Duration) {
			if last == "go" {
				return calls(call("s", "expert_slow", `{"prompt":"x"}`)), 3 * time.Second
			}
			return text("started it"), 0
		})
		lead := &agent.Agent{Slug: "lead", Toolsets: []agent.Toolset{agent.ToolList{&backgroundAgent{agent.Subagent{Name: "expert_starter", Agent: starter}}}},
			Provider: thinker(func(last string) (*agent.Response, time.Duration) {
				if last == "go" {
					return calls(call("s", "expert_starter", `{"prompt":"go"}`)), 0
				}
				return text("late"), time.Hour
			})}
		main := &agent.Agent{Slug: "main", Toolsets: []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "expert_lead", Agent: lead}}},
			Provider: thinker(func(last string) (*agent.Response, time.Duration) {
				if last == "go" {
					return calls(call("l", "expert_lead", `{"prompt":"go"}`)), 0
				}
				return text("done"), time.Minute
			})}
		j := &journal{}
		r := &runner.Runner{Agent: main, Journal: j}
		r.Observe = func(e agent.Event) {
			if e.Kind == agent.EventSession && e.Agent == "lead" {
				time.AfterFunc(10*time.Second, func() { r.Direct(agent.Directive{Session: e.Session, Stop: true}) })
			}
		}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		ended := func(slug string) int {
			return slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Agent == slug })
		}
		if at := ended("slow"); ended("starter") < 0 || at < 0 || at > ended("lead") || j.events[at].Status != agent.StatusInterrupted {
			t.Errorf("starter ended at %d, slow at %d, lead at %d of %d", ended("starter"), at, ended("lead"), len(j.events))
		}
	})
}

// TestADetachedAgentSaysWhichTimeIsOver, as any other sub-agent does: the limits are those of the
// agent that started it and has ended.
func TestADetachedAgentSaysWhichTimeIsOver(t *testing.T) {
	for _, tc := range []struct {
		budget float64
		limit  time.Duration
		want   string
	}{
		{7, 0, "budget budget seconds 7 of agent lead spent"},
		{0, 7 * time.Second, "deadline the time limit of 7 s of agent lead passed"},
		{7, 8 * time.Second, "budget budget seconds 7 of agent lead spent"},
		{8, 7 * time.Second, "deadline the time limit of 7 s of agent lead passed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			main := leading(1, false, &done, func(last string) *agent.Response {
				if strings.Contains(last, "did not answer") {
					return text("told")
				}
				return calls(call("", "agent_wait", "{}"))
			})
			lead := main.Toolsets[0].(agent.ToolList)[0].(*agent.Subagent).Agent
			if lead.Deadline = tc.limit; tc.budget > 0 {
				lead.Budget.Seconds = &tc.budget
			}
			j := &journal{}
			if _, err := (&runner.Runner{Agent: main, Journal: j}).Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(j.events, func(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Agent == "slow" })
			if i < 0 || string(j.events[i].Status)+" "+j.events[i].Error != tc.want {
				t.Errorf("%v: event %d of %d is the end of slow; want %q", tc, i, len(j.events), tc.want)
			}
		})
	}
}

// TestDetachedAgentsSurviveACrash at every event: the answer is told once.
func TestDetachedAgentsSurviveACrash(t *testing.T) {
	for _, left := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var done []string
			taken := 0
			for at := 2; ; at++ {
				died := &dying{at: at}
				if _, err := (&runner.Runner{Agent: leading(2, left, &done, waitsForAll), Journal: died}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrJournal) {
					break
				}
				var b runner.Rebuilder
				for _, e := range died.events {
					if err := b.Apply(e); err != nil {
						t.Fatal(err)
					}
				}
				from, _ := b.Resume()
				for _, l := range from.Session.Left {
					if agent.CallSession(l.Key) != from.Session.ID {
						taken++
					}
				}
				rest := &journal{}
				out, err := (&runner.Runner{Agent: leading(2, left, &done, waitsForAll), Journal: rest, From: from}).Resume(t.Context())
				n := 0
				for _, e := range slices.Concat(died.events, rest.events) {
					if e.Kind == agent.EventMessage && strings.Contains(e.Message.Text(), "slow's answer") {
						n++
					}
				}
				if err != nil || !strings.Contains(out.Answer, "slow's answer") || n != 1 {
					t.Errorf("left %t, dead before event %d: %q, %v; told %d times", left, at, out.Answer, err, n)
				}
			}
			if taken < 3 {
				t.Errorf("%d crashes while the root had the agent of another", taken)
			}
		})
	}
}
