package a2aapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agents-exe/agents/pkg/source/a2aclient"
)

// requests corrects the library where it deviates from the specification.
type requests struct {
	a2asrv.RequestHandler
	a2asrv.PassthroughCallInterceptor
	tasks *tasks
	done  <-chan struct{} // closed when the server stops
}

func newRequests(x *executor, t *tasks) *requests {
	q := &requests{tasks: t, done: x.done}
	q.RequestHandler = a2asrv.NewHandler(x, a2asrv.WithTaskStore(t), a2asrv.WithCallInterceptors(q),
		a2asrv.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		a2asrv.WithCapabilityChecks(&a2a.AgentCapabilities{Streaming: true}))
	return q
}

// Before implements a2asrv.CallInterceptor: it refuses other versions of the protocol, and
// requests that need a task that has not ended.
func (q *requests) Before(ctx context.Context, call *a2asrv.CallContext, req *a2asrv.Request) (context.Context, any, error) {
	version, _ := call.ServiceParams().Get(a2a.SvcParamVersion)
	if v := strings.Join(version, ""); v != "" && v != string(a2a.Version) && !strings.HasPrefix(v, string(a2a.Version)+".") {
		return ctx, nil, fmt.Errorf("%w: this server supports %s", a2a.ErrVersionNotSupported, a2a.Version)
	}
	var id a2a.TaskID
	switch r := req.Payload.(type) {
	case *a2a.SubscribeToTaskRequest:
		id = r.ID
	case *a2a.SendMessageRequest:
		if r.Message != nil {
			id = r.Message.TaskID
		}
	}
	if task, err := q.tasks.Get(ctx, id); err == nil && task.Task.Status.State.Terminal() {
		return ctx, nil, fmt.Errorf("%w: the task has ended", a2a.ErrUnsupportedOperation)
	}
	return ctx, nil, nil
}

// SendMessage implements a2asrv.RequestHandler: it leaves out the history that the client
// does not want.
func (q *requests) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	result, err := q.RequestHandler.SendMessage(ctx, req)
	task, ok := result.(*a2a.Task)
	if !ok || req.Config == nil || req.Config.HistoryLength == nil {
		return result, err
	}
	short := *task
	short.History = short.History[max(0, len(short.History)-max(0, *req.Config.HistoryLength)):]
	return &short, err
}

// CancelTask implements a2asrv.RequestHandler. For a moment after a question the library
// refuses to cancel a task, so this tries again while the task is open.
func (q *requests) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	for end := time.Now().Add(cancelTime); ; {
		task, err := q.RequestHandler.CancelTask(ctx, req)
		if err == nil || time.Now().After(end) {
			return task, err
		}
		if kept, lost := q.tasks.Get(ctx, req.ID); lost != nil || kept.Task.Status.State.Terminal() {
			return task, err
		}
		select {
		case <-ctx.Done():
			return task, err
		case <-time.After(cancelRetry):
		}
	}
}

// SubscribeToTask implements a2asrv.RequestHandler. The library sends no events of a task that
// waits for a message: this sends the task, and its events after the message.
func (q *requests) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		var last a2a.Event
		for {
			for e, err := range q.RequestHandler.SubscribeToTask(ctx, req) {
				switch {
				case err == nil:
					last = e
				case last != nil || errors.Is(err, a2a.ErrTaskNotFound):
					continue // the store has the task
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
			kept, changed, err := q.tasks.watch(ctx, req.ID)
			if err != nil {
				yield(nil, err)
				return
			}
			over := kept.Task.Status.State.Terminal()
			if last == nil || over && !ended(last) {
				last = kept.Task
				if !yield(last, nil) {
					return
				}
			}
			if over {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-q.done:
				return
			}
		}
	}
}

func ended(e a2a.Event) bool {
	switch e := e.(type) {
	case *a2a.Task:
		return e.Status.State.Terminal()
	case *a2a.TaskStatusUpdateEvent:
		return e.Status.State.Terminal()
	}
	return false
}

const (
	cancelTime  = 2 * time.Second
	cancelRetry = 10 * time.Millisecond
)

// wantsUsage reports whether the header A2A-Extensions contains UsageExtension.
func wantsUsage(header []string) bool {
	for uri := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if strings.TrimSpace(uri) == a2aclient.UsageExtension {
			return true
		}
	}
	return false
}
