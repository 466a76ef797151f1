package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

// stepEnv makes a process one that does a step: see TestASecondDriverMakesTheSameRun.
const stepEnv = "AGENT_TEST_STEP"

func TestMain(m *testing.M) {
	if os.Getenv(stepEnv) != "" {
		stepProcess()
		return
	}
	goleak.VerifyTestMain(m)
}

// everything makes cmp look at what is not exported.
var everything = cmp.Exporter(func(reflect.Type) bool { return true })

// model answers with the responses in turn, and keeps the requests.
type model struct {
	mu       sync.Mutex
	answers  []*agent.Response
	err      error // after the answers
	requests []agent.Request
}

func (m *model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := *req
	copied.Messages = slices.Clone(req.Messages)
	m.requests = append(m.requests, copied)
	if len(m.answers) == 0 {
		if m.err != nil {
			return nil, m.err
		}
		return nil, errors.New("the test has no more answers")
	}
	next := m.answers[0]
	if len(m.answers) > 1 || m.err != nil {
		m.answers = m.answers[1:]
	}
	return next, nil
}

func text(s string) *agent.Response {
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text(s)}}, Usage: agent.Usage{InputTokens: 10, OutputTokens: 2}}
}

func calls(list ...agent.ToolCall) *agent.Response {
	return &agent.Response{Message: agent.Message{Calls: list}, Usage: agent.Usage{InputTokens: 10, OutputTokens: 2}}
}

func call(id, name, args string) agent.ToolCall {
	return agent.ToolCall{ID: id, Name: name, Args: args}
}

// tool is a Tool made of a function.
type tool struct {
	name string
	call func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (t tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Schema: json.RawMessage(`{"type":"object"}`), Source: "test/" + t.name}
}

func (t tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.call(ctx, inv)
}

func echo(name string) tool {
	return tool{name, func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(inv.Call.Args), nil
	}}
}

// journal keeps events in memory.
type journal struct {
	events []agent.Event
	syncs  atomic.Int32
	fail   agent.EventKind // Append fails on this kind
}

func (j *journal) Append(_ context.Context, e agent.Event) error {
	if e.Kind == j.fail {
		return errors.New("disk full")
	}
	j.events = append(j.events, e)
	return nil
}

func (j *journal) Sync(context.Context) error {
	j.syncs.Add(1)
	return nil
}

func (j *journal) kinds() string {
	var s []string
	for _, e := range j.events {
		s = append(s, string(e.Kind))
	}
	return strings.Join(s, " ")
}

func newAgent(m agent.Provider, tools ...agent.Tool) *agent.Agent {
	return &agent.Agent{Slug: "root", Model: "test", Provider: m, Toolsets: []agent.Toolset{agent.ToolList(tools)}, LoopWarn: -1, LoopEnd: -1}
}

func TestRunAnswersWithRealResults(t *testing.T) {
	m := &model{answers: []*agent.Response{calls(call("a", "echo", `{"n":1}`), call("b", "echo", `{"n":2}`)), text("done")}}
	j := &journal{}
	out, err := (&runner.Runner{Agent: newAgent(m, echo("echo")), Journal: j}).Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Answer != "done" || out.Status != agent.StatusOK || out.Turns != 2 {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	want := "session message setup answer call_started call_started call_ended call_ended answer end"
	kinds := strings.Split(j.kinds(), " ")
	if got := len(kinds); got != len(strings.Split(want, " ")) {
		t.Errorf("journal = %s, want the kinds of %s", j.kinds(), want)
	}
	results := m.requests[1].Messages[2].Results
	if len(results) != 2 || results[0].Text() != `{"n":1}` || results[1].Text() != `{"n":2}` {
		t.Errorf("results = %+v", results)
	}
	if out.Total.Usage.Requests != 2 || out.Total.Usage.InputTokens != 20 || out.Total.Tools["echo"].Calls != 2 {
		t.Errorf("spent = %+v", out.Total)
	}
}

func TestCallsOfATurnRunAtTheSameTimeUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		slow := tool{"slow", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return agent.TextResult(inv.Key), nil
		}}
		var list []agent.ToolCall
		for i := range 40 {
			list = append(list, call(fmt.Sprint("id", i), "slow", "{}"))
		}
		m := &model{answers: []*agent.Response{calls(list...), text("done")}}
		start := time.Now()
		_, err := (&runner.Runner{Agent: newAgent(m, slow), NewID: func() string { return "S" }}).Run(t.Context(), agent.UserText("go"))
		if err != nil {
			t.Fatal(err)
		}
		if most.Load() != agent.DefaultMaxParallelTools {
			t.Errorf("%d calls ran at the same time, want %d", most.Load(), agent.DefaultMaxParallelTools)
		}
		if took := time.Since(start); took != 3*time.Second { // 16 + 16 + 8
			t.Errorf("40 calls of 1 s took %v, want 3 s", took)
		}
		for i, r := range m.requests[1].Messages[2].Results {
			if want := fmt.Sprintf("S.1.%d", i+1); r.Text() != want || r.CallID != fmt.Sprint("id", i) {
				t.Errorf("result %d = %q of call %s, want %q", i, r.Text(), r.CallID, want)
			}
		}
	})
}

func TestProcessLimitHoldsOverTheWholeTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		slow := tool{"slow", func(context.Context, *agent.Invocation) (agent.Result, error) {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return agent.TextResult("ok"), nil
		}}
		leafAnswers := providerFunc(func(req *agent.Request) (*agent.Response, error) {
			if req.Turn == 1 {
				return calls(call("1", "slow", "{}"), call("2", "slow", "{}"), call("3", "slow", "{}")), nil
			}
			return text("leaf"), nil
		})
		leaf := newAgent(leafAnswers, slow)
		m := &model{answers: []*agent.Response{
			calls(call("a", "leaf", `{"prompt":"x"}`), call("b", "leaf", `{"prompt":"x"}`), call("c", "slow", `{}`)), text("done")}}
		root := newAgent(m, slow, &agent.Subagent{Name: "leaf", Agent: leaf})
		if _, err := (&runner.Runner{Agent: root, MaxProcesses: 2}).Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		if most.Load() != 2 {
			t.Errorf("%d calls ran at the same time, want 2", most.Load())
		}
	})
}

type providerFunc func(*agent.Request) (*agent.Response, error)

func (f providerFunc) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return f(req)
}

func TestEveryMistakeOfTheModelIsAnswered(t *testing.T) {
	failing := tool{"failing", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult("what it printed"), errors.New("exit status 3")
	}}
	m := &model{answers: []*agent.Response{calls(
		call("", "echo", "{}"), call("", "echo", "{}"), call("same", "echo", "{}"), call("same", "echo", "{}"),
		call("x", "ecko", "{}"), call("y", "failing", "{}"), call("z", strings.Repeat("endless ", 1<<20), "{}")), text("done")}}
	_, err := (&runner.Runner{Agent: newAgent(m, echo("echo"), failing)}).Run(t.Context(), agent.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	msgs := m.requests[1].Messages
	ids := map[string]bool{}
	for i, c := range msgs[1].Calls {
		if c.ID == "" || ids[c.ID] {
			t.Errorf("call %d has id %q, want one of its own", i, c.ID)
		}
		ids[c.ID] = true
		if got := msgs[2].Results[i].CallID; got != c.ID {
			t.Errorf("result %d answers %q, want %q", i, got, c.ID)
		}
	}
	if got, want := msgs[2].Results[4].Text(), `error: there is no tool "ecko"; there are: echo, failing`; got != want {
		t.Errorf("unknown tool: %q, want %q", got, want)
	}
	if got := msgs[2].Results[6].Text(); len(got) > 300 {
		t.Errorf("the answer to a name of 8 MiB has %d bytes", len(got))
	}
	if got, want := msgs[2].Results[5].Text(), "error: exit status 3\nwhat it printed"; got != want || !msgs[2].Results[5].Failed {
		t.Errorf("failing tool: %q, want %q", got, want)
	}
}

func TestIDsStayUniqueOverTurns(t *testing.T) {
	m := &model{answers: []*agent.Response{
		calls(call("call_0", "echo", "{}")), calls(call("call_0", "echo", "{}")), calls(call("c00000002", "echo", "{}")), text("done")}}
	r := &runner.Runner{Agent: newAgent(m, echo("echo"))}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, msg := range r.Session().Messages {
		for _, c := range msg.Calls {
			ids[c.ID]++
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids = %v, want three different ones", ids)
	}
}

func TestHowARunEnds(t *testing.T) {
	again := calls(call("1", "echo", "{}"))
	cut := text("half an ans")
	cut.Finish = agent.FinishLength
	filtered := text("")
	filtered.Finish = agent.FinishContentFilter
	filteredCalls := calls(call("1", "never", "{}"))
	filteredCalls.Finish = agent.FinishContentFilter
	tests := []struct {
		name    string
		answers []*agent.Response
		err     error
		status  agent.Status
		want    error
		answer  string
	}{
		{"turn limit", []*agent.Response{again}, nil, agent.StatusLimit, agent.ErrTurns, ""},
		{"length", []*agent.Response{cut}, nil, agent.StatusFailed, agent.ErrLength, "half an ans"},
		{"content filter", []*agent.Response{filtered}, nil, agent.StatusFailed, agent.ErrFiltered, ""},
		{"content filter with calls", []*agent.Response{filteredCalls}, nil, agent.StatusFailed, agent.ErrFiltered, ""},
		{"model error", nil, &agent.ModelError{Status: 401, Message: "bad key"}, agent.StatusFailed, nil, ""},
		{"deadline", nil, context.DeadlineExceeded, agent.StatusDeadline, context.DeadlineExceeded, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			never := tool{"never", func(context.Context, *agent.Invocation) (agent.Result, error) {
				t.Error("a call of an answer that broke off has run")
				return agent.Result{}, nil
			}}
			a := newAgent(&model{answers: tt.answers, err: tt.err}, echo("echo"), never)
			a.MaxTurns = 3
			if tt.name == "turn limit" {
				a.Provider = providerFunc(func(*agent.Request) (*agent.Response, error) { return again, nil })
			}
			r := &runner.Runner{Agent: a}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if err == nil || out.Status != tt.status || agent.StatusOf(err) != tt.status || out.Answer != tt.answer {
				t.Fatalf("Run = %+v, %v, want status %s and answer %q", out, err, tt.status, tt.answer)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v does not wrap %v", err, tt.want)
			}
			if r.Session().Next().Kind == agent.StepCalls {
				t.Error("a call has no result")
			}
		})
	}
}

func TestTheTurnLimitLeavesRoomForTheAnswer(t *testing.T) {
	ran := 0
	count := tool{"count", func(context.Context, *agent.Invocation) (agent.Result, error) { ran++; return agent.Result{}, nil }}
	turns := func(n int) agent.Provider {
		return providerFunc(func(req *agent.Request) (*agent.Response, error) {
			if req.Turn > n {
				return text("done"), nil
			}
			return calls(call("", "count", "{}")), nil
		})
	}
	a := newAgent(turns(3), count)
	a.MaxTurns = 3
	if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err != nil || ran != 3 {
		t.Errorf("3 turns of 3: %v, %d calls", err, ran)
	}
	ran, a.Provider = 0, turns(4)
	r := &runner.Runner{Agent: a}
	if _, err := r.Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrTurns) || ran != 3 {
		t.Errorf("4 turns of 3: %v, %d calls", err, ran)
	}
	last := r.Session().Messages[len(r.Session().Messages)-1]
	if len(last.Results) != 1 || !strings.HasPrefix(last.Results[0].Text(), "error: not run: turn limit reached") {
		t.Errorf("the last call was answered with %+v", last)
	}
}

func TestCallsOfACutAnswerAreAnsweredAndNeverRun(t *testing.T) {
	cut := calls(call("1", "never", `{"text":"half`))
	cut.Finish = agent.FinishLength
	m := &model{answers: []*agent.Response{cut, text("done")}}
	never := tool{"never", func(context.Context, *agent.Invocation) (agent.Result, error) {
		t.Error("the call has run")
		return agent.Result{}, nil
	}}
	if _, err := (&runner.Runner{Agent: newAgent(m, never)}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if r := m.requests[1].Messages[2].Results[0]; !r.Failed || !strings.Contains(r.Text(), "not run") {
		t.Errorf("result = %+v", r)
	}
}

func TestCancelAnswersEveryCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	waits := tool{"waits", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
		cancel()
		<-ctx.Done()
		return agent.Result{}, errors.New("ended by a signal")
	}}
	var list []agent.ToolCall
	for i := range 50 {
		list = append(list, call(fmt.Sprint(i), "waits", "{}"))
	}
	j := &journal{}
	r := &runner.Runner{Agent: newAgent(&model{answers: []*agent.Response{calls(list...), text("never")}}, waits), Journal: j}
	out, err := r.Run(ctx, agent.UserText("go"))
	if !errors.Is(err, context.Canceled) || out.Status != agent.StatusInterrupted {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	last := r.Session().Messages[len(r.Session().Messages)-1]
	if len(last.Results) != 50 {
		t.Fatalf("%d results, want 50", len(last.Results))
	}
	for i, res := range last.Results {
		if !res.Failed || res.CallID != fmt.Sprint(i) {
			t.Errorf("result %d = %+v", i, res)
		}
	}
	if e := j.events[len(j.events)-1]; e.Kind != agent.EventEnd || e.Status != agent.StatusInterrupted {
		t.Errorf("last event = %+v", e)
	}
}

func TestReplayEqualsLive(t *testing.T) {
	m := &model{answers: []*agent.Response{
		calls(call("", "echo", `{"a":1}`), call("", "nope", "{}"), call("", "echo", "{\"a\":\"\xff\"}")), calls(call("x", "echo", "{}")), text("first"), text("second")}}
	j := &journal{}
	r := &runner.Runner{Agent: newAgent(m, echo("echo")), Journal: j}
	for _, prompt := range []string{"one", "two"} {
		if _, err := r.Run(t.Context(), agent.UserText(prompt)); err != nil {
			t.Fatal(err)
		}
	}
	var again agent.Session
	for i, e := range j.events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back agent.Event
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		if err := again.Apply(back); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if diff := cmp.Diff(*r.Session(), again, everything, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the journal rebuilds another session (-live +replayed):\n%s", diff)
	}
	if got, want := r.Session().Next().Kind, agent.StepPrompt; got != want {
		t.Errorf("Next = %v, want %v", got, want)
	}
}

// TestOpeningBeginsEveryConversation: once, before the first prompt, in the
// journal too, and in a sub-agent as well.
func TestOpeningBeginsEveryConversation(t *testing.T) {
	m := &model{answers: []*agent.Response{text("yes")}}
	a := newAgent(m)
	said := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("I add.")}}
	a.Opening = []agent.Message{agent.UserText("1+1"), said}
	j := &journal{}
	r := &runner.Runner{Agent: a, Journal: j}
	for range 2 {
		if out, err := r.Run(t.Context(), agent.UserText("2+2")); err != nil || out.Turns != 1 {
			t.Fatalf("Run = %+v, %v", out, err)
		}
	}
	answer := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("yes")}}
	want := []agent.Message{agent.UserText("1+1"), said, agent.UserText("2+2"), answer, agent.UserText("2+2")}
	if diff := cmp.Diff(want, m.requests[1].Messages); diff != "" {
		t.Errorf("the second request (-want +got):\n%s", diff)
	}
	replayed := &agent.Session{}
	for _, e := range j.events {
		if err := replayed.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(r.Session().Messages, replayed.Messages); diff != "" {
		t.Errorf("replayed (-live +replayed):\n%s", diff)
	}
	a.Opening = []agent.Message{{Role: agent.RoleAssistant, Calls: []agent.ToolCall{call("c1", "x", "{}")}}}
	if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("hi")); err == nil {
		t.Error("an opening with a call was accepted: it would wait for a result")
	}
}

func TestRequestsOnlyGrow(t *testing.T) {
	m := &model{answers: []*agent.Response{calls(call("1", "b", "{}")), calls(call("2", "a", "{}")), text("done")}}
	tools := shuffled{echo("c"), echo("a"), echo("b")}
	a := newAgent(m)
	a.Toolsets = []agent.Toolset{&tools}
	if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	var before string
	for i, req := range m.requests {
		b, err := json.Marshal([]any{req.System, req.Tools, req.Messages})
		if err != nil {
			t.Fatal(err)
		}
		now := strings.TrimSuffix(string(b), "]]")
		if !strings.HasPrefix(now, before) {
			t.Errorf("request %d does not begin with the one before:\n%s\n%s", i+1, before, now)
		}
		before = now
	}
}

// shuffled gives its tools in another order every time.
type shuffled []agent.Tool

func (s *shuffled) Tools(context.Context) ([]agent.Tool, error) {
	*s = append((*s)[1:], (*s)[0])
	return slices.Clone(*s), errors.New("one server is away")
}

func TestToolsetErrorIsReportedOnceAndTheRunGoesOn(t *testing.T) {
	m := &model{answers: []*agent.Response{calls(call("1", "b", "{}")), text("done")}}
	a := newAgent(m)
	a.Toolsets = []agent.Toolset{&shuffled{echo("a"), echo("b")}, agent.ToolList{echo("a")}}
	var warnings []string
	watch := func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}
	if _, err := (&runner.Runner{Agent: a, Observe: watch}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	want := []string{"one server is away", "two tools are named a and both are left out: test/a and test/a"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if got := m.requests[0].Tools; len(got) != 1 || got[0].Name != "b" {
		t.Errorf("tools = %v, want only b", got)
	}
}

// turning gives another list in each turn.
type turning [][]agent.Tool

func (s *turning) Tools(context.Context) ([]agent.Tool, error) {
	list := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	return list, nil
}

func TestChangedToolsAreToldToTheModelAndThePerson(t *testing.T) {
	described := func(text string) agent.Tool {
		return functool.New("b", text, func(context.Context, struct{}) (string, error) { return "done", nil })
	}
	same := []agent.Tool{described("before"), echo("gone")}
	m := &model{answers: []*agent.Response{calls(call("1", "b", "{}")), calls(call("2", "b", "{}")), calls(call("3", "b", "{}")), text("done")}}
	a := newAgent(m)
	a.Toolsets = []agent.Toolset{&turning{same, same, {described("after"), echo("c")}}}
	var warnings []string
	watch := func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}
	if _, err := (&runner.Runner{Agent: a, Observe: watch}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	const want = "the tools have changed during this run; new: c; described differently: b; removed: gone"
	if diff := cmp.Diff([]string{want}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	var told []string
	for i, req := range m.requests {
		if last := req.Messages[len(req.Messages)-1]; i > 0 && last.Role == agent.RoleUser {
			told = append(told, fmt.Sprint(i, " ", last.Text()))
		}
	}
	if diff := cmp.Diff([]string{"2 [" + want + "]"}, told); diff != "" {
		t.Errorf("told to the model (-want +got):\n%s", diff)
	}
}

// server is a toolset that waits for the others to be asked, and has
// instructions.
type server struct {
	all  *sync.WaitGroup
	name string
	says string
}

func (s *server) Tools(context.Context) ([]agent.Tool, error) {
	if s.all != nil {
		s.all.Done()
		s.all.Wait()
	}
	return []agent.Tool{echo(s.name)}, nil
}

func (s *server) Instructions(context.Context) (string, error) {
	if s.says == "" {
		return "", errors.New("away")
	}
	return s.says, nil
}

func TestToolsetsAreAskedAtTheSameTimeAndTheirInstructionsFollowTheSystemPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a deadlock fails the test
		var all sync.WaitGroup
		all.Add(2)
		m := &model{answers: []*agent.Response{text("done")}}
		a := newAgent(m)
		a.System = "You are tested."
		a.Toolsets = []agent.Toolset{&server{&all, "b", "b is slow\n"}, &server{&all, "a", ""}}
		if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		if got, want := m.requests[0].System, "You are tested.\n\nb is slow"; got != want {
			t.Errorf("system prompt = %q, want %q", got, want)
		}
		if len(m.requests[0].Tools) != 2 {
			t.Errorf("tools = %v", m.requests[0].Tools)
		}
	})
}

func TestPolicyIsAskedAtEveryDepth(t *testing.T) {
	ran := 0
	work := tool{"work", func(context.Context, *agent.Invocation) (agent.Result, error) {
		ran++
		return agent.TextResult("ran"), nil
	}}
	inner := &model{answers: []*agent.Response{calls(call("1", "work", "{}")), text("inner done")}}
	child := newAgent(inner, work)
	child.Slug = "child"
	m := &model{answers: []*agent.Response{calls(call("1", "child", `{"prompt":"p"}`)), text("done")}}
	var asked []string
	policy := func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		asked = append(asked, fmt.Sprintf("%d %s %s", inv.Depth, inv.Agent, inv.Call.Name))
		if inv.Call.Name == "work" {
			return agent.Verdict{Decision: agent.Deny, Reason: "work is forbidden"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}
	r := &runner.Runner{Agent: newAgent(m, &agent.Subagent{Name: "child", Agent: child}), Policy: policy}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0 root child", "1 child work"}, asked); diff != "" || ran != 0 {
		t.Errorf("the policy was asked (-want +got):\n%s\nand the tool ran %d times", diff, ran)
	}
	if got := inner.requests[1].Messages[2].Results[0].Text(); got != "error: not run: refused by policy: work is forbidden" {
		t.Errorf("refusal = %q", got)
	}
}

func TestSubagentEventsAreNestedUnderTheirCall(t *testing.T) {
	child := newAgent(&model{answers: []*agent.Response{text("from the child")}})
	child.Slug = "child"
	m := &model{answers: []*agent.Response{calls(call("1", "child", `{"prompt":"hello"}`)), text("done")}}
	var key, parent string
	var depth int
	watch := func(e agent.Event) {
		switch {
		case e.Kind == agent.EventCallStarted:
			key = e.Key
		case e.Kind == agent.EventSession && e.Agent == "child":
			parent, depth = e.Parent, e.Depth
		}
	}
	out, err := (&runner.Runner{Agent: newAgent(m, &agent.Subagent{Name: "child", Agent: child}), Observe: watch}).Run(t.Context(), agent.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	if key == "" || parent != key || depth != 1 {
		t.Errorf("the child's session has parent %q at depth %d, want %q at 1", parent, depth, key)
	}
	if got := m.requests[1].Messages[2].Results[0].Text(); got != "from the child" {
		t.Errorf("result = %q", got)
	}
	if out.Total.Usage.Requests != 3 || out.Total.Agents["child"].Requests != 1 {
		t.Errorf("spent = %+v, want 3 requests, 1 of the child", out.Total)
	}
}

func TestAFailedSubagentSaysWhatFailed(t *testing.T) {
	tests := []struct {
		name  string
		child *model
		turns int
		want  string
	}{
		{"model", &model{err: &agent.ModelError{Status: 401, Message: "bad key"}}, 0, "[failed] agent child did not answer: ask model test: HTTP 401: bad key"},
		{"turns", &model{answers: []*agent.Response{calls(call("1", "x", "{}")), calls(call("2", "x", "{}"))}}, 1, "[limit] agent child did not answer: turn limit reached: 1 turns with tool calls and no answer"},
		{"empty", &model{answers: []*agent.Response{text("")}}, 0, "[failed] agent child answered with an empty text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			child := newAgent(tt.child)
			child.Slug, child.MaxTurns = "child", tt.turns
			if tt.name == "empty" {
				tt.child.answers[0].Message.Parts = nil
			}
			m := &model{answers: []*agent.Response{calls(call("1", "child", `{"prompt":"p"}`)), text("done")}}
			if _, err := (&runner.Runner{Agent: newAgent(m, &agent.Subagent{Name: "child", Agent: child})}).Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			if r := m.requests[1].Messages[2].Results[0]; r.Text() != tt.want || !r.Failed {
				t.Errorf("result = %q, want %q", r.Text(), tt.want)
			}
		})
	}
}

func TestDepthIsLimited(t *testing.T) {
	self := newAgent(nil)
	var deepest int
	var refusal string
	self.Provider = providerFunc(func(req *agent.Request) (*agent.Response, error) {
		if req.Turn == 1 {
			return calls(call("1", "self", `{"prompt":"deeper"}`)), nil
		}
		last := req.Messages[len(req.Messages)-1].Results[0]
		if refusal == "" {
			refusal = last.Text()
		}
		return text("up"), nil
	})
	self.Toolsets = []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "self", Agent: self}}}
	watch := func(e agent.Event) { deepest = max(deepest, e.Depth) }
	if _, err := (&runner.Runner{Agent: self, Observe: watch}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if deepest != agent.DefaultMaxDepth || !strings.Contains(refusal, "depth limit reached: sub-agents are nested 8 deep") {
		t.Errorf("deepest = %d, refusal = %q", deepest, refusal)
	}
}

func TestNothingHappensThatCannotBeRecorded(t *testing.T) {
	ran := false
	work := tool{"work", func(context.Context, *agent.Invocation) (agent.Result, error) { ran = true; return agent.Result{}, nil }}
	for _, kind := range []agent.EventKind{agent.EventSession, agent.EventMessage, agent.EventAnswer, agent.EventCallStarted} {
		m := &model{answers: []*agent.Response{calls(call("1", "work", "{}")), text("done")}}
		_, err := (&runner.Runner{Agent: newAgent(m, work), Journal: &journal{fail: kind}}).Run(t.Context(), agent.UserText("go"))
		if !errors.Is(err, agent.ErrJournal) || ran {
			t.Errorf("with %s unwritable: error %v, tool ran: %v", kind, err, ran)
		}
		if len(m.requests) > 1 {
			t.Errorf("with %s unwritable the model was asked again", kind)
		}
	}
}

func TestThousandsOfCallsInOneTurn(t *testing.T) {
	var list []agent.ToolCall
	for range 10_000 {
		list = append(list, call("", "echo", "{}"))
	}
	m := &model{answers: []*agent.Response{calls(list...), text("done")}}
	if _, err := (&runner.Runner{Agent: newAgent(m, echo("echo"))}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got := len(m.requests[1].Messages[2].Results); got != 10_000 {
		t.Errorf("%d results", got)
	}
}

func TestStepByStepIsTheSameAsRun(t *testing.T) {
	answers := func() []*agent.Response {
		return []*agent.Response{calls(call("1", "echo", "{}")), text("done")}
	}
	whole := &runner.Runner{Agent: newAgent(&model{answers: answers()}, echo("echo"))}
	if _, err := whole.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	steps := &runner.Runner{Agent: newAgent(&model{answers: answers()}, echo("echo"))}
	if err := steps.Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	var kinds []agent.StepKind
	for {
		step, err := steps.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if step.Kind == agent.StepPrompt {
			break
		}
		kinds = append(kinds, step.Kind)
	}
	if diff := cmp.Diff([]agent.StepKind{agent.StepModel, agent.StepCalls, agent.StepModel, agent.StepApply}, kinds); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(whole.Session().Messages, steps.Session().Messages); diff != "" {
		t.Errorf("messages (-Run +Step):\n%s", diff)
	}
}
