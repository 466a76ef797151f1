package runner

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// spender is a run of an agent with a budget, below up, which has consumed total.
func spender(up *run, t *tree, slug string, b agent.Budget, total agent.TotalUsage) *run {
	r := &run{node: node{tree: t, agent: &agent.Agent{Slug: slug, Budget: b}, session: &agent.Session{}, total: total}}
	if up != nil {
		r.up, r.depth = &up.node, up.depth+1
	}
	r.openAccount()
	return r
}

func newTree(lease agent.Lease) *tree {
	return &tree{lease: lease, now: time.Now, maxDepth: agent.DefaultMaxDepth, inboxes: &inboxes{}, remotes: map[string]*remote{}}
}

// away is the agent of another process that answers the call with a key.
func (r *run) away(key string) *remote {
	return &remote{node: r.below(&agent.Agent{Slug: "x"}, key), callKey: key}
}

var all = agent.Budget{USD: ptr(10 * agent.Dollar), InputTokens: ptr[int64](1000), OutputTokens: ptr[int64](100), Turns: ptr[int64](5), Calls: ptr[int64](7)}

// TestAnAccountHasTheLeastOfAllLimits: those of the agent, of the runs above and of the lease.
func TestAnAccountHasTheLeastOfAllLimits(t *testing.T) {
	used := agent.TotalUsage{Usage: agent.Usage{Cost: agent.Dollar, ReservedCost: agent.Dollar, InputTokens: 200, OutputTokens: 30, ReservedTokens: 5, Requests: 2}, Calls: 3}
	unlimitedAmounts := amounts{unlimited, unlimited, unlimited, unlimited, unlimited}
	for name, tt := range map[string]struct {
		lease            agent.Lease
		above, own       agent.Budget
		left, base       amounts
		timed            time.Duration
		within, budgeted bool
		name             string // of the budget of calls
	}{
		"none":               {left: unlimitedAmounts, base: unlimitedAmounts},
		"own":                {own: all, left: amounts{8e8, 800, 65, 3, 4}, base: amounts{10e8, 1000, 100, 5, 7}, within: true, budgeted: true, name: "budget calls 7 of agent own"},
		"above":              {above: all, left: amounts{8e8, 800, 65, 3, 4}, base: amounts{10e8, 1000, 100, 5, 7}, budgeted: true},
		"as much above":      {above: all, own: all, left: amounts{8e8, 800, 65, 3, 4}, base: amounts{10e8, 1000, 100, 5, 7}, within: true, budgeted: true, name: "budget calls 7 of agent own"},
		"less above":         {above: agent.Budget{Calls: ptr[int64](4)}, own: all, left: amounts{8e8, 800, 65, 3, 1}, base: amounts{10e8, 1000, 100, 5, 4}, within: true, budgeted: true},
		"lease of a person":  {lease: agent.Lease{Budget: agent.Budget{Calls: ptr[int64](5)}}, left: amounts{unlimited, unlimited, unlimited, unlimited, 2}, base: amounts{unlimited, unlimited, unlimited, unlimited, 5}, budgeted: true},
		"lease of a caller":  {lease: agent.Lease{Path: []string{"a", "c"}, Budget: agent.Budget{Calls: ptr[int64](5)}}, left: amounts{unlimited, unlimited, unlimited, unlimited, 5}, base: amounts{unlimited, unlimited, unlimited, unlimited, 8}, budgeted: true},
		"seconds":            {own: agent.Budget{Seconds: ptr(2.0)}, left: unlimitedAmounts, base: unlimitedAmounts, timed: 2 * time.Second},
		"no second":          {own: agent.Budget{Seconds: ptr(0.0)}, left: unlimitedAmounts, base: unlimitedAmounts, timed: 1},
		"seconds of a lease": {lease: agent.Lease{Budget: agent.Budget{Seconds: ptr(2.0)}}, own: agent.Budget{Seconds: ptr(3.0)}, left: unlimitedAmounts, base: unlimitedAmounts, timed: 3 * time.Second},
	} {
		tr := newTree(tt.lease)
		root := spender(nil, tr, "root", tt.above, used)
		own := spender(root, tr, "own", tt.own, used)
		left, of := own.left(false)
		if left != tt.left || own.account.base != tt.base || own.account.timed != tt.timed || own.account.within != tt.within || own.budgeted() != tt.budgeted {
			t.Errorf("%s: left %v of %v, %s, within %v, budgeted %v; want %+v", name, left, own.account.base, own.account.timed, own.account.within, own.budgeted(), tt)
		}
		if err := own.spent(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tt.name != "" && of[amountCalls].budgetName(amountCalls) != tt.name {
			t.Errorf("%s: the budget is %q, want %q", name, of[amountCalls].budgetName(amountCalls), tt.name)
		}
		if held, _ := own.left(true); held != left {
			t.Errorf("%s: %v is left beside nothing that is held", name, held)
		}
	}
	tr := newTree(agent.Lease{Path: []string{"a", "c"}, Budget: agent.Budget{Calls: ptr[int64](5), Seconds: ptr(4.0)}})
	root := spender(nil, tr, "root", agent.Budget{Calls: ptr[int64](8), Seconds: ptr(9.0)}, used)
	if got := root.budgetName(amountCalls); got != "budget calls 8 of agent root" || root.account.timed != 4*time.Second {
		t.Errorf("the budget is %q, the time %s", got, root.account.timed) // 5 are left, of 8: no less than its own
	}
	tr.lease.Calls = ptr[int64](4)
	root.openAccount()
	if got := root.budgetName(amountCalls); got != "budget calls 7 of agent root, from its caller c," {
		t.Errorf("the budget is %q", got)
	}
}

// TestARequestFitsBesideThoseInProgress: exactly as long as the estimates leave something.
func TestARequestFitsBesideThoseInProgress(t *testing.T) {
	used := agent.Usage{Cost: agent.Dollar, InputTokens: 100, OutputTokens: 10, Requests: 1}
	for name, tt := range map[string]struct {
		budget agent.Budget
		asking bool
		known  bool
		size   int
		want   bool
	}{
		"no budget":                     {asking: true, known: true, want: true},
		"first":                         {budget: all, want: true},
		"second before the first ended": {budget: all, asking: true},
		"second after the first":        {budget: all, asking: true, known: true, want: true},
		"exactly":                       {budget: agent.Budget{InputTokens: ptr[int64](500)}, asking: true, known: true, want: true}, // 100 used, 200 held, 200
		"one more":                      {budget: agent.Budget{InputTokens: ptr[int64](499)}, asking: true, known: true},
		"twice the size":                {budget: agent.Budget{InputTokens: ptr[int64](700)}, asking: true, known: true, size: 200, want: true},
		"twice the size, one more":      {budget: agent.Budget{InputTokens: ptr[int64](699)}, asking: true, known: true, size: 200},
		"the output does not grow":      {budget: agent.Budget{OutputTokens: ptr[int64](50)}, asking: true, known: true, size: 1 << 40, want: true},
		"the last turn":                 {budget: agent.Budget{Turns: ptr[int64](3)}, asking: true, known: true, want: true},
		"no turn":                       {budget: agent.Budget{Turns: ptr[int64](2)}, asking: true, known: true},
		"calls do not count":            {budget: agent.Budget{Calls: ptr[int64](0)}, asking: true, known: true, want: true},
	} {
		tr := newTree(agent.Lease{})
		root := spender(nil, tr, "root", tt.budget, agent.TotalUsage{Usage: used})
		own := spender(root, tr, "own", agent.Budget{}, agent.TotalUsage{})
		if tt.known {
			root.account.note(agent.Usage{})
			root.account.note(used)
			root.account.note(agent.Usage{InputTokens: 7, ReservedCost: 100 * agent.Dollar, ReservedTokens: 100, Requests: 1}) // a smaller one
		}
		release := func() {}
		if tt.asking {
			var err error
			own.session.Tokens = 100
			if release, err = own.reserve(t.Context(), agent.Event{}, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if got := own.fits(tt.size); got != tt.want {
			t.Errorf("%s: fits: %v, want %v (%+v)", name, got, tt.want, root.account)
		}
		if release(); root.account.asking != 0 || root.account.held != (amounts{}) || own.account.held != (amounts{}) {
			t.Errorf("%s: %+v is held after the release", name, root.account)
		}
		if !own.fits(tt.size) {
			t.Errorf("%s: it does not fit alone", name)
		}
	}
	tr := newTree(agent.Lease{})
	r := spender(nil, tr, "root", all, agent.TotalUsage{})
	first, err := r.reserve(t.Context(), agent.Event{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if _, err := r.reserve(ctx, agent.Event{}, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("reserve = %v, want a canceled wait", err)
	}
	r.account.known = true
	enough := errors.New("enough")
	if _, err := r.reserve(t.Context(), agent.Event{}, func() error { return enough }); err != enough {
		t.Errorf("reserve = %v, want %v", err, enough)
	}
	first()
}

// TestWhatIsSpentIsNamed with its figures.
func TestWhatIsSpentIsNamed(t *testing.T) {
	for _, tt := range []struct {
		total agent.TotalUsage
		kind  int
		want  string
	}{
		{agent.TotalUsage{Usage: agent.Usage{Cost: agent.Dollar, Requests: 3, Priced: 3}}, amountUSD, "1.00"}, {agent.TotalUsage{Usage: agent.Usage{Cost: agent.Dollar, Requests: 3, Priced: 1}}, amountUSD, "1.00 + 2 unpriced"},
		{agent.TotalUsage{Usage: agent.Usage{Cost: agent.Dollar, ReservedCost: agent.Dollar / 2, Requests: 1, Priced: 1}}, amountUSD, "1.50, 0.50 of it reserved,"}, {agent.TotalUsage{Usage: agent.Usage{OutputTokens: 4, ReservedTokens: 3, Requests: 1}}, amountOutput, "7, 3 of it reserved,"}, {agent.TotalUsage{Usage: agent.Usage{InputTokens: 9, ReservedTokens: 3, Requests: 1}}, amountInput, "9"},
		{agent.TotalUsage{Calls: 2, Agents: map[string]agent.Usage{"root": {}}}, amountCalls, "2"}, {agent.TotalUsage{Calls: 2, Agents: map[string]agent.Usage{"root": {}, "a": {}}}, amountCalls, "2 with 1 sub-agent"}, {agent.TotalUsage{Calls: 2, Agents: map[string]agent.Usage{"b": {}, "a": {}}}, amountCalls, "2 with 2 sub-agents"},
	} {
		r := spender(nil, newTree(agent.Lease{}), "root", agent.Budget{}, tt.total)
		if got := r.figures(tt.kind); got != tt.want {
			t.Errorf("figures of %+v = %q, want %q", tt.total, got, tt.want)
		}
	}
	for late, want := range map[bool]bool{true: true, false: false} {
		if err := error(&budgetError{text: "spent", time: late}); !errors.Is(err, agent.ErrBudget) || errors.Is(err, context.DeadlineExceeded) != want || errors.Is(err, context.Canceled) {
			t.Errorf("a budget of time: %v; the error is that of another kind", late)
		}
	}
	for kind := range amountCalls {
		b := agent.Budget{}
		limits := amounts{unlimited, unlimited, unlimited, unlimited, unlimited}
		limits[kind] = 1
		setAmounts(&b, limits)
		if limitsOf(&b) != limits {
			t.Errorf("limits = %v, want %v", limitsOf(&b), limits)
		}
		one := agent.TotalUsage{Usage: [...]agent.Usage{{Cost: 1}, {InputTokens: 1}, {OutputTokens: 1}, {Requests: 1}}[kind]}
		if err := spender(nil, newTree(agent.Lease{}), "root", b, one).spent(); !errors.Is(err, agent.ErrBudget) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), amountName(kind)) {
			t.Errorf("spent = %v, want the budget of %s", err, amountName(kind))
		}
		if err := spender(nil, newTree(agent.Lease{}), "root", b, agent.TotalUsage{}).spent(); err != nil {
			t.Error(err)
		}
		limits[kind] = -5
		if setAmounts(&b, limits); limitsOf(&b)[kind] != 0 {
			t.Errorf("a negative amount is %d", limitsOf(&b)[kind])
		}
	}
}

// TestCallsAreReservedUntilTheyAreCounted.
func TestCallsAreReservedUntilTheyAreCounted(t *testing.T) {
	tr := newTree(agent.Lease{})
	root := spender(nil, tr, "root", agent.Budget{Calls: ptr[int64](2)}, agent.TotalUsage{})
	own := spender(root, tr, "own", agent.Budget{}, agent.TotalUsage{})
	for _, key := range []string{"a", "b"} {
		if err := own.admit(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.admit("c"); !errors.Is(err, agent.ErrBudget) || tr.admitted["c"] {
		t.Errorf("admit = %v, want a spent budget", err)
	}
	own.callCounted("a")
	own.callCounted("a")
	own.callCounted("none")
	if root.account.held[amountCalls] != 1 || own.account.held[amountCalls] != 1 {
		t.Errorf("%v and %v are held, want one call each", root.account.held, own.account.held)
	}
	// What the reserver of the embedding program refuses is released again.
	refused := errors.New("refused")
	inv := &agent.Invocation{Key: "d", Driver: &call{run: own}}
	next := func(context.Context, Need) (func(agent.Usage), error) { return nil, refused }
	if _, err := tr.reserver(next)(t.Context(), Need{Call: inv}); err != refused || root.account.held[amountCalls] != 1 {
		t.Errorf("the reserver returned %v, %d calls are held", err, root.account.held[amountCalls])
	}
	settle, err := tr.reserver(nil)(t.Context(), Need{Call: inv})
	if err != nil || root.account.held[amountCalls] != 2 {
		t.Fatalf("the reserver returned %v, %d calls are held", err, root.account.held[amountCalls])
	}
	if settle(agent.Usage{}); root.account.held[amountCalls] != 1 {
		t.Errorf("%d calls are held after the end", root.account.held[amountCalls])
	}
}

// TestACallerIsAskedAboutAmountsThatItShares, and about no others.
func TestACallerIsAskedAboutAmountsThatItShares(t *testing.T) {
	calls, turns := agent.Budget{Calls: ptr[int64](9)}, agent.Budget{Turns: ptr[int64](9)}
	for name, tt := range map[string]struct {
		budget        agent.Budget
		shared        bool
		key           string
		answer        string
		asked         bool
		err           string
		limits, after int64 // of calls
	}{
		"not shared":      {budget: calls, key: "k"},
		"another amount":  {budget: turns, shared: true, key: "k"},
		"a call":          {budget: calls, shared: true, key: "k", answer: `{}`, asked: true, after: 9},
		"no request":      {budget: calls, shared: true, answer: `{}`},
		"a request":       {budget: turns, shared: true, answer: `{}`, asked: true},
		"less is left":    {budget: calls, shared: true, key: "k", answer: `{"limits":{"calls":4}}`, asked: true, after: 4},
		"more is not":     {budget: calls, shared: true, key: "k", answer: `{"limits":{"calls":40}}`, asked: true, after: 9},
		"spent":           {budget: calls, shared: true, key: "k", answer: `{"error":"spent up there"}`, asked: true, err: "spent up there"},
		"no answer":       {budget: calls, shared: true, key: "k", asked: true, err: "ask the caller"},
		"an odd answer":   {budget: calls, shared: true, key: "k", answer: `[]`, asked: true, err: "ask the caller"},
		"nobody to ask":   {budget: calls, shared: true, key: "nobody"},
		"the run is over": {budget: calls, shared: true, key: "over", answer: `{}`, asked: true, err: "canceled"},
	} {
		tr := newTree(agent.Lease{Budget: tt.budget, Shared: tt.shared, Path: []string{"c"}})
		tr.root = spender(nil, tr, "root", agent.Budget{}, agent.TotalUsage{})
		asked := ""
		ctx, cancel := context.WithCancel(t.Context())
		if tt.key != "nobody" {
			tr.caller = func(_ context.Context, e agent.Event, _ func(agent.Delta)) (json.RawMessage, error) {
				if asked = e.What + " " + e.Question; tt.key == "over" {
					cancel()
				}
				if tt.answer == "" {
					return nil, errors.New("gone")
				}
				return json.RawMessage(tt.answer), nil
			}
		}
		tr.mu.Lock()
		err := tr.root.askAbove(ctx, agent.Event{Session: "s", Key: tt.key})
		tr.mu.Unlock()
		cancel()
		if (asked != "") != tt.asked || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || errors.Is(err, agent.ErrBudget) != strings.Contains(tt.err, "spent") {
			t.Errorf("%s: asked %q, %v; want %+v", name, asked, err, tt)
		}
		if want := map[bool]string{true: "budget k.b1", false: "budget s.b1"}[tt.key == "k"]; tt.asked && tt.key != "over" && asked != want {
			t.Errorf("%s: asked %q, want %q", name, asked, want)
		}
		if tt.after > 0 && (tr.root.account.limit[amountCalls] != tt.after || !tr.root.account.leased[amountCalls]) {
			t.Errorf("%s: the limit is %d, want %d", name, tr.root.account.limit[amountCalls], tt.after)
		}
	}
}

// TestASharedReservationIsMadeForWhatIsLimited, with the size of the conversation that asks.
func TestASharedReservationIsMadeForWhatIsLimited(t *testing.T) {
	calls, turns := agent.Budget{Calls: ptr[int64](9)}, agent.Budget{Turns: ptr[int64](9)}
	refused := errors.New("refused")
	for name, tt := range map[string]struct {
		budget       agent.Budget
		session, key string
		err          error
		asked        int // the tokens of the reservation; 0: nobody
	}{
		"a request": {budget: turns, asked: 10}, "no request": {budget: calls}, "a call": {budget: calls, key: "k", asked: 10}, "no call": {budget: turns, key: "k"},
		"a request of a child": {budget: turns, session: "c", asked: 70}, "refused": {budget: turns, err: refused, asked: 10},
	} {
		tr := newTree(agent.Lease{})
		tr.root = spender(nil, tr, "root", tt.budget, agent.TotalUsage{})
		tr.root.session.Tokens = 10
		asks := &tr.root.node
		if tt.session == "c" {
			asks = &tr.root.away("c").node
			asks.session.Tokens = 70
		}
		asked := 0
		tr.reserveShared = func(_ context.Context, e agent.Event) (left, total agent.Budget, err error) {
			asked = e.Usage.InputTokens
			return agent.Budget{Turns: ptr[int64](4)}, agent.Budget{Turns: ptr[int64](5)}, tt.err
		}
		tr.mu.Lock()
		err := asks.askAbove(t.Context(), agent.Event{Session: tt.session, Key: tt.key})
		tr.mu.Unlock()
		if err != tt.err || asked != tt.asked {
			t.Errorf("%s: %v, asked about %d tokens, want %d", name, err, asked, tt.asked)
		}
		if done := tt.asked > 0 && tt.err == nil; done != (tr.left.Turns != nil) || done != (tr.root.account.limit[amountTurns] == 5) {
			t.Errorf("%s: %v is left, the limits are %v", name, tr.left, tr.root.account.limit)
		}
	}
}

// TestAChildReservesAtItsCaller: only for its own session and its own calls.
func TestAChildReservesAtItsCaller(t *testing.T) {
	tr := newTree(agent.Lease{})
	root := spender(nil, tr, "root", agent.Budget{Calls: ptr[int64](3), Turns: ptr[int64](5)}, agent.TotalUsage{Calls: 1})
	inv := &agent.Invocation{Key: "s.1.1", Caller: root, Driver: &call{run: root}}
	top := root.away(inv.Key)
	top.total.Calls = 1
	top.session.ID, top.session.Running = "c", true
	tr.remotes["c"], tr.remotes["other"] = top, root.away("s.1.2")
	for _, tt := range []struct{ session, key, want string }{
		{"other", "", "error"}, {"none", "", "error"}, {"c", "d.1.1", "error"}, {"c", "c.1.1", `{"limits":{"turns":5,"calls":3}}`}, {"c", "c.1.1", `{"limits":{"turns":5,"calls":3}}`}, {"c", "c.1.2", `{"limits":{"turns":5,"calls":3}}`}, {"c", "c.1.3", `{"error":"budget calls 3 of agent root spent (1)"}`}, {"c", "", `{"limits":{"turns":5,"calls":3}}`},
	} {
		answer, err := root.answerBudget(t.Context(), inv, agent.Event{Session: tt.session, Key: tt.key})
		if got := string(answer); err == nil && got != tt.want || err != nil && (tt.want != "error" || !errors.Is(err, agent.ErrChild)) {
			t.Errorf("answerBudget(%q, %q) = %s, %v; want %s", tt.session, tt.key, answer, err, tt.want)
		}
	}
	if root.account.asking != 1 || root.account.held[amountCalls] != 2 {
		t.Errorf("%+v is held, want a request and two calls", root.account)
	}
	top.settle(&agent.Event{Kind: agent.EventVerdict, Key: "c.1.1"}) // ends the request, and no call
	if root.account.asking != 0 || root.account.held[amountCalls] != 2 || top.events != 1 {
		t.Errorf("%+v is held after a verdict", root.account)
	}
	top.settle(&agent.Event{Kind: agent.EventCallStarted, Key: "c.1.1"})
	tr.admitted["d.1.1"] = true
	if tr.unreserve(top); root.account.held[amountCalls] != 0 || !tr.admitted["d.1.1"] {
		t.Errorf("%+v is held after the end, and %v", root.account, tr.admitted)
	}
	// The lease of an agent in another process has what is left: it asks before it consumes.
	if err := root.admit("e.1.1"); err != nil {
		t.Fatal(err)
	}
	if lease := root.Lease(t.Context(), inv); *lease.Calls != 2 || *lease.Turns != 5 || !lease.Shared {
		t.Errorf("the lease is %+v", lease)
	}
	// What the caller of this process refuses is not held here.
	up := newTree(agent.Lease{Budget: agent.Budget{Turns: ptr[int64](9)}, Shared: true})
	up.caller = func(context.Context, agent.Event, func(agent.Delta)) (json.RawMessage, error) {
		return nil, errors.New("gone")
	}
	below := spender(nil, up, "root", agent.Budget{}, agent.TotalUsage{})
	refused := below.away(inv.Key)
	refused.session.Running, up.remotes["c"] = true, refused
	up.mu.Lock()
	if err := refused.reserve(t.Context(), agent.Event{Session: "c"}); err == nil || below.account.asking != 0 || refused.release != nil {
		t.Errorf("reserve = %v, %+v is held", err, below.account)
	}
	up.mu.Unlock()
	top.session.Running = false
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err := top.reserve(t.Context(), agent.Event{Session: "c"}); !errors.Is(err, errPassed) || root.account.asking != 0 {
		t.Errorf("reserve of a session that has ended = %v", err)
	}
}

// TestReservationsInARecordEndWithTheNextEvent of their session, their call, or a call above.
func TestReservationsInARecordEndWithTheNextEvent(t *testing.T) {
	agents := []*agent.Agent{{Slug: "root", Budget: agent.Budget{Calls: ptr[int64](2), Turns: ptr[int64](3)}}, {Slug: "b"}}
	record := []agent.Event{{Kind: agent.EventSession, Session: "r", Agent: "root"}, {Kind: agent.EventSession, Session: "b", Agent: "b", Parent: "r.1.1"}}
	reserve := func(session, key string, seq int64) *agent.Event {
		return &agent.Event{Kind: EventReservation, Session: session, Key: key, Seq: seq, Usage: &agent.Usage{InputTokens: 10}}
	}
	for name, tt := range map[string]struct {
		held  *agent.Event
		then  []agent.Event
		other *agent.Event
		want  bool
		spent bool
	}{
		"a request":                      {held: reserve("r", "", 2), other: reserve("b", "", 2)},
		"of its own":                     {held: reserve("b", "", 2), other: reserve("b", "", 2), want: true},
		"an answer of it":                {held: reserve("r", "", 2), then: []agent.Event{{Kind: agent.EventAnswer, Session: "r"}}, other: reserve("b", "", 3), want: true},
		"what does not last":             {held: reserve("r", "", 2), then: []agent.Event{{Kind: agent.EventProgress, Session: "r"}}, other: reserve("b", "", 3)},
		"an answer of another":           {held: reserve("r", "", 2), then: []agent.Event{{Kind: agent.EventAnswer, Session: "b"}}, other: reserve("b", "", 3)},
		"a call above":                   {held: reserve("b", "", 2), then: []agent.Event{{Kind: agent.EventCallEnded, Session: "r", Key: "r.1.1"}}, other: reserve("r", "", 3), want: true},
		"another call above":             {held: reserve("b", "", 2), then: []agent.Event{{Kind: agent.EventCallEnded, Session: "x", Key: "r.1.2"}}, other: reserve("r", "", 3)},
		"a session below":                {held: reserve("d", "", 3), then: []agent.Event{{Kind: agent.EventSession, Session: "d", Parent: "b.1.1"}}, other: reserve("r", "", 3)},
		"a call below":                   {held: reserve("d", "", 3), then: []agent.Event{{Kind: agent.EventSession, Session: "d", Parent: "b.1.1"}, {Kind: agent.EventCallStarted, Session: "b", Key: "b.1.1"}}, other: reserve("r", "", 4), want: true},
		"calls":                          {held: reserve("r", "r.1.2", 2), other: reserve("b", "b.1.1", 2), want: true},
		"calls that started":             {held: reserve("r", "r.1.2", 2), then: []agent.Event{{Kind: agent.EventCallStarted, Session: "r", Key: "r.1.3"}}, other: reserve("b", "b.1.1", 3), spent: true},
		"a call and its own start":       {held: reserve("r", "r.1.2", 2), then: []agent.Event{{Kind: agent.EventCallStarted, Session: "r", Key: "r.1.2"}}, other: reserve("b", "b.1.1", 3), want: true},
		"a call whose session ended":     {held: reserve("b", "b.1.2", 2), then: []agent.Event{{Kind: agent.EventCallStarted, Session: "r", Key: "r.1.3"}, {Kind: agent.EventEnd, Session: "b"}}, other: reserve("r", "r.1.4", 4), want: true},
		"a call whose session continues": {held: reserve("b", "b.1.2", 2), then: []agent.Event{{Kind: agent.EventCallStarted, Session: "r", Key: "r.1.3"}, {Kind: agent.EventAnswer, Session: "b"}}, other: reserve("r", "r.1.4", 4), spent: true},
		"beside one of a known size":     {held: reserve("r", "", 3), then: []agent.Event{{Kind: agent.EventAnswer, Session: "r", Usage: &agent.Usage{Requests: 1, InputTokens: 5}}}, other: reserve("b", "", 3), want: true},
		"turns that are spent":           {held: reserve("r", "", 2), then: []agent.Event{{Kind: agent.EventAnswer, Session: "r", Usage: &agent.Usage{Requests: 3}}}, other: reserve("b", "", 3), spent: true},
	} {
		l := NewLedger(agent.Lease{}, agents, record, "b")
		number := int64(0)
		for _, e := range append(record[:2:2], tt.then...) {
			number++
			l.Note(number, &e)
		}
		l.Reserved(tt.held)
		got, err := l.Fits(tt.other)
		if got != tt.want || errors.Is(err, agent.ErrBudget) != tt.spent {
			t.Errorf("%s: fits: %v, %v; want %v, spent: %v", name, got, err, tt.want, tt.spent)
		}
	}
	// What another agent below the root consumes is not consumed by b.
	one := NewLedger(agent.Lease{}, []*agent.Agent{{Slug: "root"}, {Slug: "b", Budget: agent.Budget{Calls: ptr[int64](1)}}}, record, "b")
	for i, e := range []agent.Event{record[0], record[1], {Kind: agent.EventSession, Session: "e", Parent: "r.1.5"}, {Kind: agent.EventCallStarted, Session: "e", Key: "e.1.1", Tool: "t"}} {
		one.Note(int64(i+1), &e)
	}
	if left, _ := one.Left(); *left.Calls != 1 {
		t.Errorf("%d calls are left of the budget of b, want 1", *left.Calls)
	}
	one.Note(5, &agent.Event{Kind: agent.EventSession, Session: "b", Parent: "r.1.1"}) // it is still that of b
	one.Note(6, &agent.Event{Kind: agent.EventCallStarted, Session: "b", Key: "b.1.1", Tool: "t"})
	if left, _ := one.Left(); *left.Calls != 0 {
		t.Errorf("%d calls are left of the budget of b, want none", *left.Calls)
	}
	l := NewLedger(agent.Lease{}, agents, record, "b")
	if left, total := l.Left(); *left.Calls != 2 || *total.Calls != 2 || left.USD != nil || total.USD != nil {
		t.Errorf("Left = %v, %v", left, total)
	}
	for i, e := range []agent.Event{record[0], record[1], {Kind: agent.EventCallStarted, Session: "r", Key: "r.1.1", Tool: "t"}, {Kind: agent.EventCallStarted, Session: "b", Key: "b.1.1", Tool: "t"}} {
		l.Note(int64(i+1), &e)
	}
	if left, total := l.Left(); *left.Calls != 0 || *total.Calls != 1 {
		t.Errorf("Left = %d, %d calls, want 0 and the one that it made", *left.Calls, *total.Calls)
	}
}

// TestALeaseOnlyShrinks: every amount, the depth and the processes.
func TestALeaseOnlyShrinks(t *testing.T) {
	for _, tt := range []struct{ a, b, want *int64 }{{nil, nil, nil}, {ptr[int64](1), nil, ptr[int64](1)}, {nil, ptr[int64](1), ptr[int64](1)}, {ptr[int64](2), ptr[int64](1), ptr[int64](1)}, {ptr[int64](1), ptr[int64](2), ptr[int64](1)}} {
		if got := (agent.Budget{Calls: tt.a}).Min(agent.Budget{Calls: tt.b}).Calls; !cmp.Equal(got, tt.want) {
			t.Errorf("the least of %v and %v is %v", tt.a, tt.b, got)
		}
	}
	l := agent.Lease{Path: []string{"a"}, Traceparent: "t"}.Shrink(agent.Lease{Rights: []byte(`[1]`)}).Shrink(agent.Lease{Shared: true, Path: []string{"b"}, Rights: []byte(`[1,2]`)}).Shrink(agent.Lease{})
	if !l.Shared || l.Path[0] != "b" || l.Traceparent != "t" || string(l.Rights) != "[1,2]" {
		t.Errorf("shrink = %+v", l)
	}
	for _, tt := range [][3]string{{"", "", ""}, {"[]", "[1]", "[1]"}, {"[1]", "", "[1]"}, {"[1]", "[]", "[1]"}, {"[1]", "[1,2]", "[1,2]"}, {"[1]", "false", "false"}, {"false", "[1]", "false"}, {"false", "", "false"}, {"", "false", "false"}} {
		if got := (agent.Lease{Rights: json.RawMessage(tt[0])}).Shrink(agent.Lease{Rights: json.RawMessage(tt[1])}).Rights; string(got) != tt[2] {
			t.Errorf("the rights %q and %q are %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
	for _, tt := range []struct{ set, lease, want int }{{0, 0, agent.DefaultMaxProcesses}, {3, 0, 3}, {3, 2, 2}, {2, 3, 2}, {0, -1, 1}} {
		r := &Runner{MaxProcesses: tt.set}
		if tt.lease != 0 {
			r.Lease.Processes = &tt.lease
		}
		if got := maxProcesses(r); got != tt.want {
			t.Errorf("maxProcesses(%d, %d) = %d, want %d", tt.set, tt.lease, got, tt.want)
		}
	}
	for _, tt := range []struct {
		above, max, below int
		lease, root, own  *int
		behalf            bool
		levels            int
		text              string
	}{
		{0, 8, 0, nil, nil, nil, false, 8, ""}, {3, 8, 1, nil, nil, nil, false, 4, ""}, {3, 8, 1, nil, nil, nil, true, 5, ""}, {0, 8, 1, ptr(3), nil, nil, false, 2, ""}, {0, 8, 1, nil, ptr(3), nil, false, 2, ""}, {0, 8, 1, nil, ptr(3), ptr(1), false, 1, ""}, {0, 8, 1, ptr(0), nil, nil, false, -1, "the depth budget allows no agent below own"}, {7, 8, 1, nil, nil, nil, false, 0, "sub-agents are nested 8 deep"}, {6, 8, 1, nil, ptr(1), nil, false, 0, "the depth budget"},
	} {
		tr := newTree(agent.Lease{Budget: agent.Budget{Depth: tt.lease}})
		tr.above, tr.maxDepth = tt.above, tt.max
		r := spender(nil, tr, "root", agent.Budget{Depth: tt.root}, agent.TotalUsage{})
		if tt.below > 0 {
			r = spender(r, tr, "own", agent.Budget{Depth: tt.own}, agent.TotalUsage{})
			r.behalf = tt.behalf
		}
		if got := r.levels(); got != tt.levels || tt.text != "" && !strings.Contains(r.errDepth().Error(), tt.text) {
			t.Errorf("%+v: %d levels, %v", tt, got, r.errDepth())
		}
	}
	if got := (agent.Money)(math.MinInt64).String(); got != "-92233720368.54775808" {
		t.Errorf("the least amount is %s", got)
	}
}
