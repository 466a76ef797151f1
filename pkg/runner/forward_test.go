package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// kept is a journal in memory.
type kept struct {
	events []agent.Event
	synced int
	fails  agent.EventKind
}

func (k *kept) Append(_ context.Context, e agent.Event) error {
	if e.Kind == k.fails {
		return errors.New("disk full")
	}
	k.events = append(k.events, e)
	return nil
}

func (k *kept) Sync(context.Context) error { k.synced++; return nil }

func (k *kept) kinds() (list []agent.EventKind) {
	for _, e := range k.events {
		list = append(list, e.Kind)
	}
	return list
}

// calling is a run with a budget whose call an agent in another process answers. The events that
// it shows are added to shown.
func calling(b agent.Budget, shown *[]agent.Event) (*run, *agent.Invocation, *kept) {
	tr, k := newTree(agent.Lease{}), &kept{}
	tr.forwarded, tr.used, tr.journal = map[string][]agent.Event{}, map[string]bool{"s": true, "old": true}, k
	if shown != nil {
		tr.watch = func(e agent.Event) { *shown = append(*shown, e) }
	}
	r := spender(nil, tr, "root", b, agent.TotalUsage{})
	tr.root, r.session.ID = r, "s"
	other := &remote{node: r.below(&agent.Agent{}, "s.1.2"), callKey: "s.1.2"}
	other.session.ID, other.session.Parent, other.session.Depth, other.session.Running = "other", "s.1.2", 1, true
	tr.remotes["other"] = other
	return r, &agent.Invocation{Call: agent.ToolCall{ID: "k", Name: "x"}, Spec: agent.ToolSpec{Name: "x", Channel: 1}, Key: "s.1.1", Session: "s", Agent: "root", Caller: r, Driver: &call{run: r}}, k
}

// The events of an agent, as it sends them.
func childBegins(session, parent string, depth int) agent.Event {
	return agent.Event{Kind: agent.EventSession, Session: session, Agent: "child-" + session, Parent: parent, Depth: depth}
}

func at(e agent.Event, session, parent string, depth int) agent.Event {
	e.Session, e.Parent, e.Depth = session, parent, depth
	return e
}

func childPrompt() agent.Event {
	m := agent.UserText("go")
	return agent.Event{Kind: agent.EventMessage, Message: &m, Session: "c"}
}

func childAnswer(usage *agent.Usage, calls ...string) agent.Event {
	m := agent.Message{Role: agent.RoleAssistant}
	for _, id := range calls {
		m.Calls = append(m.Calls, agent.ToolCall{ID: id, Name: "t", Args: "{}"})
	}
	return agent.Event{Kind: agent.EventAnswer, Message: &m, Finish: agent.FinishStop, Usage: usage, Session: "c"}
}

func childStarts(id, key string) agent.Event {
	return agent.Event{Kind: agent.EventCallStarted, CallID: id, Tool: "t", Args: "{}", Key: key, Session: "c"}
}

func childEnds(id, key string) agent.Event {
	return agent.Event{Kind: agent.EventCallEnded, CallID: id, Tool: "t", Key: key, Result: &agent.ToolResult{CallID: id, Name: "t"}, Session: "c"}
}

func send(t *testing.T, r *run, inv *agent.Invocation, events ...agent.Event) {
	t.Helper()
	for _, e := range events {
		if err := r.Forward(t.Context(), inv, e); err != nil {
			t.Fatalf("%s of %s: %v", e.Kind, e.Session, err)
		}
	}
}

// TestWhatAChildMaySend: events of its own sessions, at their places, and of nothing else.
func TestWhatAChildMaySend(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, tt := range map[string]struct {
		e    agent.Event
		want string
	}{
		"its own event":                  {childStarts("b", "c.1.2"), ""},
		"a second session":               {childBegins("e", "", 0), ""},
		"the longest id":                 {childBegins(long, "", 0), ""},
		"an agent below":                 {childBegins("d", "c.1.1", 1), ""},
		"a session that has not begun":   {at(childPrompt(), "z", "", 0), "has not begun"},
		"another depth":                  {at(childStarts("b", "c.1.2"), "c", "", 1), "not a session of this agent"},
		"another parent":                 {at(childStarts("b", "c.1.2"), "c", "c.1.1", 0), "not a session of this agent"},
		"a session of another call":      {at(childPrompt(), "other", "s.1.2", 0), "not a session of this agent"},
		"no id":                          {childBegins("", "", 0), "cannot be the id"},
		"a long id":                      {childBegins(long+"x", "", 0), "cannot be the id"},
		"an id with a slash":             {childBegins("a/b", "", 0), "cannot be the id"},
		"an id that was used":            {childBegins("old", "", 0), "cannot be the id"},
		"the id of the caller":           {childBegins("s", "", 0), "cannot be the id"},
		"a name that cannot be shown":    {agent.Event{Kind: agent.EventSession, Session: "e", Agent: "a\x1b"}, "cannot be the name"},
		"too deep":                       {childBegins("e", "", 1), "depth 1, not 0"},
		"an agent below, too deep":       {childBegins("d", "c.1.1", 2), "did not make"},
		"an agent below, at the top":     {childBegins("d", "c.1.1", 0), "did not make"},
		"below a call that has no start": {childBegins("d", "c.1.2", 1), "did not make"},
		"below a call that is not there": {childBegins("d", "c.1.3", 1), "did not make"},
		"below no session":               {childBegins("d", "z.1.1", 1), "did not make"},
		"below another call":             {childBegins("d", "other.1.1", 1), "did not make"},
		"a call with another key":        {childStarts("b", "c.1.1"), "has the key"},
		"the first with another key":     {childEnds("a", "c.1.2"), "has the key"},
		"a call that is not there":       {childStarts("z", "c.1.3"), "no call z is open"},
		"what cannot follow":             {childPrompt(), "have no result"},
		"an impossible usage":            {agent.Event{Kind: agent.EventFailure, Session: "c", Usage: &agent.Usage{InputTokens: -1}}, "not possible"},
	} {
		r, inv, k := calling(agent.Budget{}, nil)
		send(t, r, inv, childBegins("c", "", 0), childPrompt(), childAnswer(nil, "a", "b"), childStarts("a", "c.1.1"))
		n := len(k.events)
		err := r.Forward(t.Context(), inv, tt.e)
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, agent.ErrChild) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if stored := len(k.events) - n; (stored == 1) != (tt.want == "") {
			t.Errorf("%s: %d events are stored", name, stored)
		}
		if err != nil && r.total.Calls != 1 {
			t.Errorf("%s: %d calls are counted", name, r.total.Calls)
		}
	}
}

// TestIdsAreSafeInFileNames.
func TestIdsAreSafeInFileNames(t *testing.T) {
	for id, want := range map[string]bool{"": false, "a": true, "azAZ09-_": true, "`": false, "{": false, "@": false, "[": false, "/": false, ":": false, ".": false, "é": false, "a b": false, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false} {
		if got := validID(id); got != want {
			t.Errorf("validID(%q) = %t", id, got)
		}
	}
}

// TestEventsOfAChildAreThoseOfASubagent: journalled and counted in all runs above, under the name
// with which its session began.
func TestEventsOfAChildAreThoseOfASubagent(t *testing.T) {
	var shown []agent.Event
	r, inv, k := calling(agent.Budget{}, &shown)
	up := r
	r = spender(up, up.tree, "own", agent.Budget{Turns: ptr[int64](99)}, agent.TotalUsage{})
	r.session.ID, r.session.Depth = "o", 1
	inv.Session, inv.Depth, inv.Agent = "o", 1, "own"
	answer := childAnswer(&agent.Usage{InputTokens: 10}, "a")
	answer.Agent, answer.Seq = "another", 7
	send(t, r, inv, childBegins("c", "", 0), childPrompt(), answer, childStarts("a", "c.1.1"),
		childBegins("d", "c.1.1", 1), at(childPrompt(), "d", "c.1.1", 1), at(childAnswer(&agent.Usage{Requests: 2, InputTokens: 5}), "d", "c.1.1", 1),
		agent.Event{Kind: agent.EventEnd, Session: "d", Parent: "c.1.1", Depth: 1, Total: &agent.TotalUsage{Calls: 99}}, childEnds("a", "c.1.1"), childAnswer(nil))
	if len(k.events) != 10 || len(shown) != 10 || k.synced != 1 {
		t.Fatalf("%d events are stored and %d shown, synced %d times", len(k.events), len(shown), k.synced)
	}
	for i, e := range k.events {
		below := i >= 4 && i <= 7
		if want := map[bool]string{true: "child-d", false: "child-c"}[below]; e.Agent != want || e.Seq != 0 || e.Time.IsZero() || e.Depth != 2+map[bool]int{true: 1}[below] || e.Parent != map[bool]string{true: "c.1.1", false: "s.1.1"}[below] {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if end := k.events[7]; end.Total.Calls != 0 || end.Total.Usage.Requests != 2 {
		t.Errorf("the end of the agent below says %+v", end.Total)
	}
	if k.events[9].Usage.Requests != 1 {
		t.Errorf("an answer without a usage has %+v", k.events[9].Usage)
	}
	for name, total := range map[string]agent.TotalUsage{"child": r.tree.remotes["c"].total, "own": r.total, "root": up.total} {
		if u := total.Usage; u.Requests != 4 || u.InputTokens != 15 || total.Calls != 1 {
			t.Errorf("%s has consumed %+v", name, total)
		}
	}
	if a := r.account; !a.known || a.largest[amountInput] != 10 || !up.account.known {
		t.Errorf("the largest request is %v", a.largest)
	}
	if _, there := r.tree.remotes["d"]; there || !r.tree.used["d"] || r.tree.used["c"] {
		t.Error("the session below is there after its call")
	}
	if slices.ContainsFunc(r.tree.forwarded[inv.Key], func(e agent.Event) bool { return e.Session == "d" }) || len(r.tree.forwarded[inv.Key]) != 6 {
		t.Errorf("%d events are kept", len(r.tree.forwarded[inv.Key]))
	}
	// Of Runner.Call, nothing is kept.
	inv.Session = "call"
	if send(t, r, inv, childBegins("e", "", 0)); len(k.events) != 10 {
		t.Error("an event of a call outside of a session is stored")
	}
	k.fails, inv.Session = agent.EventSession, "o"
	for range 2 { // nothing happens afterwards
		if err := r.Forward(t.Context(), inv, childBegins("f", "", 0)); !errors.Is(err, agent.ErrJournal) || k.synced != 1 {
			t.Errorf("Forward = %v", err)
		}
		k.fails = ""
	}
}

// TestMessagesForAChildThatItHasReadAreCounted, and those that it has not are a warning.
func TestMessagesForAChildThatItHasReadAreCounted(t *testing.T) {
	var shown []agent.Event
	r, inv, _ := calling(agent.Budget{}, &shown)
	r.Below(inv, func(agent.Directive) {})
	send(t, r, inv, childBegins("c", "", 0), childPrompt())
	m := agent.UserText("x")
	for range 3 {
		r.tree.inboxes.send(agent.Directive{Session: "c", Message: &m})
	}
	read, opening := agent.Event{Kind: agent.EventMessage, Message: &m, Input: true, Session: "c"}, agent.Event{Kind: agent.EventMessage, Message: &m, Opening: true, Session: "c"}
	end := agent.Event{Kind: agent.EventEnd, Session: "c", Status: agent.StatusOK}
	send(t, r, inv, read, opening, end)
	if last := shown[len(shown)-2]; last.Kind != agent.EventWarning || !strings.Contains(last.Text, "2 messages to agent child-c") {
		t.Errorf("shown: %+v", shown)
	}
}

// TestAChildStaysWithinItsLease: what it consumed beyond is counted all the same.
func TestAChildStaysWithinItsLease(t *testing.T) {
	begin := []agent.Event{childBegins("c", "", 0), childPrompt(), childAnswer(&agent.Usage{Requests: 1}, "a", "b"), childStarts("a", "c.1.1")}
	below := []agent.Event{childBegins("d", "c.1.1", 1), at(childPrompt(), "d", "c.1.1", 1)}
	usage := at(childAnswer(&agent.Usage{Requests: 1}), "d", "c.1.1", 1)
	for name, tt := range map[string]struct {
		budget   agent.Budget
		reserved bool
		admitted string
		events   []agent.Event
		want     error
		requests int
		calls    int
	}{
		"a level":            {budget: agent.Budget{Depth: ptr(2)}, events: below, requests: 1, calls: 1},
		"no level":           {budget: agent.Budget{Depth: ptr(1)}, events: below[:1], want: agent.ErrDepth, requests: 1, calls: 1},
		"a turn":             {budget: agent.Budget{Turns: ptr[int64](2)}, events: append(below[:2:2], usage), requests: 2, calls: 1},
		"no turn":            {budget: agent.Budget{Turns: ptr[int64](1)}, events: append(below[:2:2], usage), want: agent.ErrBudget, requests: 2, calls: 1},
		"a turn in reserve":  {budget: agent.Budget{Turns: ptr[int64](1)}, reserved: true, events: append(below[:2:2], usage), requests: 2, calls: 1},
		"a call":             {budget: agent.Budget{Calls: ptr[int64](2)}, events: []agent.Event{childStarts("b", "c.1.2")}, requests: 1, calls: 2},
		"no call":            {budget: agent.Budget{Calls: ptr[int64](1)}, events: []agent.Event{childStarts("b", "c.1.2")}, want: agent.ErrBudget, requests: 1, calls: 1},
		"a call in reserve":  {budget: agent.Budget{Calls: ptr[int64](1)}, admitted: "c.1.2", events: []agent.Event{childStarts("b", "c.1.2")}, requests: 1, calls: 2},
		"another in reserve": {budget: agent.Budget{Calls: ptr[int64](1)}, admitted: "c.1.3", events: []agent.Event{childStarts("b", "c.1.2")}, want: agent.ErrBudget, requests: 1, calls: 1},
		"the end of a call":  {budget: agent.Budget{Calls: ptr[int64](1)}, events: []agent.Event{childEnds("b", "c.1.2")}, requests: 1, calls: 1},
		"a failure counts":   {budget: agent.Budget{Turns: ptr[int64](1)}, events: []agent.Event{{Kind: agent.EventFailure, Session: "c", Usage: &agent.Usage{Requests: 2}}}, requests: 3, calls: 1},
	} {
		r, inv, _ := calling(tt.budget, nil)
		send(t, r, inv, begin...)
		if tt.admitted != "" {
			r.tree.admitted = map[string]bool{tt.admitted: true}
		}
		var err error
		for _, e := range tt.events {
			if s := r.tree.remotes["d"]; s != nil && tt.reserved && e.Kind == agent.EventAnswer {
				s.release = func() {}
			}
			err = errors.Join(err, r.Forward(t.Context(), inv, e))
		}
		if !errors.Is(err, tt.want) || r.total.Usage.Requests != tt.requests || r.total.Calls != tt.calls {
			t.Errorf("%s: %v, %d requests and %d calls are counted", name, err, r.total.Usage.Requests, r.total.Calls)
		}
	}
}

// TestWhatAChildShows is of its sessions, and under their names.
func TestWhatAChildShows(t *testing.T) {
	for name, tt := range map[string]struct {
		e     agent.Event
		agent string // "" for an error
	}{
		"before its session":   {agent.Event{Kind: agent.EventWarning}, "x"},
		"of its session":       {agent.Event{Kind: agent.EventText, Session: "c", Agent: "evil"}, "child-c"},
		"of an agent below":    {agent.Event{Kind: agent.EventText, Session: "d", Parent: "c.1.1", Depth: 1}, "child-d"},
		"of no session":        {agent.Event{Kind: agent.EventText, Session: "z"}, ""},
		"of another call":      {agent.Event{Kind: agent.EventText, Session: "other"}, ""},
		"of its caller":        {agent.Event{Kind: agent.EventText, Session: "s"}, ""},
		"at another depth":     {agent.Event{Kind: agent.EventText, Session: "c", Depth: 1}, ""},
		"of one to be resumed": {agent.Event{Kind: agent.EventText, Session: "later", Agent: "evil"}, "x"},
	} {
		for _, watched := range []bool{true, false} {
			var shown []agent.Event
			r, inv, k := calling(agent.Budget{}, &shown)
			send(t, r, inv, childBegins("c", "", 0), childPrompt(), childAnswer(nil, "a"), childStarts("a", "c.1.1"), childBegins("d", "c.1.1", 1))
			r.tree.remotes["later"] = nil
			if shown = nil; !watched {
				r.tree.watch = nil
			}
			err := r.Forward(t.Context(), inv, tt.e)
			if (err == nil) != (tt.agent != "") || err != nil && !errors.Is(err, agent.ErrChild) || (len(shown) == 1) != (err == nil && watched) || len(k.events) != 5 {
				t.Errorf("%s, watched: %t: %v, %d are shown", name, watched, err, len(shown))
			}
			if len(shown) == 1 && (shown[0].Agent != tt.agent || shown[0].Time.IsZero() || shown[0].Depth != tt.e.Depth+1) {
				t.Errorf("%s: %+v is shown", name, shown[0])
			}
		}
	}
}

// TestACallThatEndsEndsItsSessions: the lowest first, each with results for its calls, and with the
// request for which it waited.
func TestACallThatEndsEndsItsSessions(t *testing.T) {
	r, inv, k := calling(agent.Budget{}, nil)
	setup := agent.Event{Kind: agent.EventSetup, Digest: "d", Session: "c"}
	send(t, r, inv, childBegins("c", "", 0), setup, childPrompt(), childAnswer(nil, "a", "b"), childStarts("a", "c.1.1"),
		childBegins("d", "c.1.1", 1), at(setup, "d", "c.1.1", 1), at(childPrompt(), "d", "c.1.1", 1),
		childBegins("e", "", 0), at(childPrompt(), "e", "", 0), at(agent.Event{Kind: agent.EventEnd, Status: agent.StatusOK}, "e", "", 0))
	k.events = nil
	before := r.total.Usage.Requests
	r.Called(t.Context(), inv, &agent.EndError{Status: agent.StatusInterrupted, Text: "stopped"})
	var got []string
	for _, e := range k.events {
		got = append(got, e.Session+" "+string(e.Kind))
		if e.Kind == agent.EventEnd && (e.Status != agent.StatusInterrupted || e.Error != "stopped" || e.Total == nil) || e.Kind == agent.EventFailure && (e.Turn != 1 || e.Usage.Requests != 1) || e.Kind == agent.EventCallEnded && !e.Result.Failed {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"d failure", "d end", "c call_ended", "c call_ended", "c end"}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
	if len(r.tree.remotes) != 1 || r.tree.remotes["other"] == nil || !r.tree.remotes["other"].session.Running || len(r.tree.forwarded) != 0 || !r.tree.used["c"] || !r.tree.used["d"] || r.total.Usage.Requests != before+1 {
		t.Errorf("%v are left, used: %v", r.tree.remotes, r.tree.used)
	}
	// Without an error, and with a journal that fails.
	r, inv, k = calling(agent.Budget{}, nil)
	send(t, r, inv, childBegins("c", "", 0), childPrompt(), childAnswer(nil, "a", "b"))
	k.events, k.fails = nil, agent.EventEnd
	if r.Called(t.Context(), inv, nil); !slices.Equal(k.kinds(), []agent.EventKind{agent.EventCallEnded, agent.EventCallEnded}) || !strings.Contains(k.events[0].Result.Text(), "has ended") {
		t.Errorf("the events are %+v", k.events)
	}
	r, inv, k = calling(agent.Budget{}, nil)
	send(t, r, inv, childBegins("c", "", 0), childPrompt(), childAnswer(nil, "a", "b"))
	k.events, k.fails = nil, agent.EventCallEnded
	if r.Called(t.Context(), inv, nil); len(k.events) != 0 || r.tree.broken == nil {
		t.Errorf("after the journal failed, the events are %+v", k.events)
	}
}

// TestTheNextProcessOfACallContinuesItsSessions: with their events, as that process knows them.
func TestTheNextProcessOfACallContinuesItsSessions(t *testing.T) {
	r, inv, k := calling(agent.Budget{}, nil)
	if events, spent := r.History(inv); events != nil || spent != nil {
		t.Errorf("before anything, the history is %v", events)
	}
	send(t, r, inv, childBegins("c", "", 0), childPrompt(), childAnswer(&agent.Usage{Requests: 2}, "a"), childStarts("a", "c.1.1"), childBegins("d", "c.1.1", 1), at(childPrompt(), "d", "c.1.1", 1))
	n := len(k.events)
	for range 2 { // it is the same for each process
		events, spent := r.History(inv)
		if len(events) != 6 || spent["c"].Usage.Requests != 2 || len(spent) != 2 {
			t.Fatalf("the history is %d events, %v", len(events), spent)
		}
		for i, e := range events {
			want := childBegins("c", "", 0)
			if i >= 4 != (e.Session == "d") {
				t.Errorf("event %d is of %s", i, e.Session)
			}
			if e.Session == "d" {
				want = childBegins("d", "c.1.1", 1)
			}
			if e.Parent != want.Parent || e.Depth != want.Depth {
				t.Errorf("it has %+v", e)
			}
		}
		if s, known := r.tree.remotes["c"]; s != nil || !known || r.tree.remotes["other"] == nil {
			t.Errorf("the sessions are %v", r.tree.remotes)
		}
		// A session that is not continued cannot begin again in another place.
		for _, e := range []agent.Event{at(agent.Event{Kind: agent.EventResume}, "c", "", 1), at(agent.Event{Kind: agent.EventResume}, "d", "c.1.1", 1)} {
			if err := r.Forward(t.Context(), inv, e); !errors.Is(err, agent.ErrChild) {
				t.Errorf("%+v: %v", e, err)
			}
		}
		send(t, r, inv, agent.Event{Kind: agent.EventResume, Session: "c"}, at(agent.Event{Kind: agent.EventResume}, "d", "c.1.1", 1))
		if s := r.tree.remotes["c"]; s == nil || s.total.Usage.Requests != 2 || len(s.session.Messages) != 2 || r.tree.remotes["d"].up != &s.node || len(r.tree.pending) != 0 {
			t.Fatalf("the session is %+v", s)
		}
		if len(k.events) != n+2 {
			t.Errorf("%d events are stored", len(k.events)-n)
		}
		k.events = k.events[:n]
		for key, list := range r.tree.forwarded { // so that the next history is the same
			r.tree.forwarded[key] = slices.DeleteFunc(list, func(e agent.Event) bool { return e.Kind == agent.EventResume })
		}
	}
}

// TestAnApprovalOfAPersonIsNoted: what permits the call of an agent in another process.
func TestAnApprovalOfAPersonIsNoted(t *testing.T) {
	for name, tt := range map[string]struct {
		what, answer string
		err          error
		noted        bool
	}{
		"allowed": {"approve", `"allow"`, nil, true}, "denied": {"approve", `"deny"`, nil, false}, "another question": {"ask", `"allow"`, nil, false}, "no answer": {"approve", `"allow"`, agent.ErrNobody, false},
	} {
		r, inv, _ := calling(agent.Budget{}, nil)
		r.tree.asking, r.tree.questionTime = make(chan struct{}, 1), time.Minute
		if _, err := r.Question(t.Context(), inv, agent.Event{What: tt.what}); err != agent.ErrNobody || r.Person() {
			t.Errorf("%s: without a person: %v", name, err)
		}
		var asked agent.Event
		r.tree.person = func(_ context.Context, e agent.Event) (json.RawMessage, error) {
			asked = e
			return json.RawMessage(tt.answer), tt.err
		}
		answer, err := r.Question(t.Context(), inv, agent.Event{What: tt.what, Tool: "t", Args: "{}", Source: "src"})
		if string(answer) != tt.answer || err != tt.err || !r.Person() {
			t.Errorf("%s: %s, %v", name, answer, err)
		}
		if got := r.child(inv).answers[answered{approved, "t", "{}"}]; got != tt.noted {
			t.Errorf("%s: noted: %t", name, got)
		}
		if asked.Question == "" || asked.Source != "src" || !slices.Equal(asked.Path, []string{"root", "x"}) {
			t.Errorf("%s: asked %+v", name, asked)
		}
	}
	r, inv, _ := calling(agent.Budget{}, nil)
	own := &agent.Invocation{Spec: agent.ToolSpec{Name: "x"}, Key: inv.Key}
	for _, tt := range []struct {
		inv        *agent.Invocation
		path, want string
	}{
		{inv, "", "root x"}, {inv, "root", "root"}, {inv, "root y z", "root y z"}, {inv, "toor y", "root x"}, {inv, "root a\x1b", "root x"}, {own, "", "root"}, {own, "y", "root"},
	} {
		if got := strings.Join(r.pathOf(tt.inv, agent.Event{Path: strings.Fields(tt.path)}), " "); got != tt.want {
			t.Errorf("the path %q is %q, want %q", tt.path, got, tt.want)
		}
	}
}
