package replay_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/replay"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal keeps events as a file would: as JSON.
type journal struct {
	t     *testing.T
	lines [][]byte
	die   int // no event from this one on is kept; 0 is never
}

var errDead = errors.New("dead")

func (j *journal) Append(_ context.Context, e agent.Event) error {
	if j.die > 0 && len(j.lines) >= j.die {
		return errDead
	}
	line, err := json.Marshal(e)
	if err != nil {
		j.t.Error(err)
	}
	j.lines = append(j.lines, line)
	return nil
}

func (j *journal) Sync(context.Context) error { return nil }

func (j *journal) events() []agent.Event {
	j.t.Helper()
	var list []agent.Event
	for _, line := range j.lines {
		var e agent.Event
		if err := json.Unmarshal(line, &e); err != nil {
			j.t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func seq(events []agent.Event) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// generate is a model made of a function.
type generate func(ctx context.Context, req *agent.Request) (*agent.Response, error)

func (g generate) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return g(ctx, req)
}

// answers are given one after the other, by how many turns there were.
func answers(list ...any) generate {
	return func(_ context.Context, req *agent.Request) (*agent.Response, error) {
		if req.Turn > len(list) {
			return nil, fmt.Errorf("no answer for turn %d", req.Turn)
		}
		switch a := list[req.Turn-1].(type) {
		case string:
			return say(a), nil
		case *agent.Response:
			return a, nil
		default:
			return nil, a.(error)
		}
	}
}

func say(text string) *agent.Response {
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text(text)}}, Model: "server's name",
		Usage: agent.Usage{InputTokens: 10, OutputTokens: 5}}
}

// calls is an answer with calls "NAME ARGS"; a value alone is the argument n.
func calls(list ...string) *agent.Response {
	r := &agent.Response{Usage: agent.Usage{InputTokens: 20, OutputTokens: 2, CachedTokens: 5}}
	for _, c := range list {
		name, args, _ := strings.Cut(c, " ")
		if args != "" && !strings.HasPrefix(args, "{") {
			args = `{"n":` + args + "}"
		}
		r.Message.Calls = append(r.Message.Calls, agent.ToolCall{Name: name, Args: cmp.Or(args, "{}"), Extra: json.RawMessage(`{"signature": "<x>"}`)})
	}
	return r
}

// tool is a tool made of a function. It says what it would execute.
type tool struct {
	name string
	call func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (t tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Description: "does <" + t.name + ">", Schema: json.RawMessage(`{"type": "object"}`), Source: "test/" + t.name, Aliases: map[string]string{"alias": "n"}}
}

func (t tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.call(ctx, inv)
}

func (t tool) Command(inv *agent.Invocation) ([]string, string) {
	return []string{t.name, inv.Call.Args}, "sha256:" + t.name
}

func works(name string) tool {
	return tool{name, func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(name + " did " + inv.Call.Args), nil
	}}
}

func fails(name string, printed ...agent.Part) tool {
	return tool{name, func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.Result{Parts: printed}, errors.New("exit status 3")
	}}
}

func newAgent(slug string, m agent.Provider, tools ...agent.Tool) *agent.Agent {
	return &agent.Agent{Slug: slug, Source: "/agents/" + slug + ".json", System: "you are " + slug, Announce: "knows " + slug,
		Model: "model-" + slug, Provider: m, Toolsets: []agent.Toolset{agent.ToolList(tools)}}
}

func expert(name string, a *agent.Agent) *agent.Subagent {
	return &agent.Subagent{Name: name, Agent: a, Source: a.Source}
}

// outcome is what a run or a replay came to.
type outcome struct {
	status agent.Status
	answer string
	err    string
	turns  int
}

func outcomeOf(out *agent.Outcome, err error) outcome {
	o := outcome{status: out.Status, answer: out.Answer, turns: out.Turns}
	if err != nil {
		o.err = err.Error()
	}
	return o
}

// record runs prompts in one session and gives its events and the last outcome.
func record(t *testing.T, r *runner.Runner, prompts ...string) ([]agent.Event, outcome) {
	t.Helper()
	return recordIn(t, t.Context(), r, prompts...)
}

func recordIn(t *testing.T, ctx context.Context, r *runner.Runner, prompts ...string) ([]agent.Event, outcome) {
	t.Helper()
	j := &journal{t: t}
	r.Journal = j
	var last outcome
	for _, p := range prompts {
		last = outcomeOf(r.Run(ctx, agent.UserText(p)))
	}
	return j.events(), last
}

func newRecord(t *testing.T, events []agent.Event) *replay.Record {
	t.Helper()
	rec, err := replay.New(seq(events))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return rec
}

// again replays events from nothing but themselves.
func again(t *testing.T, events []agent.Event) ([]agent.Event, outcome) {
	t.Helper()
	j := &journal{t: t}
	out, err := (&replay.Player{Record: newRecord(t, events)}).Run(t.Context(), runners(&runner.Runner{Journal: j}))
	return j.events(), outcomeOf(out, err)
}

// check replays events and compares what happens with what happened.
func check(t *testing.T, events []agent.Event, want outcome) {
	t.Helper()
	got, last := again(t, events)
	if diff := gocmp.Diff(want, last, gocmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("outcome (-recorded +replayed):\n%s", diff)
	}
	sameEvents(t, events, got)
	if diff := gocmp.Diff(steps(events), steps(got)); diff != "" {
		t.Errorf("order (-recorded +replayed):\n%s", diff)
	}
}

// steps are the events in their order. Calls that never started may end before or
// after others, and so may runs that a limit ended.
func steps(events []agent.Event) []string {
	var list []string
	started := map[string]bool{}
	for _, e := range events {
		switch {
		case e.Kind == agent.EventCallStarted:
			started[e.Key] = true
			fallthrough
		case e.Kind == agent.EventCallEnded && !started[e.Key], e.Kind == agent.EventEnd && e.Status == agent.StatusLimit, e.Kind == agent.EventCompaction:
			continue
		default:
			list = append(list, fmt.Sprint(e.Kind, " ", e.Agent, " ", e.Turn, " ", e.N, " ", e.Tool, " ", e.Args))
		}
	}
	return list
}

func sameEvents(t *testing.T, want, got []agent.Event) {
	t.Helper()
	want, got = normal(want), normal(got)
	if a, err := json.Marshal(want); err == nil {
		if b, err := json.Marshal(got); err == nil && string(a) == string(b) {
			return // much faster than the difference
		}
	}
	diff := gocmp.Diff(want, got, cmpopts.EquateEmpty())
	t.Errorf("events (-recorded +replayed):\n%s", cmp.Or(diff, "a difference of JSON alone"))
}

// normal is what must be the same of events: without times, durations and ids, the
// sessions one after the other, and the events of calls that ran at the same time in
// the order of the calls. Setups all say what they mean. A call that was started
// twice, because its process died, counts once.
func normal(events []agent.Event) []agent.Event {
	paths, keys, setups := map[string]string{}, map[string]string{}, map[string]agent.Event{}
	started, children := map[string]bool{}, map[string]int{}
	var list []agent.Event
	for i, e := range events {
		e.Receipt = nil // it has durations, and the order of calls that ran at the same time
		if e.Kind == agent.EventSession {
			if i == 0 {
				e.Parent = ""
			}
			path := keys[e.Parent]
			if n := children[path]; n > 0 {
				path = fmt.Sprintf("%s+%d", path, n)
			}
			children[keys[e.Parent]]++
			paths[e.Session] = path
		}
		if e.Key != "" {
			path := fmt.Sprintf("%s/%d.%d", paths[e.Session], e.Turn, e.N)
			if e.Kind == agent.EventCallStarted && started[path] {
				continue
			}
			if e.Kind == agent.EventCallEnded && started[path] {
				e.Args = "" // they were said
			}
			started[path] = started[path] || e.Kind == agent.EventCallStarted
			keys[e.Key], e.Key = path, path
		}
		if e.Kind == agent.EventSetup {
			if e.System == "" && len(e.Specs) == 0 {
				e.System, e.Specs = setups[e.Digest].System, setups[e.Digest].Specs
			}
			setups[e.Digest] = e
		}
		e.Digest = strings.TrimPrefix(e.Digest, "sha256:")
		if e.Kind == agent.EventSetup || e.Kind == agent.EventCompaction {
			e.Digest = "" // of schemas before JSON took their spaces
		}
		e.Time, e.Session, e.Parent, e.Millis = time.Time{}, paths[e.Session], keys[e.Parent], 0
		if e.Total != nil {
			spent := *e.Total
			spent.Tools = map[string]agent.ToolUsage{}
			for name, u := range e.Total.Tools {
				u.Millis = 0
				spent.Tools[name] = u
			}
			e.Total = &spent
		}
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b agent.Event) int { return cmp.Compare(a.Session, b.Session) })
	for i := 0; i < len(list); {
		n := i
		for n < len(list) && list[n].Key != "" && list[n].Session == list[i].Session {
			n++
		}
		slices.SortStableFunc(list[i:n], func(a, b agent.Event) int { return cmp.Compare(a.N, b.N) })
		i = max(n, i+1)
	}
	return list
}

// runners returns what makes Runners with the exported fields of r.
func runners(r *runner.Runner) func() *runner.Runner {
	return func() *runner.Runner {
		return &runner.Runner{Agent: r.Agent, Journal: r.Journal, Secrets: r.Secrets, Policy: r.Policy, Observe: r.Observe, MaxDepth: r.MaxDepth}
	}
}
