package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestARebuiltRunBeganWithItsPrompt, and has the last context of the tree.
func TestARebuiltRunBeganWithItsPrompt(t *testing.T) {
	var b Rebuilder
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	m := agent.UserText("go")
	value := func(s string) json.RawMessage { return json.RawMessage(s) }
	for i, tt := range []struct {
		e           agent.Event
		began, sub  int // seconds; 0 is not yet
		context     string
		subUsage    int
		started     string
		eventsOfSub int
	}{
		{e: agent.Event{Kind: agent.EventSession, Session: "r"}},
		{e: agent.Event{Kind: agent.EventContext, Session: "r", Context: value("1")}, context: "1"},
		{e: agent.Event{Kind: agent.EventMessage, Session: "r", Message: &m, Context: value("9")}, began: 3, context: "1"},
		{e: agent.Event{Kind: agent.EventMessage, Session: "r", Message: &m, Input: true}, began: 3, context: "1"},
		{e: agent.Event{Kind: agent.EventAnswer, Session: "r", Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "a"}, {ID: "b"}}}, Finish: agent.FinishStop}, began: 3, context: "1"},
		{e: agent.Event{Kind: agent.EventCallStarted, Session: "r", CallID: "a", Key: "r.1.1"}, began: 3, context: "1", started: "r.1.1"},
		{e: agent.Event{Kind: agent.EventSession, Session: "d", Parent: "r.1.1"}, began: 3, context: "1", started: "r.1.1", eventsOfSub: 1},
		{e: agent.Event{Kind: agent.EventSetup, Session: "d", Digest: "x"}, began: 3, context: "1", started: "r.1.1", eventsOfSub: 2},
		{e: agent.Event{Kind: agent.EventMessage, Session: "d", Message: &m}, began: 3, sub: 9, context: "1", started: "r.1.1", eventsOfSub: 3},
		{e: agent.Event{Kind: agent.EventMessage, Session: "d", Message: &m, Input: true}, began: 3, sub: 9, context: "1", started: "r.1.1", eventsOfSub: 4},
		{e: agent.Event{Kind: agent.EventText, Session: "d"}, began: 3, sub: 9, context: "1", started: "r.1.1", eventsOfSub: 4},
		{e: agent.Event{Kind: agent.EventAnswer, Session: "d", Message: &agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c"}}}, Finish: agent.FinishStop, Usage: &agent.Usage{Requests: 2}}, began: 3, sub: 9, context: "1", subUsage: 2, started: "r.1.1", eventsOfSub: 5},
		{e: agent.Event{Kind: agent.EventCallStarted, Session: "d", CallID: "c", Key: "d.1.1"}, began: 3, sub: 9, context: "1", subUsage: 2, started: "d.1.1 r.1.1", eventsOfSub: 6},
		{e: agent.Event{Kind: agent.EventSession, Session: "e", Parent: "d.1.1"}, began: 3, sub: 9, context: "1", subUsage: 2, started: "d.1.1 r.1.1", eventsOfSub: 6},
		{e: agent.Event{Kind: agent.EventFailure, Session: "z", Usage: &agent.Usage{Requests: 9}}, began: 3, sub: 9, context: "1", subUsage: 2, started: "d.1.1 r.1.1", eventsOfSub: 6},
		{e: agent.Event{Kind: agent.EventResume, Session: "e", Usage: &agent.Usage{Requests: 9}}, began: 3, sub: 9, context: "1", subUsage: 11, started: "d.1.1 r.1.1", eventsOfSub: 6},
		{e: agent.Event{Kind: agent.EventCallEnded, Session: "d", CallID: "c", Key: "d.1.1", Result: &agent.ToolResult{}}, began: 3, sub: 9, context: "1", subUsage: 11, started: "r.1.1", eventsOfSub: 7},
		{e: agent.Event{Kind: agent.EventCompaction, Session: "d", Parent: "r.1.1", Messages: []agent.Message{m}}, began: 3, sub: 9, context: "1", subUsage: 11, started: "r.1.1", eventsOfSub: 3},
		{e: agent.Event{Kind: agent.EventCompaction, Session: "d", Parent: "r.1.1", Messages: []agent.Message{m}, Context: value("2")}, began: 3, sub: 9, context: "2", subUsage: 11, started: "r.1.1", eventsOfSub: 3},
		{e: agent.Event{Kind: agent.EventContext, Session: "d", Context: value("3")}, began: 3, sub: 9, context: "3", subUsage: 11, started: "r.1.1", eventsOfSub: 4},
		{e: agent.Event{Kind: agent.EventCallEnded, Session: "r", CallID: "a", Key: "r.1.1", Result: &agent.ToolResult{}}, began: 3, sub: 9, context: "3", subUsage: 11, eventsOfSub: 0},
	} {
		tt.e.Time = at(i + 1)
		_ = b.Apply(tt.e) // the resume of e has nothing to resume
		resume, started := b.Resume()
		if !resume.Began.Equal(map[bool]time.Time{true: at(tt.began)}[tt.began > 0]) || string(resume.Context) != tt.context || strings.Join(started, " ") != tt.started {
			t.Errorf("after event %d (%s of %s): began %s, context %s, started %q", i+1, tt.e.Kind, tt.e.Session, resume.Began, resume.Context, started)
		}
		if sub := b.ResumeOf("d"); i >= 6 && (!sub.Began.Equal(map[bool]time.Time{true: at(tt.sub)}[tt.sub > 0]) || sub.Total.Usage.Requests != tt.subUsage || len(b.nested["d"].Events) != tt.eventsOfSub) || i < 6 && sub != nil {
			t.Errorf("after event %d (%s of %s): the agent below is %+v with %d events", i+1, tt.e.Kind, tt.e.Session, sub, len(b.nested["d"].Events))
		}
	}
	if got := b.ResumeOf("r"); got == nil || got.Session.ID != "r" {
		t.Errorf("ResumeOf the root = %+v", got)
	}
	if got, _ := (&Rebuilder{}).Resume(); got.Session == nil || got.Session.ID != "" {
		t.Errorf("Resume of nothing = %+v", got)
	}
}

// TestACompactionReplacesTheEventsOfItsSession, except what it does not hold.
func TestACompactionReplacesTheEventsOfItsSession(t *testing.T) {
	var list []agent.Event
	for _, session := range []string{"c", "d"} {
		for _, kind := range []agent.EventKind{agent.EventSession, agent.EventSetup, agent.EventMessage, agent.EventAnswer} {
			list = append(list, agent.Event{Kind: kind, Session: session})
		}
	}
	if got := unreplaced(slices.Clone(list), &agent.Event{Kind: agent.EventAnswer, Session: "c"}); len(got) != 8 {
		t.Errorf("an answer replaces %d events", 8-len(got))
	}
	var got []string
	for _, e := range unreplaced(slices.Clone(list), &agent.Event{Kind: agent.EventCompaction, Session: "c"}) {
		got = append(got, e.Session+" "+string(e.Kind))
	}
	if want := "[c session c setup d session d setup d message d answer]"; fmt.Sprint(got) != want {
		t.Errorf("%s stay, want %s", got, want)
	}
}

// TestAHistoryHasTheSessionsOfItsCall, and not those of others.
func TestAHistoryHasTheSessionsOfItsCall(t *testing.T) {
	pending := map[string]PendingSession{}
	for key, id := range map[string]string{"r.1.1": "c", "r.1.2": "o", "c.1.1": "d", "d.1.1": "e", "o.1.1": "p"} {
		s := &agent.Session{}
		s.ID = id
		pending[key] = PendingSession{Session: s, Total: agent.TotalUsage{Calls: len(id)}, Events: []agent.Event{{Session: id}}}
	}
	spent := map[string]agent.TotalUsage{}
	var got []string
	for _, e := range below(pending, "r.1.1", spent) {
		got = append(got, e.Session)
	}
	if fmt.Sprint(got) != "[c d e]" || len(spent) != 3 || spent["e"].Calls != 1 {
		t.Errorf("the history is of %s, spent: %v", got, spent)
	}
	if got := below(pending, "r.1.3", spent); got != nil {
		t.Errorf("the history of no call is %v", got)
	}
	for key, want := range map[string]string{"r.1.2": "r", "a.b.1.2": "a.b", "x": "", "": "", "r.1": ""} {
		if got := agent.CallSession(key); got != want {
			t.Errorf("CallSession(%q) = %q", key, got)
		}
	}
}
