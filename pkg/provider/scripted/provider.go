package scripted

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// maxSessions limits the sessions whose uses of rules are remembered.
const maxSessions = 4096

// A Provider plays a script. It is an agent.Provider, safe for concurrent use,
// and must not be copied. How often a rule was used is counted for each session
// by itself, so sessions that run at the same time do not disturb one another;
// only rules with "times" are counted, in memory, for the 4,096 sessions that
// used such a rule last.
type Provider struct {
	// Script is required.
	Script *Script
	// Sleep waits for a scripted delay, or until ctx ends, and then returns
	// its error; nil means real time.
	Sleep func(ctx context.Context, d time.Duration) error

	mu       sync.Mutex
	played   map[*rule]bool
	sessions map[string]*uses
	clock    uint64
}

// uses counts the uses of rules in one session.
type uses struct {
	count map[*rule]int
	last  uint64 // the clock of the last use
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
		return nil, p.Script.unmatched(v, p.used(req.Session))
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
		if !p.played[r] {
			names = append(names, r.String())
		}
	}
	return names
}

// use reports whether the rule may be used once more in the session, and notes
// that it is.
func (p *Provider) use(session string, r *rule) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.times > 0 {
		s := p.session(session)
		p.clock++
		s.last = p.clock
		if s.count[r] >= r.times {
			return false
		}
		s.count[r]++
	}
	if p.played == nil {
		p.played = map[*rule]bool{}
	}
	p.played[r] = true
	return true
}

// session returns the counts of a session. A new one may take the place of the
// one that was used longest ago.
func (p *Provider) session(id string) *uses {
	if s := p.sessions[id]; s != nil {
		return s
	}
	if p.sessions == nil {
		p.sessions = map[string]*uses{}
	}
	if len(p.sessions) >= maxSessions {
		oldest, at := "", uint64(0)
		for id, s := range p.sessions {
			if at == 0 || s.last < at {
				oldest, at = id, s.last
			}
		}
		delete(p.sessions, oldest)
	}
	s := &uses{count: map[*rule]int{}}
	p.sessions[id] = s
	return s
}

func (p *Provider) used(session string) map[*rule]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[session]; s != nil {
		return maps.Clone(s.count)
	}
	return nil
}

func (p *Provider) sleep(ctx context.Context, d time.Duration) error {
	switch {
	case d == 0:
		return ctx.Err()
	case p.Sleep != nil:
		return p.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// deliver shows the answer piece by piece, and breaks it off where the rule
// says so.
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

// split cuts a text into pieces of various lengths, as they come from a server:
// in the middle of words, but never of a character. There are at most about a
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

// respond fills in the answer of a rule.
func (r *rule) respond(v *view) (*agent.Response, error) {
	f := &filler{rule: r, view: v, room: MaxAnswer}
	resp := &agent.Response{Finish: r.answer.finish, Model: "scripted"}
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

// of counts a token for every four bytes, where the script gives no number.
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

// size is the number of bytes in a message.
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
