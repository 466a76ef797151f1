package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// effect is a tool that notes the keys of its calls.
type effect struct {
	name    string
	effects agent.Effects
	mu      *sync.Mutex
	done    *[]string
}

func (t effect) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Effects: t.effects, Source: "test/" + t.name}
}

func (t effect) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.done = append(*t.done, inv.Key)
	return agent.TextResult("did " + inv.Call.Args), nil
}

// script answers by how many messages a request has, so that a request which is
// sent again gets the same answer.
type script struct {
	answers map[int]*agent.Response
	mu      sync.Mutex
	asked   []int
}

func (s *script) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, len(req.Messages))
	if a := s.answers[len(req.Messages)]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("no answer to %d messages", len(req.Messages))
}

// dying keeps events until the process "dies" before the nth.
type dying struct {
	journal
	at int
}

var errDead = errors.New("dead")

func (d *dying) Append(ctx context.Context, e agent.Event) error {
	if len(d.events) == d.at {
		return errDead
	}
	return d.journal.Append(ctx, e)
}

// load folds events as a reader of a journal does.
func load(t *testing.T, events []agent.Event) *runner.Runner {
	t.Helper()
	from := &runner.Resume{Session: &agent.Session{}, Pending: map[string]runner.PendingSession{}}
	byID := map[string]*agent.Session{}
	for i, e := range events {
		if i == 0 {
			byID[e.Session] = from.Session
		}
		s := byID[e.Session]
		if s == nil {
			s = &agent.Session{}
			byID[e.Session] = s
		}
		if err := s.Apply(e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if s == from.Session && e.Kind == agent.EventMessage && e.Total != nil {
			from.Total = *e.Total
		}
		from.Total.Note(&e)
		if s != from.Session {
			pending := from.Pending[s.Parent]
			pending.Session = s
			pending.Total.Note(&e)
			from.Pending[s.Parent] = pending
		}
	}
	return &runner.Runner{From: from}
}

func TestResumeAtEveryEventLosesNothingAndRepeatsNothing(t *testing.T) {
	var mu sync.Mutex
	var done []string
	newTree := func() *agent.Agent {
		expert := newAgent(&script{answers: map[int]*agent.Response{
			1: calls(call("e1", "once", `{"n":"e1"}`), call("e2", "idem", `{"n":"e2"}`)), 3: text("expert says")}})
		expert.Slug = "expert"
		once := effect{"once", agent.EffectsOnce, &mu, &done}
		idem := effect{"idem", agent.EffectsIdempotent, &mu, &done}
		expert.Toolsets = []agent.Toolset{agent.ToolList{once, idem}}
		root := newAgent(&script{answers: map[int]*agent.Response{
			1: calls(call("a", "once", `{"n":"a"}`), call("b", "idem", `{"n":"b"}`), call("c", "expert_expert", `{"prompt":"q"}`)),
			3: calls(call("d", "once", `{"n":"d"}`)), 5: text("all done")}})
		root.Toolsets = []agent.Toolset{agent.ToolList{once, idem, &agent.Subagent{Name: "expert_expert", Agent: expert}}}
		return root
	}
	full := &journal{}
	want, err := (&runner.Runner{Agent: newTree(), Journal: full}).Run(t.Context(), agent.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	for at := 3; at < len(full.events); at++ {
		done = nil
		j := &dying{at: at}
		first := &runner.Runner{Agent: newTree(), Journal: j}
		if _, err := first.Run(t.Context(), agent.UserText("go")); !errors.Is(err, errDead) {
			t.Fatalf("dying at %d: %v", at, err)
		}
		j.at = -1
		r := load(t, j.events)
		r.Agent, r.Journal = newTree(), j
		out, err := r.Resume(t.Context())
		if err != nil || out.Answer != want.Answer {
			t.Fatalf("resumed at %d (%s): %+v, %v", at, j.kinds(), out, err)
		}
		count := map[string]int{}
		for _, key := range done {
			count[key]++
		}
		for _, e := range j.events {
			if e.Kind != agent.EventCallEnded || e.Tool != "once" {
				continue
			}
			unknown := strings.Contains(e.Result.Text(), "whether it took effect is not known")
			if n := count[e.Key]; n > 1 || n == 0 && !unknown {
				t.Errorf("resumed at %d: the call %s ran %d times, unknown %v", at, e.Key, n, unknown)
			}
		}
		if got := strings.Count(j.kinds(), "answer"); got != 5 {
			t.Errorf("resumed at %d: %d answers, want 5: %s", at, got, j.kinds())
		}
		lost := out.Total.Usage.Estimated // that died before its answer was kept
		if lost > 1 {
			t.Errorf("resumed at %d: %d requests were lost: %s", at, lost, j.kinds())
		}
		if out.Total.Usage.Requests-lost != want.Total.Usage.Requests {
			t.Errorf("resumed at %d: %d requests counted, want %d and %d lost", at, out.Total.Usage.Requests, want.Total.Usage.Requests, lost)
		}
		for _, e := range j.events {
			if e.Kind == agent.EventEnd && e.Depth == 1 && (e.Total.Usage.Requests-e.Total.Usage.Estimated != 2 || e.Total.Tools["once"].Calls+e.Total.Tools["idem"].Calls != 2) {
				t.Errorf("resumed at %d: the expert consumed %+v, want 2 requests and 2 calls", at, *e.Total)
			}
		}
		again := load(t, j.events)
		if diff := cmp.Diff(r.Session(), again.Session(), everything, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("resumed at %d: replay differs (-live +replayed):\n%s", at, diff)
		}
	}
}

// TestASubagentThatHadEndedDoesNotGoOn: nothing but the result of its call is
// missing, and that is what it would have been.
func TestASubagentThatHadEndedDoesNotGoOn(t *testing.T) {
	newTree := func() *agent.Agent {
		expert := newAgent(&script{})
		expert.Slug = "expert"
		root := newAgent(&script{answers: map[int]*agent.Response{
			1: calls(call("c", "expert_expert", `{"prompt":"q"}`)), 3: text("done")}})
		root.Toolsets = []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "expert_expert", Agent: expert}}}
		return root
	}
	full := &journal{}
	if _, err := (&runner.Runner{Agent: newTree(), Journal: full}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	ended := slices.IndexFunc(full.events, func(e agent.Event) bool { return e.Kind == agent.EventEnd })
	j := &journal{events: slices.Clone(full.events[:ended+1])}
	r := load(t, j.events)
	r.Agent, r.Journal = newTree(), j
	out, err := r.Resume(t.Context())
	if err != nil || out.Answer != "done" {
		t.Fatalf("Resume = %+v, %v", out, err)
	}
	if got, want := j.kinds(), full.kinds(); strings.Count(got, "end") != strings.Count(want, "end") {
		t.Errorf("the events are %s, want %s", got, want)
	}
	if got := r.Session().Messages[2].Results[0].Text(); !strings.Contains(got, "it had ended without an answer (failed)") {
		t.Errorf("the result is %q", got)
	}
}

func TestARunThatEndedAndWentOnIsUnfinishedUntilItsEnd(t *testing.T) {
	j := &journal{}
	first := &runner.Runner{Agent: newAgent(&script{}), Journal: j}
	if _, err := first.Run(t.Context(), agent.UserText("go")); err == nil {
		t.Fatal("the model has no answer, and no error came of it")
	}
	r := load(t, j.events)
	r.Agent, r.Journal = newAgent(&script{answers: map[int]*agent.Response{1: text("late")}}), j
	if _, err := r.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	died := load(t, j.events[:len(j.events)-1]) // before the second end
	died.Agent, died.Journal = newAgent(&script{}), &journal{}
	if out, err := died.Resume(t.Context()); err != nil || out.Answer != "late" || out.Total.Usage.Requests != 1 {
		t.Errorf("Resume = %+v, %v", out, err)
	}
}

func TestANewPromptFirstAnswersWhatIsOpen(t *testing.T) {
	var mu sync.Mutex
	var done []string
	once := effect{"once", agent.EffectsOnce, &mu, &done}
	events := []agent.Event{
		{Kind: agent.EventSession, Session: "s", Agent: "root"},
		{Kind: agent.EventMessage, Session: "s", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("go")}}},
		{Kind: agent.EventAnswer, Session: "s", Finish: agent.FinishStop, Message: &agent.Message{Role: agent.RoleAssistant,
			Calls: []agent.ToolCall{call("a", "once", `{"n":"a"}`), call("b", "once", `{"n":"b"}`)}}},
		{Kind: agent.EventCallStarted, Session: "s", CallID: "a", N: 1, Key: "s.1.1"},
	}
	r := load(t, events)
	m := &model{answers: []*agent.Response{text("ok")}}
	r.Agent = newAgent(m, once)
	if out, err := r.Run(t.Context(), agent.UserText("now this")); err != nil || out.Answer != "ok" {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	if diff := cmp.Diff([]string{"s.1.2"}, done); diff != "" {
		t.Errorf("calls that ran (-want +got):\n%s", diff)
	}
	results := m.requests[0].Messages[2].Results
	if !results[0].Failed || !strings.Contains(results[0].Text(), "not known") || results[1].Text() != `did {"n":"b"}` {
		t.Errorf("results = %+v", results)
	}
	if _, err := r.Resume(t.Context()); !errors.Is(err, agent.ErrNothingOpen) {
		t.Errorf("Resume of a finished session = %v", err)
	}
}

func TestAChangedAgentIsNoted(t *testing.T) {
	j := &journal{}
	first := &runner.Runner{Agent: newAgent(&model{answers: []*agent.Response{text("one")}}, echo("echo"), echo("old")), Journal: j}
	if _, err := first.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	var warned []string
	r := load(t, j.events)
	r.Agent = newAgent(&model{answers: []*agent.Response{text("two")}}, echo("echo"), echo("new"))
	r.Observe = func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warned = append(warned, e.Text)
		}
	}
	if _, err := r.Run(t.Context(), agent.UserText("again")); err != nil {
		t.Fatal(err)
	}
	want := []string{"the agent has changed since the session was last used: new tools: new; without the tools: old"}
	if diff := cmp.Diff(want, warned); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestStartedCallsAndRequestsAreSynced(t *testing.T) {
	j := &journal{}
	var synced []int32
	look := tool{"look", func(context.Context, *agent.Invocation) (agent.Result, error) {
		synced = append(synced, j.syncs.Load())
		return agent.TextResult("x"), nil
	}}
	m := &model{answers: []*agent.Response{calls(call("a", "look", "{}")), text("done")}}
	if _, err := (&runner.Runner{Agent: newAgent(m, look), Journal: j}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	// Before the first request, before the call, before the second request, at the end.
	if j.syncs.Load() != 4 || len(synced) != 1 || synced[0] != 2 {
		t.Errorf("%d syncs, %v when the tool ran; want 4 and 2", j.syncs.Load(), synced)
	}
}

// unsynced is a journal on a disk that fails.
type unsynced struct{ journal }

func (u *unsynced) Sync(context.Context) error {
	if strings.Contains(u.kinds(), "call_started") {
		return errors.New("input/output error")
	}
	return nil
}

func TestAFailingSyncEndsTheRunBeforeTheCall(t *testing.T) {
	ran := false
	work := tool{"work", func(context.Context, *agent.Invocation) (agent.Result, error) {
		ran = true
		return agent.Result{}, nil
	}}
	m := &model{answers: []*agent.Response{calls(call("a", "work", "{}")), text("done")}}
	_, err := (&runner.Runner{Agent: newAgent(m, work), Journal: &unsynced{}}).Run(t.Context(), agent.UserText("go"))
	if !errors.Is(err, agent.ErrJournal) || ran {
		t.Errorf("Run = %v, and the call ran: %v", err, ran)
	}
}

// An interrupt while a session that goes on looks for its tools says nothing wrong
// of its calls: neither that their tools do not exist, nor that they did not run.
func TestAnInterruptedResumeSaysWhatIsKnownOfItsCalls(t *testing.T) {
	var mu sync.Mutex
	var done []string
	idem := effect{"idem", agent.EffectsIdempotent, &mu, &done}
	full := &journal{}
	a := newAgent(&model{answers: []*agent.Response{calls(call("a", "idem", "{}"), call("b", "idem", "{}")), text("done")}}, idem)
	a.MaxParallelTools = 1
	if _, err := (&runner.Runner{Agent: a, Journal: full}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(full.events, func(e agent.Event) bool { return e.Kind == agent.EventCallStarted })
	ctx, cancel := context.WithCancel(t.Context())
	r := load(t, full.events[:at+1])
	r.Agent = newAgent(&model{answers: []*agent.Response{text("never")}})
	r.Agent.Toolsets = []agent.Toolset{toolsetFunc(func() ([]agent.Tool, error) {
		cancel()
		return nil, ctx.Err()
	})}
	if out, err := r.Resume(ctx); out.Status != agent.StatusInterrupted {
		t.Fatalf("Resume = %+v, %v", out, err)
	}
	last := r.Session().Messages[len(r.Session().Messages)-1]
	for i, want := range []string{"error: not run again: this call had started", "error: not run: context canceled"} {
		if got := last.Results[i].Text(); !strings.HasPrefix(got, want) {
			t.Errorf("result %d = %q, want %q", i, got, want)
		}
	}
}

// A call that may have run before is not said to have not run, whatever refuses it.
func TestACallThatStartedBeforeIsOfUnknownOutcomeWhenItIsRefused(t *testing.T) {
	var mu sync.Mutex
	var done []string
	idem := effect{"idem", agent.EffectsIdempotent, &mu, &done}
	full := &journal{}
	a := newAgent(&model{answers: []*agent.Response{calls(call("a", "idem", "{}")), text("done")}}, idem)
	if _, err := (&runner.Runner{Agent: a, Journal: full}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(full.events, func(e agent.Event) bool { return e.Kind == agent.EventCallStarted })
	r := load(t, full.events[:at+1])
	r.Agent = newAgent(&model{answers: []*agent.Response{text("ok")}}, idem)
	r.Policy = func(context.Context, *agent.Invocation) agent.Verdict { return agent.Verdict{Decision: agent.Deny} }
	if _, err := r.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.Session().Messages[2].Results[0].Text(); !strings.HasPrefix(got, "error: not run again: this call had started") || len(done) != 1 {
		t.Errorf("result %q, ran %v", got, done)
	}
}

// toolsetFunc is a Toolset that is a function.
type toolsetFunc func() ([]agent.Tool, error)

func (f toolsetFunc) Tools(context.Context) ([]agent.Tool, error) { return f() }
