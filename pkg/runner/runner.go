package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
)

// A Runner runs an Agent. Its fields have useful zero values and must not be
// changed once it is in use. A Runner drives one session: Run, Resume and Step
// must not be called at the same time.
type Runner struct {
	// Agent is required.
	Agent *agent.Agent
	// From is the session to continue; nil starts a new one.
	From *Resume
	// Journal keeps the events; nil keeps none.
	Journal agent.Journal
	// Secrets are taken out of what the model sees of results, of what is kept,
	// and of what is shown; nil takes out none.
	Secrets *redact.Redactor
	// Policy decides about every call at every depth; nil permits all. Ask
	// answers its questions, see Gate.
	Policy agent.Policy
	Ask    func(ctx context.Context, inv *agent.Invocation, v agent.Verdict) agent.Verdict
	// Rights are those of the callers of Agent, which hold for the whole tree, with
	// those in Lease; see Agent.Rights. ReadRights reads the latter; nil refuses to run
	// with a Lease that has Rights.
	Rights     agent.Rights
	ReadRights func(raw json.RawMessage) (agent.Rights, error)
	// Callers are the agents above Agent that this program knows, from the root on: see
	// Delegation. Their Rights hold for the whole tree.
	Callers []*agent.Agent
	// Reserve is asked before every call and every model request of the tree;
	// nil permits all.
	Reserve Reserver
	// Shared, if it is not nil, reserves requests and calls that a budget limits in a list that
	// other Runners of the same run use too, with a Ledger. e is an EventReservation without
	// Seq. Shared waits until the reservation is made, and returns what Ledger.Left returns.
	Shared func(ctx context.Context, e agent.Event) (left, total agent.Budget, err error)
	// Lease is what the tree may consume and do; see Agent.Budget for the limits
	// of one agent.
	Lease agent.Lease
	// Person asks a person a question, an Event of kind EventQuestion, and returns
	// the answer; nil means that nobody can answer. Calls do not overlap. If Ask is
	// nil, it also decides what Policy leaves to a person: "allow" or "deny".
	Person func(ctx context.Context, question agent.Event) (answer json.RawMessage, err error)
	// Context is for the tools, which may change it: see Invocation.Context. nil
	// is that of the session, and for a new one that of the Agent.
	Context json.RawMessage
	// Output compiles the OutputSchema of a Start; if it is nil, one is refused.
	Output func(schema json.RawMessage) (*agent.Output, error)
	// Arguments compiles doc, the schema of a tool of a Start, which errors refer to as name; if
	// Arguments is nil, only the holder of the channel checks the arguments of its tools.
	Arguments func(name string, doc []byte) (*agent.Shape, error)
	// Accept, if it is not nil, is asked about every answer that would end a
	// run of Agent. It returns the text that counts as the answer, or what is
	// wrong with it, as in "it is not JSON": the model gets that and is asked
	// again. After MaxAnswers the run ends with ErrAnswer.
	Accept func(ctx context.Context, answer string) (string, error)
	// Meanwhile, if it is not nil, is asked for what a person sends during a run of the
	// session, before its request of the turn and before its end: what a record has. false
	// is nothing. A Directive with a Key is the message of the background agent of that call.
	Meanwhile func(session string, turn int) (agent.Directive, bool)
	// NoNotices drops what Invocation.Background has to say to the model, because the
	// record has it.
	NoNotices bool
	// Checkpoint, if it is not nil, is called before each call of a tool that does not declare
	// EffectsNone, at every depth, with the turn of the session; ended is called when the call
	// has ended. The error becomes a warning. Calls of sub-agents count, and not those that
	// they answer, except where they are other programs.
	Checkpoint func(ctx context.Context, turn int) (ended func(), err error)
	// Leaves, if it is not nil, says whether a call of an agent that may work in the background
	// returns a handle, because the record says so: see ToolSpec.Background. Calls for which it
	// returns false, true wait for the answer, and a run waits for its agents before it ends.
	Leaves func(inv *agent.Invocation) (leaves, known bool)
	// Held makes each agent in the background wait until its caller waits for agents, and it is the
	// first of them. It then works until it ends, however long its caller wanted to wait. This is for
	// tests, in which nothing may depend on time.
	Held bool
	// Delegate, if it is not nil, has sub-agents run by other Runners: see StepCall. Those
	// that a program calls (OnBehalf) run here.
	Delegate func(ctx context.Context, d Delegation) error
	// Elsewhere gives access to the agents in the background that other Runners run. It must be set
	// if Leave is used.
	Elsewhere Elsewhere
	// Observe is called with every event of the run and its sub-agents, one at
	// a time, and must return soon; nil is fine.
	Observe func(agent.Event)
	// Panicked, if it is not nil, gets the text and the stack of a panic, which then ends the
	// run with ErrPanic and not the program: for servers with other runs.
	Panicked func(text string)
	// Unseen returns the paths that receipts leave out, when a folder is looked at: see package
	// filestate. It is called concurrently; nil is fine.
	Unseen func() []string
	// Trace says that the run is recorded as a trace, so that tools and models get a
	// traceparent. They also get one if From.Traceparent is valid. See package
	// traceid.
	Trace bool
	// MaxDepth limits how deep sub-agents nest; 0 means 8.
	MaxDepth int
	// MaxProcesses limits how many tool calls run at the same time in the
	// whole tree; 0 means 64.
	MaxProcesses int
	// Now tells the time; nil means time.Now.
	Now func() time.Time
	// NewID makes the id of a session; nil means a random one.
	NewID func() string

	once    sync.Once
	tree    *tree
	inboxes inboxes
	caller  caller // of the Channel
}

// A Resume is where a Runner begins. The zero value is a new session.
type Resume struct {
	// Session is the conversation so far; nil begins a new one.
	Session *agent.Session
	// Total is what its unfinished run had consumed, with sub-agents.
	Total agent.TotalUsage
	// Pending are the sessions of sub-agents whose calls have no result, by the
	// Key of the call.
	Pending map[string]PendingSession
	// Parent is the Key of the call of another process that a new session
	// answers, if it does; see Event.Parent. Depth is the number of agents above,
	// in other processes: they count for MaxDepth.
	Parent string
	Depth  int
	// Traceparent is the span that the run is part of, in W3C Trace Context; one
	// that is not valid is ignored.
	Traceparent string
	// Context is the context that the last run left.
	Context json.RawMessage
	// Began is when the unfinished run began; Step and StepCall count its time limits
	// from then. With the zero time they have none.
	Began time.Time
	// Facts are those of the unfinished run; nil if none is known.
	Facts *agent.Facts
}

// A PendingSession is the session of a sub-agent whose call has no result: the
// process that ran it ended first. Total is what it had consumed, with its own
// sub-agents.
type PendingSession struct {
	Session *agent.Session
	Total   agent.TotalUsage
	// Events are those of the session, for an agent that resumes it in another
	// process.
	Events []agent.Event
	// Facts are those of the call, with all agents below it; nil if none are known.
	Facts *agent.Facts

	lent agent.Usage // see remote
}

// Run adds prompt to the session and takes turns until the model answers
// without asking for a tool. The Outcome is never nil; the error is nil only if
// there is an answer, and StatusOf tells what kind it is. When Run returns, all
// calls have results and nothing that it started is running.
//
// Calls that an earlier run left open are answered before the prompt is added.
func (r *Runner) Run(ctx context.Context, prompt agent.Message) (*agent.Outcome, error) {
	return r.root().do(ctx, &prompt)
}

// Resume continues a session whose last run is unfinished, until the model
// answers; for the rest it is as Run. Results that are there are used. Calls that
// did not start are run. Of those that started and have no result, sub-agents
// continue their own sessions; tools that declare EffectsNone or
// EffectsIdempotent are run again with the same Key; all others are not, and the
// model reads that their effect is unknown.
func (r *Runner) Resume(ctx context.Context) (*agent.Outcome, error) {
	root := r.root()
	if !root.session.Unfinished() {
		return &agent.Outcome{Status: agent.StatusFailed, Session: root.session.ID, Agent: root.agent.Slug}, agent.ErrNothingOpen
	}
	return root.do(ctx, nil)
}

// Step does the one thing that the session needs next, as Session.Next says,
// and returns what it was. With StepPrompt it did nothing: the session waits for
// a user message. What Input and Direct have sent, and what runs in the background has to
// say, is added first. A program that drives a session itself opens it with
// Prompt and calls Step. The error is that of a run which ended in this step without an
// answer, or of the journal.
func (r *Runner) Step(ctx context.Context) (agent.Step, error) {
	root := r.root()
	root.tree.stepped = true
	step := root.session.Next()
	if err := root.tree.refused; err != nil {
		return step, err
	}
	if root.tree.delegate != nil && ctx.Err() == nil { // a cancelled run only records its end
		if err := root.relaunch(ctx); err != nil {
			return step, err
		}
	}
	if root.inbox == nil {
		root.inbox = &r.inboxes.root
	}
	for d, ok := root.directed(ctx, step); ok; d, ok = root.directed(ctx, step) {
		if err := root.follow(ctx, d); err != nil {
			return step, err
		}
		step = root.session.Next()
	}
	ctx, cancel := root.timed(ctx)
	defer cancel()
	return step, root.perform(ctx, step)
}

// Prompt adds a user message to the session without running anything.
func (r *Runner) Prompt(ctx context.Context, prompt agent.Message) error {
	root := r.root()
	if err := root.tree.refused; err != nil {
		return err
	}
	root.start = root.tree.now()
	root.began = root.start
	root.renew()
	return root.prompt(ctx, prompt)
}

// TakeUp counts the model request that an earlier process has sent and whose answer the
// session still waits for, in an event resume. A program that drives the session itself calls
// it before Step; Resume does the same.
func (r *Runner) TakeUp(ctx context.Context) error {
	root := r.root()
	if err := root.emit(ctx, root.resumed()); err != nil {
		return err
	}
	return root.relaunch(ctx)
}

// Session is the conversation. It must not be used while Run, Resume or Step
// runs.
func (r *Runner) Session() *agent.Session { return r.root().session }

var errNoAgent = errors.New("the Runner has no Agent")

func (r *Runner) root() *run {
	r.once.Do(func() {
		t := &tree{
			lease: r.Lease, journal: r.Journal, watch: Redact(r.Secrets, r.Observe), panicked: r.Panicked, redact: RedactEvent(r.Secrets),
			maxDepth: cmp.Or(r.MaxDepth, agent.DefaultMaxDepth), now: r.Now, newID: r.NewID,
			above: len(r.Lease.Path), shared: r.Context, person: r.Person,
			asking: make(chan struct{}, 1), questionTime: defaultQuestionTime, remotes: map[string]*remote{}, forwarded: map[string][]agent.Event{}, used: map[string]bool{}, inboxes: &r.inboxes, meanwhile: r.Meanwhile, noNotices: r.NoNotices, leaves: r.Leaves, holds: r.Held,
		}
		if t.now == nil {
			t.now = time.Now
		}
		if t.newID == nil {
			t.newID = rand.Text
		}
		t.policy, t.caller, t.callers, t.delegate, t.elsewhere, t.checkpoint, t.reserveShared = r.Policy, r.caller, r.Callers, r.Delegate, r.Elsewhere, r.Checkpoint, r.Shared
		t.rights, t.refused = r.leaseRights()
		t.gate = Gate{Policy: t.decide, Ask: r.Ask, Reserve: t.reserver(r.Reserve), MaxProcesses: maxProcesses(r), Now: t.now, Commands: r.Journal != nil}
		if r.Secrets != nil {
			t.gate.Redact = r.Secrets.String
		}
		t.traced = r.Trace
		if t.gate.Ask == nil && r.Person != nil {
			t.gate.Ask = t.askPerson
		}
		a := r.Agent
		if a == nil {
			a, t.refused = &agent.Agent{}, errNoAgent
		}
		root := &run{node: node{tree: t, agent: a, session: &agent.Session{}}, accept: r.Accept, conditions: a.Accept, secrets: r.Secrets}
		if t.unseen = r.Unseen; t.unseen == nil {
			t.unseen = func() []string { return nil }
		}
		var past *agent.Facts
		root.chooseLoan()
		if from := r.From; from != nil {
			root.parent, root.total, t.above = from.Parent, from.Total.Clone(), max(t.above, from.Depth)
			t.pending = maps.Clone(from.Pending)
			t.trace(from.Traceparent)
			if from.Session != nil {
				root.session, root.parent = from.Session, cmp.Or(from.Session.Parent, from.Parent)
			}
			t.recorded = from.Context
			root.start, root.began = from.Began, from.Began
			past = from.Facts
		}
		t.own = newCollector(past, agent.Expect{Accept: a.Accept, Receipt: a.Receipt, Dir: a.WorkDir})
		if !hasContext(t.shared) {
			t.shared = t.recorded
		}
		if !hasContext(t.shared) {
			t.shared = a.Context
		}
		t.shared = compactContext(t.shared)
		if q := r.Lease.QuestionSeconds; q != nil {
			t.questionTime, _ = seconds(q)
		}
		t.used[root.session.ID] = true
		r.tree, t.root = t, root
		root.openAccount()
	})
	return r.tree.root
}

// A caller answers a question of a Channel that is for programs. delta, which may be nil, gets
// what the answer to a question "model" begins with.
type caller func(ctx context.Context, question agent.Event, delta func(agent.Delta)) (json.RawMessage, error)

// tree is what a run shares with all its sub-agents.
type tree struct {
	root   *run
	gate   Gate
	policy agent.Policy
	// delegate is Runner.Delegate, and checkpoint Runner.Checkpoint.
	delegate   func(context.Context, Delegation) error
	elsewhere  Elsewhere
	aside      *aside
	checkpoint func(ctx context.Context, turn int) (ended func(), err error)
	caller     caller         // answers questions for programs
	callers    []*agent.Agent // Runner.Callers
	// reserveShared is Runner.Shared; left is what remained after its last reservation.
	reserveShared func(context.Context, agent.Event) (left, total agent.Budget, err error)
	left          agent.Budget
	rights        []agent.Rights // of the callers
	// refused is why the tree cannot run: rights of the callers that cannot be evaluated, or
	// no Agent.
	refused  error
	lease    agent.Lease
	journal  agent.Journal
	watch    func(agent.Event)
	panicked func(text string)
	redact   func(agent.Event) agent.Event
	maxDepth int
	above    int // agents in other processes
	traced   bool
	outside  traceid.Context // of the caller; zero if there is none
	now      func() time.Time
	newID    func() string

	shared       json.RawMessage // the context; guarded by mu
	recorded     json.RawMessage // what the journal says of it when the run begins
	person       func(context.Context, agent.Event) (json.RawMessage, error)
	asking       chan struct{} // has a value while a question is put
	questionTime time.Duration
	inboxes      *inboxes
	meanwhile    func(session string, turn int) (agent.Directive, bool)
	noNotices    bool
	leaves       func(inv *agent.Invocation) (leaves, known bool) // Runner.Leaves
	holds        bool

	mu      sync.Mutex // held while an event takes effect
	broken  error      // the journal failed; nothing may happen any more
	setups  map[string]bool
	pending map[string]PendingSession // not yet continued

	settled  chan struct{}   // closed when a request is no longer in progress; nil if none waits for it
	unpriced map[string]bool // models whose price is unknown, of which a warning was shown
	admitted map[string]bool // calls that have a reservation and are not recorded as started, by Key
	// The ids of sessions of this process, and of agents in others whose calls have
	// ended.
	used map[string]bool
	// The sessions of agents in other processes by id; nil for one that an earlier
	// process began and that did not continue yet.
	remotes   map[string]*remote
	forwarded map[string][]agent.Event // of calls in progress, by Key
	children  map[string]*child        // the same
	// What receipts are made of: of the agents whose calls are in progress, by Key, and of the
	// root's run; the calls in progress that can change files; see Runner.Unseen.
	collecting map[string]*collector
	own        *collector
	changing   map[string]changer
	unseen     func() []string
	looks      struct {
		ctx     context.Context
		stop    context.CancelFunc // nil if there is none
		running sync.WaitGroup
	}
	stepped   bool                   // other processes do parts of the run, perhaps elsewhere
	calling   bool                   // only a call is run: the model is not told of ends
	leaving   map[string]*leftAgent  // agents that may work in the background, by the Key of their call
	detached  map[string]*background // what outlives the agent that has answered a call, by its Key
	questions int                    // put so far
	failures  map[string]bool        // of hooks, of which a warning was shown
}

// emit makes events happen, one behind the other: journal, then session, then
// observer.
func (r *run) emit(ctx context.Context, events ...agent.Event) error {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	for _, e := range events {
		if err := r.happen(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// happen makes e happen. r.tree.mu is held.
func (r *run) happen(ctx context.Context, e agent.Event) error {
	t := r.tree
	if t.broken != nil {
		return t.broken
	}
	r.fill(&e)
	var detached *background
	if e.Kind.Lasting() {
		if e.Kind == agent.EventCallEnded || e.Kind == agent.EventEnd || e.Kind == agent.EventMessage && e.Key != "" {
			detached = t.takenOver(&e)
			r.addReceipt(&e)
		}
		if t.redact != nil {
			e = t.redact(e)
		}
		if t.journal != nil {
			// A cancelled run still records how it ended.
			if err := t.journal.Append(context.WithoutCancel(ctx), e); err != nil {
				t.broken = fmt.Errorf("%w: %w", agent.ErrJournal, err)
				return t.broken
			}
		}
		if err := r.session.Apply(e); err != nil {
			return err
		}
		if detached != nil {
			detached.pass(&r.background)
		}
		switch e.Kind {
		case agent.EventSession:
			t.used[e.Session] = true
			t.inboxes.add(e.Session, r.inbox)
			t.begun(e.Parent, e.Session)
		case agent.EventEnd:
			t.unread(e)
		}
		for up := &r.node; up != nil; up = up.up {
			up.total.Note(&e)
		}
		t.noteFacts(&r.node, &e)
		if e.Kind == agent.EventCallStarted {
			r.callCounted(e.Key)
		}
		if e.Kind == agent.EventEnd {
			end := e // not e: all others would be allocated too
			r.end = &end
		}
	}
	if t.watch != nil {
		t.watch(e)
	}
	return nil
}

// fill completes an event with what a Session does not know.
func (r *run) fill(e *agent.Event) {
	e.Time = r.tree.now()
	if e.Session == "" {
		e.Session, e.Agent, e.Parent, e.Depth = r.session.ID, r.agent.Slug, r.parent, r.depth
	}
	switch {
	case e.Kind == agent.EventEnd:
		e.Millis = e.Time.Sub(r.start).Milliseconds()
		fallthrough
	case e.Kind == agent.EventCompaction, e.Kind == agent.EventResume, e.Kind == agent.EventMessage && e.Continues():
		if e.Kind == agent.EventCompaction {
			e.Context = r.tree.shared
		}
		total := r.total.Clone()
		e.Total = &total
	}
}

// observe shows an event that does not last.
func (r *run) observe(e agent.Event) {
	t := r.tree
	if t.watch == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.fill(&e)
	t.watch(e)
}
