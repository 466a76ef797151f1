package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A scenario is a run that every driver must make in the same way. Its models and
// tools have no state, so that each step may be in a process of its own.
type scenario struct {
	agent   func() *agent.Agent
	prompts []string
	accept  func(context.Context, string) (string, error)
	policy  agent.Policy
	reserve runner.Reserver
}

// byTurn answers by the number of the turn; the last answer is repeated. A
// request for a summary gets summary, or an error without one.
func byTurn(summary string, answers ...any) agent.Provider {
	return providerFunc(func(req *agent.Request) (*agent.Response, error) {
		if req.Summary {
			if summary == "" {
				return nil, errors.New("no summary today")
			}
			return text(summary), nil
		}
		switch a := answers[min(req.Turn, len(answers))-1].(type) {
		case *agent.Response:
			return a, nil
		case func(*agent.Request) (*agent.Response, error):
			return a(req)
		default:
			return nil, a.(error)
		}
	})
}

// unless answers with r when the request has at most n bytes of results, and
// refuses it as too long otherwise.
func unless(n int, r *agent.Response) func(*agent.Request) (*agent.Response, error) {
	return func(req *agent.Request) (*agent.Response, error) {
		size := 0
		for _, m := range req.Messages {
			size += len(m.Text())
			for _, res := range m.Results {
				size += len(res.Text())
			}
		}
		if size > n {
			return nil, &agent.ModelError{Status: 400, Message: "too long", TooLong: true}
		}
		return r, nil
	}
}

func finish(f agent.Finish, r *agent.Response) *agent.Response {
	r.Finish = f
	return r
}

func scenarios() map[string]scenario {
	works := []agent.Tool{echo("echo"), echo("look"), reader(4000), tool{"fails", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult("printed"), errors.New("exit status 3")
	}}, tool{"huge", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(strings.Repeat("word ", 2_000_000)), nil
	}}}
	works = append(works, ends("finish", agent.StatusOK), ends("reject", agent.StatusRefused), plans())
	with := func(p agent.Provider, change ...func(*agent.Agent)) func() *agent.Agent {
		return func() *agent.Agent {
			a := newAgent(p, works...)
			a.Opening = nil
			for _, c := range change {
				c(a)
			}
			return a
		}
	}
	turns := func(n int) func(*agent.Agent) { return func(a *agent.Agent) { a.MaxTurns = n } }
	window := func(n int) func(*agent.Agent) { return func(a *agent.Agent) { a.ContextTokens = n } }
	expert := func(p agent.Provider) func(*agent.Agent) {
		return func(a *agent.Agent) {
			child := newAgent(p, works...)
			child.Slug = "child"
			a.Toolsets = append(a.Toolsets, agent.ToolList{&agent.Subagent{Name: "child", Agent: child}})
		}
	}
	loop := func(warn, end int) func(*agent.Agent) {
		return func(a *agent.Agent) { a.LoopWarn, a.LoopEnd = warn, end }
	}
	work := calls(call("", "echo", "{}"), call("", "look", "{}"))
	reads := calls(call("", "read", "{}"), call("", "read", "{}"))
	one := []string{"go"}
	plan := calls(call("", "plan", `{"id":"a","title":"first"}`), call("", "plan", `{"id":"b","parent":"a","title":"second"}`), call("", "plan", `{"id":"a","state":"done"}`))
	return map[string]scenario{
		"answer":           {agent: with(byTurn("", text("done"))), prompts: []string{"one", "two"}},
		"opening":          {agent: with(byTurn("", text("done")), func(a *agent.Agent) { a.Opening = []agent.Message{agent.UserText("hi"), {Role: agent.RoleAssistant}} }), prompts: []string{"one", "two"}},
		"calls":            {agent: with(byTurn("", calls(call("a", "echo", `{"n":1}`), call("a", "nope", "{}"), call("", "fails", "{}"), call("x", "echo", "half"), call("y", "huge", "{}")), text("done"))), prompts: one},
		"turn limit":       {agent: with(byTurn("", calls(call("", "echo", "{}"))), turns(2)), prompts: []string{"one", "two"}},
		"finish":           {agent: with(byTurn("", calls(call("", "echo", "{}"), call("", "finish", "{}")), text("next"))), prompts: []string{"one", "two"}},
		"finish, accepted": {agent: with(byTurn("", calls(call("", "finish", "{}")), text("good"))), prompts: one, accept: fits},
		"reject":           {agent: with(byTurn("", calls(call("", "reject", "{}"), call("", "finish", "{}")), text("next"))), prompts: []string{"one", "two"}},
		"plan, shortened":  {agent: with(byTurn("short", plan, reads, reads, unless(10_000, text("done")))), prompts: one},
		"length":           {agent: with(byTurn("", finish(agent.FinishLength, text("half")))), prompts: []string{"one", "two"}},
		"cut calls":        {agent: with(byTurn("", finish(agent.FinishLength, calls(call("a", "echo", "{"))), text("done"))), prompts: one},
		"filtered calls":   {agent: with(byTurn("", finish(agent.FinishContentFilter, calls(call("a", "echo", "{}"))))), prompts: []string{"one", "two"}},
		"model error":      {agent: with(byTurn("", calls(call("a", "echo", "{}")), &agent.ModelError{Status: 500, Message: "overloaded"})), prompts: []string{"one", "two"}},
		"deadline":         {agent: with(byTurn("", fmt.Errorf("read: %w", os.ErrDeadlineExceeded))), prompts: one},
		"accepted at last": {agent: with(byTurn("", text("a"), calls(call("a", "echo", "{}")), text("good"))), prompts: one, accept: fits},
		"never accepted":   {agent: with(byTurn("", text("a"))), prompts: []string{"one", "two"}, accept: fits},
		"cut old results":  {agent: with(byTurn("", reads, reads, reads, reads, reads, reads, text("done")), window(9000)), prompts: one},
		"summary":          {agent: with(byTurn("read a lot", reads, reads, reads, reads, reads, reads, text("done")), window(4000)), prompts: one},
		"no summary":       {agent: with(byTurn("", reads, reads, reads, reads, reads, reads, text("done")), window(4000)), prompts: one},
		"refused once":     {agent: with(byTurn("short", reads, reads, reads, unless(10_000, text("done")))), prompts: one},
		"refused for good": {agent: with(byTurn("short", reads, unless(10, text("done")))), prompts: []string{"one", "two"}},
		"no compaction":    {agent: with(byTurn("short", reads, unless(10, text("done"))), func(a *agent.Agent) { a.NoCompaction = true }), prompts: one},
		"sub-agent":        {agent: with(byTurn("", calls(call("a", "child", `{"prompt":"q"}`), call("b", "child", `{}`)), text("done")), expert(byTurn("", calls(call("a", "echo", "{}")), text("child says")))), prompts: one},
		"sub-agent that fails": {agent: with(byTurn("", calls(call("a", "child", `{"prompt":"q"}`)), text("done")),
			expert(byTurn("", errors.New("no route")))), prompts: one},
		"partial":            {agent: with(byTurn("", work, text("my best"), text("next"))), prompts: []string{"one", "two"}, reserve: spentAt(2, 9)},
		"partial at once":    {agent: with(byTurn("", text("my best"))), prompts: one, reserve: spentAt(1, 9)},
		"no partial answer":  {agent: with(byTurn("", work)), prompts: []string{"one", "two"}, reserve: spentAt(2, 9)},
		"budget":             {agent: with(byTurn("", work)), prompts: []string{"one", "two"}, reserve: spentAt(9, 2)},
		"partial, accepted":  {agent: with(byTurn("", work, text("a"), text("good"))), prompts: one, accept: fits, reserve: spentAt(2, 9)},
		"partial, shortened": {agent: with(byTurn("short", reads, reads, reads, unless(10_000, text("done")))), prompts: one, reserve: spentAt(4, 9)},
		"loop":               {agent: with(byTurn("", work, work, work, calls(call("", "echo", "{}")), work), loop(2, 4)), prompts: []string{"one", "two"}},
		"policy": {agent: with(byTurn("", calls(call("a", "echo", "{}"), call("b", "look", "{}"), call("c", "read", "{}")), text("done"))), prompts: one,
			policy: func(_ context.Context, inv *agent.Invocation) agent.Verdict {
				return map[string]agent.Verdict{"echo": {Decision: agent.Deny, Reason: "not this"}, "look": {Decision: agent.AskPerson, Reason: "really"}, "read": {Decision: agent.Allow, Reason: "rule 3"}}[inv.Call.Name]
			}},
	}
}

// spentAt is a budget that is nearly spent at one turn, and spent from another one on.
// It allows one call of a turn.
func spentAt(near, spent int) runner.Reserver {
	return func(_ context.Context, n runner.Need) (func(agent.Usage), error) {
		switch {
		case n.Call != nil && n.Call.N > 1:
			return nil, fmt.Errorf("%w: one call", agent.ErrBudget)
		case n.Request == nil:
		case n.Request.Turn >= spent:
			return nil, fmt.Errorf("%w: all of it", agent.ErrBudget)
		case n.Request.Turn == near && !strings.HasSuffix(n.Request.Messages[len(n.Request.Messages)-1].Text(), "answer now"):
			return nil, &agent.NearlySpent{Reason: "little is left", Text: "answer now"}
		}
		return func(agent.Usage) {}, nil
	}
}

// lasting are the events that a Runner keeps in a scenario.
func (s scenario) run(t *testing.T) []agent.Event {
	j := &journal{}
	a := s.agent()
	a.MaxParallelTools = 1 // so that the order of events is one
	r := &runner.Runner{Agent: a, Journal: j, Accept: s.accept, Policy: s.policy, Reserve: s.reserve, NewID: ids()}
	for _, p := range s.prompts {
		out, err := r.Run(t.Context(), agent.UserText(p))
		if (err == nil) != (out.Status == agent.StatusOK || out.Status == agent.StatusPartial) {
			t.Errorf("Run = %+v, %v", out, err)
		}
	}
	return j.events
}

func ids() func() string {
	n := 0
	return func() string { n++; return fmt.Sprint("S", n) }
}

// A stepRequest is what another process is to do with a state: one step, or to
// begin a run. A stepResult is what came of it.
type stepRequest struct {
	Scenario string
	State    *agent.Session
	Prompt   string
}

type stepResult struct {
	Events []agent.Event
	State  *agent.Session
	Over   bool
}

// stepProcess does steps for another process.
func stepProcess() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var req stepRequest
		switch err := in.Decode(&req); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			panic(err)
		}
		s := scenarios()[req.Scenario]
		d := &driver{session: req.State, agent: s.agent(), accept: s.accept, gate: &runner.Gate{Policy: s.policy, Reserve: s.reserve}}
		if req.Prompt != "" {
			d.prompt(req.Prompt, "S1", "")
		} else {
			d.step(context.Background())
		}
		if err := out.Encode(stepResult{d.events, d.session, d.session.Next().Kind == agent.StepPrompt}); err != nil {
			panic(err)
		}
	}
}

// stepProcesses are processes that take turns at the steps of a scenario: what one of them
// would keep in memory is not there, or is old, when the next step is done.
type stepProcesses struct {
	t   *testing.T
	in  []*json.Encoder
	out []*json.Decoder
}

func (p *stepProcesses) do(n int, req stepRequest) (res stepResult) {
	p.t.Helper()
	if n %= 3; n == len(p.in) {
		exe, err := os.Executable()
		if err != nil {
			p.t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", stepEnv+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			p.t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			p.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				p.t.Error(err)
			}
		})
		p.in, p.out = append(p.in, json.NewEncoder(in)), append(p.out, json.NewDecoder(out))
	}
	if err := errors.Join(p.in[n].Encode(req), p.out[n].Decode(&res)); err != nil {
		p.t.Fatal(err)
	}
	return res
}

// A driver executes steps with what package agent exports, and nothing of a Runner.
type driver struct {
	agent.CallingRun // of agents in other processes: there is none
	session          *agent.Session
	agent            *agent.Agent
	accept           func(context.Context, string) (string, error)
	gate             *runner.Gate
	events           []agent.Event
}

func (d *driver) apply(events ...agent.Event) {
	for _, e := range events {
		if err := d.session.Apply(e); err != nil {
			panic(err)
		}
		d.events = append(d.events, e)
	}
}

func (d *driver) prompt(text, id, parent string) {
	if d.session.ID == "" {
		d.apply(d.session.Opened(d.agent, id, parent, strings.Count(parent, ".")/2)...)
	}
	limits := d.agent.Limits()
	if d.accept != nil {
		limits.Answers = agent.MaxAnswers
	}
	d.apply(d.session.Prompted(agent.UserText(text), limits))
}

func (d *driver) step(ctx context.Context) {
	step := d.session.Next()
	switch step.Kind {
	case agent.StepApply:
		d.apply(step.Events...)
	case agent.StepAccept:
		d.apply(d.session.Judged(d.accept(ctx, step.Answer)).Events...)
	case agent.StepModel, agent.StepSummary:
		specs, _ := d.tools(ctx)
		if digest := agent.SetupDigest(d.agent.System, specs); digest != d.session.Setup.Digest && step.Kind == agent.StepModel {
			e := d.session.SetUp(d.agent.Model, d.agent.System, specs, digest)
			d.apply(e)
		}
		resp, err := d.gate.Generate(ctx, d.agent.Provider, d.session.Request(step, d.agent.System, specs), d.session.Depth, func(agent.Delta) {})
		switch {
		case err == nil:
			d.apply(d.session.Answered(step, resp))
		case step.Kind == agent.StepSummary:
			d.apply(d.session.Failed(step, err))
		default:
			d.apply(d.session.Failed(step, fmt.Errorf("ask model %s: %w", d.agent.Model, err)))
		}
	case agent.StepCalls:
		d.calls(ctx, step.Calls)
	}
}

func (d *driver) tools(ctx context.Context) (specs []agent.ToolSpec, byName map[string]agent.Tool) {
	byName = map[string]agent.Tool{}
	for _, set := range d.agent.Toolsets {
		list, _ := set.Tools(ctx)
		for _, t := range list {
			byName[t.Spec().Name] = t
			specs = append(specs, t.Spec())
		}
	}
	slices.SortFunc(specs, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return specs, byName
}

func (d *driver) calls(ctx context.Context, list []agent.PendingCall) {
	specs, byName := d.tools(ctx)
	var run []agent.PendingCall
	for _, c := range list {
		if e, refused := d.session.Refuse(c, specs); refused {
			d.apply(e)
		} else {
			run = append(run, c)
		}
	}
	for _, c := range run {
		inv := &agent.Invocation{Caller: d}
		d.session.Invoke(inv, c, byName[c.Name].Spec())
		if err := d.gate.Call(ctx, byName[c.Name], inv, func(e agent.Event) error { d.apply(e); return nil }); err != nil {
			panic(err)
		}
	}
}

// Progress implements agent.CallingRun.
func (d *driver) Progress(*agent.Invocation, string) {}

// Lease implements agent.CallingRun.
func (d *driver) Lease(context.Context, *agent.Invocation) agent.Lease { return agent.Lease{} }

// Run implements agent.CallingRun: a sub-agent is driven within the step of its call.
func (d *driver) Run(ctx context.Context, inv *agent.Invocation, a *agent.Agent, prompt agent.Message) (*agent.Outcome, error) {
	child := &driver{session: &agent.Session{}, agent: a, gate: d.gate}
	child.prompt(prompt.Text(), fmt.Sprint("S", inv.N+1), inv.Key)
	for child.session.Next().Kind != agent.StepPrompt {
		child.step(ctx)
	}
	d.events = append(d.events, child.events...)
	end := child.events[len(child.events)-1]
	out := &agent.Outcome{Status: end.Status, Answer: end.Text, Reason: end.Error, Agent: a.Slug}
	if m, ok := child.session.Answer(); ok {
		out.Message = m
	}
	if end.Status != agent.StatusOK && end.Status != agent.StatusPartial {
		return out, &agent.EndError{Status: end.Status, Text: end.Error}
	}
	return out, nil
}

// TestASecondDriverMakesTheSameRun executes every step of every scenario in a
// process that knows nothing of the scenario but the serialized state, and compares
// the events with those of a Runner.
func TestASecondDriverMakesTheSameRun(t *testing.T) {
	processes := &stepProcesses{t: t}
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			want := s.run(t)
			state, events, steps := []byte(`{"id":"","agent":""}`), []agent.Event(nil), 0
			do := func(prompt string) (over bool) {
				req := stepRequest{Scenario: name, State: &agent.Session{}, Prompt: prompt}
				if err := json.Unmarshal(state, req.State); err != nil {
					t.Fatal(err)
				}
				res := processes.do(steps, req)
				steps++
				var err error
				if state, err = json.Marshal(res.State); err != nil {
					t.Fatal(err)
				}
				events = append(events, res.Events...)
				return res.Over
			}
			for _, p := range s.prompts {
				for over := do(p); !over; {
					over = do("")
				}
			}
			ignore := cmpopts.IgnoreFields(agent.Event{}, "Time", "Millis", "Total", "Receipt")
			if diff := cmp.Diff(want, events, ignore, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-Runner +driver):\n%s", diff)
			}
			var replayed agent.Session
			for _, e := range want {
				if e.Session == "S1" {
					if err := replayed.Apply(e); err != nil {
						t.Fatal(err)
					}
				}
			}
			if again, err := json.Marshal(&replayed); err != nil || !bytes.Equal(again, state) {
				t.Errorf("the state of the driver is not the replay of the Runner's events:\n%s\n%s", state, again)
			}
		})
	}
}
