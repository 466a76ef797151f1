package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// relay calls the tool "below" and answers with its result.
type relay struct{}

func (relay) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	m := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: "below", Args: `{"prompt":"p"}`}}}
	if len(last.Results) > 0 {
		time.Sleep(time.Second) // until the test has seen all events
		m = agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(last.Results[0].Text())}}
	}
	return &agent.Response{Message: m, Finish: agent.FinishStop}, nil
}

// patient takes naps until a person says something.
type patient struct{}

func (patient) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("shorter")}}
	if req.Summary {
		return &agent.Response{Message: m, Finish: agent.FinishStop}, nil
	}
	last := req.Messages[len(req.Messages)-1]
	if text := last.Text(); last.Role == agent.RoleUser && len(req.Messages) > 1 && !strings.HasPrefix(text, "[") {
		m.Parts = []agent.Part{agent.Text("I heard: " + text)}
	} else {
		m = agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{Name: "nap", Args: fmt.Sprintf(`{"n":%d}`, req.Turn)}}}
	}
	return &agent.Response{Message: m, Finish: agent.FinishStop}, nil
}

type nap struct{}

func (nap) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "nap", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (nap) Call(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
	select {
	case <-time.After(time.Second):
		return agent.TextResult(strings.Repeat("z", 100)), nil
	case <-ctx.Done():
		return agent.Result{}, agent.ContextError(ctx)
	}
}

// steered runs top, which calls mid, which calls leaf: over borders where borders says so. do
// gets each event of the tree.
func steered(t *testing.T, borders string, do func(*runner.Channel, agent.Event)) (string, []agent.Event) {
	a := &agent.Agent{Slug: "leaf", Provider: patient{}, Toolsets: []agent.Toolset{agent.ToolList{nap{}}}}
	for i, slug := range []string{"mid", "top"} {
		var below agent.Tool = &agent.Subagent{Name: "below", Agent: a}
		if borders[i] == 'b' {
			below = border{a}
		}
		a = &agent.Agent{Slug: slug, Provider: relay{}, Toolsets: []agent.Toolset{agent.ToolList{below}}}
	}
	c := (&runner.Runner{Agent: a}).Start(t.Context(), agent.Start{Channel: 1, Args: json.RawMessage(`{"prompt":"go"}`)})
	var events []agent.Event
	for e := range c.Events() {
		events = append(events, e)
		do(c, e)
	}
	out, err := c.Wait()
	if err != nil {
		t.Errorf("Wait = %+v, %v", out, err)
	}
	return out.Answer, events
}

func everyTree(t *testing.T, test func(t *testing.T, borders string)) {
	for _, borders := range []string{"ii", "bi", "ib", "bb"} {
		t.Run(borders, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, borders) }) })
	}
}

func TestAPersonSpeaksToOneAgentOfATree(t *testing.T) {
	everyTree(t, func(t *testing.T, borders string) {
		answer, events := steered(t, borders, func(c *runner.Channel, e agent.Event) {
			if e.Kind == agent.EventRequest && e.Agent == "leaf" && e.Turn == 2 {
				m := agent.UserText("faster")
				c.Direct(agent.Directive{Session: e.Session, Message: &m})
			}
		})
		inputs := ""
		for _, e := range events {
			if e.Kind == agent.EventMessage && e.Input {
				inputs += e.Agent + ": " + e.Message.Text()
			}
			if e.Kind == agent.EventWarning {
				t.Errorf("a warning: %s", e.Text)
			}
		}
		if answer != "I heard: faster" || inputs != "leaf: faster" {
			t.Errorf("the answer is %q, the inputs are %q", answer, inputs)
		}
	})
}

func TestAPersonStopsOneAgentOfATree(t *testing.T) {
	for agentOf, want := range map[string]string{
		"leaf": "[ok] agent mid answered:\n[interrupted] agent leaf did not answer: a person stopped it: enough",
		"mid":  "[interrupted] agent mid did not answer: a person stopped it: enough",
	} {
		everyTree(t, func(t *testing.T, borders string) {
			sessions := map[string]string{}
			answer, events := steered(t, borders, func(c *runner.Channel, e agent.Event) {
				if e.Kind == agent.EventSession {
					sessions[e.Agent] = e.Session
				}
				if e.Kind == agent.EventRequest && e.Agent == "leaf" && e.Turn == 2 {
					c.Direct(agent.Directive{Session: sessions[agentOf], Stop: true, Reason: "enough"})
				}
			})
			ends := map[string]agent.Status{}
			for _, e := range events {
				if e.Kind == agent.EventEnd {
					ends[e.Agent] = e.Status
				}
			}
			if answer != want || ends["leaf"] != agent.StatusInterrupted || ends["top"] != agent.StatusOK {
				t.Errorf("the answer is %q, want %q; the ends are %v", answer, want, ends)
			}
		})
	}
}

func TestAPersonShortensTheConversationOfOneAgent(t *testing.T) {
	everyTree(t, func(t *testing.T, borders string) {
		var order []string
		steered(t, borders, func(c *runner.Channel, e agent.Event) {
			switch {
			case e.Kind == agent.EventCompaction:
				order = append(order, e.Agent+" compaction")
				m := agent.UserText("that will do")
				c.Direct(agent.Directive{Session: e.Session, Message: &m})
			case e.Kind == agent.EventRequest && e.Agent == "leaf" && e.Turn == 5:
				c.Direct(agent.Directive{Session: e.Session, Compact: true})
			}
		})
		if len(order) != 1 || order[0] != "leaf compaction" {
			t.Errorf("compactions: %q", order)
		}
	})
}

func TestASessionThatDoesNotRunIsAWarning(t *testing.T) {
	everyTree(t, func(t *testing.T, borders string) {
		warnings := 0
		answer, _ := steered(t, borders, func(c *runner.Channel, e agent.Event) {
			switch {
			case e.Kind == agent.EventRequest && e.Agent == "leaf" && e.Turn == 1:
				c.Direct(agent.Directive{Session: "another", Stop: true})
				m := agent.UserText("go on")
				c.Direct(agent.Directive{Session: e.Session, Message: &m})
			case e.Kind == agent.EventEnd && e.Agent == "leaf":
				m := agent.UserText("too late")
				c.Direct(agent.Directive{Session: e.Session, Message: &m})
			case e.Kind == agent.EventWarning && strings.Contains(e.Text, "no agent of this run has the session"):
				warnings++
			}
		})
		if answer != "I heard: go on" || warnings != 2 {
			t.Errorf("the answer is %q, with %d warnings", answer, warnings)
		}
	})
}
