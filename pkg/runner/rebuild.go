package runner

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Rebuilder finds where a run continues from the events of a session and of the
// sub-agents below it, in the order in which they happened. The first event is of
// the root session. The zero value is ready to use.
type Rebuilder struct {
	root   *agent.Session
	total  agent.TotalUsage
	nested map[string]*rebuilt   // the sessions of sub-agents, by id
	byCall map[string][]*rebuilt // the same by the Key of the call that they answer, in their order
	began  time.Time             // of the last run of the root
	facts  *agent.Facts          // the same
	// context is what the last event about the context said, of whatever session.
	context json.RawMessage
}

// A rebuilt is the session of a sub-agent. Its caller, nil for the root session,
// began before it, so no session can call itself, whatever the events say.
type rebuilt struct {
	PendingSession
	caller *rebuilt
	began  time.Time
}

// Apply applies the next event. Events of sessions that did not begin are left out.
func (b *Rebuilder) Apply(e agent.Event) error {
	if b.root == nil {
		b.root, b.nested, b.byCall = &agent.Session{}, map[string]*rebuilt{}, map[string][]*rebuilt{}
	}
	if e.Kind == agent.EventContext || e.Kind == agent.EventCompaction && e.Context != nil {
		b.context = e.Context
	}
	if b.root.ID == "" || e.Session == b.root.ID {
		b.Count(e)
		if e.Begins() {
			b.began, b.facts = e.Time, nil
		}
		b.Note(&e)
		b.ended(&e)
		return b.root.Apply(e)
	}
	n := b.nested[e.Session]
	if n == nil {
		if e.Kind != agent.EventSession {
			return nil
		}
		n = &rebuilt{PendingSession: PendingSession{Session: &agent.Session{}, Facts: &agent.Facts{}}, caller: b.nested[agent.CallSession(e.Parent)]}
		b.nested[e.Session] = n
		b.byCall[e.Parent] = append(b.byCall[e.Parent], n)
	}
	b.Count(e)
	for up := n; up != nil; up = up.caller {
		up.Total.Note(&e)
		up.Facts.Note(&e)
	}
	b.Note(&e)
	if e.Kind.Lasting() {
		n.Events = append(unreplaced(n.Events, &e), e)
	}
	b.ended(&e)
	if e.Begins() {
		n.began = e.Time
	}
	return n.Session.Apply(e)
}

// Note only gathers the facts of the root's run in e, which belongs to it. What Apply applies is
// noted too.
func (b *Rebuilder) Note(e *agent.Event) {
	if b.facts == nil {
		b.facts = &agent.Facts{}
	}
	b.facts.Note(e)
}

// ended drops the events of agents whose call has ended: nobody resumes them.
func (b *Rebuilder) ended(e *agent.Event) {
	if e.Kind == agent.EventCallEnded && e.Result != nil && e.Result.Handle == "" || e.Kind == agent.EventMessage && e.Key != "" {
		for _, n := range b.byCall[e.Key] {
			n.Events = nil
		}
	}
}

// unreplaced returns the events of a session without those that e, which follows them, makes
// unnecessary: a compaction holds all that the session is, except its tools.
func unreplaced(events []agent.Event, e *agent.Event) []agent.Event {
	if e.Kind != agent.EventCompaction {
		return events
	}
	return slices.DeleteFunc(events, func(old agent.Event) bool {
		return old.Session == e.Session && old.Kind != agent.EventSession && old.Kind != agent.EventSetup
	})
}

// Count only adds the usage in e to that of the run. The events that begin a run, end it
// or shorten the conversation, and messages within it, have the usage so far.
func (b *Rebuilder) Count(e agent.Event) {
	ofRoot := b.root == nil || b.root.ID == "" || e.Session == b.root.ID
	if ofRoot && (e.Kind == agent.EventMessage || e.Kind == agent.EventEnd || e.Kind == agent.EventCompaction) {
		b.total = agent.TotalUsage{}
		if e.Total != nil {
			b.total = b.total.Add(*e.Total)
		}
	}
	b.total.Note(&e)
}

// Resume returns where a Runner continues, and the Keys of all calls that started
// and have no result, at any depth, sorted. The Session is empty, without an ID, if
// there was no event.
func (b *Rebuilder) Resume() (resume *Resume, started []string) {
	resume = &Resume{Session: b.root, Total: b.total, Pending: map[string]PendingSession{}, Context: b.context, Began: b.began}
	if b.root == nil {
		resume.Session = &agent.Session{}
	}
	if !resume.Session.Unfinished() {
		resume.Total = agent.TotalUsage{}
	} else {
		resume.Facts = b.facts
	}
	b.open(resume.Session, resume.Pending, &started)
	slices.Sort(started)
	return resume, started
}

// ResumeOf is where a Runner continues one session: the root, or that of a sub-agent at any
// depth, which is the root of that Runner. It returns nil if the session did not begin.
func (b *Rebuilder) ResumeOf(session string) *Resume {
	if b.root == nil || b.root.ID == session {
		resume, _ := b.Resume()
		return resume
	}
	n := b.nested[session]
	if n == nil {
		return nil
	}
	resume := &Resume{Session: n.Session, Total: n.Total, Pending: map[string]PendingSession{}, Context: b.context, Began: n.began, Facts: n.Facts,
		Parent: n.Session.Parent, Depth: n.Session.Depth}
	b.open(n.Session, resume.Pending, new([]string))
	return resume
}

// open collects the calls of s without a result, and the sessions that answer them.
func (b *Rebuilder) open(s *agent.Session, pending map[string]PendingSession, started *[]string) {
	for _, c := range s.OpenCalls() {
		if c.Started {
			*started = append(*started, c.Key)
		}
		b.below(c.Key, pending, started)
	}
	for _, l := range s.Left {
		b.below(l.Key, pending, started)
		for n := b.nested[agent.CallSession(l.Key)]; n != nil && n.Session != s; n = n.caller { // who started it, and has ended
			pending[n.Session.Parent] = n.PendingSession
		}
	}
}

func (b *Rebuilder) below(key string, pending map[string]PendingSession, started *[]string) {
	for _, n := range b.byCall[key] {
		pending[key] = n.PendingSession
		b.open(n.Session, pending, started)
	}
}

// below returns the events of the sessions in pending that answer the call with the
// given Key, and of the sessions below these: first the session of the call itself. It
// adds what each session has consumed to spent.
func below(pending map[string]PendingSession, key string, spent map[string]agent.TotalUsage) []agent.Event {
	p, ok := pending[key]
	if !ok {
		return nil
	}
	spent[p.Session.ID] = p.Total
	events := slices.Clone(p.Events)
	for _, k := range slices.Sorted(maps.Keys(pending)) {
		if agent.CallSession(k) == p.Session.ID {
			events = append(events, below(pending, k, spent)...)
		}
	}
	return events
}
