package scripted

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Provider plays a script. It is an agent.Provider, safe for concurrent use,
// and must not be copied. The uses of rules with "times" are counted for each
// session separately, so that concurrent sessions do not affect one another. The
// counts are in memory.
type Provider struct {
	// Script is required.
	Script *Script
	// Sleep waits until d has passed or ctx ends, and then returns ctx's error;
	// nil means real time.
	Sleep func(ctx context.Context, d time.Duration) error

	mu   sync.Mutex
	used map[*rule]bool
	uses map[use]int // of rules with "times"
}

// A use is that of a rule in a session.
type use struct {
	session string
	rule    *rule
}

// Generate answers with the first rule that fits req. Every failure but ctx's
// end is an *agent.ModelError: a scripted fault, a value that is missing, or a
// conversation that no rule fits (ErrNoRule).
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v := newView(req)
	r := p.pick(v)
	if r == nil {
		return nil, p.unmatched(v)
	}
	if err := p.sleep(ctx, r.delay); err != nil {
		return nil, err
	}
	if r.answer == nil {
		return nil, r.fault.err()
	}
	resp, err := r.respond(v)
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err}
	}
	return p.deliver(ctx, r, resp, delta)
}

// pick finds the first rule that fits, and counts its use.
func (p *Provider) pick(v *view) *rule {
	for _, r := range p.Script.rules {
		if r.fits(v) && p.use(v.req.Session, r) {
			return r
		}
	}
	return nil
}

// Unused names the rules of the script that have answered no request yet, in
// their order, as messages name them.
func (p *Provider) Unused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, r := range p.Script.rules {
		if !p.used[r] {
			names = append(names, r.String())
		}
	}
	return names
}

// use counts a use of the rule, and reports whether the rule may be used once more
// in the session.
func (p *Provider) use(session string, r *rule) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := (use{session, r}); r.times > 0 {
		if p.uses[u] >= r.times {
			return false
		}
		if p.uses == nil {
			p.uses = map[use]int{}
		}
		p.uses[u]++
	}
	if p.used == nil {
		p.used = map[*rule]bool{}
	}
	p.used[r] = true
	return true
}

func (p *Provider) sleep(ctx context.Context, d time.Duration) error {
	switch {
	case d == 0:
		return ctx.Err()
	case p.Sleep != nil:
		return p.Sleep(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// deliver shows the answer in pieces, and stops where a broken_stream does.
func (p *Provider) deliver(ctx context.Context, r *rule, resp *agent.Response, delta func(agent.Delta)) (*agent.Response, error) {
	var deltas []agent.Delta
	for _, part := range resp.Message.Parts {
		kind := agent.DeltaText
		if part.Kind == agent.PartReasoning {
			kind = agent.DeltaReasoning
		}
		for _, text := range split(part.Text) {
			deltas = append(deltas, agent.Delta{Kind: kind, Text: text})
		}
	}
	if r.fault != nil {
		n := (len(deltas) + 1) / 2
		if r.fault.deltas >= 0 {
			n = min(r.fault.deltas, len(deltas))
		}
		deltas = deltas[:n]
	}
	for i, d := range deltas {
		wait := r.pace
		if i == 0 {
			wait = 0
		}
		if err := p.sleep(ctx, wait); err != nil {
			return nil, err
		}
		if delta != nil {
			delta(d)
		}
	}
	if r.fault != nil {
		return nil, r.fault.err()
	}
	return resp, nil
}

// split cuts a text into pieces of various lengths, as a server sends them: in the
// middle of words, but never of a character. There are at most about a
// thousand.
func split(text string) []string {
	sizes := [...]int{1, 5, 2, 9, 4, 14, 3}
	least := len(text)/1000 + 1
	var pieces []string
	for i := 0; text != ""; i++ {
		end := 0
		for range max(sizes[i%len(sizes)], least) {
			_, size := utf8.DecodeRuneInString(text[end:])
			end += size
		}
		pieces = append(pieces, text[:end])
		text = text[end:]
	}
	return pieces
}

func (r *rule) respond(v *view) (*agent.Response, error) {
	f := &filler{rule: r, view: v, left: MaxAnswer}
	resp := &agent.Response{Finish: agent.Finish(r.answer.finish), Model: "scripted"}
	m := &resp.Message
	m.Role = agent.RoleAssistant
	reasoning, err := f.fill(r.answer.reasoning)
	if err != nil {
		return nil, err
	}
	if reasoning != "" {
		m.Parts = append(m.Parts, agent.Part{Kind: agent.PartReasoning, Text: reasoning})
	}
	text, err := f.fill(r.answer.text)
	if err != nil {
		return nil, err
	}
	if text != "" {
		m.Parts = append(m.Parts, agent.Text(text))
	}
	for i, c := range r.answer.calls {
		args, err := f.args(c.args)
		if err != nil {
			return nil, err
		}
		id := fmt.Sprintf("s%04d%04d", v.req.Turn, i+1) // nine characters suit every provider
		if c.id != nil {
			id = *c.id
		}
		m.Calls = append(m.Calls, agent.ToolCall{ID: id, Name: c.tool, Args: args})
	}
	resp.Usage = r.answer.usage.of(v.req, *m)
	return resp, nil
}

// of is the usage of an answer: where the script gives no number, a token for
// every four bytes.
func (u usage) of(req *agent.Request, answer agent.Message) agent.Usage {
	in := len(req.System)
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range req.Messages {
		in += size(m)
	}
	reasoning := 0
	for _, p := range answer.Parts {
		if p.Kind == agent.PartReasoning {
			reasoning += len(p.Text)
		}
	}
	got := agent.Usage{Requests: 1, InputTokens: tokens(in, u.input), CachedTokens: tokens(0, u.cached),
		OutputTokens: tokens(size(answer), u.output), ReasoningTokens: tokens(reasoning, u.reasoning)}
	if u.cost != nil {
		got.Cost, got.Priced = *u.cost, 1
	}
	return got
}

func tokens(bytes int, given *int) int {
	if given != nil {
		return *given
	}
	return (bytes + 3) / 4
}

func size(m agent.Message) int {
	n := 0
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Data)
	}
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Args)
	}
	for _, r := range m.Results {
		for _, p := range r.Parts {
			n += len(p.Text) + len(p.Data)
		}
	}
	return n
}
