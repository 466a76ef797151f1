package replay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// ErrUnfinished is the end of a replay whose record breaks off: the process that
// recorded it died, or had not come to its end when the record was read.
var ErrUnfinished = errors.New("the record ends here: the run was not finished")

// A Player replays a Record once. Its exported fields must not be changed after the
// first call. At most one of LiveTools, LiveModel and LiveFrom may be set, and each
// of them needs agents that were given to Wrap.
type Player struct {
	Record *Record
	// LiveTools runs the tools, and serves the model's answers. What the tools give
	// back may differ from what was recorded, and is not compared.
	LiveTools bool
	// LiveModel asks the models, and serves the results of tools: a call gets the
	// result that the same tool gave to the same arguments.
	LiveModel bool
	// LiveFrom is the turn of the root session from which on models and tools are
	// real, from 1; 0 is none.
	LiveFrom int

	own     bool       // the agents are made of the record
	conduct *conductor // of what they do at the same time
	nextID  string     // of the session that begins next, if it is a recorded one
	mu      sync.Mutex
	playing map[string]*playing                // by the id of the session
	paths   map[string]*playing                // by its path
	nested  map[string]int                     // sessions that a call started, by its path
	stops   map[string]context.CancelCauseFunc // of calls of sub-agents, by Key
	served  map[*call]bool                     // with LiveModel
	stop    context.CancelCauseFunc            // of the run
	broken  error                              // why the replay ends early: a *Miss or ErrUnfinished
}

// playing is a session of the replay.
type playing struct {
	path string
	rec  *session // nil if there is none at this path
	stop context.CancelCauseFunc

	turn      int // that is asked for next
	cursor    int // asks of this turn that were served
	summaries int // of this turn that were served
	epoch     int // compactions so far
	// checked messages of the conversation were compared when it had seen
	// checkedEpoch compactions; they stay what they are until the next.
	checked, checkedEpoch int
}

// Run replays the record: one run for each of its prompts, and one for each time that
// a run which had ended was gone on with, with agents made of the record if r has no
// Agent. An Agent without an Opening gets the recorded one. Of r it
// uses everything but From, of which it takes Parent; r.Session is the conversation. The
// Outcome is that of the last run, with the error that it had when it was recorded. A
// *Miss or ErrUnfinished ends the replay.
func (p *Player) Run(ctx context.Context, r *agent.Runner) (*agent.Outcome, error) {
	p.playing, p.paths = map[string]*playing{}, map[string]*playing{}
	p.nested, p.stops, p.served = map[string]int{}, map[string]context.CancelCauseFunc{}, map[*call]bool{}
	p.own, p.conduct = r.Agent == nil, newConductor(p.Record)
	from := agent.Resume{Session: &agent.Session{}}
	if r.From != nil {
		from.Parent = r.From.Parent
	}
	r.From = &from
	root := r.Agent
	if !p.own && root.Opening == nil {
		copied := *root
		copied.Opening = p.Record.root.runs[0].opening
		root = &copied
	}
	var runner *agent.Runner
	out := &agent.Outcome{}
	var err error
	for i, run := range p.Record.root.runs {
		if p.own {
			// Another run may have had another system prompt, which a Runner
			// asks for once.
			root = p.agent(p.Record.root, i)
		}
		if p.own || run.goesOn || runner == nil {
			runner = p.runner(r)
			runner.Agent, runner.From.Total = root, out.Total
			if p.own && run.checked {
				runner.Accept = p.accept(p.Record.root, run)
			}
		}
		if !run.goesOn || from.Session.Unfinished() { // what is real may have answered before
			out, err = p.play(ctx, runner, run)
		}
		switch {
		case p.broken != nil && (i == len(p.Record.root.runs)-1 || !errors.Is(p.broken, ErrUnfinished)):
			out.Status = agent.StatusFailed
			return out, p.broken
		case i == len(p.Record.root.runs)-1, ctx.Err() != nil, errors.Is(err, agent.ErrJournal):
			return out, err
		}
	}
	return nil, nil // New refuses a record without a prompt
}

// play makes one run.
func (p *Player) play(ctx context.Context, r *agent.Runner, run *run) (*agent.Outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.mu.Lock()
	p.stop, p.broken, p.nextID = stop, nil, p.Record.Session
	if root := p.paths[""]; root != nil {
		root.stop = stop
	}
	p.mu.Unlock()
	if run.goesOn {
		return r.Resume(ctx)
	}
	return r.Run(ctx, run.prompt)
}

// unlimited is a limit that never holds: a record keeps those that it met.
const unlimited = math.MaxInt32

// runner is r for the Player. Where nothing is real, limits of what runs at the same
// time have no use.
func (p *Player) runner(r *agent.Runner) *agent.Runner {
	copied := &agent.Runner{
		Agent: r.Agent, From: &agent.Resume{Session: r.From.Session, Parent: r.From.Parent},
		Journal: r.Journal, Secrets: r.Secrets, Accept: r.Accept, Ask: r.Ask,
		Policy: func(ctx context.Context, inv *agent.Invocation) agent.Verdict { return p.permit(ctx, inv, r.Policy) },
		Budget: func(ctx context.Context, n agent.Need) (func(agent.Usage), error) { return p.afford(ctx, n, r.Budget) },
		Observe: func(e agent.Event) {
			p.observe(&e)
			if r.Observe != nil {
				r.Observe(e)
			}
		},
		MaxDepth: r.MaxDepth, MaxProcesses: r.MaxProcesses, Now: r.Now, NewID: r.NewID,
	}
	if p.own {
		copied.From.Parent = p.Record.root.open.Parent
		copied.MaxDepth, copied.MaxProcesses = unlimited, unlimited
		if r.Journal == nil {
			copied.Journal = nowhere{} // with a journal, calls say what they execute
		}
		if r.NewID == nil {
			copied.NewID = p.recordedID
		}
	}
	return copied
}

// recordedID is the id of the session that begins: they begin one after the other.
func (p *Player) recordedID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.nextID
	p.nextID = ""
	return cmp.Or(id, rand.Text())
}

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) Append(context.Context, agent.Event) error { return nil }
func (nowhere) Sync(context.Context) error                { return nil }

// agent is the agent of the nth run of a recorded session, made of the record.
func (p *Player) agent(s *session, n int) *agent.Agent {
	r := s.runs[n]
	a := &agent.Agent{
		Slug: s.open.Agent, Source: s.open.Source, Model: s.open.Model, Opening: r.opening,
		Provider: &model{p: p}, Toolsets: []agent.Toolset{&recordedTools{p, s}},
		MaxTurns: cmp.Or(r.maxTurns, unlimited), MaxParallelTools: unlimited,
	}
	if r.limits != nil {
		a.MaxTurns, a.ContextTokens, a.NoCompaction = r.limits.Turns, max(r.limits.ContextTokens, 0), r.limits.ContextTokens < 0
	}
	if r.setup != nil {
		a.System, a.Model = r.setup.system, cmp.Or(r.setup.model, a.Model)
	}
	return a
}

// accept is the Accept of a recorded run.
func (p *Player) accept(s *session, r *run) func(context.Context, string) (string, error) {
	asked := 0
	return func(ctx context.Context, answer string) (string, error) {
		asked++
		if asked > len(r.refused) {
			p.waitEnd(ctx, s.path)
		}
		switch {
		case asked <= len(r.refused):
			return "", errors.New(r.refused[asked-1])
		case r.end == nil:
			return answer, nil
		case r.end.Status == agent.StatusInvalid:
			_, wrong, _ := strings.Cut(r.end.Error, ": ")
			return "", errors.New(wrong)
		}
		return cmp.Or(r.end.Text, answer), nil
	}
}

// waitEnd waits until a session may end.
func (p *Player) waitEnd(ctx context.Context, path string) {
	p.mu.Lock()
	turn := p.paths[path].turn
	p.mu.Unlock()
	p.conduct.wait(ctx, step{path, agent.EventEnd, place{turn: turn}})
}

// Wrap makes a of a tree that was loaded serve from the record: its model and its
// tools, as far as they are not to be real. Its sub-agents must be given to Wrap
// themselves.
func (p *Player) Wrap(a *agent.Agent) {
	if !p.LiveModel {
		a.Provider = &model{p: p, real: a.Provider}
	}
	for i, set := range a.Toolsets {
		a.Toolsets[i] = &wrappedTools{p: p, set: set}
	}
}

// observe follows the sessions of the replay.
func (p *Player) observe(e *agent.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Kind == agent.EventSession {
		p.begun(e)
		return
	}
	pl := p.playing[e.Session]
	if pl == nil {
		return
	}
	switch e.Kind {
	case agent.EventCallStarted, agent.EventCallEnded:
		p.conduct.happened(step{pl.path, e.Kind, place{e.Turn, e.N}})
	case agent.EventSetup, agent.EventEnd:
		p.conduct.happened(step{pl.path, e.Kind, place{turn: pl.turn}})
	case agent.EventAnswer:
		p.conduct.happened(step{pl.path, e.Kind, place{turn: e.Turn}})
		pl.turn, pl.cursor, pl.summaries = e.Turn+1, 0, 0
	case agent.EventCompaction:
		pl.epoch++
	}
}

// begun notes a new session of the replay. p.mu is held.
func (p *Player) begun(e *agent.Event) {
	pl := &playing{turn: 1, stop: p.stop}
	if e.Depth > 0 {
		id, at, ok := parseKey(e.Parent)
		up := p.playing[id]
		if !ok || up == nil {
			return
		}
		path := callPath(up.path, at)
		pl.path = nestedPath(path, p.nested[path])
		p.nested[path]++
		if stop := p.stops[e.Parent]; stop != nil {
			pl.stop = stop
		}
	}
	pl.rec = p.Record.sessions[pl.path]
	p.playing[e.Session], p.paths[pl.path] = pl, pl
	p.conduct.happened(step{path: pl.path, kind: e.Kind})
}

// of is the session with an id.
func (p *Player) of(id string) *playing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl := p.playing[id]; pl != nil {
		return pl
	}
	return &playing{path: "?", stop: func(error) {}}
}

// real reports whether turn of the session at path is one that LiveFrom makes real.
func (p *Player) real(path string, turn int) bool {
	if p.LiveFrom == 0 {
		return false
	}
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		first, _, _ := strings.Cut(rest, ".")
		turn, _ = strconv.Atoi(first)
	}
	return turn >= p.LiveFrom
}

// leave ends a session at the place at which it was left: the whole replay, if it is
// the root's. How an inner one goes on is up to the call that started it.
func (p *Player) leave(pl *playing) {
	if pl.path == "" {
		p.fail(ErrUnfinished)
		return
	}
	pl.stop(&ending{text: ErrUnfinished.Error(), status: agent.StatusInterrupted, cause: true})
}

// fail ends the whole replay.
func (p *Player) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil || errors.Is(p.broken, ErrUnfinished) {
		p.broken = err
	}
	if p.stop != nil {
		p.stop(&ending{text: err.Error(), status: agent.StatusInterrupted, cause: true})
	}
}

// An ending is the error with which a recorded run ended, said again.
type ending struct {
	text   string
	status agent.Status
	cause  bool // it is the cause of a context that was cancelled
}

func (e *ending) Error() string { return e.text }

// Is makes agent.StatusOf find the recorded Status.
func (e *ending) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.cause || e.status == agent.StatusInterrupted
	case context.DeadlineExceeded:
		return e.status == agent.StatusDeadline
	case agent.ErrTurns:
		return e.status == agent.StatusLimit
	case agent.ErrAnswer:
		return e.status == agent.StatusInvalid
	case agent.ErrRefused:
		return e.status == agent.StatusRefused
	}
	return false
}
