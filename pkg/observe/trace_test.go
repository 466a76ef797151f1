package observe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
	"github.com/agents-exe/agents/pkg/runner"
)

// otlpLine is a line of a trace file.
type otlpLine struct {
	ResourceSpans []struct {
		ScopeSpans []struct{ Spans []otlpSpan }
	}
}

// spansOf reads what a Trace wrote.
func spansOf(t *testing.T, text string) (spans []otlpSpan) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		var l otlpLine
		if err := dec.Decode(&l); err == io.EOF {
			return spans
		} else if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.ResourceSpans {
			for _, s := range r.ScopeSpans {
				spans = append(spans, s.Spans...)
			}
		}
	}
}

// spanTree shows spans as trees, with times since the first.
func spanTree(t *testing.T, text string) string {
	spans := spansOf(t, text)
	slices.SortFunc(spans, func(a, b otlpSpan) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Name, b.Name), cmp.Compare(a.End, b.End))
	})
	known := map[string]bool{}
	for _, s := range spans {
		if known[s.SpanID] {
			t.Errorf("two spans have the id %s", s.SpanID)
		}
		known[s.SpanID] = true
	}
	var b strings.Builder
	var show func(parent, indent string)
	show = func(parent, indent string) {
		for _, s := range spans {
			if above := s.Parent; above != parent && (parent != "" || known[above]) {
				continue
			}
			since := func(at string) time.Duration {
				var from, to int64
				fmt.Sscan(spans[0].Start, &from)
				fmt.Sscan(at, &to)
				return time.Duration(to - from)
			}
			fmt.Fprintf(&b, "%s%s  %v..%v", indent, s.Name, since(s.Start), since(s.End))
			if parent == "" {
				fmt.Fprintf(&b, " trace %s above %q", s.TraceID[:8], s.Parent)
			}
			if s.Flags != flagSampled|flagKnown || s.Kind != kindInternal {
				fmt.Fprintf(&b, " flags %#x kind %d", s.Flags, s.Kind)
			}
			if s.Status != nil {
				fmt.Fprintf(&b, " status %d %q", s.Status.Code, s.Status.Message)
			}
			b.WriteString("\n")
			fmt.Fprintf(&b, "%s  |%s\n", indent, shownAttributes(s.Attributes))
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s  * %s %v%s\n", indent, e.Name, since(e.Time), shownAttributes(e.Attributes))
			}
			show(s.SpanID, indent+"  ")
		}
	}
	show("", "")
	return b.String()
}

func shownAttributes(list []otlpAttribute) string {
	var b strings.Builder
	for _, a := range list {
		value, _ := json.Marshal(a.Value)
		_, text, _ := strings.Cut(strings.TrimSuffix(string(value), "}"), ":")
		fmt.Fprintf(&b, " %s=%s", strings.TrimPrefix(a.Key, "gen_ai."), text)
	}
	return b.String()
}

// A thinker is a model that takes a second for each answer.
type thinker struct {
	answers []any // *agent.Response or error
	retries int   // of the first request
}

func (m *thinker) Generate(ctx context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for i := range m.retries {
		time.Sleep(100 * time.Millisecond)
		delta(agent.Delta{Kind: agent.DeltaRetry, Text: "HTTP 503: busy", Attempt: i + 1, Wait: time.Second})
		time.Sleep(time.Second)
	}
	m.retries = 0
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	next := m.answers[0]
	m.answers = m.answers[1:]
	if err, ok := next.(error); ok {
		return nil, err
	}
	return next.(*agent.Response), nil
}

func says(text string, calls ...agent.ToolCall) *agent.Response {
	return &agent.Response{Model: "m-2026", Message: agent.Message{Parts: []agent.Part{agent.Text(text)}, Calls: calls},
		Usage: agent.Usage{Requests: 1, InputTokens: 100, CachedTokens: 40, CacheWriteTokens: 20, OutputTokens: 7, ReasoningTokens: 3, Cost: agent.Dollar / 8, Priced: 1}}
}

// A work is a tool made of a function.
type work struct {
	name string
	do   func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (w work) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: w.name, Schema: json.RawMessage(`{"type":"object"}`), Effects: agent.EffectsNone}
}

func (w work) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return w.do(ctx, inv)
}

func sleeps(name string, d time.Duration, err error) work {
	return work{name, func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
		return agent.TextResult("secret contents"), err
	}}
}

func asks(name string) agent.ToolCall {
	return agent.ToolCall{ID: "id-" + name, Name: name, Args: `{}`}
}

// subagent is the sub-agent helper as a tool, asked by asksHelper.
func subagent(m agent.Provider, tools ...agent.Tool) *agent.Subagent {
	return &agent.Subagent{Name: "ask_helper", Agent: &agent.Agent{Slug: "helper", Model: "small", Flavor: "claude-v1", Provider: m, Toolsets: []agent.Toolset{agent.ToolList(tools)}}}
}

var asksHelper = agent.ToolCall{ID: "id-helper", Name: "ask_helper", Args: `{"prompt":"secret contents"}`}

// A traceRun is a run whose spans are wanted.
type traceRun struct {
	runner.Runner
	ctx    context.Context
	out    *bytes.Buffer
	events []agent.Event
	trace  *Trace
}

func newTraceRun(t *testing.T, model agent.Provider, tools ...agent.Tool) *traceRun {
	r := &traceRun{ctx: t.Context(), out: &bytes.Buffer{}}
	var err error
	if r.trace, err = OpenTrace(TraceOptions{W: r.out}); err != nil {
		t.Fatal(err)
	}
	r.Agent = &agent.Agent{Slug: "main", Model: "m", Flavor: "openai-v1", Provider: model, Toolsets: []agent.Toolset{agent.ToolList(tools)}}
	r.Trace = true
	n := 0
	r.NewID = func() string { n++; return fmt.Sprint("S", n) }
	r.Observe = func(e agent.Event) { r.events = append(r.events, e); r.trace.Observe(e) }
	return r
}

func (r *traceRun) run(t *testing.T) string {
	_, err := r.Run(r.ctx, agent.UserText("secret contents"))
	t.Log(err)
	return r.closed(t)
}

func (r *traceRun) closed(t *testing.T) string {
	if err := r.trace.Close(); err != nil {
		t.Error(err)
	}
	return r.out.String()
}

func TestTraceGolden(t *testing.T) {
	const outside = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var all strings.Builder
	for _, test := range []struct {
		name string
		run  func(t *testing.T) string
	}{
		{"sub-agents, tools in parallel, failures, a refusal and retries", func(t *testing.T) string {
			helper := &thinker{answers: []any{says("", asks("look")), says("secret contents")}}
			r := newTraceRun(t, &thinker{retries: 2, answers: []any{says("", asks("good"), asks("bad"), asks("never"), asksHelper, asks("missing")), says("done")}},
				sleeps("good", 300*time.Millisecond, nil), sleeps("bad", 200*time.Millisecond, errors.New("secret contents")), sleeps("never", 0, nil),
				subagent(helper, sleeps("look", 100*time.Millisecond, nil)))
			r.Policy = func(_ context.Context, inv *agent.Invocation) agent.Verdict {
				if inv.Call.Name == "never" {
					return agent.Verdict{Decision: agent.Deny, Reason: "no"}
				}
				return agent.Verdict{Decision: agent.Allow}
			}
			return r.run(t)
		}},
		{"a model that fails, below a caller", func(t *testing.T) string {
			r := newTraceRun(t, &thinker{answers: []any{says("", asksHelper), &agent.ModelError{Status: 500, Message: "oops"}}},
				subagent(&thinker{answers: []any{&agent.ModelError{Status: 400, Code: "bad_request", Message: "no"}}}))
			r.From = &runner.Resume{Traceparent: outside}
			return r.run(t)
		}},
		{"a cancelled run", func(t *testing.T) string {
			r := newTraceRun(t, &thinker{answers: []any{says("", asks("slow"), asksHelper)}}, sleeps("slow", time.Hour, nil), subagent(&thinker{answers: []any{says("", asks("slow"))}}, sleeps("slow", time.Hour, nil)))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(2500*time.Millisecond, cancel)
			r.ctx = ctx
			return r.run(t)
		}},
		{"a run that dies and is resumed", func(t *testing.T) string {
			r := newTraceRun(t, &thinker{answers: []any{says("", asks("first")), says("", asks("second")), says("done")}},
				sleeps("first", 100*time.Millisecond, nil), sleeps("second", 100*time.Millisecond, nil))
			var dead bool
			died, observe := errors.New("the process died"), r.Observe
			r.Observe = func(e agent.Event) {
				if dead = dead || e.Kind == agent.EventCallEnded && e.Tool == "second"; !dead {
					observe(e)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			r.Journal = journalFunc(func(e agent.Event) error {
				if e.Kind == agent.EventCallEnded && e.Tool == "second" {
					dead = true
					cancel(died)
					return died
				}
				return nil
			})
			if _, err := r.Run(ctx, agent.UserText("go")); err == nil {
				t.Error("the run did not die")
			}
			first := r.out.String() // what was open is lost
			session := &agent.Session{}
			for _, e := range r.events {
				if err := session.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			again := newTraceRun(t, r.Agent.Provider, r.Agent.Toolsets[0].(agent.ToolList)...)
			// The spans of the first process have this usage.
			again.From = &runner.Resume{Session: session, Total: agent.TotalUsage{Usage: agent.Usage{Requests: 2, InputTokens: 1e6, OutputTokens: 1e6}}}
			if _, err := again.Resume(t.Context()); err != nil {
				t.Error(err)
			}
			return first + again.closed(t)
		}},
		{"two runs of a session", func(t *testing.T) string {
			r := newTraceRun(t, &thinker{answers: []any{says("one"), says("two")}})
			for range 2 {
				if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
					t.Error(err)
				}
			}
			return r.closed(t)
		}},
		{"an agent in another process that exports its own spans", func(t *testing.T) string {
			return nestedRun(t, func(outer *traceRun, _ *agent.Invocation, inner *traceRun) {
				outer.out.WriteString(inner.closed(t))
			})
		}},
		{"an agent in another process whose events come up", func(t *testing.T) string {
			return nestedRun(t, func(outer *traceRun, inv *agent.Invocation, inner *traceRun) {
				for _, e := range inner.events {
					outer.trace.Observe(forwarded(e, inv))
				}
			})
		}},
		{"an agent in another process that dies", func(t *testing.T) string {
			return nestedRun(t, func(outer *traceRun, inv *agent.Invocation, inner *traceRun) {
				for _, e := range inner.events {
					if e.Kind == agent.EventCallEnded {
						return
					}
					outer.trace.Observe(forwarded(e, inv))
				}
			})
		}},
		{"a call without a run", func(t *testing.T) string {
			r := newTraceRun(t, nil)
			r.From = &runner.Resume{Traceparent: outside}
			_, _ = r.Call(t.Context(), sleeps("good", time.Second, nil), `{}`)
			return r.closed(t)
		}},
		{"a conversation that is too long", func(t *testing.T) string {
			r := newTraceRun(t, nil)
			s := &agenttest.Source{Session: "S1", Agent: "main", At: time.Now()}
			prompt, usage := agent.UserText("go"), agent.Usage{Requests: 1, InputTokens: 9, OutputTokens: 2}
			for _, e := range []agent.Event{
				{Kind: agent.EventMessage, Message: &prompt},
				{Kind: agent.EventMessage, Message: &prompt, Turn: 1},
				{Kind: agent.EventMessage, Message: &prompt, Closing: true},
				{Kind: agent.EventRequest, Turn: 1, Model: "m"},
				{Kind: agent.EventFailure, Turn: 1, TooLong: true, Status: agent.StatusFailed, Error: "too long"},
				{Kind: agent.EventRequest, Turn: 1, Model: "m", Summary: true},
				{Kind: agent.EventRetry, Turn: 1, Error: "busy"},
				{Kind: agent.EventCompaction, Usage: &usage},
				{Kind: agent.EventRequest, Turn: 1, Model: "m"},
				{Kind: agent.EventRetry, Turn: 1, Error: "m: quota", Fallback: "fast", Model: "n"},
				{Kind: agent.EventAnswer, Turn: 1, Usage: &usage, Finish: agent.FinishStop, Fallback: "fast", Model: "n-2026"},
				{Kind: agent.EventRequest, Turn: 2, Model: "m"},
				{Kind: agent.EventFailure, Turn: 2, TooLong: true, Status: agent.StatusFailed, Error: "still too long"},
				{Kind: agent.EventRequest, Turn: 2, Model: "m", Summary: true},
				{Kind: agent.EventFailure, Turn: 2, Summary: true, Status: agent.StatusFailed, Error: "no summary", Usage: &usage},
				{Kind: agent.EventEnd, Turn: 1, Status: agent.StatusFailed, Error: "it ended"},
			} {
				s.At = s.At.Add(time.Second)
				r.trace.Observe(s.Event(e))
			}
			return r.closed(t)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			text := test.run(t)
			if strings.Contains(text, "secret contents") {
				t.Errorf("%s: the contents of a message are in a span:\n%s", test.name, text)
			}
			fmt.Fprintf(&all, "# %s\n%s\n", test.name, spanTree(t, text))
		})
	}
	golden(t, "trace.txt", all.String())
}

// forwarded is an event of an agent that the call runs in another process.
func forwarded(e agent.Event, inv *agent.Invocation) agent.Event {
	if e.Depth == 0 {
		e.Parent = inv.Key
	}
	e.Depth += inv.Depth + 1
	return e
}

// nestedRun runs an agent whose tool runs another one, as in a process of its own.
// up takes the events of that one to the outer run, or not.
func nestedRun(t *testing.T, up func(outer *traceRun, inv *agent.Invocation, inner *traceRun)) string {
	var outer *traceRun
	outer = newTraceRun(t, &thinker{answers: []any{says("", asks("nested")), says("done")}}, work{"nested", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		inner := newTraceRun(t, &thinker{answers: []any{says("", asksHelper), says("done")}}, subagent(&thinker{answers: []any{says("found")}}))
		inner.Agent.Slug = "inner"
		n := 0
		inner.NewID = func() string { n++; return fmt.Sprint("T", n) }
		inner.From = &runner.Resume{Traceparent: inv.Trace, Parent: inv.Key}
		if _, err := inner.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Error(err)
		}
		up(outer, inv, inner)
		return agent.TextResult("ok"), nil
	}})
	return outer.run(t)
}

type journalFunc func(agent.Event) error

func (f journalFunc) Append(_ context.Context, e agent.Event) error { return f(e) }
func (f journalFunc) Sync(context.Context) error                    { return nil }

func TestTraceIsPosted(t *testing.T) {
	log := &logServer{}
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		log.ServeHTTP(w, r)
	}))
	defer server.Close()
	var file bytes.Buffer
	trace, err := OpenTrace(TraceOptions{W: &file, URL: server.URL + "/v1/traces", HTTP: HTTPOptions{Header: http.Header{"Authorization": {"Bearer x"}}},
		Resource: map[string]string{"service.name": "agents", "a": `"b"`}, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range agenttest.Story() {
		e.Time = time.Unix(1700000000, 0)
		trace.Observe(e)
	}
	if err := trace.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	posted, written := spansOf(t, log.all()), spansOf(t, file.String())
	if len(posted) == 0 || len(posted) != len(written) || len(log.bodies) != 1 {
		t.Errorf("%d spans in %d requests were posted, and %d written", len(posted), len(log.bodies), len(written))
	}
	if log.kinds[0] != "POST application/json" || header.Get("Authorization") != "Bearer x" {
		t.Errorf("request %s with the headers %v", log.kinds[0], header)
	}
	const resource = `{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":{"stringValue":"\"b\""}},{"key":"service.name","value":{"stringValue":"agents"}}]},` +
		`"scopeSpans":[{"scope":{"name":"github.com/agents-exe/agents","version":"1"},"spans":[{"traceId":`
	if !strings.HasPrefix(log.bodies[0], resource) || !strings.HasPrefix(file.String(), resource) {
		t.Errorf("the body begins\n%.400s\nwant\n%s", log.bodies[0], resource)
	}
}

func TestTraceThatIsNotSampledIsNotPosted(t *testing.T) {
	log := &logServer{}
	server := httptest.NewServer(log)
	defer server.Close()
	var file bytes.Buffer
	trace, err := OpenTrace(TraceOptions{W: &file, URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range agenttest.Story() {
		e.Time = time.Unix(1700000000, 0)
		if e.Kind == agent.EventMessage && e.Depth == 0 {
			e.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
		}
		trace.Observe(e)
	}
	if err := trace.Close(); err != nil || log.all() != "" {
		t.Errorf("Close: %v; posted: %s", err, log.all())
	}
	for _, s := range spansOf(t, file.String()) {
		if s.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Flags&flagSampled != 0 {
			t.Errorf("span %s of trace %s with the flags %#x", s.Name, s.TraceID, s.Flags)
		}
	}
}

// TestTraceSendsBatches: spans that end within a second go in one request.
func TestTraceSendsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		trace, err := OpenTrace(TraceOptions{URL: "http://collector.example/v1/traces", HTTP: HTTPOptions{Transport: roundTripper(func(body string) (int, error) {
			bodies = append(bodies, body)
			return http.StatusOK, nil
		})}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 10 {
			trace.Observe(agent.Event{Kind: agent.EventCallEnded, Time: time.Now(), Session: "S", Key: fmt.Sprint("S.1.", i+1), Tool: "x"})
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(bodies) != 1 || len(spansOf(t, bodies[0])) != 10 {
			t.Errorf("%d requests, want one with 10 spans: %s", len(bodies), bodies)
		}
		if err := trace.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTraceFailures(t *testing.T) {
	if _, err := OpenTrace(TraceOptions{URL: "collector:4318"}); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Errorf("OpenTrace of a URL without a scheme: %v", err)
	}
	trace, err := OpenTrace(TraceOptions{W: agenttest.BrokenPipe{}, URL: "http://127.0.0.1:1/v1/traces"})
	if err != nil {
		t.Fatal(err)
	}
	trace.Observe(agent.Event{Kind: agent.EventCallEnded, Time: time.Now(), Session: "S", Key: "S.1.1", Tool: "x"})
	err = trace.Close()
	if !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(fmt.Sprint(err), "post spans to 127.0.0.1:1: 1 of 1 were lost: ") {
		t.Errorf("Close: %v", err)
	}
}

func TestAddExportsASpan(t *testing.T) {
	var out bytes.Buffer
	trace, err := OpenTrace(TraceOptions{W: &out})
	if err != nil {
		t.Fatal(err)
	}
	c, start := traceid.Root("S"), time.Unix(100, 0)
	c.Span = traceid.Call("k")
	trace.Add(Span{Context: c, Parent: traceid.Run("S", 0), Name: "RunActivity:step", Start: start, End: start.Add(time.Second), Attributes: map[string]string{"host": "a", "none": ""}, Error: "no answer"})
	spans := spansOf(t, out.String())
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	s := spans[0]
	if s.TraceID != c.Trace || s.SpanID != c.Span || s.Parent != traceid.Run("S", 0) || s.Start != "100000000000" || s.End != "101000000000" || s.Status == nil || s.Status.Message != "no answer" {
		t.Errorf("the span is %+v", s)
	}
	if got := shownAttributes(s.Attributes); !strings.Contains(got, `host="a"`) || strings.Contains(got, "none") {
		t.Errorf("its attributes are %s", got)
	}
}
