package channel

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// toolRights decide by the name of the tool.
type toolRights struct {
	verdicts map[string]agent.Verdict
	consult  func(inv *agent.Invocation) agent.Verdict
	hook     func(c *agent.HookCall) (agent.HookAnswer, error) // before_call; nil is none
}

func (r *toolRights) Hooks(moment string) []agent.Hook {
	if r.hook == nil || moment != agent.HookBeforeCall {
		return nil
	}
	return []agent.Hook{{Name: "h", Run: func(_ context.Context, c *agent.HookCall) (agent.HookAnswer, error) {
		if c.Tool == "child" {
			return agent.HookAnswer{}, nil
		}
		return r.hook(c)
	}}}
}

func (r *toolRights) Decide(inv *agent.Invocation) agent.Verdict {
	v := r.verdicts[inv.Spec.Name]
	if v.Decision == "" {
		v.Decision = agent.Allow
	}
	v.External = r.consult != nil
	return v
}
func (r *toolRights) Consult(_ context.Context, inv *agent.Invocation) agent.Verdict {
	return r.consult(inv)
}
func (r *toolRights) Hides(*agent.Invocation) bool { return false }
func (r *toolRights) MarshalJSON() ([]byte, error) {
	return []byte(`[{"source":"test"}]`), nil
}

// startedTool is the start of a call of the agent.
func startedTool(tool string) agent.Event {
	return of(agent.Event{Kind: agent.EventCallStarted, CallID: "call", Tool: tool, Args: `{"a":1}`, Key: "S.1.1", N: 1})
}

// ask puts a question about a call of a tool and returns the reply.
func (p *peer) ask(what, tool string) string {
	p.send(of(agent.Event{Kind: agent.EventQuestion, Question: "q1", What: what, Tool: tool, Args: `{"a":1}`, Path: []string{"outer", "inner"}, Text: `{"hook":"before_call","tool":"another"}`}))
	for p.in.Scan() {
		var m message
		if json.Unmarshal(p.in.Bytes(), &m) == nil && m.Kind == kindReply {
			return string(m.Answer)
		}
	}
	return "no reply"
}

func TestAnAgentThatExceedsItsRightsIsEnded(t *testing.T) {
	deny := &toolRights{verdicts: map[string]agent.Verdict{"t": {Decision: agent.Deny, Reason: "rule 7"}}}
	ask := &toolRights{verdicts: map[string]agent.Verdict{"t": {Decision: agent.AskPerson, Reason: "rule 8"}}}
	external := func(v agent.Verdict) *toolRights {
		return &toolRights{consult: func(inv *agent.Invocation) agent.Verdict {
			if inv.Spec.Name == "child" {
				return agent.Verdict{Decision: agent.Allow}
			}
			return v
		}}
	}
	hook := func(a agent.HookAnswer, err error) *toolRights {
		return &toolRights{hook: func(c *agent.HookCall) (agent.HookAnswer, error) {
			if c.Tool != "t" || c.Args != `{"a":1}` || strings.Join(c.Path, "/") != "outer/inner" || c.Agent != "inner" {
				t.Errorf("the hook was told %+v", c)
			}
			return a, err
		}}
	}
	const unasked = "with other arguments than the hooks of its caller gave it, or without asking them"
	replied := func(want string) func(t *testing.T, p *peer) {
		return func(t *testing.T, p *peer) {
			if got := p.ask("hook", "t"); got != want {
				t.Errorf("reply = %s, want %s", got, want)
			}
		}
	}
	begin := []agent.Event{session(), prompt(), answer(calls("t", `{"a":1}`), one)}
	for _, tt := range []struct {
		name   string
		rights *toolRights
		play   func(t *testing.T, p *peer) // between the answer and the start of the call
		want   string                      // "" if the agent may make the call
	}{
		{"allowed", &toolRights{}, nil, ""},
		{"denied", deny, nil, `it called "t": rule 7`},
		{"denied although a person allows it", deny, func(t *testing.T, p *peer) {
			if got := p.ask("approve", "t"); got != `"allow"` {
				t.Errorf("reply = %s", got)
			}
		}, `it called "t": rule 7`},
		{"nobody was asked", ask, nil, "without the consent of a person: rule 8"},
		{"asked about another call", ask, func(t *testing.T, p *peer) { p.ask("approve", "u") }, "without the consent of a person"},
		{"asked", ask, func(t *testing.T, p *peer) { p.ask("approve", "t") }, ""},
		{"the policy was not asked", external(agent.Verdict{Decision: agent.Allow}), nil, "without the consent of its caller's policy"},
		{"the policy denied", external(agent.Verdict{Decision: agent.Deny, Reason: "no"}), func(t *testing.T, p *peer) {
			if got := p.ask("policy", "t"); got != `{"decision":"deny","reason":"no"}` {
				t.Errorf("reply = %s", got)
			}
		}, "without the consent of its caller's policy"},
		{"the policy allowed", external(agent.Verdict{Decision: agent.Allow}), func(t *testing.T, p *peer) { p.ask("policy", "t") }, ""},
		{"the hooks were not asked", hook(agent.HookAnswer{}, nil), nil, unasked},
		{"the hooks were asked about another call", &toolRights{hook: func(*agent.HookCall) (a agent.HookAnswer, err error) { return a, nil }}, func(t *testing.T, p *peer) { p.ask("hook", "u") }, unasked},
		{"a hook denied", hook(agent.HookAnswer{Deny: "no"}, nil), replied(`{"deny":"no","name":"h"}`), unasked},
		{"a hook failed", hook(agent.HookAnswer{}, errors.New("broken")), replied(`{"deny":"hook h failed at before_call: broken","name":"h"}`), unasked},
		{"a hook replaced the arguments", hook(agent.HookAnswer{Args: `{"a":2}`}, nil), replied(`{"args":"{\"a\":2}","name":"h"}`), unasked},
		{"a hook kept the arguments", hook(agent.HookAnswer{}, nil), replied(`{}`), ""},
		{"the policy wants a person", external(agent.Verdict{Decision: agent.AskPerson}), func(t *testing.T, p *peer) { p.ask("policy", "t") }, "without the consent of a person"},
		{"the policy wants a person, who allows it", external(agent.Verdict{Decision: agent.AskPerson}), func(t *testing.T, p *peer) {
			p.ask("policy", "t")
			p.ask("approve", "t")
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lease json.RawMessage
			c, _ := callChild(t, func(p *peer) {
				p.in.Scan()
				var s agent.Start
				if err := json.Unmarshal(p.in.Bytes(), &s); err != nil {
					t.Error(err)
				}
				lease = s.Lease.Rights
				p.send(begin...)
				if tt.play != nil {
					tt.play(t, p)
				}
				p.send(startedTool("t"))
				p.send(of(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: "S.1.1", N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t", Parts: []agent.Part{agent.Text("x")}}}),
					answer(says("done"), one), end(agent.StatusOK, "done"))
				for p.in.Scan() {
				}
			}, func(r *runner.Runner) {
				r.Agent.Rights = tt.rights
				r.Person = func(context.Context, agent.Event) (json.RawMessage, error) { return json.RawMessage(`"allow"`), nil }
			})
			switch {
			case string(lease) != `[{"source":"test"}]`:
				t.Errorf("lease.rights = %s", lease)
			case tt.want == "" && c.err != nil:
				t.Errorf("err = %v, want none", c.err)
			case tt.want != "" && (!errors.Is(c.err, agent.ErrChild) || !strings.Contains(c.err.Error(), tt.want)):
				t.Errorf("err = %v, want ErrChild with %q", c.err, tt.want)
			}
		})
	}
}

func TestALeaseWithRightsThatCannotBeEvaluatedIsRefused(t *testing.T) {
	for rights, want := range map[string]string{
		`[{"rules":[]}]`: "the lease has rights, and this program cannot evaluate them",
		`{}`:             "the lease has rights, and this program cannot evaluate them",
		`false`:          "the lease has rights, and this program cannot evaluate them",
		`[]`:             "",
		`null`:           "",
	} {
		r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: &answers{says("hi")}}}
		start := agent.Start{Channel: Version, Args: json.RawMessage(`{"prompt":"go"}`), Lease: agent.Lease{Rights: json.RawMessage(rights)}}
		_, err := r.Start(t.Context(), start).Wait()
		if got := ""; err != nil || want != "" {
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("with rights %s: error %q, want %q", rights, got, want)
			}
		}
	}
}
