package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/replay"
	gocmp "github.com/google/go-cmp/cmp"
)

func media(text string) agent.Part {
	return agent.Part{Kind: agent.PartMedia, MIME: "image/png", Name: "a.png", Data: []byte(text)}
}

// tree is an agent with an expert that has an expert.
func tree() *agent.Agent {
	inner := newAgent("inner", answers(calls("work {\"deep\": 1}", "broken"), "the inner answer"), works("work"), fails("broken"))
	middle := newAgent("middle", answers(calls("inner {\"prompt\": \"why?\"}", "work"), "the middle answer"), works("work"), expert("inner", inner))
	return newAgent("root", answers(
		calls("work", "middle {\"prompt\": \"first\"}", "middle {\"prompt\": \"second\"}", "failing {\"prompt\": \"x\"}"), calls("work {\"n\": 2}"), "the answer"),
		works("work"), expert("middle", middle), expert("failing", newAgent("failing", answers(errors.New("overloaded")))))
}

// cancelling cancels a run with a cause when a call is under way.
func cancelling(name string) (context.Context, tool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return ctx, tool{name, func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
		cancel(fmt.Errorf("interrupted: %w", context.Canceled))
		<-ctx.Done()
		return agent.TextResult("half of it"), ctx.Err()
	}}
}

// three accepts answers of three letters, without blanks around them.
func three(_ context.Context, answer string) (string, error) {
	if answer = strings.TrimSpace(answer); len(answer) < 3 {
		return "", fmt.Errorf("it has %d letters: too few", len(answer))
	}
	return answer, nil
}

func TestAReplayRepeatsEveryEvent(t *testing.T) {
	canceled, stops := cancelling("stops")
	for name, tc := range map[string]struct {
		agent   *agent.Agent
		runner  *runner.Runner
		ctx     context.Context
		prompts []string
	}{
		"a plain answer":                      {agent: newAgent("root", answers("hello"))},
		"an answer that is accepted at last":  {agent: newAgent("root", answers("a", calls("work"), "ab", " abc "), works("work")), runner: &runner.Runner{Accept: three}, prompts: []string{"go"}},
		"an answer that is never accepted":    {agent: newAgent("root", answers("a", "b", "c")), runner: &runner.Runner{Accept: three}},
		"an answer that is accepted at once":  {agent: newAgent("root", answers(" the answer ", "abc")), runner: &runner.Runner{Accept: three}, prompts: []string{"one", "two"}},
		"a model that fails after its answer": {agent: newAgent("root", answers("a", errors.New("overloaded"))), runner: &runner.Runner{Accept: three}},
		"parallel calls":                      {agent: newAgent("root", answers(calls("a 1", "b 2", "a 3", "b"), "done"), works("a"), works("b"))},
		"failed calls, with and without output, media, unknown tools": {agent: newAgent("root", answers(
			calls("quiet", "loud", "image", "unknown", "middle {}"), "done"),
			fails("quiet"), fails("loud", agent.Text("what\nit printed\n")), fails("image", media("png"), agent.Text("x")),
			expert("middle", newAgent("middle", answers("never"))))},
		"sub-agents two deep":                   {agent: tree()},
		"several prompts":                       {agent: newAgent("root", answers(calls("a"), "one", calls("a"), "two", "three"), works("a")), prompts: []string{"1", "2", "3"}},
		"a model that fails":                    {agent: newAgent("root", answers(calls("a"), &agent.ModelError{Status: 500, Message: "overloaded"}), works("a"))},
		"a failed run, then another prompt":     {agent: newAgent("root", answers("one", errors.New("no route to host"), "never")), prompts: []string{"1", "2", "3"}},
		"a model's deadline":                    {agent: newAgent("root", answers(fmt.Errorf("read: %w", context.DeadlineExceeded)))},
		"a sub-agent whose model fails":         {agent: newAgent("root", answers(calls("sub {\"prompt\":\"x\"}"), "went on"), expert("sub", newAgent("sub", answers(errors.New("down")))))},
		"an answer that is cut":                 {agent: newAgent("root", answers(cut(say("half"), agent.FinishLength)))},
		"an answer with calls that is cut":      {agent: newAgent("root", answers(cut(calls("a"), agent.FinishLength), "done"), works("a"))},
		"a filtered answer":                     {agent: newAgent("root", answers(cut(calls("a"), agent.FinishContentFilter)), works("a"))},
		"an empty answer":                       {agent: newAgent("root", answers(&agent.Response{}))},
		"the limit of turns":                    {agent: limited(newAgent("root", answers(calls("a"), calls("a"), calls("a", "a")), works("a")), 2), prompts: []string{"1"}},
		"the limit of turns, then another":      {agent: limited(newAgent("root", answers(calls("a"), calls("a"), "ok"), works("a")), 1), prompts: []string{"1", "2"}},
		"the limit of turns of a sub-agent":     {agent: newAgent("root", answers(calls("sub {\"prompt\":\"x\"}"), "ok"), expert("sub", limited(newAgent("sub", answers(calls("a"), calls("a")), works("a")), 1)))},
		"the limit of depth":                    {agent: tree(), runner: &runner.Runner{MaxDepth: 1}},
		"a partial answer":                      {agent: closes("the best")},
		"a budget that ends a run":              {agent: closes(calls("a"))},
		"a partial answer, then another prompt": {agent: closes("the best", "again"), prompts: []string{"1", "2"}},
		"calls that a budget refuses":           {agent: newAgent("root", answers(calls("a", "a", "a"), "done"), works("a")), runner: &runner.Runner{Lease: agent.Lease{Budget: budget("calls", "2")}}},
		"refused calls":                         {agent: tree(), runner: &runner.Runner{Policy: refuse("work", "middle")}},
		"refused calls of an inner agent":       {agent: tree(), runner: &runner.Runner{Policy: refuse("inner")}},
		"an interrupted call":                   {agent: newAgent("root", answers(calls("stops", "a"), "never"), stops, works("a")), ctx: canceled},
		"an opening":                            {agent: opening(newAgent("root", answers("ok", "again"))), prompts: []string{"1", "2"}},
		"a sub-agent with an opening":           {agent: newAgent("root", answers(calls("sub {\"prompt\":\"x\"}"), "ok"), expert("sub", opening(newAgent("sub", answers("fine")))))},
		"ids that the model gives twice":        {agent: newAgent("root", answers(withIDs(calls("a", "a"), "x", "x"), withIDs(calls("a"), "x"), "ok"), works("a"))},
		"a server that asks the client's model": {agent: newAgent("root", answers(calls("samples", "samples"), "ok"), samples())},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.ctx != nil {
				ctx = tc.ctx
			}
			if tc.prompts == nil {
				tc.prompts = []string{"go"}
			}
			r := tc.runner
			if r == nil {
				r = &runner.Runner{}
			}
			r.Agent = tc.agent
			events, want := recordIn(t, ctx, r, tc.prompts...)
			check(t, events, want)
			got, _ := again(t, events)
			check(t, got, want) // of a replay, too
		})
	}
}

func cut(r *agent.Response, why agent.Finish) *agent.Response {
	r.Finish = why
	return r
}

func limited(a *agent.Agent, turns int) *agent.Agent {
	a.MaxTurns = turns
	return a
}

// closes is an agent that is asked for its answer before its second request.
func closes(last ...any) *agent.Agent {
	a := newAgent("root", answers(append([]any{calls("a 1")}, last...)...), works("a"))
	a.Budget = budget("turns", "2")
	return a
}

func budget(name, value string) (b agent.Budget) {
	if err := b.Set(name, value); err != nil {
		panic(err)
	}
	return b
}

// TestABudgetOfTheCommandLineIsReplayedWithTheTree fails if a replay with an agent does
// not know where the model was asked for its answer.
func TestABudgetOfTheCommandLineIsReplayedWithTheTree(t *testing.T) {
	for name, last := range map[string]any{"partial": "the best", "spent": calls("a"), "at once": "unused"} {
		t.Run(name, func(t *testing.T) {
			tree := func() *agent.Agent { return newAgent("root", answers(calls("a 1"), last), works("a")) }
			limit := budget("turns", "2")
			if name == "at once" {
				limit = budget("usd", "0")
			}
			events, want := record(t, &runner.Runner{Agent: tree(), Lease: agent.Lease{Budget: limit}}, "go")
			p := &replay.Player{Record: newRecord(t, events)}
			a, j := tree(), &journal{t: t}
			p.Wrap(a)
			got := outcomeOf(p.Run(t.Context(), runners(&runner.Runner{Agent: a, Journal: j})))
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-recorded +replayed):\n%s", diff)
			}
			sameEvents(t, events, j.events())
		})
	}
}

func opening(a *agent.Agent) *agent.Agent {
	a.Opening = []agent.Message{agent.UserText("hi"), {Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("hello")}}}
	return a
}

func withIDs(r *agent.Response, ids ...string) *agent.Response {
	for i, id := range ids {
		r.Message.Calls[i].ID = id
	}
	return r
}

func refuse(names ...string) agent.Policy {
	return func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		if slices.Contains(names, inv.Call.Name) {
			return agent.Verdict{Decision: agent.Deny, Reason: "not today"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}
}

// samples is a tool that asks a model twice while it runs.
func samples() tool {
	return tool{"samples", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		var texts []string
		for i := range 2 {
			out, err := inv.Run(ctx, newAgent("sampler", answers(fmt.Sprint("sample ", i))), agent.UserText("think"))
			if err != nil {
				return agent.Result{}, err
			}
			texts = append(texts, out.Answer)
		}
		return agent.TextResult(strings.Join(texts, " ")), nil
	}}
}

func TestAnInterruptedRequestEndsTheReplayInTheSameWay(t *testing.T) {
	for name, cause := range map[string]error{
		"by a person": fmt.Errorf("interrupted: %w", context.Canceled),
		"by a limit":  fmt.Errorf("the run's time limit of 1s passed: %w", context.DeadlineExceeded),
		"bare":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := generate(func(ctx context.Context, _ *agent.Request) (*agent.Response, error) {
				cancel(cause)
				return nil, ctx.Err()
			})
			sub := newAgent("sub", stop)
			root := newAgent("root", answers(calls("work", "sub {\"prompt\":\"x\"}"), "never"), works("work"), expert("sub", sub))
			events, want := recordIn(t, ctx, &runner.Runner{Agent: root}, "go")
			check(t, events, want)
		})
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("interrupted: %w", context.Canceled))
		events, want := recordIn(t, ctx, &runner.Runner{Agent: newAgent("root", answers("x"), works("work"))}, "go")
		check(t, events, want)
	})
}

func TestAConversationIsShortenedWhereItWas(t *testing.T) {
	large := tool{"large", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(strings.Repeat("word ", 800)), nil
	}}
	for name, tc := range map[string]struct {
		context, real int
		turns         int
		sum           *agent.Response
	}{
		"by results that are cut":         {20_000, 0, 30, nil},
		"by a summary":                    {10_000, 0, 40, say("it read a lot")},
		"by a summary that fails":         {10_000, 0, 8, &agent.Response{}},
		"when the model refuses":          {0, 10_000, 30, say("it read")},
		"when results alone are too long": {0, 300, 3, say("it read")},
		"when the model refuses for good": {0, 1, 3, say("it read")},
		"never":                           {-1, 10_000, 30, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := generate(func(_ context.Context, req *agent.Request) (*agent.Response, error) {
				n := 0
				for _, m := range req.Messages {
					n += len(m.Text()) / 4
					for _, r := range m.Results {
						n += len(r.Text()) / 4
					}
				}
				switch {
				case tc.real > 0 && n > tc.real:
					return nil, &agent.ModelError{Status: 400, Code: "context_length_exceeded", Message: "too long", TooLong: true}
				case req.Summary:
					return tc.sum, nil
				case req.Turn > tc.turns:
					return say("the end"), nil
				}
				r := calls("large")
				r.Usage = agent.Usage{InputTokens: n, OutputTokens: 10}
				return r, nil
			})
			a := newAgent("root", m, large)
			a.ContextTokens, a.NoCompaction = max(tc.context, 0), tc.context < 0
			a.LoopWarn, a.LoopEnd = -1, -1
			events, want := record(t, &runner.Runner{Agent: a}, "read everything")
			if n := count(events, agent.EventCompaction); (n > 0) != (name != "never" && name != "when the model refuses for good") {
				t.Fatalf("%d compactions were recorded", n)
			}
			check(t, events, want)
		})
	}
}

func count(events []agent.Event, kind agent.EventKind) int {
	n := 0
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func TestARunThatDiedAndWasResumedIsReplayedAsOne(t *testing.T) {
	full, _ := record(t, &runner.Runner{Agent: tree()}, "go")
	for at := 3; at < len(full); at++ {
		j := &journal{t: t, die: at}
		if _, err := (&runner.Runner{Agent: tree(), Journal: j}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrJournal) {
			t.Fatalf("dying at %d: %v", at, err)
		}
		left := j.events()
		if _, last := again(t, left); last.err != replay.ErrUnfinished.Error() || last.status != agent.StatusFailed {
			if end := left[len(left)-1]; end.Kind != agent.EventAnswer || len(end.Message.Calls) > 0 || end.Depth > 0 {
				t.Errorf("dying at %d: the replay ends with %+v", at, last)
			}
		}
		j.die = 0
		r := resumed(t, j)
		r.Agent = tree()
		out, err := r.Resume(t.Context())
		if err != nil {
			t.Fatalf("resumed at %d: %v", at, err)
		}
		events, last := again(t, j.events())
		if want := outcomeOf(out, err); last != want {
			t.Errorf("the replay ends with %+v, want %+v", last, want)
		}
		whole := slices.DeleteFunc(j.events(), func(e agent.Event) bool { return e.Kind == agent.EventResume })
		before := map[string]agent.EventKind{} // a session that died after a failure has another one
		whole = slices.DeleteFunc(whole, func(e agent.Event) bool {
			again := e.Kind == agent.EventFailure && before[e.Session] == e.Kind
			before[e.Session] = e.Kind
			return again
		})
		sameEvents(t, whole, events)
		if t.Failed() {
			t.Fatalf("it had died at event %d of %d", at, len(full))
		}
	}
}

// hooked replaces the results of all calls.
type hooked struct{ agent.Rights }

func (hooked) Hides(*agent.Invocation) bool { return false }
func (hooked) Decide(*agent.Invocation) agent.Verdict {
	return agent.Verdict{Decision: agent.Allow}
}
func (hooked) Hooks(string) []agent.Hook {
	return []agent.Hook{{Name: "h", Run: func(_ context.Context, c *agent.HookCall) (agent.HookAnswer, error) {
		if c.Hook == agent.HookAfterCall {
			return agent.HookAnswer{Result: new("checked " + c.Tool)}, nil
		}
		return agent.HookAnswer{}, nil
	}}}
}

// A run with hooks, whose process died and which was resumed, is replayed with what they replaced.
func TestWhatHooksReplacedIsReplayed(t *testing.T) {
	mk := func() *agent.Agent {
		sub := newAgent("sub", answers(calls("work 1"), "sub's answer"), works("work"))
		root := newAgent("root", answers(calls(`expert_sub {"prompt":"x"}`, "work 2"), "the answer"), expert("expert_sub", sub), works("work"))
		root.Rights = hooked{}
		return root
	}
	full, _ := record(t, &runner.Runner{Agent: mk()}, "go")
	for at := 3; at < len(full); at++ {
		j := &journal{t: t, die: at}
		if _, err := (&runner.Runner{Agent: mk(), Journal: j}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrJournal) {
			t.Fatalf("dying at %d: %v", at, err)
		}
		j.die = 0
		r := resumed(t, j)
		r.Agent = mk()
		out, err := r.Resume(t.Context())
		if err != nil {
			t.Errorf("resumed at %d: %v", at, err)
			continue
		}
		_, last := again(t, j.events())
		if want := outcomeOf(out, err); last != want {
			t.Errorf("at %d %s: the replay ends with %+v, want %+v", at, full[at].Kind, last, want)
		}
	}
}

func TestARunThatEndedAndWasResumedIsReplayedWithEachEnd(t *testing.T) {
	work := works("work")
	j := &journal{t: t}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := generate(func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
		if req.Turn == 1 {
			return calls("work"), nil
		}
		cancel(fmt.Errorf("interrupted: %w", context.Canceled))
		return nil, ctx.Err()
	})
	if _, err := (&runner.Runner{Agent: newAgent("root", stop, work), Journal: j}).Run(ctx, agent.UserText("go")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, rest := range []agent.Provider{answers(errors.New("no route to host")), answers(calls("work"), "done")} {
		r := resumed(t, j)
		r.Agent = newAgent("root", rest, work)
		r.Resume(t.Context()) // fails the first time
	}
	events, last := again(t, j.events())
	if last.status != agent.StatusOK || last.answer != "done" {
		t.Errorf("the replay ends with %+v", last)
	}
	sameEvents(t, j.events(), events)

	// What is real answers where the recorded run was interrupted.
	now := newAgent("root", answers(calls("never"), "better now"), work)
	p := &replay.Player{Record: newRecord(t, j.events()), LiveFrom: 2}
	p.Wrap(now)
	if out, err := p.Run(t.Context(), runners(&runner.Runner{Agent: now})); err != nil || out.Answer != "better now" {
		t.Errorf("for real: %q, %v", out.Answer, err)
	}
}

// resumed is a Runner for what a journal holds.
func resumed(t *testing.T, j *journal) *runner.Runner {
	t.Helper()
	from := &runner.Resume{Session: &agent.Session{}, Pending: map[string]runner.PendingSession{}}
	r := &runner.Runner{From: from, Journal: j}
	byID := map[string]*agent.Session{}
	for _, e := range j.events() {
		s := byID[e.Session]
		switch {
		case len(byID) == 0:
			s = from.Session
		case s == nil:
			s = &agent.Session{}
		}
		byID[e.Session] = s
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		from.Total.Note(&e)
		if s != from.Session {
			from.Pending[s.Parent] = runner.PendingSession{Session: s, Total: from.Pending[s.Parent].Total}
		}
		for up := s; up != from.Session; up = byID[up.Parent[:strings.Index(up.Parent, ".")]] {
			left := from.Pending[up.Parent]
			left.Total.Note(&e)
			from.Pending[up.Parent] = left
		}
	}
	return r
}

func TestAPromptAfterARunThatDiedIsReplayed(t *testing.T) {
	j := &journal{t: t, die: 5}
	model := answers(calls("work"), "one", "two")
	_, _ = (&runner.Runner{Agent: newAgent("root", model, works("work")), Journal: j}).Run(t.Context(), agent.UserText("first"))
	j.die = 0
	r := resumed(t, j)
	r.Agent = newAgent("root", model, works("work"))
	r.Agent.System = "you changed"
	out, err := r.Run(t.Context(), agent.UserText("second"))
	if err != nil {
		t.Fatal(err)
	}
	got, last := again(t, j.events())
	if last != outcomeOf(out, err) || last.answer != "one" {
		t.Errorf("the replay ends with %+v, want %+v", last, outcomeOf(out, err))
	}
	// The run that died has no end in the record.
	want := strings.Replace(kinds(j.events()), "call_ended message", "call_ended failure end message", 1)
	if kinds(got) != want {
		t.Errorf("events = %s, want %s", kinds(got), want)
	}
}

func kinds(events []agent.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, string(e.Kind))
	}
	return strings.Join(list, " ")
}

func TestAnAgentThatChangedBetweenPromptsIsReplayedAsItWas(t *testing.T) {
	j := &journal{t: t}
	s := &agent.Session{}
	tools := []agent.Tool{works("a"), works("b"), works("c")}
	for i := range 3 {
		a := newAgent("root", answers("one", calls("b", "c"), "two", "three"), tools[:i+1]...)
		a.System = fmt.Sprint("version ", i)
		if _, err := (&runner.Runner{Agent: a, From: &runner.Resume{Session: s}, Journal: j}).Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := again(t, j.events())
	sameEvents(t, j.events(), got)
}

func TestCallsThatCannotRunAreReplayedInOrder(t *testing.T) {
	slow := make(chan struct{})
	first := tool{"first", func(context.Context, *agent.Invocation) (agent.Result, error) {
		close(slow)
		return agent.TextResult("x"), nil
	}}
	second := tool{"second", func(context.Context, *agent.Invocation) (agent.Result, error) {
		<-slow
		return agent.TextResult("y"), nil
	}}
	events, _ := record(t, &runner.Runner{Agent: newAgent("root", answers(
		calls("second", "first", "unknown", "other"), cut(calls("a", "b", "c"), agent.FinishLength), "done"), first, second)}, "go")
	got, _ := again(t, events)
	for i, e := range got {
		if e.Kind != events[i].Kind || e.N != events[i].N {
			t.Fatalf("event %d is %s of call %d, want %s of call %d", i, e.Kind, e.N, events[i].Kind, events[i].N)
		}
	}
}

func TestTheParentOfTheRootIsRepeated(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: newAgent("root", answers("hello")), From: &runner.Resume{Parent: "other.1.1"}}, "go")
	got, _ := again(t, events)
	for i, e := range got {
		if e.Parent != "other.1.1" {
			t.Errorf("event %d, %s, has the parent %q", i, e.Kind, e.Parent)
		}
	}
}

func TestAReplayEndsWithItsContext(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: tree()}, "go")
	for n := range events {
		ctx, cancel := context.WithCancelCause(t.Context())
		j := &journal{t: t}
		out, err := (&replay.Player{Record: newRecord(t, events)}).Run(ctx, runners(&runner.Runner{Journal: j, Observe: func(agent.Event) {
			if len(j.lines) > n {
				cancel(fmt.Errorf("interrupted: %w", context.Canceled))
			}
		}}))
		if n == len(events)-1 {
			if err != nil || out.Answer != "the answer" {
				t.Errorf("interrupted after the end: %+v, %v", out, err)
			}
			continue
		}
		last := j.events()[len(j.lines)-1]
		if err == nil || err.Error() != "interrupted: context canceled" || out.Status != agent.StatusInterrupted {
			t.Fatalf("interrupted at %d: %v, %v", n, out.Status, err)
		}
		if n > 0 && (last.Kind != agent.EventEnd || last.Depth > 0 || last.Status != agent.StatusInterrupted && n < len(events)-2) {
			t.Fatalf("interrupted at %d: the last event is %s, %s", n, last.Kind, last.Status)
		}
	}
}

func TestAReplayEndsWithItsJournal(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: tree()}, "go")
	j := &journal{t: t, die: 5}
	_, err := (&replay.Player{Record: newRecord(t, events)}).Run(t.Context(), runners(&runner.Runner{Journal: j}))
	if !errors.Is(err, agent.ErrJournal) || len(j.lines) != 5 {
		t.Errorf("Run = %v with %d events", err, len(j.lines))
	}
}

func TestASecretIsNotRepeated(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: newAgent("root", answers("the key is sk-0123456789abcdef"))}, "go")
	secrets := redact.New([]string{"sk-0123456789abcdef"})
	j := &journal{t: t}
	var shown strings.Builder
	_, err := (&replay.Player{Record: newRecord(t, events)}).Run(t.Context(), runners(&runner.Runner{Journal: j, Secrets: secrets, Observe: func(e agent.Event) {
		fmt.Fprintf(&shown, "%+v %+v\n", e, e.Message)
	}}))
	if err != nil || strings.Contains(shown.String(), "sk-0123") || strings.Contains(fmt.Sprintf("%s", j.lines), "sk-0123") {
		t.Errorf("Run = %v; shown:\n%s", err, shown.String())
	}
}

func TestMessagesDuringARunComeWhereTheyCame(t *testing.T) {
	var r *runner.Runner
	notice := "the command has ended"
	begin := tool{"begin", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		err := inv.Background(ctx, func(context.Context) string { return notice })
		inv.AwaitNotice(ctx)
		if inv.Agent == "root" {
			r.Input(agent.UserText("the user says"))
		}
		return agent.TextResult("begun"), err
	}}
	tree := func() (root, sub *agent.Agent) {
		sub = newAgent("sub", answers(calls("begin"), "sub is done"), begin)
		return newAgent("root", answers(calls("begin", `sub {"prompt":"x"}`), "done"), begin, expert("sub", sub)), sub
	}
	root, _ := tree()
	r = &runner.Runner{Agent: root}
	events, want := record(t, r, "go")
	if n := strings.Count(fmt.Sprint(steps(events)), "message"); n != 5 {
		t.Fatalf("%d messages, want 5: %q", n, steps(events))
	}
	check(t, events, want)
	for _, live := range []bool{false, true} {
		root, sub := tree()
		p, j := &replay.Player{Record: newRecord(t, events), LiveTools: live}, &journal{t: t}
		p.Wrap(root)
		p.Wrap(sub)
		notice = "a live command has ended"
		if _, err := p.Run(t.Context(), runners(&runner.Runner{Agent: root, Journal: j})); err != nil {
			t.Fatal(err)
		}
		sameEvents(t, events, j.events())
	}
}

func TestWhatAPersonSentIsReplayed(t *testing.T) {
	var r *runner.Runner
	newTree := func() (root, sub *agent.Agent) {
		long := tool{"long", func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.TextResult(strings.Repeat("word ", 300)), nil
		}}
		model := func(list ...any) generate {
			m := answers(list...)
			return func(ctx context.Context, req *agent.Request) (*agent.Response, error) {
				switch {
				case ctx.Err() != nil:
					return nil, ctx.Err()
				case req.Summary:
					return say("a summary"), nil
				}
				return m(ctx, req)
			}
		}
		sub = newAgent("sub", model(calls("long"), calls("long 1"), calls("long 2"), calls("long 3"), "sub is done"), long)
		root = newAgent("root", model(calls(`sub {"prompt":"talk"}`, `sub {"prompt":"stop"}`), calls("long"), calls("long 1"), "done", "well"), long, expert("sub", sub))
		return root, sub
	}
	root, _ := newTree()
	sent, stopped := map[string]bool{}, map[string]bool{}
	r = &runner.Runner{Agent: root, Observe: func(e agent.Event) {
		said := agent.UserText("the person says")
		switch {
		case e.Kind == agent.EventMessage && !e.Input && e.Message.Text() == "stop":
			stopped[e.Session] = true
		case e.Kind == agent.EventRequest && stopped[e.Session] && e.Turn == 2:
			r.Direct(agent.Directive{Session: e.Session, Stop: true, Reason: "enough"})
		case e.Kind == agent.EventCallStarted && e.Agent == "sub" && !stopped[e.Session] && !sent[e.Session+e.Args]:
			sent[e.Session+e.Args] = true
			r.Direct(agent.Directive{Session: e.Session, Message: &said})
		case e.Kind == agent.EventRequest && e.Agent == "sub" && e.Turn == 4 && !e.Summary:
			r.Direct(agent.Directive{Session: e.Session, Compact: true})
		}
	}}
	j := &journal{t: t}
	r.Journal = j
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	next := &runner.Runner{Agent: root, Journal: j, From: &runner.Resume{Session: r.Session()}}
	if _, err := next.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	next = &runner.Runner{Agent: root, Journal: j, From: &runner.Resume{Session: r.Session()}}
	next.Direct(agent.Directive{Compact: true})
	last := outcomeOf(next.Run(t.Context(), agent.UserText("again")))
	events := j.events()
	if n := count(events, agent.EventCompaction); n != 3 || last.answer != "well" {
		t.Fatalf("%d compactions, want 3; %+v: %q", n, last, steps(events))
	}
	check(t, events, last)
	root, sub := newTree()
	p, again := &replay.Player{Record: newRecord(t, events)}, &journal{t: t}
	p.Wrap(root)
	p.Wrap(sub)
	if _, err := p.Run(t.Context(), runners(&runner.Runner{Agent: root, Journal: again})); err != nil {
		t.Fatal(err)
	}
	sameEvents(t, events, again.events())
}

// halfway is a model that is stopped while its first answer arrives.
type halfway struct {
	generate
	stop func()
}

func (h halfway) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if len(req.Messages) > 1 {
		return h.generate(ctx, req)
	}
	delta(agent.Delta{Kind: agent.DeltaReasoning, Text: "hm"})
	delta(agent.Delta{Kind: agent.DeltaText, Text: "half of "})
	delta(agent.Delta{Kind: agent.DeltaText, Text: "an answer"})
	h.stop()
	return nil, ctx.Err()
}

func TestAReplayHasTheStoppedAnswer(t *testing.T) {
	for name, cause := range map[string]error{
		"by a person": &agent.EndError{Status: agent.StatusInterrupted, Text: "interrupted"},
		"by a limit":  fmt.Errorf("the run's time limit of 1s passed: %w", context.DeadlineExceeded),
		"bare":        nil,
		"unknown":     &agent.EndError{Status: agent.StatusFailed, Text: "the window was closed"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			tree := func() *agent.Agent {
				return newAgent("root", halfway{func(_ context.Context, req *agent.Request) (*agent.Response, error) {
					return say(fmt.Sprint(len(req.Messages), " messages")), nil
				}, func() { cancel(cause) }})
			}
			r, j := &runner.Runner{Agent: tree()}, &journal{t: t}
			r.Journal = j
			_, _ = r.Run(ctx, agent.UserText("one"))
			want := outcomeOf(r.Run(t.Context(), agent.UserText("two")))
			if want.answer != "3 messages" {
				t.Fatalf("the run = %+v, want one that was asked with the stopped answer", want)
			}
			check(t, j.events(), want)
			p := &replay.Player{Record: newRecord(t, j.events())}
			a, own := tree(), &journal{t: t}
			p.Wrap(a)
			got := outcomeOf(p.Run(t.Context(), runners(&runner.Runner{Agent: a, Journal: own})))
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-recorded +replayed):\n%s", diff)
			}
			sameEvents(t, j.events(), own.events())
		})
	}
}
