package replay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/replay"
	gocmp "github.com/google/go-cmp/cmp"
)

// loaded is the tree of an agent with an expert, as if it was loaded anew. Its models
// and tools note what they do.
type loaded struct {
	root, expert *agent.Agent
	mu           sync.Mutex
	did          []string
}

func (l *loaded) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what)
	slices.Sort(l.did)
}

// load makes the tree. Its tools give result, its models say words.
func load(result, words string) *loaded {
	l := &loaded{}
	look := tool{"look", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		l.note("look " + inv.Call.Args)
		return agent.TextResult(result), nil
	}}
	asked := func(slug string, list ...any) agent.Provider {
		given := answers(list...)
		return generate(func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
			l.note(slug)
			return given(ctx, req)
		})
	}
	l.expert = newAgent("expert", asked("expert", calls(`look {"at": "depth"}`), "expert"+words), look)
	l.root = newAgent("root", asked("root",
		calls(`look {"at":"a","alias":1}`, `ask_expert {"prompt": "why?"}`), calls(`look {"n": 2, "at": "b"}`), "root"+words), look, expert("ask_expert", l.expert))
	return l
}

// play replays events with a loaded tree.
func (l *loaded) play(t *testing.T, events []agent.Event, p *replay.Player) ([]agent.Event, *agent.Outcome, error) {
	t.Helper()
	p.Record = newRecord(t, events)
	p.Wrap(l.root)
	p.Wrap(l.expert)
	j := &journal{t: t}
	out, err := p.Run(t.Context(), runners(&runner.Runner{Agent: l.root, Journal: j}))
	return j.events(), out, err
}

func recorded(t *testing.T) []agent.Event {
	t.Helper()
	events, _ := record(t, &runner.Runner{Agent: load("seen", " says").root}, "go")
	return events
}

func TestALoadedTreeIsServedFromTheRecord(t *testing.T) {
	events := recorded(t)
	now := load("something else", " would say more")
	got, out, err := now.play(t, events, &replay.Player{})
	if err != nil || out.Answer != "root says" || len(now.did) > 0 {
		t.Errorf("the replay says %q, %v, and did %q", out.Answer, err, now.did)
	}
	sameEvents(t, events, got)
}

func TestLivePartsRunAndTheOthersAreServed(t *testing.T) {
	for name, tc := range map[string]struct {
		player *replay.Player
		answer string
		did    []string
	}{
		"tools": {&replay.Player{LiveTools: true}, "root says",
			[]string{`look {"at": "depth"}`, `look {"at":"a","n":1}`, `look {"n": 2, "at": "b"}`}},
		"models":           {&replay.Player{LiveModel: true}, "root says more", []string{"expert", "expert", "root", "root", "root"}},
		"from turn 1":      {&replay.Player{LiveFrom: 1}, "root says more", []string{"expert", "expert", `look {"at": "depth"}`, `look {"at":"a","n":1}`, `look {"n": 2, "at": "b"}`, "root", "root", "root"}},
		"from turn 2":      {&replay.Player{LiveFrom: 2}, "root says more", []string{`look {"n": 2, "at": "b"}`, "root", "root"}},
		"from the end":     {&replay.Player{LiveFrom: 3}, "root says more", []string{"root"}},
		"from nowhere":     {&replay.Player{LiveFrom: 4}, "root says", nil},
		"nothing, in fact": {&replay.Player{}, "root says", nil},
	} {
		t.Run(name, func(t *testing.T) {
			now := load("seen", " says more")
			if tc.player.LiveTools {
				now = load("something else", " says more")
			}
			_, out, err := now.play(t, recorded(t), tc.player)
			if err != nil || out.Answer != tc.answer {
				t.Errorf("Run = %q, %v, want %q", out.Answer, err, tc.answer)
			}
			if diff := gocmp.Diff(tc.did, now.did); diff != "" {
				t.Errorf("what was run (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFailedRunContinuesLive(t *testing.T) {
	a := newAgent("root", answers(calls("work"), errors.New("no route to host")), works("work"))
	events, _ := record(t, &runner.Runner{Agent: a}, "go")
	now := newAgent("root", answers(calls("never"), "better now"), works("work"))
	p := &replay.Player{Record: newRecord(t, events), LiveFrom: 2}
	p.Wrap(now)
	if out, err := p.Run(t.Context(), runners(&runner.Runner{Agent: now})); err != nil || out.Answer != "better now" {
		t.Errorf("Run = %q, %v", out.Answer, err)
	}
}

func TestALiveModelMayAskInAnotherOrder(t *testing.T) {
	look := func(result string) tool {
		return tool{"look", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			return agent.TextResult(result + inv.Call.Args), nil
		}}
	}
	events, _ := record(t, &runner.Runner{Agent: newAgent("root",
		answers(calls(`look {"a":1, "b":2}`, `look {"a":3}`), calls(`look {"a":3}`), "done"), look("recorded "))}, "go")
	for name, tc := range map[string]struct {
		asks []any
		err  string
	}{
		"the same, otherwise":  {[]any{calls(`look {"a":3}`), calls(`look {"a": 3}`, `look {"b":2,"a":1}`), "fine"}, ""},
		"fewer":                {[]any{calls(`look {"a":3}`), "fine"}, ""},
		"once too often":       {[]any{calls(`look {"b":2,"a":1}`), calls(`look {"b":2,"a":1}`), "fine"}, "agent root, turn 2: the record has no such call of look\n--- recorded\n+++ now\n@@ line 1 @@\n call look\n   {\n-    \"a\": 3\n+    \"a\": 1,\n+    \"b\": 2\n   }"},
		"what nobody asked":    {[]any{calls(`look {"a":4}`), "fine"}, "-    \"a\": 3\n+    \"a\": 4"},
		"another tool":         {[]any{calls(`work {}`), "fine"}, "agent root, turn 1: the record has no such call of work, nor an unused one that is similar"},
		"arguments of no kind": {[]any{calls(`look {"x":{}}`), "fine"}, "\n+    \"x\": {}"},
	} {
		t.Run(name, func(t *testing.T) {
			now := newAgent("root", answers(tc.asks...), look("not "), works("work"))
			p := &replay.Player{Record: newRecord(t, events), LiveModel: true}
			p.Wrap(now)
			out, err := p.Run(t.Context(), runners(&runner.Runner{Agent: now}))
			if tc.err == "" {
				if err != nil || out.Answer != "fine" {
					t.Errorf("Run = %q, %v", out.Answer, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.err) || out.Status != agent.StatusFailed {
				t.Errorf("Run = %v, %v; want %q", out.Status, err, tc.err)
			}
		})
	}
}

func TestThePolicyDecidesAboutLiveCalls(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: load("seen", " says").root, Policy: refuse("look")}, "go")
	now := load("seen", " says")
	p := &replay.Player{Record: newRecord(t, events), LiveFrom: 2}
	p.Wrap(now.root)
	p.Wrap(now.expert)
	j := &journal{t: t}
	if _, err := p.Run(t.Context(), runners(&runner.Runner{Agent: now.root, Journal: j, Policy: refuse("ask_expert")})); err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, e := range j.events() {
		if e.Kind == agent.EventCallEnded && e.Result.Failed {
			refused = append(refused, e.Agent+" "+e.Tool+": "+e.Result.Text())
		}
	}
	slices.Sort(refused)
	want := []string{"expert look: error: not run: refused by policy: not today", "root look: error: not run: refused by policy: not today"}
	if diff := gocmp.Diff(want, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}
