package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
)

// An attempt is one activity at work on a run.
type attempt struct {
	w       *Worker
	task    flow.Task
	start   agent.Start
	record  *store.Record
	journal *journal
	tree    *tree
	space   *archive.Workspace // nil if the run has none
	agent   *agent.Agent
	above   []*agent.Agent
	shared  ledger
	runner  *runner.Runner
	first   bool                // the session is not in the record
	begun   bool                // it has its prompt
	turn    int                 // of the session, when the attempt began
	inputs  int                 // how many messages of a person the session has
	asked   bool                // an earlier attempt asked the model, and there is no answer
	away    map[string]bool     // the calls that agents answer in the background, by key
	passed  map[string]int      // how many messages of a person the agents of the task's call have, by session
	read    map[string][]string // the texts of those that have no number, because they came from other processes
	child   *flow.Child
	waiting *flow.Wait
}

// attempt runs do with all that the task needs, and returns how far the record is known
// afterwards.
func (w *Worker) attempt(ctx context.Context, task flow.Task, do func(context.Context, *attempt) error) (flow.Position, error) {
	a := &attempt{w: w, task: task, journal: &journal{}, passed: map[string]int{}, read: map[string][]string{}}
	a.journal.own = a.own
	l := &life{w.client, task.Options.Silence(), a.journal.close, func(ctx context.Context) *agent.EndError { return w.cancelled(ctx, &task) }}
	work, end := l.live(ctx)
	defer end()
	err := w.guard(func() error { return a.open(work) })
	if a.tree != nil {
		defer w.trees.release(a.tree)
	}
	if at := task.Options.Deadline; err == nil && !at.IsZero() {
		var stop context.CancelFunc
		work, stop = context.WithDeadlineCause(work, at, &agent.EndError{Status: agent.StatusDeadline, Text: flow.TimedOut})
		defer stop()
	}
	if err == nil {
		err = w.guard(func() error { return do(work, a) })
	}
	at, finishErr := a.journal.finish(work)
	if finishErr != nil {
		err = finishErr // what made the Runner stop
	}
	return flow.Position(at), failure(ctx, err)
}

// cancelled returns why the session of a task was cancelled. It does not wait for the store longer
// than heartbeatWait.
func (w *Worker) cancelled(ctx context.Context, task *flow.Task) *agent.EndError {
	ctx, done := context.WithTimeout(ctx, heartbeatWait)
	defer done()
	reason, err := w.store.Get(ctx, flow.StopName(task.Record, task.Session))
	if err != nil { // nobody stopped this agent alone, as far as is known
		return &agent.EndError{Status: agent.StatusInterrupted, Text: "the run was cancelled"}
	}
	return agent.Directive{Reason: string(reason)}.End()
}

// guard reports a panic of f, which ends the run and not the worker.
func (w *Worker) guard(f func() error) error { return guard.Run(w.o.Note, f) }

func (a *attempt) open(ctx context.Context) (err error) {
	if a.start, err = a.w.starts.read(ctx, a.w.store, a.task.Start); err != nil {
		return err
	}
	if a.record, err = a.w.records.Get(ctx, a.task.Record); err == nil {
		err = a.record.Check(store.Position(a.task.At))
	}
	if err != nil {
		return fmt.Errorf("read record %s: %w", a.task.Record, err)
	}
	a.journal.record, a.journal.known = a.record, a.record.Position()
	resume, shared, err := a.rebuild(a.record.Events()[:a.journal.known.Number])
	if err != nil {
		return fmt.Errorf("read record %s: %w", a.task.Record, err)
	}
	dir := ""
	if err := a.enter(ctx); err != nil {
		return err
	}
	if a.space != nil {
		dir = a.space.Dir
	}
	if a.tree, err = a.w.trees.open(ctx, &a.task, dir); err != nil {
		return err
	}
	return a.prepare(resume, shared)
}

// rebuild returns where the session continues, and the context of the tree. Of the
// sessions below, only those of the task's call are rebuilt; the others are counted.
func (a *attempt) rebuild(events []agent.Event) (resume *runner.Resume, shared json.RawMessage, err error) {
	var b runner.Rebuilder
	left := a.left(events)
	a.away = left
	below, above := map[string]bool{}, a.callersOf(events, left) // sessions, and whether they answer the call or one of left
	called := map[string]bool{}                                  // those that answer the call
	for i := range events {
		e := &events[i]
		own := e.Session == a.task.Session
		if own && (e.Kind == agent.EventRequest || e.Kind.Lasting()) {
			a.asked = e.Kind == agent.EventRequest
		}
		if !e.Kind.Lasting() {
			continue
		}
		if e.Kind == agent.EventContext || e.Kind == agent.EventCompaction && e.Context != nil {
			shared = e.Context
		}
		if e.Kind == agent.EventSession && !own {
			if up := agent.CallSession(e.Parent); up == a.task.Session {
				called[e.Session] = e.Parent == a.task.Key
				below[e.Session] = called[e.Session] || left[e.Parent]
			} else if of, ok := below[up]; ok {
				below[e.Session], called[e.Session] = of || left[e.Parent], called[up]
			}
		}
		answers, counts := below[e.Session]
		switch {
		case own || answers || above[e.Session]:
			err = b.Apply(*e)
		case counts:
			b.Count(*e)
		}
		if err != nil {
			return nil, nil, err
		}
		switch {
		case own:
			a.inputs = max(a.inputs, inputOf(e)) // see meanwhile
		case called[e.Session]:
			a.journal.follow(e)
			if n := inputOf(e); n > 0 {
				a.passed[e.Session] = max(a.passed[e.Session], n)
			} else if e.Kind == agent.EventMessage && e.Input {
				a.read[e.Session] = append(a.read[e.Session], e.Message.Text())
			}
		}
	}
	return b.ResumeOf(a.task.Session), shared, nil
}

// inputOf returns which message of a person an event follows from: see agent.Directive.N.
func inputOf(e *agent.Event) int {
	if e.Key == "" && (e.Kind == agent.EventMessage || e.Kind == agent.EventHook) {
		return e.N
	}
	return 0
}

// left returns the keys of the calls that agents answer in the background, except those whose end
// the model has already been told.
func (a *attempt) left(events []agent.Event) map[string]bool {
	left := map[string]bool{}
	for i := range events {
		switch e := &events[i]; {
		case e.Session != a.task.Session || e.Kind == agent.EventEnd:
		case e.Kind == agent.EventCallEnded && e.Result.Handle != "":
			left[e.Key] = true
		default:
			if e.Kind == agent.EventMessage {
				delete(left, e.Key)
			}
			for _, l := range e.Left { // it takes them over
				left[l.Key] = true
			}
		}
	}
	return left
}

// callersOf returns the sessions, below that of the run, of the agents that made these calls, and of
// their callers.
func (a *attempt) callersOf(events []agent.Event, calls map[string]bool) map[string]bool {
	if len(calls) == 0 {
		return nil
	}
	parents, above := map[string]string{}, map[string]bool{}
	for i := range events {
		if e := &events[i]; e.Kind == agent.EventSession {
			parents[e.Session] = e.Parent
		}
	}
	for key := range calls {
		for s := agent.CallSession(key); s != "" && s != a.task.Session && !above[s]; s = agent.CallSession(parents[s]) {
			above[s] = true
		}
	}
	return above
}

func (a *attempt) prepare(resume *runner.Resume, shared json.RawMessage) error {
	node, above, err := a.tree.find(a.task.Path)
	if err != nil {
		return &permanentError{err}
	}
	a.agent, a.above = node.Agent, above
	a.first, a.begun, a.turn = resume.Session.ID == "", !resume.Began.IsZero(), resume.Session.Turn
	h := host.New(a.tree.Tree)
	h.Traced = a.task.Options.Trace
	r := h.Runner(node.Agent)
	if len(a.task.Path) == 0 {
		if err := r.Shape(a.start.OutputSchema); err != nil {
			return &permanentError{err}
		}
	}
	resume.Traceparent = a.start.Lease.Traceparent
	if !a.first {
		resume.Session.Source = node.Agent.Source // on this host
	}
	r.From, r.Callers, r.Context = resume, above, shared
	if !a.begun {
		r.Context = a.start.Context
	}
	r.Lease = a.start.Lease
	if len(r.Lease.Path) > 0 { // what the caller had left when it began
		r.Lease.Budget = runner.Left(r.Lease.Budget, resume.Total)
	}
	if len(r.Lease.Rights) > 0 {
		if _, err := policy.Read(r.Lease.Rights); err != nil {
			return &permanentError{fmt.Errorf("the rights of the lease: %w", err)}
		}
	}
	r.Journal, r.Observe, r.NewID = a.journal, a.journal.observe, a.newID
	r.Delegate, r.Elsewhere, r.Meanwhile, r.Shared, r.Panicked = a.delegate, a, a.meanwhile, a.reserve, a.w.o.Note
	r.NoNotices = a.task.Settled || a.task.End != ""
	if a.start.Person == nil || *a.start.Person {
		r.Person = a.ask
	}
	a.runner = r
	return nil
}

// newID returns the id of the run's session, and then ids of sessions below it.
func (a *attempt) newID() string {
	if a.first {
		a.first = false
		return a.task.Session
	}
	return session.NewID()
}

// own reports whether an event shows that another worker has taken over: a step of the
// session, or for a call, something about the call.
func (a *attempt) own(e *agent.Event) bool {
	if !e.Kind.Lasting() {
		return false
	}
	key := a.task.Key
	switch {
	case key == "":
		judged := e.Kind == agent.EventVerdict || e.Kind == agent.EventHook // again, because its worker died
		return e.Session == a.task.Session && !(judged && a.away[e.Key])
	case a.task.Left: // its agent works
		return e.Key == key
	case a.task.Aside: // and so may its caller, once this attempt has begun
		return e.Parent == key || e.Session == a.task.Session && e.Kind == agent.EventEnd ||
			e.Key == key && !(e.Kind == agent.EventCallEnded && e.Result.Handle != "" && a.journal.started[key])
	}
	return e.Key == key || e.Parent == key || e.Session == a.task.Session && e.Key == ""
}

type starts struct {
	mu   sync.Mutex
	kept map[string]agent.Start // by blob
}

func (s *starts) read(ctx context.Context, from store.Store, blob string) (agent.Start, error) {
	s.mu.Lock()
	start, ok := s.kept[blob]
	s.mu.Unlock()
	if ok {
		return start, nil
	}
	data, err := store.GetBlob(ctx, from, blob)
	if err != nil {
		return start, err
	}
	if err := json.Unmarshal(data, &start); err != nil {
		return start, &permanentError{fmt.Errorf("the start of the run: %w", err)}
	}
	if len(start.Tools) > 0 || len(start.History) > 0 || start.Session != "" || start.Compact {
		return start, &permanentError{errors.New("the start of the run: a fleet does not support tools of the client, and does not continue sessions")}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) >= 200 {
		s.kept = map[string]agent.Start{}
	}
	if len(data) < 64<<10 {
		s.kept[blob] = start
	}
	return start, nil
}
