package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
)

// An Agent is an agent that a Host can run, with its name.
type Agent struct {
	// Name is what clients call it; it is also the name of a tool that asks it.
	Name  string
	Agent *agent.Agent
}

// A Host starts runs. Its exported fields must not be changed after the first use; its
// methods are safe for concurrent use.
type Host struct {
	// Offers are the agents that Start finds by their names.
	Offers []Agent
	// Sessions opens the session of a run: the one with an id, or a new one if id is "". If the
	// Session is nil, the run is not stored. It must not return the session of another client.
	// If Sessions is nil, no run is stored.
	Sessions func(ctx context.Context, a Agent, id string) (Session, error)
	// Budget limits each run, and Policy decides about its calls, in addition to what the
	// agents say.
	Budget agent.Budget
	Policy agent.Policy
	// Person answers questions that the holder of a run does not answer; nil means nobody. See
	// runner.Runner.Person.
	Person func(ctx context.Context, question agent.Event) (json.RawMessage, error)
	// Observe gets every event, with the secrets given to Learn redacted. Several runs call it
	// concurrently.
	Observe func(agent.Event)
	// Unseen are paths that receipts leave out, in addition to those of sessions on disk: see
	// runner.Runner.Unseen.
	Unseen []string
	// Traced means that spans are made of the events.
	Traced bool
	// Panicked gets the text and the stack of a panic, which then ends one run and not the
	// program; nil lets it end the program.
	Panicked func(text string)
	// Caller is the call, in another process, that the runs answer.
	Caller Caller
	// Warn gets warnings for a person; nil ignores them.
	Warn func(text string)

	ending sync.WaitGroup

	mu      sync.Mutex
	secrets []string
	redact  *redact.Redactor // of secrets
	live    map[string]*live // by session
	closed  []error
}

// New returns a Host for a loaded tree. It offers the root of the tree under its slug.
func New(tree *agentfile.Tree) *Host {
	h := &Host{Unseen: tree.Unseen}
	if tree.Root != nil {
		h.Offers = []Agent{{Name: tree.Root.Slug, Agent: tree.Root}}
	}
	h.Learn(tree.Secrets())
	return h
}

// A Caller is the call, in another process, that runs answer.
type Caller struct {
	// Key is the key of the call: see agent.Event.Parent. It is "" for runs whose holder knows
	// it.
	Key string
	// Depth is the number of agents above the runs.
	Depth int
	// Traceparent is the span of the call, in W3C Trace Context.
	Traceparent string
}

// Options configure one run, in addition to its Start.
type Options struct {
	// Observe gets the events of the run before Host.Observe, one at a time.
	Observe func(agent.Event)
	// ID is the id of a new session; "" means that the Session chooses it.
	ID string
	// Closed is called when the session is closed, before another run can continue it.
	Closed func()
}

// Learn adds secrets, which are redacted from everything that runs show, store and send from now
// on. Earlier ones stay, because running calls may still use them.
func (h *Host) Learn(secrets []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Concat(h.secrets, secrets)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > len(h.secrets) {
		h.secrets, h.redact = all, redact.New(all)
	}
}

// redactor returns nil if there is nothing to redact.
func (h *Host) redactor() *redact.Redactor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.redact
}

// Hide redacts the secrets in a text.
func (h *Host) Hide(text string) string { return h.redactor().String(text) }

// Runner returns a new Runner for an agent, with everything that the Host gives to runs except a
// session.
func (h *Host) Runner(a *agent.Agent) *runner.Runner {
	secrets := h.redactor()
	r := &runner.Runner{
		Agent: a, Secrets: secrets, ReadRights: policy.Read, Output: schema.Output, Arguments: schema.CompileShape,
		Policy: h.Policy, Person: h.Person, Trace: h.Traced, Unseen: func() []string { return h.Unseen }, Panicked: h.Panicked,
		From: &runner.Resume{Parent: h.Caller.Key, Depth: h.Caller.Depth, Traceparent: h.Caller.Traceparent},
	}
	r.Lease.Budget = h.Budget
	if h.Observe != nil {
		r.Observe = h.observer(secrets)
	}
	return r
}

// observer returns a function that passes the events of one run to Observe. The run itself
// redacts known; the function redacts the secrets that are learned during the run.
func (h *Host) observer(known *redact.Redactor) func(agent.Event) {
	next := h.Observe
	return func(e agent.Event) {
		if now := h.redactor(); now != known {
			known, next = now, runner.Redact(now, h.Observe)
		}
		next(e)
	}
}

// Agents returns the Offers as tools.
func (h *Host) Agents() []agent.ToolSpec {
	var list []agent.ToolSpec
	for _, a := range h.Offers {
		list = append(list, (&agent.Subagent{Name: a.Name, Agent: a.Agent}).Spec())
	}
	return list
}

func (h *Host) find(name string) (Agent, error) {
	i := slices.IndexFunc(h.Offers, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, fmt.Errorf("there is no agent %.100q", name)
	}
	return h.Offers[i], nil
}

// Start begins a run of the agent with a name and returns at once. After an error, nothing has
// run.
func (h *Host) Start(ctx context.Context, name string, start agent.Start) (*runner.Channel, error) {
	return h.Run(ctx, name, start, Options{})
}

// Run is Start with options.
func (h *Host) Run(ctx context.Context, name string, start agent.Start, o Options) (*runner.Channel, error) {
	a, err := h.find(name)
	if err != nil {
		return nil, err
	}
	r := h.Runner(a.Agent)
	s, err := h.open(ctx, a, start)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if err = s.Attach(r); err == nil && r.Journal != nil && start.Session == "" && len(start.History) > 0 {
			start.History, err = write(ctx, r, start.History)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close(nil))
		}
	}
	if later := r.NewID; o.ID != "" {
		id := o.ID
		r.NewID = func() string { // calls do not overlap, and the first is for the root
			if first := id; first != "" || later == nil {
				id = ""
				return cmp.Or(first, rand.Text())
			}
			return later()
		}
	}
	run := &live{closed: make(chan struct{})}
	r.Observe = observe.Tee(o.Observe, r.Observe, func(e agent.Event) { h.note(run, &e) })
	c := r.Start(ctx, start)
	h.ending.Go(func() { h.end(c, run, s, o) })
	return c, nil
}

// write writes the history of a conversation that the client keeps into the new session of its
// run. It adds what the client does not know about the agent.
func write(ctx context.Context, r *runner.Runner, history []agent.Event) ([]agent.Event, error) {
	redact := runner.RedactEvent(r.Secrets)
	history = slices.Clone(history)
	for i := range history {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := &history[i]
		e.Agent = r.Agent.Slug
		if e.Kind == agent.EventSession {
			e.Source, e.Model = r.Agent.Source, r.Agent.Model
		}
		if redact != nil {
			*e = redact(*e)
		}
		if err := r.Journal.Append(ctx, *e); err != nil {
			return nil, err
		}
	}
	return history, nil
}

// Drive is Run for code that drives the session itself. drive gets Runners from next, each of
// which is used once and continues the session, and returns the session as it is at the end.
func (h *Host) Drive(ctx context.Context, a *agent.Agent, drive func(next func() *runner.Runner) (*agent.Outcome, *agent.Session, error)) (*agent.Outcome, error) {
	var s Session
	if h.Sessions != nil {
		var err error
		if s, err = h.Sessions(ctx, Agent{Agent: a}, ""); err != nil {
			return &agent.Outcome{Status: agent.StatusFailed, Agent: a.Slug}, err
		}
	}
	var refused error
	out, conversation, err := drive(func() *runner.Runner {
		r := h.Runner(a)
		if s != nil && refused == nil {
			refused = s.Attach(r)
		}
		return r
	})
	if err = errors.Join(refused, err); s != nil {
		if closeErr := s.Close(conversation); err == nil && closeErr != nil {
			err = fmt.Errorf("%w: %w", agent.ErrJournal, closeErr)
		}
	}
	return out, err
}

// Wait waits until the sessions of all runs are closed, and returns the errors of closing them.
func (h *Host) Wait() error {
	h.ending.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.closed...)
}
