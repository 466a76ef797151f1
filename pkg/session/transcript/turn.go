package transcript

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Turn is one answer of a model, the messages that it answers and the calls that
// it makes. Its JSON is what the page of HTML reads.
type Turn struct {
	// N counts the session's answers, from 1. A last turn without Answer is what
	// follows the last one.
	N int `json:"n"`
	// Prompts are the messages before the answer: those of the user, and messages of the model with
	// which the conversation began or that are the beginning of a stopped answer.
	Prompts []agent.Message `json:"prompts,omitempty"`
	stopped []int           // those of Prompts that are parts of answers
	// Setup is what the model was asked with, if that changed in this turn, and
	// Compaction what replaced the conversation before, if it was shortened.
	Setup      *agent.Event `json:"setup,omitempty"`
	Compaction *agent.Event `json:"compaction,omitempty"`
	// Answer is the event of the answer, nil if there is none.
	Answer *agent.Event `json:"answer,omitempty"`
	Calls  []*Call      `json:"calls,omitempty"`
	// End closes a run after this turn, if one ends there.
	End *agent.Event `json:"end,omitempty"`
	// Receipt is the text of the receipt of the run that ends there.
	Receipt string `json:"receipt,omitempty"`
}

// A Call is one tool call of a turn.
type Call struct {
	agent.ToolCall
	// Key names the call in its tree: see agent.Event.
	Key string `json:"key"`
	// Started is the time of the start, zero if it never started; Runs counts
	// starts.
	Started time.Time `json:"started,omitzero"`
	Runs    int       `json:"runs,omitempty"`
	// Argv is what was executed, program first, and Digest names its contents.
	Argv   []string `json:"argv,omitempty"`
	Digest string   `json:"digest,omitempty"`
	// Result is nil for a call without one, and Millis the time until then.
	Result *agent.ToolResult `json:"result,omitempty"`
	Millis int64             `json:"millis,omitempty"`
	// Receipt is the text of the receipt of an agent.
	Receipt string `json:"receipt,omitempty"`
	// Nested are the sub-agents' sessions that answer the call.
	Nested []*Conversation `json:"nested,omitempty"`
}

// Failed reports whether the call has a result that describes a failure.
func (c *Call) Failed() bool { return c.Result != nil && c.Result.Failed }

// A Conversation is the session of a sub-agent.
type Conversation struct {
	ID    string  `json:"id"`
	Agent string  `json:"agent"`
	Model string  `json:"model,omitempty"`
	Depth int     `json:"depth"`
	Turns []*Turn `json:"turns"`
}

// Turns are the turns of the root session, which is that of the first event. Events
// of sessions of sub-agents are in the turn whose calls they answer. Events that
// do not last are left out. A session without an answer has one turn.
func Turns(events iter.Seq2[agent.Event, error]) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		n := 0
		for g, err := range gathered(groups(events)) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(g.turn(&n), nil) {
				return
			}
		}
	}
}

// A group is the events of one turn of the root session, in order.
type group struct {
	root   string
	events []agent.Event
}

// groups divides events into turns. A turn ends before the first event that belongs
// to the next answer.
func groups(events iter.Seq2[agent.Event, error]) iter.Seq2[*group, error] {
	return func(yield func(*group, error) bool) {
		var root string
		var kept []agent.Event
		answered := false
		for e, err := range events {
			if err != nil {
				if len(kept) == 0 || yield(&group{root, kept}, nil) {
					yield(nil, err)
				}
				return
			}
			if !e.Kind.Lasting() {
				continue
			}
			root = cmp.Or(root, e.Session)
			if e.Session == root {
				if answered && leads(&e) {
					if !yield(&group{root, kept}, nil) {
						return
					}
					kept, answered = nil, false
				}
				answered = answered || e.Kind == agent.EventAnswer
			}
			kept = append(kept, e)
		}
		if len(kept) > 0 {
			yield(&group{root, kept}, nil)
		}
	}
}

// gathered gives each group the events of agents that answer its calls in the background: they
// happen during later turns. Until the last of these agents has ended, groups are held back.
func gathered(list iter.Seq2[*group, error]) iter.Seq2[*group, error] {
	return func(yield func(*group, error) bool) {
		var held []*group
		b := background{of: map[string]*group{}, open: map[string]bool{}}
		flush := func() bool {
			for _, g := range held {
				if !yield(g, nil) {
					return false
				}
			}
			held = nil
			return true
		}
		for g, err := range list {
			if err != nil {
				if flush() {
					yield(nil, err)
				}
				return
			}
			held = append(held, g)
			g.events = slices.DeleteFunc(g.events, func(e agent.Event) bool { return b.moves(g, &e) })
			if len(b.open) == 0 && !flush() {
				return
			}
		}
		flush()
	}
}

// background is where the sessions of sub-agents belong, and the calls that agents answer in
// the background, by Key.
type background struct {
	of   map[string]*group
	open map[string]bool
}

// moves moves an event of g to an earlier group if it belongs there.
func (b *background) moves(g *group, e *agent.Event) bool {
	if e.Session == g.root {
		switch {
		case e.Kind == agent.EventEnd:
			clear(b.open)
		case e.Kind == agent.EventMessage:
			delete(b.open, e.Key)
		case e.Result != nil && e.Result.Handle != "":
			b.open[e.Key] = true
		}
		return false
	}
	to := b.of[e.Session]
	if to == nil {
		if to = b.of[agent.CallSession(e.Parent)]; to == nil {
			to = g
		}
		b.of[e.Session] = to
	}
	if to == g {
		return false
	}
	to.events = append(to.events, *e)
	return true
}

// leads reports whether an event belongs to the answer after it.
func leads(e *agent.Event) bool {
	switch e.Kind {
	case agent.EventFailure: // of the request for the next answer
		return e.Message != nil
	case agent.EventMessage, agent.EventSetup, agent.EventCompaction, agent.EventAnswer:
		return true
	}
	return false
}

// turn is the Turn of a group. n counts the answers.
func (g *group) turn(n *int) *Turn {
	t := &Turn{}
	calls := map[string]*Call{} // by key, at every depth
	nested := map[string]*nestedSession{}
	for i := range g.events {
		e := &g.events[i]
		if e.Session == g.root {
			t.add(e, n, calls)
			continue
		}
		s := nested[e.Session]
		if s == nil {
			s = &nestedSession{Conversation: Conversation{ID: e.Session, Agent: e.Agent, Depth: e.Depth}}
			nested[e.Session] = s
			if c := calls[e.Parent]; c != nil {
				c.Nested = append(c.Nested, &s.Conversation)
			}
		}
		s.add(e, calls)
	}
	return t
}

// A nestedSession is a Conversation that is being read.
type nestedSession struct {
	Conversation
	n int
}

func (s *nestedSession) add(e *agent.Event, calls map[string]*Call) {
	if e.Model != "" {
		s.Model = e.Model
	}
	last := len(s.Turns) - 1
	if last < 0 || s.Turns[last].Answer != nil && leads(e) {
		s.Turns = append(s.Turns, &Turn{})
		last++
	}
	s.Turns[last].add(e, &s.n, calls)
}

// told returns the Prompts that are part of the conversation: if the model was asked again, the
// part of its stopped answer is not.
func (t *Turn) told() (list []agent.Message) {
	for i, p := range t.Prompts {
		again := t.Answer != nil
		if i+1 < len(t.Prompts) {
			again = t.Prompts[i+1].Role == agent.RoleAssistant
		}
		if !again || !slices.Contains(t.stopped, i) {
			list = append(list, p)
		}
	}
	return list
}

// add applies an event of the turn's own session.
func (t *Turn) add(e *agent.Event, n *int, calls map[string]*Call) {
	switch e.Kind {
	case agent.EventMessage, agent.EventFailure:
		if e.Message == nil {
			break
		}
		if e.Kind == agent.EventFailure {
			t.stopped = append(t.stopped, len(t.Prompts))
		}
		t.Prompts = append(t.Prompts, *e.Message)
	case agent.EventSetup:
		t.Setup = e
	case agent.EventCompaction:
		t.Compaction = e
		*n = max(*n, e.Turn)
	case agent.EventAnswer:
		t.answer(e, n, calls)
	case agent.EventCallStarted, agent.EventCallEnded:
		t.call(e, calls)
	case agent.EventEnd:
		t.End, t.Receipt = e, receiptText(e)
	}
}

func (t *Turn) answer(e *agent.Event, n *int, calls map[string]*Call) {
	*n = max(*n+1, e.Turn)
	t.Answer, t.N = e, *n
	if e.Message == nil {
		return
	}
	for i, c := range e.Message.Calls {
		call := &Call{ToolCall: c, Key: fmt.Sprintf("%s.%d.%d", e.Session, t.N, i+1)}
		t.Calls = append(t.Calls, call)
		calls[call.Key] = call
	}
}

func (t *Turn) call(e *agent.Event, calls map[string]*Call) {
	c := t.find(e)
	if c == nil {
		return // damaged, or from an unknown version
	}
	if e.Key != "" && e.Key != c.Key {
		c.Key = e.Key
		calls[e.Key] = c
	}
	if e.Kind == agent.EventCallStarted {
		c.Started, c.Argv, c.Digest = e.Time, e.Argv, e.Digest
		c.Runs++
		return
	}
	c.Result, c.Millis, c.Receipt = e.Result, e.Millis, receiptText(e)
}

func receiptText(e *agent.Event) string {
	if e.Receipt == nil {
		return ""
	}
	return strings.TrimSpace(e.Receipt.Text(agent.ReceiptFull, ""))
}

func (t *Turn) find(e *agent.Event) *Call {
	if i := e.N - 1; i >= 0 && i < len(t.Calls) && t.Calls[i].ID == e.CallID {
		return t.Calls[i]
	}
	for _, c := range t.Calls {
		if c.ID == e.CallID {
			return c
		}
	}
	return nil
}

// A CallOf is a call and the turn that made it.
type CallOf struct {
	*Call
	Session, Agent string
	Depth, Turn    int
}

// All are the calls of the turn, each followed by those of the sub-agents' sessions
// that answer it. session and agentSlug are those of t.
func (t *Turn) All(session, agentSlug string) iter.Seq[CallOf] {
	return func(yield func(CallOf) bool) { t.each(session, agentSlug, 0, yield) }
}

func (t *Turn) each(session, slug string, depth int, yield func(CallOf) bool) bool {
	for _, c := range t.Calls {
		if !yield(CallOf{Call: c, Session: session, Agent: slug, Depth: depth, Turn: t.N}) {
			return false
		}
		for _, s := range c.Nested {
			for _, inner := range s.Turns {
				if !inner.each(s.ID, s.Agent, depth+1, yield) {
					return false
				}
			}
		}
	}
	return true
}
