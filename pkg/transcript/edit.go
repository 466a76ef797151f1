package transcript

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An Edit is one change of a session.
type Edit struct {
	// Op is what is done; N belongs to the first four.
	Op EditOp
	N  int
}

// An EditOp tells the kinds of Edit apart.
type EditOp string

// What can be done to a session. The turns are those of the root session; those
// of sub-agents stay and go with the calls that they answer.
const (
	// Take and TakeLast keep the first or the last N turns; Drop and DropLast
	// take them away.
	Take     EditOp = "take"
	TakeLast EditOp = "take-last"
	Drop     EditOp = "drop"
	DropLast EditOp = "drop-last"
	// WithoutThinking takes the models' reasoning out, WithoutToolResults what
	// tools answered, and WithoutSubAgents the sessions of sub-agents.
	WithoutThinking    EditOp = "thinking"
	WithoutToolResults EditOp = "tool-results"
	WithoutSubAgents   EditOp = "sub-agents"
)

// LeftOut stands where a result was taken out.
const LeftOut = "(left out)"

// Apply makes the changes in their order and returns the events of a session that
// can be gone on with: turns are counted anew, also in the Keys of calls, and the
// first one has a prompt, if need be that of the run which it was a part of. What
// is held in memory are the turns that TakeLast and DropLast count.
func Apply(events iter.Seq2[agent.Event, error], edits []Edit) iter.Seq2[agent.Event, error] {
	turns := marked(groups(events))
	for _, e := range edits {
		switch e.Op {
		case Take:
			turns = take(turns, e.N)
		case Drop:
			turns = drop(turns, e.N)
		case TakeLast:
			turns = takeLast(turns, e.N)
		case DropLast:
			turns = dropLast(turns, e.N)
		case WithoutThinking:
			turns = changed(turns, withoutThinking)
		case WithoutToolResults:
			turns = changed(turns, withoutResults)
		case WithoutSubAgents:
			turns = changed(turns, withoutSubAgents)
		}
	}
	return joined(turns)
}

// A mark is a turn, or, with gone, one that was taken away. It is passed on since
// what stays may need something of it.
type mark struct {
	*group
	gone bool
}

type marks = iter.Seq2[mark, error]

func marked(turns iter.Seq2[*group, error]) marks {
	return func(yield func(mark, error) bool) {
		for g, err := range turns {
			if !yield(mark{group: g}, err) || err != nil {
				return
			}
		}
	}
}

// each calls f with every turn that is still there, counted from 1, which may say
// that it goes.
func each(turns marks, goes func(n int) bool) marks {
	return func(yield func(mark, error) bool) {
		n := 0
		for m, err := range turns {
			if err == nil && !m.gone {
				n++
				m.gone = goes(n)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

func take(turns marks, n int) marks { return each(turns, func(i int) bool { return i > n }) }
func drop(turns marks, n int) marks { return each(turns, func(i int) bool { return i <= n }) }

func takeLast(turns marks, n int) marks { return behind(turns, n, true) }
func dropLast(turns marks, n int) marks { return behind(turns, n, false) }

// behind holds the last n turns back. Those that leave the queue because others
// come go (first), or those that are in it at the end.
func behind(turns marks, n int, first bool) marks {
	return func(yield func(mark, error) bool) {
		var queue []mark
		held := 0
		for m, err := range turns {
			if err != nil {
				queue = append(queue, m)
				for _, q := range queue[:len(queue)-1] {
					if !yield(q, nil) {
						return
					}
				}
				yield(m, err)
				return
			}
			queue = append(queue, m)
			if !m.gone {
				held++
			}
			for held > n {
				q := queue[0]
				queue = queue[1:]
				if !q.gone {
					held--
					q.gone = first
				}
				if !yield(q, nil) {
					return
				}
			}
		}
		for _, q := range queue {
			q.gone = q.gone || !first
			if !yield(q, nil) {
				return
			}
		}
	}
}

// changed passes every event through f, which may take it out.
func changed(turns marks, f func(root string, e *agent.Event) (keep bool)) marks {
	return func(yield func(mark, error) bool) {
		for m, err := range turns {
			if err == nil {
				kept := make([]agent.Event, 0, len(m.events))
				for _, e := range m.events {
					if f(m.root, &e) {
						kept = append(kept, e)
					}
				}
				m.group = &group{m.root, kept}
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

func withoutThinking(_ string, e *agent.Event) bool {
	strip := func(m agent.Message) agent.Message {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p agent.Part) bool { return p.Kind == agent.PartReasoning })
		return m
	}
	onMessages(e, strip)
	return true
}

func withoutResults(_ string, e *agent.Event) bool {
	if e.Result != nil {
		r := *e.Result
		r.Parts = []agent.Part{agent.Text(LeftOut)}
		e.Result = &r
	}
	onMessages(e, func(m agent.Message) agent.Message {
		m.Results = slices.Clone(m.Results)
		for i := range m.Results {
			m.Results[i].Parts = []agent.Part{agent.Text(LeftOut)}
		}
		return m
	})
	return true
}

func withoutSubAgents(root string, e *agent.Event) bool { return e.Session == root }

// onMessages puts f(m) in the place of every message of e.
func onMessages(e *agent.Event, f func(agent.Message) agent.Message) {
	if e.Message != nil {
		m := f(*e.Message)
		e.Message = &m
	}
	e.Messages = slices.Clone(e.Messages)
	for i := range e.Messages {
		e.Messages[i] = f(e.Messages[i])
	}
}

// A joiner makes one session of the turns that stay.
type joiner struct {
	opened  *agent.Event           // the event that opened the session
	setups  map[string]agent.Event // with System and Specs, by digest, not yet told
	told    map[string]bool
	setup   *agent.Event // the root's last one
	prompts []agent.Event
	answer  bool // since the last prompt
	begun   bool
	n       int // turns so far
	out     []agent.Event
}

func joined(turns marks) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		j := &joiner{setups: map[string]agent.Event{}, told: map[string]bool{}}
		for m, err := range turns {
			if err != nil {
				yield(agent.Event{}, err)
				return
			}
			if m.gone {
				j.skip(m.group)
				continue
			}
			j.keep(m.group)
			for _, e := range j.out {
				if !yield(e, nil) {
					return
				}
			}
			j.out = j.out[:0]
		}
		if !j.begun && j.opened != nil {
			yield(*j.opened, nil) // nothing is left but the session itself
		}
	}
}

// skip remembers of a turn that goes what later ones may need.
func (j *joiner) skip(g *group) {
	for i := range g.events {
		e := &g.events[i]
		if e.Kind == agent.EventSetup && (e.System != "" || e.Specs != nil) && !j.told[e.Digest] {
			j.setups[e.Digest] = *e
		}
		if e.Session == g.root {
			j.remember(e)
		}
	}
}

// remember notes what the root was last told.
func (j *joiner) remember(e *agent.Event) {
	switch e.Kind {
	case agent.EventSession:
		if j.opened == nil {
			j.opened = e
		}
	case agent.EventSetup:
		j.setup = e
	case agent.EventMessage:
		if j.answer {
			j.prompts, j.answer = nil, false
		}
		j.prompts = append(j.prompts, *e)
	case agent.EventAnswer:
		j.answer = true
	}
}

func (j *joiner) keep(g *group) {
	if !j.begun {
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
			j.remember(&e)
			if e.Kind == agent.EventSession && j.opened != nil && j.n > 1 {
				continue
			}
			j.count(&e, old)
		}
		if old > 0 {
			e.Key, e.Parent = ofTurn(e.Key, g.root, j.n), ofTurn(e.Parent, g.root, j.n)
		}
		j.emit(e)
	}
}

// ofTurn is the Key of a call of the root session in another turn.
func ofTurn(key, root string, turn int) string {
	rest, ok := strings.CutPrefix(key, root+".")
	if _, position, numbered := strings.Cut(rest, "."); ok && numbered {
		return fmt.Sprintf("%s.%d.%s", root, turn, position)
	}
	return key
}

// begin opens the session with what the first turn that stays lacks.
func (j *joiner) begin(g *group) {
	first := j.opened == nil
	j.begun = true
	has := map[agent.EventKind]bool{}
	for i := range g.events {
		if e := &g.events[i]; e.Session == g.root {
			has[e.Kind] = true
		}
	}
	if !first && !has[agent.EventSession] {
		j.emit(*j.opened)
	}
	if !has[agent.EventMessage] && !has[agent.EventCompaction] {
		for _, e := range j.prompts {
			j.emit(e)
		}
	}
	if j.setup != nil && !has[agent.EventSetup] {
		j.emit(*j.setup)
	}
}

// count gives an event of the root the number of its turn.
func (j *joiner) count(e *agent.Event, old int) {
	switch {
	case e.Kind == agent.EventCompaction:
		before := j.n
		if old > 0 {
			before--
		}
		e.Turn, e.N = before, min(e.N, before)
	case e.Turn > 0 && old > 0:
		e.Turn = j.n
	}
}

// emit sends an event off. A setup that says its prompt and tools in a turn that
// is gone says them here.
func (j *joiner) emit(e agent.Event) {
	if e.Kind == agent.EventSetup && !j.told[e.Digest] {
		if full, ok := j.setups[e.Digest]; ok && e.System == "" && e.Specs == nil {
			e.System, e.Specs = full.System, full.Specs
		}
		if e.System != "" || e.Specs != nil {
			j.told[e.Digest] = true
			delete(j.setups, e.Digest)
		}
	}
	j.out = append(j.out, e)
}
