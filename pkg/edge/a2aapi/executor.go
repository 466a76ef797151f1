package a2aapi

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

// answerTime is how long a run waits for the answer to a question. It is less than the time
// limit of questions.
const answerTime = 4 * time.Minute

type executor struct {
	host runner.Starter
	spec agent.ToolSpec
	warn func(text string) // see Handler.Warn

	done   chan struct{} // closed when closed is set
	mu     sync.Mutex
	closed bool
	runs   map[a2a.TaskID]*run // in progress
	active sync.WaitGroup      // the same
	// sessions are those of contexts, the newest of them; order has the contexts, the
	// oldest first.
	sessions map[string]string
	order    []string
}

// A run is a task in progress.
type run struct {
	channel  *runner.Channel
	cancel   context.CancelFunc
	question *agent.Event // that waits for the client's answer; nil if none does
	late     *time.Timer  // for the answer
	// cancelled is set when the client cancels the task.
	cancelled atomic.Bool
}

func newExecutor(host runner.Starter, spec agent.ToolSpec, warn func(text string)) *executor {
	return &executor{host: host, spec: spec, warn: warn, done: make(chan struct{}), runs: map[a2a.TaskID]*run{}, sessions: map[string]string{}}
}

func (x *executor) close() {
	x.mu.Lock()
	if !x.closed {
		close(x.done)
	}
	x.closed = true
	runs := maps.Clone(x.runs)
	x.mu.Unlock()
	for id, r := range runs {
		x.stop(id, r, "the server is stopping")
	}
	x.active.Wait()
}

// Execute implements a2asrv.AgentExecutor.
func (x *executor) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		err := guard.Run(x.warn, func() error { x.execute(ctx, ec, yield); return nil })
		if err == nil {
			return
		}
		x.mu.Lock()
		r := x.runs[ec.TaskID]
		x.mu.Unlock()
		if r != nil { // nothing reads its events any more
			x.end(ec.TaskID, r)
		}
		if r == nil && ec.StoredTask == nil {
			yield(nil, err)
			return
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateFailed, says(ec, err.Error())), nil)
	}
}

func (x *executor) execute(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
	r, err := x.begin(ctx, ec)
	switch {
	case err != nil && ec.StoredTask == nil:
		yield(nil, err)
		return
	case err != nil:
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateFailed, says(ec, err.Error())), nil)
		return
	case ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, shortened(ec.Message)), nil):
		x.end(ec.TaskID, r)
		return
	}
	x.follow(ctx, ec, r, yield)
}

// begin starts the run of a task, or answers the question that it waits for.
func (x *executor) begin(ctx context.Context, ec *a2asrv.ExecutorContext) (*run, error) {
	x.mu.Lock()
	r := x.runs[ec.TaskID]
	if r != nil && r.question != nil && r.late.Stop() {
		q := r.question
		r.question = nil
		x.mu.Unlock()
		r.channel.Reply(q.Question, answerOf(q, ec.Message.Parts))
		return r, nil
	}
	session, closed := x.sessions[ec.ContextID], x.closed
	x.mu.Unlock()
	switch {
	case closed:
		return nil, errors.New("the server is stopping")
	case ec.StoredTask != nil:
		return nil, errors.New("the task is not waiting for a message")
	}
	start, err := startOf(x.spec, ec.Message.Parts)
	if err != nil {
		return nil, err
	}
	start.Session = session
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // the run may wait in a queue
	channel, err := x.host.Start(running, x.spec.Name, start)
	stop()
	if err != nil {
		cancel()
		return nil, err
	}
	r = &run{channel: channel, cancel: cancel}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs[ec.TaskID] = r
	x.active.Add(1)
	if x.closed {
		channel.Cancel("the server is stopping")
	}
	return r, nil
}

// follow passes on the events of a run until it ends or asks a question.
func (x *executor) follow(ctx context.Context, ec *a2asrv.ExecutorContext, r *run, yield func(a2a.Event, error) bool) {
	stop := context.AfterFunc(ctx, func() { r.channel.Cancel("the client cancelled the task") })
	defer stop()
	out := &output{ec: ec, yield: yield}
	for e := range r.channel.Events() {
		if e.Kind == agent.EventQuestion && e.What == "approve" {
			r.channel.Reply(e.Question, nil) // the client may be a model: nobody can allow a call
			continue
		}
		if e.Kind == agent.EventQuestion {
			stop() // the library ends ctx with the event
			x.ask(ec, r, &e)
			out.send(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, question(ec, &e)))
			return
		}
		out.event(&e)
	}
	result, err := r.channel.Wait()
	x.remember(ec.ContextID, result.Session)
	x.end(ec.TaskID, r)
	if !r.cancelled.Load() { // Cancel sends the last event
		out.finish(result, err)
	}
}

// ask keeps a run until the client answers its question. Without an answer the run ends.
func (x *executor) ask(ec *a2asrv.ExecutorContext, r *run, e *agent.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wait := answerTime
	if x.closed || r.cancelled.Load() {
		wait = 0
	}
	r.question = e
	r.late = time.AfterFunc(wait, func() {
		r.channel.Cancel("nobody answered the agent's question")
		x.end(ec.TaskID, r)
	})
}

// stop cancels a run. It ends a run that waits for an answer, because nothing reads its events.
func (x *executor) stop(task a2a.TaskID, r *run, why string) {
	x.mu.Lock()
	waits := r.question != nil && r.late.Stop()
	x.mu.Unlock()
	r.channel.Cancel(why)
	if waits {
		x.end(task, r)
	}
}

// end ends a run, if it has not ended, and forgets it.
func (x *executor) end(task a2a.TaskID, r *run) {
	r.channel.Cancel("")
	for range r.channel.Events() { // so that it does not wait for a reader
	}
	_, _ = r.channel.Wait() // the last event has the outcome
	r.cancel()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.runs[task] == r {
		delete(x.runs, task)
		x.active.Done()
	}
}

// remember keeps the session of a context. The oldest context makes room for it.
func (x *executor) remember(context, session string) {
	if session == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.sessions[context]; !known {
		x.order = append(x.order, context)
	}
	x.sessions[context] = session
	if len(x.order) > 2*maxTasks {
		delete(x.sessions, x.order[0])
		x.order = slices.Delete(x.order, 0, 1)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (x *executor) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		x.mu.Lock()
		r := x.runs[ec.TaskID]
		x.mu.Unlock()
		if r != nil {
			r.cancelled.Store(true)
			x.stop(ec.TaskID, r, "the client cancelled the task")
			<-r.channel.Done()
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}
