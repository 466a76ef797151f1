package transcript

import (
	"iter"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Figures are what an agent consumed.
type Figures struct {
	Requests     int `json:"requests"`
	InputTokens  int `json:"input_tokens"`
	CachedTokens int `json:"cached_tokens"`
	OutputTokens int `json:"output_tokens"`
	// Cost is that of the requests with a known cost, nil if there is none, and
	// Unpriced is the number of the others.
	Cost     *agent.Money `json:"cost,omitempty"`
	Unpriced int          `json:"unpriced"`
	// Estimated is the number of requests whose tokens are an estimate.
	Estimated int `json:"estimated,omitempty"`
	// Calls counts calls of tools that have a result.
	Calls int `json:"calls"`
	// Millis is the time of the model requests, and of the calls that no agent
	// answers, in milliseconds. Times of work at the same time are added up.
	Millis int64 `json:"millis"`
}

// Usage is the part of f that agent.Usage holds.
func (f *Figures) Usage() agent.Usage {
	u := agent.Usage{Requests: f.Requests, InputTokens: f.InputTokens, CachedTokens: f.CachedTokens, OutputTokens: f.OutputTokens, Priced: f.Requests - f.Unpriced, Estimated: f.Estimated}
	if f.Cost != nil {
		u.Cost = *f.Cost
	}
	return u
}

// add adds g to f. The sum is exact.
func (f *Figures) add(g *Figures) {
	f.Requests += g.Requests
	f.InputTokens += g.InputTokens
	f.CachedTokens += g.CachedTokens
	f.OutputTokens += g.OutputTokens
	f.Unpriced += g.Unpriced
	f.Estimated += g.Estimated
	f.Calls += g.Calls
	f.Millis += g.Millis
	if g.Cost != nil {
		sum := *g.Cost
		if f.Cost != nil {
			sum += *f.Cost
		}
		f.Cost = &sum
	}
}

func (f *Figures) charge(u *agent.Usage) {
	g := Figures{Requests: u.Requests, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens, OutputTokens: u.OutputTokens, Unpriced: u.Unpriced(), Estimated: u.Estimated}
	if u.Priced > 0 || u.Cost > 0 {
		g.Cost = &u.Cost
	}
	f.add(&g)
}

// A CostNode is a session in a tree of costs. The Figures in it are its own.
type CostNode struct {
	Agent   string `json:"agent"`
	Session string `json:"session"`
	// Status is how its last run ended, empty if it did not.
	Status agent.Status `json:"status,omitempty"`
	Figures
	// Fallback is the part of the Figures that belongs to requests answered by each model in
	// place of the agent's first.
	Fallback map[string]*Figures `json:"fallback,omitempty"`
	// CacheLosses are the requests for which the server no longer had the conversation.
	CacheLosses []agent.CacheLoss `json:"cache_losses,omitempty"`
	// Total are the figures of the node and of all nodes below it.
	Total Figures `json:"total"`
	// Children are the sessions that answer calls of this one, in the order in
	// which they began.
	Children []*CostNode `json:"children"`

	parent string // the key of the call that it answers
	began  time.Time
	calls  map[string]int64 // the time of each call, by its key
	source int

	open  int  // calls without a result
	setup bool // the model was asked
	asked bool // and may not have answered yet
}

// Costs adds up what the sessions of a tree consumed. The zero value is empty.
type Costs struct {
	nodes []*CostNode // the root first
	byID  map[string]*CostNode
	byKey map[string]*CostNode // by the keys of calls
	keys  []string

	losses  agent.CacheLosses
	sources int // counts what was added
}

// Add reads the events of a session with its sub-agents. The session of the first event of
// all is the root. After an error of events, what was before it counts. Sessions that
// were added before are left out.
func (c *Costs) Add(events iter.Seq2[agent.Event, error]) error {
	for _, err := range c.watch(events) {
		if err != nil {
			return err
		}
	}
	return nil
}

// watch are the events, which are added as they pass.
func (c *Costs) watch(events iter.Seq2[agent.Event, error]) iter.Seq2[agent.Event, error] {
	if c.byID == nil {
		c.byID, c.byKey = map[string]*CostNode{}, map[string]*CostNode{}
	}
	return func(yield func(agent.Event, error) bool) {
		c.sources++
		for e, err := range events {
			if err == nil && e.Kind.Lasting() {
				c.event(&e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *Costs) event(e *agent.Event) {
	n := c.byID[e.Session]
	if n == nil {
		n = &CostNode{Agent: e.Agent, Session: e.Session, Children: []*CostNode{}, parent: e.Parent, began: e.Time, calls: map[string]int64{}, source: c.sources}
		c.byID[e.Session] = n
		c.nodes = append(c.nodes, n)
	}
	if n.source == c.sources {
		c.note(n, e)
	}
}

func (c *Costs) note(n *CostNode, e *agent.Event) {
	switch e.Kind {
	case agent.EventMessage:
		if !e.Opening {
			n.Status = ""
		}
		if n.asked && !e.Opening && !e.Continues() { // the process died, and nobody resumed the run
			n.charge(&agent.Usage{Requests: 1})
		}
	case agent.EventResume:
		n.Status = ""
		if e.Usage != nil {
			n.charge(e.Usage)
		}
	case agent.EventAnswer, agent.EventCompaction, agent.EventFailure:
		if e.Usage != nil {
			n.charge(e.Usage)
			n.Millis += e.Millis
			n.answeredBy(e)
		}
	case agent.EventCallStarted, agent.EventCallEnded:
		if c.byKey[e.Key] == nil && e.Key != "" {
			c.byKey[e.Key] = n
			c.keys = append(c.keys, e.Key)
		}
		if e.Kind == agent.EventCallEnded && e.Result != nil {
			n.Calls++
			n.calls[e.Key] = e.Millis
		}
	case agent.EventEnd:
		n.Status = e.Status
	}
	if loss := c.losses.Note(e); loss != nil {
		n.CacheLosses = append(n.CacheLosses, *loss)
	}
	n.follow(e)
}

// answeredBy notes what a request consumed that another model than the first answered.
func (n *CostNode) answeredBy(e *agent.Event) {
	if e.Fallback == "" {
		return
	}
	if n.Fallback == nil {
		n.Fallback = map[string]*Figures{}
	}
	f := n.Fallback[e.Fallback]
	if f == nil {
		f = &Figures{}
		n.Fallback[e.Fallback] = f
	}
	f.charge(e.Usage)
	f.Millis += e.Millis
}

// follow notes whether a model request may be in progress after e.
func (n *CostNode) follow(e *agent.Event) {
	switch e.Kind {
	case agent.EventSetup:
		n.setup = true
	case agent.EventAnswer:
		if n.open = 0; e.Message != nil {
			n.open = len(e.Message.Calls)
		}
	case agent.EventCallEnded:
		n.open--
	}
	n.asked = n.setup && n.open <= 0 && e.Kind != agent.EventAnswer && e.Kind != agent.EventFailure && e.Kind != agent.EventEnd
}

// Keys are the keys of the calls after the first skip ones, in the order in which they
// were added: those that sessions in other journals may answer.
func (c *Costs) Keys(skip int) []string { return c.keys[min(skip, len(c.keys)):] }

// Tree returns the root of the tree, nil if there are no events. Nothing can be added
// afterwards.
func (c *Costs) Tree() *CostNode {
	if len(c.nodes) == 0 {
		return nil
	}
	root := c.nodes[0]
	for _, n := range c.nodes {
		if n.asked {
			n.charge(&agent.Usage{Requests: 1})
			n.asked = false
		}
	}
	for _, n := range c.nodes[1:] {
		above := c.byKey[n.parent]
		if above == nil || c.within(above, n) {
			above = root // damaged
		} else {
			delete(above.calls, n.parent)
		}
		above.Children = append(above.Children, n)
	}
	root.sum()
	return root
}

// An AgentCost is what all sessions of an agent consumed.
type AgentCost struct {
	Agent    string `json:"agent"`
	Sessions int    `json:"sessions"`
	Figures
}

// perAgent are the figures of each agent, in the order in which they began, and last those
// of all. Tree was called before.
func (c *Costs) perAgent() []AgentCost {
	var list []AgentCost
	all := AgentCost{Sessions: len(c.nodes)}
	for _, n := range c.nodes {
		i := slices.IndexFunc(list, func(a AgentCost) bool { return a.Agent == n.Agent })
		if i < 0 {
			i = len(list)
			list = append(list, AgentCost{Agent: n.Agent})
		}
		list[i].Sessions++
		list[i].add(&n.Figures)
		all.add(&n.Figures)
	}
	return append(list, all)
}

// within reports whether n is below m, or is m, by the calls that they answer.
func (c *Costs) within(n, m *CostNode) bool {
	for range c.nodes {
		if n == nil || n == c.nodes[0] {
			return false
		}
		if n == m {
			return true
		}
		n = c.byKey[n.parent]
	}
	return true // a cycle
}

func (n *CostNode) sum() {
	for _, millis := range n.calls {
		n.Millis += millis
	}
	slices.SortStableFunc(n.Children, func(a, b *CostNode) int { return a.began.Compare(b.began) })
	n.Total = n.Figures
	for _, child := range n.Children {
		child.sum()
		n.Total.add(&child.Total)
	}
}
