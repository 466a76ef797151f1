package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/standin"
)

// ErrUnfinished is the end of a replay whose record has no end: the process that
// recorded it died, or was still running when the record was read.
var ErrUnfinished = errors.New("the record ends here: the run was not finished")

// A Player replays a Record once. Its exported fields must not be changed after the
// first call. At most one of LiveTools, LiveModel and LiveFrom may be set, and each
// of them needs agents that were given to Wrap.
type Player struct {
	Record *Record
	// LiveTools runs the tools, and serves the model's answers. The results of the
	// tools may differ from the recorded ones, and are not compared. Messages that came
	// during a run are the recorded ones, also those about background commands.
	LiveTools bool
	// LiveModel asks the models, and serves the results of tools: a call gets the
	// recorded result of the same tool for the same arguments.
	LiveModel bool
	// LiveFrom is the first turn of the root session whose model and tools are
	// real, from 1; 0 is none.
	LiveFrom int

	mu       sync.Mutex
	sessions map[string]*progress // by session id
	running  map[string]*running  // by Invocation.Key
	served   map[*call]bool       // with LiveModel
	stop     context.CancelCauseFunc
	context  json.RawMessage // of the last event about it
	run      int             // of the root session, from 1
	broken   error           // why the replay ends early: a *Miss or ErrUnfinished

	conversation *agent.Session
}

// progress is how far the replay of a session is.
type progress struct {
	path string
	rec  *session // nil if there is none at this path
	stop context.CancelCauseFunc
	turn int // of the root session, in which this one began; 0 for the root itself

	served      int // requests of this turn
	summaries   int // of this turn that were served
	inputs      int // of this turn that were served
	compactions int // so far
	closed      int // the turn before which the model was asked for its answer
	// equal messages of the conversation were compared when it had seen
	// equalSince compactions; they stay the same until the next.
	equal, equalSince int
}

// running is a call of a tool that runs, and may start sessions.
type running struct {
	up      *progress // of the session that makes the call
	at      position
	started int // sessions
	stop    context.CancelCauseFunc
}

// Run replays the record with the Runners that next returns, each of which is used once. If
// they have no Agent, it repeats the recorded events, with new times, through the Journal,
// Secrets, Observe and Now of one. Otherwise there is one run for each prompt of the record,
// and one for each time that a run which had ended was resumed; an Agent without an Opening
// gets the recorded one, and the Session of From is not used. The Outcome is that of the last
// run, with the recorded error. A *Miss or ErrUnfinished ends the replay.
func (p *Player) Run(ctx context.Context, next func() *runner.Runner) (*agent.Outcome, error) {
	r := next()
	if r.Agent == nil {
		return p.emitAll(ctx, r)
	}
	p.sessions, p.running, p.served = map[string]*progress{}, map[string]*running{}, map[*call]bool{}
	p.context = nil
	p.conversation = &agent.Session{}
	runs := p.Record.root.runs
	root := *r.Agent
	if root.Opening == nil {
		root.Opening = runs[0].opening
	}
	var own *runner.Runner
	out := &agent.Outcome{}
	var err error
	for i, run := range runs {
		last := i == len(runs)-1
		if own == nil || run.resumed || run.context != nil {
			given := run.context
			if i == 0 {
				given = first(r.Context, run.context)
			}
			if own != nil {
				r = next()
			}
			own = p.prepare(r, &root, first(given, p.context))
			own.From.Total = out.Total
		}
		if !run.resumed || run.compact || p.conversation.Unfinished() { // a real model may have answered before
			out, err = p.runOnce(ctx, own, run, i+1)
		}
		switch {
		case p.broken != nil && (last || !errors.Is(p.broken, ErrUnfinished)):
			out.Status = agent.StatusFailed
			return out, p.broken
		case last, ctx.Err() != nil, errors.Is(err, agent.ErrJournal):
			return out, err
		}
	}
	return nil, nil // New refuses a record without a prompt
}

// runOnce makes run n of the record.
func (p *Player) runOnce(ctx context.Context, r *runner.Runner, run *run, n int) (*agent.Outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.mu.Lock()
	p.stop, p.broken = stop, nil
	p.run = n
	for _, s := range p.sessions {
		if s.path == "" {
			s.stop, s.inputs = stop, 0
		}
	}
	p.mu.Unlock()
	switch {
	case run.compact:
		return r.Compact(ctx)
	case run.resumed:
		return r.Resume(ctx)
	}
	return r.Run(ctx, run.prompt)
}

// Session is the conversation, after Run.
func (p *Player) Session() *agent.Session { return p.conversation }

// prepare puts the policy, budget and observer of the Player around those of r.
func (p *Player) prepare(r *runner.Runner, root *agent.Agent, shared json.RawMessage) *runner.Runner {
	from := runner.Resume{Session: p.conversation, Context: p.context}
	if r.From != nil {
		from.Parent, from.Depth, from.Traceparent = r.From.Parent, r.From.Depth, r.From.Traceparent
	}
	policy, reserve, observe := r.Policy, r.Reserve, r.Observe
	r.Agent, r.From, r.Context = root, &from, shared
	r.Policy = func(ctx context.Context, inv *agent.Invocation) agent.Verdict { return p.decide(ctx, inv, policy) }
	r.Reserve = func(ctx context.Context, n runner.Need) (func(agent.Usage), error) {
		return p.reserve(ctx, n, reserve)
	}
	r.Meanwhile, r.NoNotices = p.meanwhile, p.LiveTools
	if !p.LiveModel && p.LiveFrom == 0 {
		r.Leaves = p.leaves
	}
	r.Observe = func(e agent.Event) {
		p.observe(&e)
		if observe != nil {
			observe(e)
		}
	}
	return r
}

// first returns the first of several contexts that there is.
func first(list ...json.RawMessage) json.RawMessage {
	for _, value := range list {
		if len(value) > 0 {
			return value
		}
	}
	return nil
}

// Wrap makes an agent of a loaded tree use the record: its model and its tools, as
// far as they are not to be real. Its sub-agents must be given to Wrap themselves.
func (p *Player) Wrap(a *agent.Agent) {
	if !p.LiveModel {
		a.Provider = &model{p: p, real: a.Provider}
	}
	if a.Rights != nil {
		a.Rights = &replayedRights{a.Rights, p}
	}
	for i, set := range a.Toolsets {
		a.Toolsets[i] = agent.WrapToolset(set, func(_ context.Context, tools []agent.Tool, err error) ([]agent.Tool, error) {
			list := make([]agent.Tool, len(tools))
			for i, t := range tools {
				list[i] = &standin.Tool{Tool: t,
					Answer:   func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) { return p.call(ctx, inv, t) },
					Executes: func(inv *agent.Invocation) ([]string, string) { return p.command(inv, t) }}
			}
			return list, err
		})
	}
}

// observe follows the sessions of the replay.
func (p *Player) observe(e *agent.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[e.Session]
	switch {
	case e.Kind == agent.EventSession:
		p.open(e)
	case e.Kind == agent.EventContext:
		p.context = e.Context
	case s == nil:
	case e.Kind == agent.EventAnswer:
		s.served, s.summaries, s.inputs = 0, 0, 0
	case e.Kind == agent.EventCompaction:
		s.compactions++
	case e.Closing:
		s.closed = e.Turn
	}
}

// open adds a new session of the replay. p.mu is held.
func (p *Player) open(e *agent.Event) {
	s := &progress{stop: p.stop}
	if e.Depth > 0 {
		c := p.running[e.Parent]
		if c == nil {
			return
		}
		s.path, s.stop, s.turn = c.at.path(c.up.path, c.started), c.stop, c.up.turn
		if c.up.path == "" {
			s.turn = c.at.turn
		}
		c.started++
	}
	s.rec = p.Record.sessions[s.path]
	p.sessions[e.Session] = s
}

func (p *Player) of(id string) *progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[id]; s != nil {
		return s
	}
	return &progress{path: "?", stop: func(error) {}}
}

// real reports whether LiveFrom makes turn of the session real.
func (p *Player) real(s *progress, turn int) bool {
	if s.path != "" {
		turn = s.turn
	}
	return p.LiveFrom > 0 && turn >= p.LiveFrom
}

// meanwhile returns the next recorded input before the request of a turn: what a person sent, or the
// message of a background agent that ended.
// With a real model there is nothing.
func (p *Player) meanwhile(session string, turn int) (agent.Directive, bool) {
	s := p.of(session)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := moment{1, turn}
	if s.path == "" {
		at.run = p.run
	}
	if s.rec == nil || p.LiveModel || p.real(s, turn) || s.inputs == len(s.rec.inputs[at]) {
		return agent.Directive{}, false
	}
	s.inputs++
	in := s.rec.inputs[at][s.inputs-1]
	for id, of := range p.sessions {
		if in.of != nil && of.rec == in.of.of {
			in.Key = fmt.Sprintf("%s.%d.%d", id, in.of.at.turn, in.of.at.n)
		}
	}
	return in.Directive, true
}

// leave ends a session whose record ends here: the whole replay, if it is the root.
func (p *Player) leave(s *progress) {
	if s.path == "" {
		p.fail(ErrUnfinished)
		return
	}
	s.stop(interrupted(ErrUnfinished))
}

func (p *Player) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil || errors.Is(p.broken, ErrUnfinished) {
		p.broken = err
	}
	if p.stop != nil {
		p.stop(interrupted(err))
	}
}

// An endError is the error with which a recorded run ended.
type endError struct {
	text      string
	status    agent.Status
	cancelled bool // it is the cause of a context that was cancelled
}

func interrupted(err error) error {
	return &endError{text: err.Error(), status: agent.StatusInterrupted, cancelled: true}
}

func (e *endError) Error() string { return e.text }

// Is makes agent.StatusOf find the recorded Status.
func (e *endError) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.cancelled || e.status == agent.StatusInterrupted
	case context.DeadlineExceeded:
		return e.status == agent.StatusDeadline
	case agent.ErrTurns:
		return e.status == agent.StatusLimit
	case agent.ErrAnswer:
		return e.status == agent.StatusInvalid
	case agent.ErrRefused:
		return e.status == agent.StatusRefused
	case agent.ErrBudget:
		return e.status == agent.StatusBudget
	}
	return false
}
