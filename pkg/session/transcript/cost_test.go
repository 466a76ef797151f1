package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

func costsOf(t *testing.T, journals ...[]agent.Event) *CostNode {
	t.Helper()
	c := &Costs{}
	for _, events := range journals {
		if err := c.Add(all(events)); err != nil {
			t.Fatal(err)
		}
	}
	return c.Tree()
}

// brief is a line for each node: its own figures, and those with all below it.
func brief(n *CostNode, depth int) (lines []string) {
	show := func(f Figures) string {
		return fmt.Sprintf("%d %d %d %d %s %d %d", f.Requests, f.InputTokens, f.OutputTokens, f.Calls, f.Usage().CostText(), f.Unpriced, f.Millis)
	}
	lines = append(lines, fmt.Sprintf("%s%s %s %s | %s | %s", strings.Repeat(" ", depth), n.Agent, n.Session, Outcome(n.Status), show(n.Figures), show(n.Total)))
	for _, child := range n.Children {
		lines = append(lines, brief(child, depth+1)...)
	}
	return lines
}

func TestCostsOfATree(t *testing.T) {
	want := []string{
		"lead root-1 ok | 4 4800 320 3 $0.016 0 6600 | 7 8400 560 4 $0.028 0 10800",
		" editor sub-1 ok | 2 2400 160 1 $0.008 0 2800 | 3 3600 240 1 $0.012 0 4200",
		"  reader deep-1 ok | 1 1200 80 0 $0.004 0 1400 | 1 1200 80 0 $0.004 0 1400",
	}
	if d := cmp.Diff(want, brief(costsOf(t, sample()), 0)); d != "" {
		t.Error(d)
	}
}

// A request whose answer is not in the journal may have cost something: the process died, or
// still waits for it.
func TestCostsOfARequestWithoutAnAnswer(t *testing.T) {
	message := func(text string) agent.Event {
		m := agent.UserText(text)
		return agent.Event{Kind: agent.EventMessage, Session: "S", Message: &m}
	}
	of := func(kind agent.EventKind) agent.Event { return agent.Event{Kind: kind, Session: "S"} }
	answer := func(calls ...agent.ToolCall) agent.Event {
		e := of(agent.EventAnswer)
		e.Message, e.Usage = &agent.Message{Role: agent.RoleAssistant, Calls: calls}, &agent.Usage{Requests: 1, Cost: agent.Dollar, Priced: 1}
		return e
	}
	one := agent.ToolCall{ID: "a"}
	result := of(agent.EventCallEnded)
	result.Result = &agent.ToolResult{}
	failed, resumed := of(agent.EventFailure), of(agent.EventResume)
	failed.Usage = &agent.Usage{Requests: 1, Cost: 3, Estimated: 1}
	resumed.Usage = failed.Usage
	inserted := message("and")
	inserted.Input = true
	begun := []agent.Event{of(agent.EventSession), message("go"), of(agent.EventSetup)}
	for name, tt := range map[string]struct {
		events []agent.Event
		want   string
	}{
		"not asked":                {begun[:2], "0"},
		"asked":                    {begun, "1"},
		"asked with a message":     {append(begun[:3:3], inserted), "1"},
		"answered":                 {append(begun[:3:3], answer()), "1 $1.00"},
		"a call runs":              {append(begun[:3:3], answer(one), of(agent.EventCallStarted)), "1 $1.00"},
		"one of two calls runs":    {append(begun[:3:3], answer(one, one), result), "1 $1.00"},
		"a call has ended":         {append(begun[:3:3], answer(one), result), "2 $1.00 + 1 unpriced"},
		"ended":                    {append(begun[:3:3], answer(), of(agent.EventEnd)), "1 $1.00"},
		"failed":                   {append(begun[:3:3], failed, of(agent.EventEnd)), "1 $0.00000003 + 1 unpriced (1 estimated)"},
		"resumed and ended":        {append(begun[:3:3], resumed, answer(), of(agent.EventEnd)), "2 $1.00 + 1 unpriced (1 estimated)"},
		"resumed":                  {append(begun[:3:3], resumed), "2 $0.00000003 + 2 unpriced (1 estimated)"},
		"another prompt":           {append(begun[:3:3], message("again"), answer(), of(agent.EventEnd)), "2 $1.00 + 1 unpriced"},
		"another prompt after one": {append(begun[:3:3], answer(), of(agent.EventEnd), message("again"), answer(), of(agent.EventEnd)), "2 $2.00"},
	} {
		n := costsOf(t, tt.events)
		u := n.Total.Usage()
		if got := strings.TrimSuffix(fmt.Sprint(u.Requests, " ", u.CostText()), " "); got != tt.want && got != tt.want+" unpriced" {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A session of another process that answers a call belongs to the tree, with its own
// sub-agents. One that is added twice counts once.
func TestCostsOverJournals(t *testing.T) {
	w := &recorder{now: time.Date(2026, 11, 21, 15, 30, 0, 0, time.UTC)}
	other := w.open("other-1", "far", "root-1.1.1", 0)
	w.prompt(other, "list")
	c := call("c", "ask_helper", "{}")
	w.answer(other, "", "", c)
	below := w.open("other-2", "helper", w.started(other, 1, c), 1)
	w.prompt(below, "help")
	w.answer(below, "done", "")
	w.end(below, agent.StatusOK)

	root := costsOf(t, sample(), w.events, w.events)
	want := []string{
		"lead root-1 ok | 4 4800 320 3 $0.016 0 6300 | 9 10800 720 4 $0.036 0 13300",
		" far other-1 not ended | 1 1200 80 0 $0.004 0 1400 | 2 2400 160 0 $0.008 0 2800",
		"  helper other-2 ok | 1 1200 80 0 $0.004 0 1400 | 1 1200 80 0 $0.004 0 1400",
		" editor sub-1 ok | 2 2400 160 1 $0.008 0 2800 | 3 3600 240 1 $0.012 0 4200",
		"  reader deep-1 ok | 1 1200 80 0 $0.004 0 1400 | 1 1200 80 0 $0.004 0 1400",
	}
	if d := cmp.Diff(want, brief(root, 0)); d != "" {
		t.Error(d)
	}
	costs := &Costs{}
	if err := costs.Add(all(sample())); err != nil {
		t.Fatal(err)
	}
	if keys := costs.Keys(1); !slices.Equal(keys, []string{"root-1.2.1", "root-1.2.2", "sub-1.1.1"}) || len(costs.Keys(4)) != 0 {
		t.Errorf("the keys are %v", costs.Keys(0))
	}
}

// A run that was resumed, a conversation that was summed up, a request without a price,
// and amounts that floating-point numbers do not hold.
func TestCostsAddUp(t *testing.T) {
	w := &recorder{now: time.Date(2026, 11, 21, 15, 30, 0, 0, time.UTC)}
	s := w.open("root-1", "lead", "", 0)
	w.prompt(s, "go on")
	costs := []string{"0.1", "0.2", "0.00000001", "", "0.3"}
	sub := w.open("sub-1", "editor", "root-1.9.9", 1) // of a call that is not there: it belongs to the root
	var units int64
	for i, cost := range costs {
		e := agent.Event{Kind: agent.EventAnswer, Session: "root-1", Agent: "lead", Usage: &agent.Usage{Requests: 1, InputTokens: 10, CachedTokens: 4, OutputTokens: 1}, Millis: 5}
		if i == 1 {
			e.Kind = agent.EventCompaction
		}
		if i > 2 {
			e.Session, e.Agent, e.Parent = sub.ID, sub.Agent, sub.Parent
		}
		if cost != "" {
			m, err := agent.ParseMoney(cost)
			if err != nil {
				t.Fatal(err)
			}
			e.Usage.Cost, e.Usage.Priced = m, 1
			units += int64(m)
		}
		w.events = append(w.events, e)
	}
	w.events[len(w.events)-1].Kind = agent.EventFailure // a request that failed and is billed
	w.events = append(w.events, agent.Event{Kind: agent.EventEnd, Session: "root-1", Status: agent.StatusFailed}, agent.Event{Kind: agent.EventResume, Session: "root-1"})
	root := costsOf(t, w.events)
	want := []string{
		"lead root-1 not ended | 3 30 3 0 $0.30 0 15 | 5 50 5 0 $0.60 + 1 unpriced 1 25",
		" editor sub-1 not ended | 2 20 2 0 $0.30 + 1 unpriced 1 10 | 2 20 2 0 $0.30 + 1 unpriced 1 10",
	}
	if d := cmp.Diff(want, brief(root, 0)); d != "" {
		t.Error(d)
	}
	text, err := json.Marshal(root.Total)
	if err != nil || !strings.Contains(string(text), `"cached_tokens":20,"output_tokens":5,"cost":0.60000001,"unpriced":1,`) || int64(*root.Total.Cost) != units {
		t.Errorf("total %s, %v, want %d units", text, err, units)
	}
	unpriced := costsOf(t, []agent.Event{{Kind: agent.EventAnswer, Session: "s", Usage: &agent.Usage{Requests: 2}}})
	if text, _ := json.Marshal(unpriced); strings.Contains(string(text), `"cost"`) || !strings.Contains(string(text), `"unpriced":2`) {
		t.Errorf("without a price: %s", text)
	}
}

func TestCostsOfDamage(t *testing.T) {
	damage := errors.New("torn")
	c := &Costs{}
	if err := c.Add(broken(sample()[:5], damage)); err != damage {
		t.Errorf("Add = %v", err)
	}
	if n := c.Tree(); n == nil || n.Requests != 1 {
		t.Errorf("before the damage there is %+v", n)
	}
	if (&Costs{}).Tree() != nil {
		t.Error("there is a tree without events")
	}
	// Two sessions that each claim to answer a call of the other.
	root := costsOf(t, []agent.Event{
		{Kind: agent.EventAnswer, Session: "r", Usage: &agent.Usage{Requests: 1}},
		{Kind: agent.EventCallStarted, Session: "a", Parent: "b.1.1", Key: "a.1.1"},
		{Kind: agent.EventCallStarted, Session: "b", Parent: "a.1.1", Key: "b.1.1"},
		{Kind: agent.EventAnswer, Session: "a", Parent: "b.1.1", Usage: &agent.Usage{Requests: 1}},
		{Kind: agent.EventAnswer, Session: "b", Parent: "a.1.1", Usage: &agent.Usage{Requests: 1}},
		{Kind: agent.EventCallStarted, Session: "c", Parent: "c.1.1", Key: "c.1.1"},
		{Kind: agent.EventAnswer, Session: "c", Usage: &agent.Usage{Requests: 1}},
	})
	if root.Total.Requests != 4 {
		t.Errorf("the total of a cycle is %d requests, want 4:\n%s", root.Total.Requests, strings.Join(brief(root, 0), "\n"))
	}
}
