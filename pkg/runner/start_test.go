package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
)

// startOf is a start message with a prompt.
func startOf() agent.Start {
	return agent.Start{Channel: agent.ChannelVersion, Args: json.RawMessage(`{"prompt":"go"}`)}
}

// read reads a channel to its end, gives each event to do, and returns the events.
func read(t *testing.T, c *runner.Channel, do func(agent.Event)) []agent.Event {
	t.Helper()
	var events []agent.Event
	for e := range c.Events() {
		events = append(events, e)
		if e.Seq != int64(len(events)) {
			t.Errorf("event %d has the number %d", len(events), e.Seq)
		}
		if do != nil {
			do(e)
		}
	}
	if last := events[len(events)-1]; last.Kind != agent.EventEnd || last.Depth != 0 {
		t.Errorf("the last event is %+v", last)
	}
	return events
}

func ofKind(events []agent.Event, kind agent.EventKind) (list []agent.Event) {
	for _, e := range events {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}

// resultText is the result of the first call that ended.
func resultText(events []agent.Event) string {
	return ofKind(events, agent.EventCallEnded)[0].Result.Text()
}

func TestInputReachesTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{answers: []*agent.Response{calls(call("a", "echo", `{}`)), text("done")}}
		var c *runner.Channel
		begun := make(chan struct{})
		work := tool{"echo", func(context.Context, *agent.Invocation) (agent.Result, error) {
			<-begun
			c.Input(agent.UserText("and hurry"))
			return agent.TextResult("done"), nil
		}}
		c = (&runner.Runner{Agent: newAgent(m, work)}).Start(t.Context(), startOf())
		close(begun)
		events := read(t, c, nil)
		var inputs []string
		for _, e := range ofKind(events, agent.EventMessage) {
			if e.Input {
				inputs = append(inputs, e.Message.Text())
			}
		}
		last := m.requests[len(m.requests)-1].Messages
		if !slices.Equal(inputs, []string{"and hurry"}) || !slices.ContainsFunc(last, func(m agent.Message) bool { return m.Text() == "and hurry" }) {
			t.Errorf("the inputs are %q, the last request %+v", inputs, last)
		}
	})
}

func TestInputDuringTheLastAnswerContinuesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *runner.Channel
		begun := make(chan struct{})
		r := &runner.Runner{Agent: newAgent(providerFunc(func(req *agent.Request) (*agent.Response, error) {
			<-begun
			if len(req.Messages) == 1 {
				c.Input(agent.UserText("one more thing"))
				return text("first"), nil
			}
			return text("second: " + req.Messages[len(req.Messages)-1].Text()), nil
		}))}
		c = r.Start(t.Context(), startOf())
		close(begun)
		events := read(t, c, nil)
		out, err := c.Wait()
		if err != nil || out.Answer != "second: one more thing" || len(ofKind(events, agent.EventEnd)) != 1 {
			t.Errorf("Wait = %+v, %v", out, err)
		}
		c.Input(agent.UserText("too late")) // nothing happens
	})
}

func TestQuestionsOfAPolicy(t *testing.T) {
	never, short := false, 7.0
	for _, tt := range []struct {
		name   string
		reply  string // none if it is empty
		change func(*agent.Start)
		asked  int
		result string
		took   time.Duration
	}{
		{"allowed", `"allow"`, nil, 1, `{"n":1}`, 0},
		{"denied", `"deny"`, nil, 1, "error: not run: refused by policy: a person denied it", 0},
		{"another answer", `{"allow":true}`, nil, 1, "error: not run: refused by policy: a person denied it", 0},
		{"nobody answers", ``, func(s *agent.Start) { s.Lease.QuestionSeconds = &short }, 1, "error: not run: refused by policy: is it safe?: nobody can be asked: no reply within 7s", 7 * time.Second},
		{"nobody is there", `"allow"`, func(s *agent.Start) { s.Person = &never }, 0, "error: not run: refused by policy: is it safe?: nobody can be asked", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{answers: []*agent.Response{calls(call("a", "echo", `{"n":1}`)), text("done")}}
				r := &runner.Runner{Agent: newAgent(m, echo("echo")), Policy: func(context.Context, *agent.Invocation) agent.Verdict {
					return agent.Verdict{Decision: agent.AskPerson, Reason: "is it safe?"}
				}}
				s := startOf()
				if tt.change != nil {
					tt.change(&s)
				}
				began := time.Now()
				c := r.Start(t.Context(), s)
				events := read(t, c, func(e agent.Event) {
					if e.Kind == agent.EventQuestion && tt.reply != "" {
						c.Reply(e.Question, json.RawMessage(tt.reply))
						c.Reply(e.Question, json.RawMessage(`"allow"`)) // the first counts
					}
				})
				asked := ofKind(events, agent.EventQuestion)
				if len(asked) != tt.asked || resultText(events) != tt.result || time.Since(began) != tt.took {
					t.Errorf("%d questions, the result %q after %s", len(asked), resultText(events), time.Since(began))
				}
				if len(asked) > 0 {
					q := asked[0]
					if q.What != "approve" || q.Tool != "echo" || q.Args != `{"n":1}` || q.Text != "is it safe?" || !slices.Equal(q.Path, []string{"root"}) || !slices.Equal(q.Choices, []string{"allow", "deny"}) {
						t.Errorf("the question is %+v", q)
					}
				}
			})
		})
	}
}

func TestToolsOfTheHolder(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   string
		answer func(c *runner.Channel, e agent.Event)
		called int
		result string
		took   time.Duration
	}{
		{"a result", `{"n":1}`, func(c *runner.Channel, e agent.Event) { c.Result(e.Key, []agent.Part{agent.Text("one")}, false) }, 1, "one", 0},
		{"a failure", `{"n":1}`, func(c *runner.Channel, e agent.Event) { c.Result(e.Key, []agent.Part{agent.Text("no ink")}, true) }, 1, "error: the tool failed\nno ink", 0},
		{"arguments that do not fit", `{"n":"one"}`, nil, 0, "error: nothing ran: ", 0},
		{"nobody answers", `{"n":1}`, func(*runner.Channel, agent.Event) {}, 1, "error: no result within 5m0s", 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{answers: []*agent.Response{calls(call("a", "print", tt.args)), text("done")}}
				s := startOf()
				s.Tools = []agent.ToolSpec{{Name: "print", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}}
				began := time.Now()
				c := (&runner.Runner{Agent: newAgent(m), Arguments: schema.CompileShape}).Start(t.Context(), s)
				events := read(t, c, func(e agent.Event) {
					if e.Kind == agent.EventClientCall {
						if e.Tool != "print" || e.Args != tt.args {
							t.Errorf("called %+v", e)
						}
						tt.answer(c, e)
					}
				})
				if n := len(ofKind(events, agent.EventClientCall)); n != tt.called || !strings.HasPrefix(resultText(events), tt.result) || time.Since(began) != tt.took {
					t.Errorf("%d calls, the result %q after %s", n, resultText(events), time.Since(began))
				}
			})
		})
	}
}

func TestAResultOfNoCallIsAWarning(t *testing.T) {
	s := startOf()
	s.Tools = []agent.ToolSpec{{Name: "print", Schema: json.RawMessage(`{"type":"object"}`)}}
	m := &model{answers: []*agent.Response{calls(call("a", "print", `{}`)), text("done")}}
	c := (&runner.Runner{Agent: newAgent(m), Arguments: schema.CompileShape}).Start(t.Context(), s)
	events := read(t, c, func(e agent.Event) {
		if e.Kind == agent.EventClientCall {
			c.Result("other", nil, false)
			c.Result(e.Key, []agent.Part{agent.Text("one")}, false)
		}
	})
	warnings := ofKind(events, agent.EventWarning)
	if len(warnings) != 1 || !strings.Contains(warnings[0].Text, `no call with the key "other" waits`) || resultText(events) != "one" {
		t.Errorf("the warnings are %+v, the result %q", warnings, resultText(events))
	}
}

// declared is a tool with declared effects.
type declared struct {
	tool
	effects agent.Effects
}

func (d declared) Spec() agent.ToolSpec {
	spec := d.tool.Spec()
	spec.Effects = d.effects
	return spec
}

func TestACallThatMustNotRunTwiceWaitsForItsAck(t *testing.T) {
	for _, tt := range []struct {
		effects agent.Effects
		waits   bool
	}{{"", true}, {agent.EffectsOnce, true}, {agent.EffectsNone, false}, {agent.EffectsIdempotent, false}} {
		t.Run(string(tt.effects), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := false
				work := declared{tool{"work", func(context.Context, *agent.Invocation) (agent.Result, error) {
					ran = true
					return agent.TextResult("done"), nil
				}}, tt.effects}
				m := &model{answers: []*agent.Response{calls(call("a", "work", `{}`)), text("done")}}
				s := startOf()
				s.Journal = true
				c := (&runner.Runner{Agent: newAgent(m, work)}).Start(t.Context(), s)
				read(t, c, func(e agent.Event) {
					if e.Kind != agent.EventCallStarted {
						return
					}
					c.Ack(e.Seq - 1)
					synctest.Wait()
					if ran == tt.waits {
						t.Errorf("before the ack, ran = %t", ran)
					}
					if tt.waits {
						c.Ack(e.Seq)
					}
				})
				if out, err := c.Wait(); err != nil || out.Answer != "done" || !ran {
					t.Errorf("Wait = %+v, %v", out, err)
				}
			})
		})
	}
}

func TestAHolderThatDoesNotAcknowledgeEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := tool{"work", func(context.Context, *agent.Invocation) (agent.Result, error) {
			t.Error("it ran")
			return agent.Result{}, nil
		}}
		m := &model{answers: []*agent.Response{calls(call("a", "work", `{}`)), text("done")}}
		s := startOf()
		s.Journal = true
		c := (&runner.Runner{Agent: newAgent(m, work)}).Start(t.Context(), s)
		began := time.Now()
		events := read(t, c, nil)
		_, err := c.Wait()
		if end := events[len(events)-1]; !errors.Is(err, agent.ErrJournal) || end.Status != agent.StatusFailed || !strings.Contains(end.Error, "did not acknowledge a call within 1m0s") || time.Since(began) != time.Minute {
			t.Errorf("Wait: %v; the end is %+v after %s", err, end, time.Since(began))
		}
	})
}

// A holder whose connection is lost may come back as late as its lease says.
func TestAHolderThatIsAwayAcknowledgesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := tool{"work", func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.Result{Parts: []agent.Part{agent.Text("worked")}}, nil
		}}
		m := &model{answers: []*agent.Response{calls(call("a", "work", `{}`)), text("done")}}
		s := startOf()
		s.Journal = true
		away := 300.0
		s.Lease.DetachedSeconds = &away
		c := (&runner.Runner{Agent: newAgent(m, work)}).Start(t.Context(), s)
		events := read(t, c, func(e agent.Event) {
			if e.Kind == agent.EventCallStarted {
				time.AfterFunc(299*time.Second, func() { c.Ack(e.Seq) })
			}
		})
		if end := events[len(events)-1]; end.Status != agent.StatusOK || end.Text != "done" {
			t.Errorf("the end is %+v", end)
		}
	})
}

// A holder continues a run that died with the events that it has.
func TestHistoryContinuesARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := map[string]int{}
		work := tool{"work", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			ran[inv.Call.Args]++
			if inv.Call.Args == `{"n":2}` {
				<-ctx.Done()
			}
			return agent.TextResult("did " + inv.Call.Args), nil
		}}
		answers := []*agent.Response{calls(call("a", "work", `{"n":1}`)), calls(call("b", "work", `{"n":2}`)), text("done")}
		s := startOf()
		s.Journal = true
		var kept []agent.Event
		first := (&runner.Runner{Agent: newAgent(&model{answers: slices.Clone(answers)}, work)}).Start(t.Context(), s)
		for e := range first.Events() {
			if e.Kind.Lasting() {
				kept = append(kept, e)
			}
			if e.Kind == agent.EventCallStarted {
				first.Ack(e.Seq)
				if e.CallID == "b" {
					break // all that the holder has when the runner dies
				}
			}
		}
		synctest.Wait()
		first.Cancel("")
		_, _ = first.Wait()

		s.Session, s.History = kept[0].Session, kept
		c := (&runner.Runner{Agent: newAgent(&model{answers: answers[2:]}, work)}).Start(t.Context(), s)
		events := read(t, c, nil)
		out, err := c.Wait()
		if err != nil || out.Answer != "done" || out.Session != s.Session || ran[`{"n":1}`] != 1 || ran[`{"n":2}`] != 1 {
			t.Errorf("Wait = %+v, %v; ran %v", out, err, ran)
		}
		if got := resultText(events); !strings.Contains(got, "whether it took effect is not known") || events[0].Kind != agent.EventResume {
			t.Errorf("the events begin with %s; the result is %q", events[0].Kind, got)
		}
		if out.Total.Usage.InputTokens != 30 || out.Total.Calls != 2 {
			t.Errorf("the total of both runners is %+v", out.Total)
		}
	})
}

// A lease without a path does not make a run that is nested too deep a root.
func TestAChannelDoesNotForgetTheAgentsAbove(t *testing.T) {
	s := startOf()
	s.Lease.Path = []string{"one"}
	for depth, want := range map[int]agent.Status{8: agent.StatusOK, 9: agent.StatusLimit} {
		r := &runner.Runner{Agent: newAgent(&model{answers: []*agent.Response{text("done")}}), From: &runner.Resume{Depth: depth}}
		if out, err := r.Start(t.Context(), s).Wait(); out.Status != want {
			t.Errorf("with %d agents above: %+v, %v, want %s", depth, out, err, want)
		}
	}
}

func TestWaitWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noisy := tool{"noisy", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			for i := range 5000 {
				inv.Progress(fmt.Sprint(i))
			}
			return agent.TextResult("done"), nil
		}}
		m := func() *model {
			return &model{answers: []*agent.Response{calls(call("a", "noisy", `{}`)), text("done")}}
		}
		out, err := (&runner.Runner{Agent: newAgent(m(), noisy)}).Start(t.Context(), startOf()).Wait()
		if err != nil || out.Answer != "done" {
			t.Errorf("Wait = %+v, %v", out, err)
		}
		// A slow reader misses nothing.
		c := (&runner.Runner{Agent: newAgent(m(), noisy)}).Start(t.Context(), startOf())
		events := read(t, c, func(agent.Event) { time.Sleep(time.Second) })
		if n := len(ofKind(events, agent.EventProgress)); n != 5000 {
			t.Errorf("%d of 5000 lines", n)
		}
		// A reader that stops can read on later.
		c = (&runner.Runner{Agent: newAgent(m(), noisy)}).Start(t.Context(), startOf())
		for e := range c.Events() {
			if e.Seq == 10 {
				break
			}
		}
		synctest.Wait()
		seq := int64(10)
		for e := range c.Events() {
			if seq++; e.Seq != seq {
				t.Fatalf("event %d follows event %d", e.Seq, seq-1)
			}
		}
	})
}

func TestCancelEndsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := tool{"stuck", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		}}
		m := &model{answers: []*agent.Response{calls(call("a", "stuck", `{}`)), text("done")}}
		c := (&runner.Runner{Agent: newAgent(m, stuck)}).Start(t.Context(), startOf())
		events := read(t, c, func(e agent.Event) {
			if e.Kind == agent.EventCallStarted {
				c.Cancel("no longer needed")
				c.Cancel("again")
			}
		})
		out, err := c.Wait()
		if end := events[len(events)-1]; out.Status != agent.StatusInterrupted || !errors.Is(err, context.Canceled) || end.Status != agent.StatusInterrupted || end.Error != "no longer needed" {
			t.Errorf("Wait = %+v, %v; the end is %+v", out, err, end)
		}
	})
}

// The time of the lease ends a run that a model or a tool keeps.
func TestTheTimeOfTheLeaseEndsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 90.0
		s := startOf()
		s.Lease.Seconds = &limit
		stuck := tool{"stuck", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		}}
		began := time.Now()
		c := (&runner.Runner{Agent: newAgent(&model{answers: []*agent.Response{calls(call("a", "stuck", `{}`)), text("done")}}, stuck)}).Start(t.Context(), s)
		events := read(t, c, nil)
		if end := events[len(events)-1]; end.Status != agent.StatusDeadline || time.Since(began) != 90*time.Second {
			t.Errorf("the end is %+v after %s", end, time.Since(began))
		}
	})
}
