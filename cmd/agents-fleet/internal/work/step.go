package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// step is flow.StepActivity: one model request, and all that follows until there are calls
// to run or the run ends. The first step opens the session.
func (w *Worker) step(ctx context.Context, task flow.Task) (next flow.Next, err error) {
	next.At, err = w.attempt(ctx, task, func(ctx context.Context, a *attempt) error {
		if task.End == "" && a.turn == 0 && len(task.Path) > 0 { // it may have been stopped before it had a workflow
			if _, err := w.store.Get(ctx, flow.StopName(task.Record, task.Session)); err == nil {
				task.End = string(agent.StatusInterrupted)
			}
		}
		if task.End != "" {
			ended, cancel := context.WithCancelCause(ctx)
			why := &agent.EndError{Status: agent.Status(task.End), Text: task.Reason}
			if task.Reason == "" {
				why = w.cancelled(context.WithoutCancel(ctx), &task)
			}
			cancel(why)
			ctx = ended
		}
		if !a.begun {
			if err := a.begin(ctx); err != nil {
				return err
			}
		}
		if a.asked {
			if err := a.runner.TakeUp(ctx); err != nil {
				return err
			}
		}
		return a.steps(ctx, &next)
	})
	if err == nil && next.Ended != "" && task.Session == task.Record && w.o.Ended != nil {
		if record, err := w.records.Get(ctx, task.Record); err == nil {
			w.o.Ended(record.Events())
		}
	}
	return next, err
}

func (a *attempt) begin(ctx context.Context) error {
	if len(a.task.Path) > 0 {
		return &permanentError{fmt.Errorf("session %s is not in record %s", a.task.Session, a.task.Record)}
	}
	prompt, err := a.start.Prompt(ctx, a.agent)
	if err != nil {
		return &permanentError{fmt.Errorf("the prompt: %w", err)}
	}
	return a.runner.Prompt(ctx, prompt)
}

func (a *attempt) steps(ctx context.Context, next *flow.Next) error {
	for {
		s := a.runner.Session()
		step := s.Next()
		switch {
		case step.Kind == agent.StepPrompt:
			return a.ended(next)
		case step.Kind == agent.StepCalls && ctx.Err() == nil:
			a.waits(step.Calls, next)
			return nil
		}
		done := a.journal.appended()
		_, err := a.runner.Step(ctx)
		if errors.Is(err, runner.ErrOpen) {
			next.Open = true
			return nil
		}
		if errors.Is(err, agent.ErrJournal) || err != nil && a.journal.appended() == done {
			return err
		}
	}
}

// waits notes the calls of a turn.
func (a *attempt) waits(calls []agent.PendingCall, next *flow.Next) {
	for _, c := range calls {
		next.Calls = append(next.Calls, flow.Call{Key: c.Key, Tool: c.Name})
	}
	next.Parallel = cmp.Or(a.agent.MaxParallelTools, agent.DefaultMaxParallelTools)
}

func (a *attempt) ended(next *flow.Next) error {
	end := a.journal.end
	if end == nil { // an earlier attempt has recorded it
		events := a.record.Events()
		for i := len(events) - 1; i >= 0 && end == nil; i-- {
			if e := &events[i]; e.Kind == agent.EventEnd && e.Session == a.task.Session {
				end = e
			}
		}
	}
	if end == nil {
		return &permanentError{fmt.Errorf("session %s has not begun", a.task.Session)}
	}
	next.Ended, next.Inputs = string(end.Status), a.inputs
	for _, l := range end.Left {
		next.Left = append(next.Left, l.Key)
	}
	if a.task.End != "" {
		next.Running = a.running()
	}
	if n := a.task.Inputs - a.inputs; n > 0 {
		a.journal.observe(agent.Event{Kind: agent.EventWarning, Time: time.Now(), Session: a.task.Session, Agent: a.agent.Slug,
			Text: fmt.Sprintf("messages to agent %s %s", a.agent.Slug, runner.TooLate)})
	}
	if end.Total != nil {
		next.Cost = float64(end.Total.Usage.Cost) / float64(agent.Dollar)
	}
	a.leave()
	return nil
}

// running returns the sessions of the sub-agents that work.
func (a *attempt) running() (sessions []string) {
	events := a.record.Events()
	left := a.left(events)
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == agent.EventSession && (agent.CallSession(e.Parent) == a.task.Session || left[e.Parent]):
			sessions = append(sessions, e.Session)
		case e.Kind == agent.EventEnd:
			sessions = slices.DeleteFunc(sessions, func(s string) bool { return s == e.Session })
		}
	}
	return sessions
}

// meanwhile is Runner.Meanwhile: the messages of a person that are not in the session.
func (a *attempt) meanwhile(of string, turn int) (agent.Directive, bool) {
	ends := turn > a.turn+1 // after an answer of this attempt, one may have come meanwhile
	if of != a.task.Session || a.task.End != "" || a.inputs >= a.task.Inputs && !ends {
		return agent.Directive{}, false
	}
	m, ok := a.input(context.Background(), of, a.inputs)
	if !ok {
		return agent.Directive{}, false
	}
	a.inputs++
	return agent.Directive{Message: m, N: a.inputs}, true
}

func (w *Worker) call(ctx context.Context, task flow.Task) (called flow.Called, err error) {
	called.At, err = w.attempt(ctx, task, func(ctx context.Context, a *attempt) error {
		s := a.runner.Session()
		open := slices.ContainsFunc(s.Next().Calls, func(c agent.PendingCall) bool { return c.Key == task.Key })
		left := task.Aside && slices.ContainsFunc(s.Left, func(l agent.LeftCall) bool { return l.Key == task.Key })
		if !open && !left {
			return nil // an earlier attempt has recorded its result, or the run is ending
		}
		if task.End != "" {
			ended, cancel := context.WithCancelCause(ctx)
			cancel(w.cancelled(context.WithoutCancel(ctx), &task))
			ctx = ended
		}
		defer a.deliver(ctx)()
		step := a.runner.StepCall
		switch {
		case task.Aside:
			step = a.runner.Aside
		case task.Left:
			step = a.runner.Leave
		}
		err := step(ctx, task.Key)
		called.Child, called.Wait = a.child, a.waiting
		if err == nil {
			err = a.save(ctx)
		}
		return err
	})
	return called, err
}

// deliver passes what is sent to the agents that this attempt runs, until done is called. What they
// have not read when they have ended is a warning.
func (a *attempt) deliver(ctx context.Context) (done func()) {
	ctx = context.WithoutCancel(ctx)
	polls, cancel := context.WithCancel(ctx)
	sent := a.passed // messages that are passed on now, too
	seen := map[string]bool{}
	var g sync.WaitGroup
	g.Go(func() {
		for wait := firstLook; ; wait = min(wait*5/4, lastLook) {
			select {
			case <-time.After(wait):
			case <-polls.Done():
				return
			}
			for _, of := range a.journal.agents() {
				seen[of] = true
				for d, ok := a.sentTo(ctx, of, sent[of]); ok && (a.wasRead(d) || a.runner.Direct(d)); d, ok = a.sentTo(ctx, of, sent[of]) {
					if wait = firstLook; d.Stop {
						break
					}
					sent[of]++
				}
			}
		}
	})
	return func() {
		cancel()
		g.Wait()
		working := a.journal.agents()
		for of := range seen {
			if _, more := a.input(ctx, of, sent[of]); more && !slices.Contains(working, of) {
				a.journal.observe(agent.Event{Kind: agent.EventWarning, Time: time.Now(), Session: a.task.Session, Agent: a.agent.Slug, Text: "a message to an agent that " + a.agent.Slug + " called " + runner.TooLate})
			}
		}
	}
}

// wasRead reports whether an agent of another process has read a message in an earlier attempt.
func (a *attempt) wasRead(d agent.Directive) bool {
	if d.Message == nil {
		return false
	}
	past, sent := a.read[d.Session], a.runner.Secrets.String(d.Message.Text())
	i := slices.IndexFunc(past, func(text string) bool { return sent != "" && strings.HasPrefix(text, sent) }) // hooks may have added something
	if i < 0 {
		return false
	}
	a.read[d.Session] = slices.Delete(past, i, i+1)
	return true
}

// sentTo returns what was sent to an agent without a workflow: message i, or its end.
func (a *attempt) sentTo(ctx context.Context, session string, i int) (d agent.Directive, ok bool) {
	reason, err := a.w.store.Get(ctx, flow.StopName(a.task.Record, session))
	if err == nil {
		return agent.Directive{Session: session, Stop: true, Reason: string(reason)}, true
	}
	m, ok := a.input(ctx, session, i)
	return agent.Directive{Session: session, Message: m, N: i + 1}, ok
}

// input reads message i of a person to the agent with a session.
func (a *attempt) input(ctx context.Context, session string, i int) (m *agent.Message, ok bool) {
	data, err := a.w.store.Get(ctx, flow.InputName(a.task.Record, session, i))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // its update is in progress, or there is none
		return nil, false
	case err != nil && ctx.Err() == nil:
		a.w.o.Note(fmt.Sprintf("read input %d of session %s: %s", i, session, err))
	}
	return m, err == nil
}

// delegate implements Runner.Delegate: the workflow runs the sub-agent.
func (a *attempt) delegate(ctx context.Context, d runner.Delegation) error {
	data, err := json.Marshal(agent.Start{Channel: agent.ChannelVersion, Lease: d.Lease, Person: a.start.Person})
	if err != nil {
		return err
	}
	blob, err := store.PutBlob(ctx, a.w.store, a.task.Record, data)
	a.child = &flow.Child{Session: d.Session, Agent: d.Agent, Start: blob, Background: d.Background, Detach: d.Detach}
	return err
}

// Send implements runner.Elsewhere.
func (a *attempt) Send(ctx context.Context, session, key string, m agent.Message) error {
	err := a.asClient().Send(ctx, session, key, m)
	if errors.Is(err, attach.ErrEnded) {
		return errors.New("the agent has ended")
	}
	return err
}

// Stop implements runner.Elsewhere.
func (a *attempt) Stop(ctx context.Context, session, reason string) error {
	if err := a.asClient().Stop(ctx, session, reason); !errors.Is(err, attach.ErrEnded) {
		return err
	}
	return nil
}

func (a *attempt) asClient() *attach.Run {
	return &attach.Run{Client: a.w.client, Store: a.w.store, ID: a.task.Record}
}

// Await implements runner.Elsewhere. The workflow waits, so that no worker is occupied.
func (a *attempt) Await(keys []string, most time.Duration) (later bool) {
	if a.task.Ended {
		return false
	}
	a.waiting = &flow.Wait{Keys: keys, Most: most}
	return true
}

// The time between two looks for a reply.
const (
	firstLook = 250 * time.Millisecond
	lastLook  = 2 * time.Second
)

// answered returns a reply; null means that nobody answers.
func answered(reply json.RawMessage) (json.RawMessage, error) {
	if string(reply) == "null" {
		return nil, agent.ErrNobody
	}
	return reply, nil
}

// ask is Runner.Person: those who attach to the run see the question in the record, and
// their reply is an object of the store.
func (a *attempt) ask(ctx context.Context, q agent.Event) (json.RawMessage, error) {
	name := flow.ReplyName(a.task.Record, q.Question)
	if reply, err := a.w.store.Get(ctx, name); err == nil {
		return answered(reply) // to an earlier attempt
	}
	a.journal.observe(q)
	if err := a.journal.Sync(ctx); err != nil {
		return nil, err
	}
	for wait := firstLook; ; wait = min(wait*5/4, lastLook) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		reply, err := a.w.store.Get(ctx, name)
		if err == nil {
			return answered(reply)
		}
		if !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
			a.w.o.Note(fmt.Sprintf("read the reply to question %s: %s", q.Question, err))
		}
	}
}

func (w *Worker) keep(ctx context.Context, k flow.Kept) error {
	data, err := store.GetBlob(ctx, w.store, k.Blob)
	if err == nil {
		_, err = w.store.Put(ctx, k.Name, data)
	}
	return failure(ctx, err)
}

// A ledger is the runner.Ledger of an attempt, with the list of reservations in the store.
type ledger struct {
	mu       sync.Mutex
	of       *runner.Ledger // nil until something is reserved
	reserved *store.Record
	known    int64 // events of the record that it has
	held     int64 // reservations that it has
}

// The time between two checks whether a reservation fits.
const (
	firstTry = 10 * time.Millisecond
	lastTry  = 250 * time.Millisecond
)

func (a *attempt) reserve(ctx context.Context, e agent.Event) (left, total agent.Budget, err error) {
	if err := a.journal.Sync(ctx); err != nil { // the end of the session's last reservation
		return left, total, err
	}
	worked := time.Now()
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		done, err := a.tryReserve(ctx, &e, &left, &total)
		switch {
		case err == nil:
			worked = time.Now()
		case errors.Is(err, agent.ErrBudget) || errors.Is(err, store.ErrLost) || ctx.Err() != nil || time.Since(worked) > storeTime:
			return left, total, err
		}
		if done {
			return left, total, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return left, total, context.Cause(ctx)
		}
	}
}

func (a *attempt) tryReserve(ctx context.Context, e *agent.Event, left, total *agent.Budget) (done bool, err error) {
	l := &a.shared
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		if err := a.openLedger(ctx); err != nil {
			return false, err
		}
	} else if err := l.reserved.Refresh(ctx); err != nil {
		return false, err
	}
	at := l.reserved.Position() // before the record is read, so that no reservation ends unseen
	for _, other := range l.reserved.Events()[l.held:at.Number] {
		l.of.Reserved(&other)
	}
	l.held = at.Number
	if err := a.record.Refresh(ctx); err != nil {
		return false, err
	}
	events := a.record.Events()
	for ; l.known < int64(len(events)); l.known++ {
		l.of.Note(l.known+1, &events[l.known])
	}
	if done, err = l.of.Fits(e); !done || err != nil {
		return false, err
	}
	e.Seq = l.known
	*left, *total = l.of.Left()
	_, err = l.reserved.Append(ctx, at, []agent.Event{*e}, func(*agent.Event) bool { return true })
	if errors.Is(err, store.ErrSuperseded) { // another reservation was made meanwhile
		return false, nil
	}
	return err == nil, err
}

func (a *attempt) openLedger(ctx context.Context) (err error) {
	var lease agent.Lease
	if from := a.task.Root; from != "" || len(a.task.Path) == 0 {
		root := a.start
		if from != "" {
			if root, err = a.w.starts.read(ctx, a.w.store, from); err != nil {
				return err
			}
		}
		lease = root.Lease
	}
	if a.shared.reserved, err = a.w.records.Get(ctx, flow.ReservedName(a.task.Record)); err != nil {
		return fmt.Errorf("read the reservations of run %s: %w", a.task.Record, err)
	}
	a.shared.of = runner.NewLedger(lease, append(a.above[:len(a.above):len(a.above)], a.agent), a.record.Events(), a.task.Session)
	return nil
}
