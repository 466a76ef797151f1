package transcript

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An Edit is one change of a session.
type Edit struct {
	// Op is the operation; N is for the first four.
	Op EditOp
	N  int
}

// An EditOp tells the kinds of Edit apart.
type EditOp string

// The operations. Turns are those of the root session; a sub-agent's session belongs
// to the turn of the call that it answers.
const (
	// Take and TakeLast keep the first or last N turns; Drop and DropLast remove
	// them.
	Take     EditOp = "take"
	TakeLast EditOp = "take-last"
	Drop     EditOp = "drop"
	DropLast EditOp = "drop-last"
	// WithoutThinking removes the models' reasoning, WithoutToolResults the
	// results of tools, and WithoutSubAgents the sessions of sub-agents.
	WithoutThinking    EditOp = "thinking"
	WithoutToolResults EditOp = "tool-results"
	WithoutSubAgents   EditOp = "sub-agents"
)

// LeftOut replaces a removed result.
const LeftOut = "(left out)"

// Apply makes the changes in their order and returns the events of a session that
// can be resumed: turns are renumbered, also in the Keys of calls, and the first
// turn has a prompt, if necessary the one of its original run. All of the
// session is in memory. If the events end with an error, it comes last.
func Apply(events iter.Seq2[agent.Event, error], edits []Edit) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		var turns []*group
		var readErr error
		for g, err := range groups(events) {
			if readErr = err; err == nil {
				turns = append(turns, g)
			}
		}
		removed := map[*group]bool{}
		for _, e := range edits {
			e.apply(turns, removed)
		}
		for _, e := range joined(turns, removed) {
			if !yield(e, nil) {
				return
			}
		}
		if readErr != nil {
			yield(agent.Event{}, readErr)
		}
	}
}

// apply changes the events of turns, or notes which turns are removed. Those stay
// in the list because later ones may need something of them.
func (e Edit) apply(turns []*group, removed map[*group]bool) {
	left := slices.DeleteFunc(slices.Clone(turns), func(g *group) bool { return removed[g] })
	n := max(0, min(e.N, len(left)))
	switch e.Op {
	case Take:
		left = left[n:]
	case TakeLast:
		left = left[:len(left)-n]
	case Drop:
		left = left[:n]
	case DropLast:
		left = left[len(left)-n:]
	default:
		left = nil
		for _, g := range turns {
			e.changeEvents(g)
		}
	}
	for _, g := range left {
		removed[g] = true
	}
}

// changeEvents removes from the events of a turn what e.Op names.
func (e Edit) changeEvents(g *group) {
	leftOut := []agent.Part{agent.Text(LeftOut)}
	switch e.Op {
	case WithoutSubAgents:
		g.events = slices.DeleteFunc(g.events, func(e agent.Event) bool { return e.Session != g.root })
	case WithoutThinking:
		changeMessages(g.events, func(m *agent.Message) {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p agent.Part) bool { return p.Kind == agent.PartReasoning })
		})
	case WithoutToolResults:
		changeMessages(g.events, func(m *agent.Message) {
			m.Results = slices.Clone(m.Results)
			for i := range m.Results {
				m.Results[i].Parts = leftOut
			}
		})
		for i := range g.events {
			if r := g.events[i].Result; r != nil {
				changed := *r
				changed.Parts = leftOut
				g.events[i].Result = &changed
			}
		}
	}
}

// changeMessages calls change with a copy of every message of the events, which
// takes its place.
func changeMessages(events []agent.Event, change func(*agent.Message)) {
	for i := range events {
		e := &events[i]
		if e.Message != nil {
			m := *e.Message
			change(&m)
			e.Message = &m
		}
		e.Messages = slices.Clone(e.Messages)
		for k := range e.Messages {
			change(&e.Messages[k])
		}
	}
}

// joined returns the events of the remaining turns, as one session.
func joined(turns []*group, removed map[*group]bool) []agent.Event {
	j := &joiner{setups: map[string]*agent.Event{}, written: map[string]bool{}}
	for _, g := range turns {
		for i := range g.events {
			if e := &g.events[i]; e.Kind == agent.EventSetup && (e.System != "" || e.Specs != nil) {
				j.setups[e.Digest] = e
			}
		}
		switch {
		case !removed[g]:
			j.keep(g)
		case len(j.out) == 0:
			j.skip(g)
		}
	}
	if len(j.out) == 0 && j.opened != nil {
		return []agent.Event{*j.opened} // no turn is left
	}
	return j.out
}

// A joiner makes one session of the remaining turns.
type joiner struct {
	out     []agent.Event
	n       int                     // turns in out
	setups  map[string]*agent.Event // with System and Specs, by digest
	written map[string]bool         // those of them in out

	// Of the root, in the turns removed before the first that is left: how it was
	// opened, its last setup, and the prompts of its last run.
	opened, setup *agent.Event
	prompts       []agent.Event
	answered      bool // since the last prompt
}

// skip records what the first remaining turn may need of a removed one before it.
func (j *joiner) skip(g *group) {
	for i := range g.events {
		e := &g.events[i]
		if e.Session != g.root {
			continue
		}
		switch e.Kind {
		case agent.EventSession:
			j.opened = cmp.Or(j.opened, e)
		case agent.EventSetup:
			j.setup = e
		case agent.EventMessage:
			if e.Continues() {
				break // it asks for another answer
			}
			if j.answered {
				j.prompts, j.answered = nil, false
			}
			j.prompts = append(j.prompts, *e)
		case agent.EventAnswer:
			j.answered = true
		}
	}
}

func (j *joiner) keep(g *group) {
	if len(j.out) == 0 {
		j.begin(g)
	}
	old := 0
	for i := range g.events {
		if e := &g.events[i]; e.Session == g.root && e.Kind == agent.EventAnswer {
			old = e.Turn
		}
	}
	if old > 0 {
		j.n++
	}
	for _, e := range g.events {
		if e.Session == g.root {
			if e.Kind == agent.EventSession && j.n > 1 {
				continue
			}
			j.count(&e, old)
		}
		if e.Session == g.root { // agents in the background are not continued
			e.Left = nil
			if e.Kind == agent.EventMessage {
				e.Key = ""
			}
			if e.Result != nil && e.Result.Handle != "" {
				result := *e.Result
				result.Handle = ""
				e.Result = &result
			}
		}
		if old > 0 {
			e.Key, e.Parent = ofTurn(e.Key, g.root, j.n), ofTurn(e.Parent, g.root, j.n)
		}
		j.emit(e)
	}
}

// ofTurn returns the Key of a call of the root session, moved to another turn.
func ofTurn(key, root string, turn int) string {
	rest, ok := strings.CutPrefix(key, root+".")
	if _, position, numbered := strings.Cut(rest, "."); ok && numbered {
		return fmt.Sprintf("%s.%d.%s", root, turn, position)
	}
	return key
}

// begin starts the session with what its first turn lacks. A message in the middle
// of a run is removed with what was before it; the prompts of the run replace it.
func (j *joiner) begin(g *group) {
	has := map[agent.EventKind]bool{}
	compacted := slices.ContainsFunc(g.events, func(e agent.Event) bool { return e.Session == g.root && e.Kind == agent.EventCompaction })
	g.events = slices.DeleteFunc(g.events, func(e agent.Event) bool {
		refuses := e.Kind == agent.EventMessage && e.Session == g.root && e.Continues() && !compacted
		has[e.Kind] = has[e.Kind] || e.Session == g.root && !refuses
		return refuses
	})
	if j.opened != nil && !has[agent.EventSession] {
		j.emit(*j.opened)
	}
	if !has[agent.EventMessage] && !compacted {
		for _, e := range j.prompts {
			j.emit(e)
		}
	}
	if j.setup != nil && !has[agent.EventSetup] {
		j.emit(*j.setup)
	}
}

// count sets the turn number of an event of the root.
func (j *joiner) count(e *agent.Event, old int) {
	switch {
	case e.Kind == agent.EventCompaction:
		before := j.n
		if old > 0 {
			before--
		}
		e.Turn, e.RunTurns, e.N = before, min(e.RunTurns, before), min(e.N, before)
	case e.Turn > 0 && old > 0:
		e.Turn = j.n
	}
}

// emit adds an event. The first setup of a digest has its prompt and tools, also if
// they were in a turn that was removed.
func (j *joiner) emit(e agent.Event) {
	if full := j.setups[e.Digest]; e.Kind == agent.EventSetup && full != nil && !j.written[e.Digest] {
		e.System, e.Specs = full.System, full.Specs
		j.written[e.Digest] = true
	}
	j.out = append(j.out, e)
}
