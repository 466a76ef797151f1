package serve

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// Metrics count what happens in runs, for Prometheus. Its methods are safe for concurrent
// use. Names that come from clients, models and servers do not become labels: an unknown
// name is counted as "other".
type Metrics struct {
	known [3]map[string]bool // agents, tools, models

	mu       sync.Mutex
	families []*family
	models   map[string]string // which each session asks; servers answer with other names
}

// A family is a metric with its samples by labels.
type family struct {
	name, kind, help string
	samples          map[string]float64
	spread           map[string]*spread // of a histogram
}

// A spread counts durations by their upper bounds.
type spread struct {
	counts [len(bounds)]uint64
	count  uint64
	sum    float64
}

// bounds are those of durations, in seconds.
var bounds = [...]float64{0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800}

// The metrics, by their place in families.
const (
	runs = iota
	runSeconds
	turns
	turnSeconds
	retries
	failures
	tokens
	cost
	unpriced
	calls
	callSeconds
)

// NewMetrics returns metrics with the names of agents, tools and models that may be labels.
func NewMetrics(agents, tools, models []string) *Metrics {
	m := &Metrics{models: map[string]string{}}
	for i, names := range [][]string{agents, tools, models} {
		m.known[i] = map[string]bool{}
		for _, name := range names {
			m.known[i][name] = true
		}
	}
	for _, f := range []family{
		{name: "agents_runs_total", kind: "counter", help: "Runs that ended, sub-agents included."},
		{name: "agents_run_seconds", kind: "histogram", help: "Wall time of runs."},
		{name: "agents_turns_total", kind: "counter", help: "Answers of models."},
		{name: "agents_turn_seconds", kind: "histogram", help: "Time until the answer of a model."},
		{name: "agents_model_retries_total", kind: "counter", help: "Model requests that were repeated."},
		{name: "agents_model_errors_total", kind: "counter", help: "Model requests that failed."},
		{name: "agents_tokens_total", kind: "counter", help: "Tokens; input includes cached, output includes reasoning."},
		{name: "agents_cost_dollars_total", kind: "counter", help: "Cost of the requests whose price is known, in US dollars."},
		{name: "agents_unpriced_requests_total", kind: "counter", help: "Model requests whose price is not known."},
		{name: "agents_tool_calls_total", kind: "counter", help: "Tool calls that ended."},
		{name: "agents_tool_call_seconds", kind: "histogram", help: "Wall time of tool calls."},
	} {
		f.samples, f.spread = map[string]float64{}, map[string]*spread{}
		m.families = append(m.families, &f)
	}
	return m
}

// Observe counts an event of a run.
func (m *Metrics) Observe(e agent.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := labels("agent", m.label(0, e.Agent))
	model := func() string { return of + "," + labels("model", m.label(2, m.models[e.Session])) }
	seconds := float64(e.Millis) / 1000
	switch e.Kind {
	case agent.EventRequest:
		m.models[e.Session] = e.Model
	case agent.EventEnd:
		delete(m.models, e.Session)
		m.add(runs, of+","+labels("status", string(e.Status)), 1)
		m.time(runSeconds, of, seconds)
	case agent.EventRetry:
		m.add(retries, of, 1)
		if e.Model != "" {
			m.models[e.Session] = e.Model
		}
	case agent.EventFailure:
		m.add(failures, of, 1)
	case agent.EventAnswer:
		m.add(turns, model(), 1)
		m.time(turnSeconds, model(), seconds)
	case agent.EventCallEnded:
		status := "ok"
		if e.Result != nil && e.Result.Failed {
			status = "failed"
		}
		tool := of + "," + labels("tool", m.label(1, e.Tool))
		m.add(calls, tool+","+labels("status", status), 1)
		m.time(callSeconds, tool, seconds)
	}
	if u := e.Usage; u != nil && e.Kind != agent.EventEnd {
		for kind, n := range map[string]int{"input": u.InputTokens, "cached": u.CachedTokens, "output": u.OutputTokens, "reasoning": u.ReasoningTokens} {
			m.add(tokens, model()+","+labels("kind", kind), float64(n))
		}
		m.add(cost, model(), float64(u.Cost)/float64(agent.Dollar))
		m.add(unpriced, model(), float64(u.Unpriced()))
	}
}

// label returns name if it is known.
func (m *Metrics) label(i int, name string) string {
	if m.known[i][name] {
		return name
	}
	return "other"
}

func labels(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

func (m *Metrics) add(i int, labels string, n float64) {
	if n > 0 {
		m.families[i].samples[labels] += n
	}
}

func (m *Metrics) time(i int, labels string, seconds float64) {
	s := m.families[i].spread[labels]
	if s == nil {
		s = &spread{}
		m.families[i].spread[labels] = s
	}
	s.count++
	s.sum += seconds
	for b, bound := range bounds {
		if seconds <= bound {
			s.counts[b]++
		}
	}
}

func (m *Metrics) write(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		f.write(w)
	}
}

func (f *family) write(w io.Writer) {
	var lines []string
	for _, l := range slices.Sorted(maps.Keys(f.samples)) {
		lines = append(lines, fmt.Sprintf("%s{%s} %s\n", f.name, l, number(f.samples[l])))
	}
	for _, l := range slices.Sorted(maps.Keys(f.spread)) {
		s := f.spread[l]
		for b, bound := range bounds {
			lines = append(lines, fmt.Sprintf("%s_bucket{%s,le=%q} %d\n", f.name, l, number(bound), s.counts[b]))
		}
		lines = append(lines, fmt.Sprintf("%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %s\n%s_count{%s} %d\n", f.name, l, s.count, f.name, l, number(s.sum), f.name, l, s.count))
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, strings.Join(lines, ""))
	}
}

func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// metrics is GET /metrics.
func (c *client) metrics(w http.ResponseWriter, _ *http.Request) {
	if c.Limited && !c.Metrics {
		refuse(w, &Error{Status: http.StatusForbidden, Text: "this token is not for the metrics"})
		return
	}
	s := c.server
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := bufio.NewWriter(&slowWriter{w, http.NewResponseController(w)})
	s.opts.Metrics.write(out)
	s.places.mu.Lock()
	taken, waiting, refused := s.places.taken, len(s.places.line), s.places.refused
	s.places.mu.Unlock()
	s.mu.Lock()
	open := s.listener.Open()
	s.mu.Unlock()
	for _, g := range []struct {
		name, kind, help string
		n                int
	}{
		{"agents_runs_in_progress", "gauge", "Runs that have a place.", taken},
		{"agents_runs_waiting", "gauge", "Runs that wait for a place.", waiting},
		{"agents_runs_refused_total", "counter", "Runs for which there was no place.", refused},
		{"agents_connections", "gauge", "Open connections of clients.", open},
	} {
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", g.name, g.help, g.name, g.kind, g.name, g.n)
	}
	_ = out.Flush() // a client that is gone reads nothing
}
