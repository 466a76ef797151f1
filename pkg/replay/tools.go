package replay

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// recordedTools are the tools of a recorded session, as its model was told of them.
type recordedTools struct {
	p *Player
	s *session
}

// Tools gives the tools of the turn that comes next.
func (t *recordedTools) Tools(ctx context.Context) ([]agent.Tool, error) {
	tools, turn := t.tools()
	t.p.conduct.wait(ctx, step{t.s.path, agent.EventSetup, place{turn: turn}})
	return tools, nil
}

func (t *recordedTools) tools() (tools []agent.Tool, turn int) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	pl := t.p.paths[t.s.path]
	if pl == nil {
		return nil, 0
	}
	now := t.s.setup
	list := t.s.asks[pl.turn]
	for _, a := range list[min(pl.cursor, len(list)):] {
		if a.kind == shortened {
			continue
		}
		if now = a.setup; now == nil && a.kind == ended {
			// It was interrupted before it came to a request.
			pl.stop(&ending{text: a.end.Error, status: a.end.Status, cause: true})
		}
		break
	}
	if now == nil {
		return nil, pl.turn
	}
	for _, spec := range now.tools {
		tools = append(tools, &tool{p: t.p, spec: spec})
	}
	return tools, pl.turn
}

// wrappedTools are those of a toolset, with results from the record.
type wrappedTools struct {
	p   *Player
	set agent.Toolset
}

// Tools gives the tools that the toolset has.
func (w *wrappedTools) Tools(ctx context.Context) ([]agent.Tool, error) {
	tools, err := w.set.Tools(ctx)
	tools = slices.Clone(tools)
	for i, t := range tools {
		tools[i] = &tool{p: w.p, spec: t.Spec(), real: t}
	}
	return tools, err
}

// Instructions are those of the toolset, if it has some.
func (w *wrappedTools) Instructions(ctx context.Context) (string, error) {
	if in, ok := agent.As[agent.Instructor](w.set); ok {
		return in.Instructions(ctx)
	}
	return "", nil
}

// tool serves the results of one tool.
type tool struct {
	p    *Player
	spec agent.ToolSpec
	real agent.Tool // nil if there is none
}

func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Command is what a real call would execute, and what a recorded one did.
func (t *tool) Command(inv *agent.Invocation) (argv []string, digest string) {
	if t.isReal(inv) {
		if c, ok := agent.As[agent.Commander](t.real); ok {
			return c.Command(inv)
		}
		return nil, ""
	}
	if c := t.p.recorded(inv); c != nil && c.started != nil {
		return c.started.Argv, c.started.Digest
	}
	return nil, ""
}

// isReal reports whether a call runs the tool itself. A sub-agent does so always
// where there is one: its own model and tools are served.
func (t *tool) isReal(inv *agent.Invocation) bool {
	return t.real != nil && (t.spec.Agent != "" || t.p.realCall(inv))
}

// realCall reports whether the tool is to be run.
func (p *Player) realCall(inv *agent.Invocation) bool {
	return p.LiveTools || p.real(p.of(inv.Session).path, inv.Turn)
}

// Call gives the recorded result, or ends the replay.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	ctx, stop := t.p.stoppable(ctx, inv)
	defer stop()
	if t.isReal(inv) {
		return t.real.Call(ctx, inv)
	}
	c, err := t.p.take(inv)
	if err != nil {
		t.p.fail(err)
		return agent.Result{}, err
	}
	if t.p.own {
		t.p.nestedRuns(ctx, inv, c)
	}
	if c.result == nil {
		pl := t.p.of(inv.Session)
		if t.p.own {
			t.p.conduct.rest(ctx, pl.path)
		}
		t.p.leave(pl)
		return agent.Result{}, ErrUnfinished
	}
	if t.p.own {
		t.p.conduct.wait(ctx, step{t.p.of(inv.Session).path, agent.EventCallEnded, c.at})
	}
	return restore(c.result)
}

// nestedRuns replays the sessions that a recorded call started, each from when it
// began. How they end is part of the recorded result.
func (p *Player) nestedRuns(ctx context.Context, inv *agent.Invocation, c *call) {
	var g sync.WaitGroup
	defer g.Wait()
	for _, s := range c.nested {
		begins := step{path: s.path, kind: agent.EventSession}
		if !s.prompts() { // it was left before its prompt
			p.conduct.happened(begins)
			continue
		}
		p.conduct.wait(ctx, begins)
		p.mu.Lock()
		p.nextID = s.open.Session
		p.mu.Unlock()
		over := make(chan struct{})
		g.Go(func() {
			defer close(over)
			_, _ = inv.Run(ctx, p.agent(s, 0), s.runs[0].prompt)
		})
		// Which one it is shows in the order in which they begin.
		p.conduct.until(ctx, p.Record.order.index[begins]+1, over)
	}
}

// stoppable gives the sessions that a call starts a context of their own, so that
// one which was interrupted can end as it did and not take others with it.
func (p *Player) stoppable(ctx context.Context, inv *agent.Invocation) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	p.mu.Lock()
	p.stops[inv.Key] = stop
	p.mu.Unlock()
	return ctx, func() {
		stop(nil)
		p.mu.Lock()
		delete(p.stops, inv.Key)
		p.mu.Unlock()
	}
}

// permit decides what was decided when the session was recorded. What is real is
// up to real.
func (p *Player) permit(ctx context.Context, inv *agent.Invocation, real agent.Policy) agent.Verdict {
	allow := agent.Verdict{Decision: agent.Allow}
	if p.realCall(inv) {
		if real == nil {
			return allow
		}
		return real(ctx, inv)
	}
	c := p.recorded(inv)
	if c == nil || p.LiveModel {
		return allow
	}
	p.waitCall(ctx, inv, c)
	if c.verdict != nil {
		return agent.Verdict{Decision: c.verdict.Decision, Reason: c.verdict.Text}
	}
	return allow
}

// waitCall waits until the recorded call may start, or end if it did not start.
func (p *Player) waitCall(ctx context.Context, inv *agent.Invocation, c *call) {
	if p.own {
		kind := agent.EventCallStarted
		if c.started == nil {
			kind = agent.EventCallEnded
		}
		p.conduct.wait(ctx, step{p.of(inv.Session).path, kind, c.at})
	}
}

// refused is why the recorded call did not run, in the words behind prefix.
func (c *call) refused(prefix string) error {
	if c == nil || c.started != nil || c.result == nil || c.verdict != nil && c.verdict.Decision != agent.Allow {
		return nil
	}
	if why, ok := strings.CutPrefix(c.result.Text(), failed+prefix+": "); ok {
		return errors.New(why)
	}
	return nil
}

// afford refuses the calls that did not run when the session was recorded. What is
// real is up to real.
func (p *Player) afford(ctx context.Context, n agent.Need, real agent.Budget) (func(agent.Usage), error) {
	if real != nil && (n.Call == nil || p.realCall(n.Call)) {
		return real(ctx, n)
	}
	if n.Call != nil && !p.LiveModel && !p.realCall(n.Call) {
		if err := p.recorded(n.Call).refused("not run"); err != nil {
			return nil, err
		}
	}
	return func(agent.Usage) {}, nil
}

// Validate implements agent.Validator: it refuses what was refused when the session
// was recorded.
func (t *tool) Validate(ctx context.Context, inv *agent.Invocation) error {
	if t.isReal(inv) {
		if v, ok := agent.As[agent.Validator](t.real); ok {
			return v.Validate(ctx, inv)
		}
		return nil
	}
	if t.p.LiveModel {
		return nil
	}
	c := t.p.recorded(inv)
	err := c.refused("nothing ran")
	if err != nil {
		t.p.waitCall(ctx, inv, c)
	}
	return err
}

// recorded is the call at the place of inv, or nil.
func (p *Player) recorded(inv *agent.Invocation) *call {
	_, at, ok := parseKey(inv.Key)
	if pl := p.of(inv.Session); ok && pl.rec != nil {
		return pl.rec.calls[at]
	}
	return nil
}

// take finds the recorded call that inv is; otherwise the error is a *Miss.
func (p *Player) take(inv *agent.Invocation) (*call, error) {
	if p.LiveModel {
		return p.takeAlike(inv)
	}
	c := p.recorded(inv)
	if c == nil || c.call.Name != inv.Call.Name || c.call.Args != inv.Call.Args {
		return nil, missCall(p.of(inv.Session).path, inv, c)
	}
	return c, nil
}

// takeAlike finds a call of the same tool with the same arguments that was not
// served yet, of the same agent before others.
func (p *Player) takeAlike(inv *agent.Invocation) (*call, error) {
	path := p.of(inv.Session).path
	p.mu.Lock()
	defer p.mu.Unlock()
	args := canonical(inv.Call.Args)
	var found, near *call
	nearest := 0
	for _, c := range p.Record.calls {
		if c.call.Name != inv.Call.Name || c.result == nil || len(c.nested) > 0 || p.served[c] {
			continue
		}
		theirs := canonical(c.call.Args)
		if n := max(len(theirs), len(args)) - common(theirs, args); near == nil || n < nearest {
			near, nearest = c, n
		}
		if theirs == args && (found == nil || found.agent != inv.Agent && c.agent == inv.Agent) {
			found = c
		}
	}
	if found == nil {
		return nil, missCall(path, inv, near)
	}
	p.served[found] = true
	return found, nil
}

// canonical is a JSON text without what does not matter in it: spaces, and the order
// of keys. A text that is no JSON is what it is.
func canonical(args string) string {
	d := json.NewDecoder(strings.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return args
	}
	b, err := json.Marshal(v)
	if err != nil {
		return args
	}
	return string(b)
}

// common is how many bytes two texts share at their beginning and end.
func common(a, b string) int {
	n := min(len(a), len(b))
	front, back := 0, 0
	for front < n && a[front] == b[front] {
		front++
	}
	for back < n-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	return front + back
}

// failed begins the result of a call that failed.
const failed = "error: "

// restore is what a tool gave back, so that the Runner makes the recorded result of
// it: of a failure it puts the error before the parts, on a line of its own.
func restore(r *agent.ToolResult) (agent.Result, error) {
	if !r.Failed || len(r.Parts) == 0 {
		return agent.Result{Parts: r.Parts}, nil
	}
	text := strings.TrimPrefix(r.Parts[0].Text, failed)
	rest := r.Parts[1:]
	if len(rest) > 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	return agent.Result{Parts: rest}, errors.New(text)
}
