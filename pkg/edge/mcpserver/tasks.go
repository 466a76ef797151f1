package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// extensionTasks is the protocol's extension for calls that continue after their request
// was answered (SEP-2663). The library has only the tasks of 2025-11-25.
const extensionTasks = "io.modelcontextprotocol/tasks"

const methodTasksUpdate = "tasks/update"

const (
	maxTasks = 256         // that are kept; each token has an equal share
	keepTask = time.Hour   // after its end, or while it waits for answers
	taskPoll = time.Second // between two requests of a client
)

// The states of a task.
const (
	taskWorking   = "working"
	taskAsking    = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// A taskEnd is the reason why a task is cancelled.
type taskEnd string

const (
	errTaskCancelled taskEnd = "the client cancelled the task"
	errNoAnswer      taskEnd = "the client did not answer for an hour"
)

// Error implements error.
func (e taskEnd) Error() string { return string(e) }

// Unwrap returns context.Canceled.
func (taskEnd) Unwrap() error { return context.Canceled }

// A task is a call that may continue after its request was answered.
type task struct {
	id, owner string
	began     time.Time
	cancel    context.CancelCauseFunc
	ending    <-chan struct{} // closed when no client can answer any more

	mu       sync.Mutex
	detached bool // its request was answered: nothing may be sent to the client
	changed  time.Time
	status   string
	message  string
	result   *mcp.CallToolResult
	fault    *jsonrpc.Error
	asked    mcp.InputRequests // not answered yet
	answers  mcp.InputResponses
	answered chan struct{} // closed when asked is empty
}

// report sets the message in the state of the task.
func (t *task) report(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.message, t.changed = text, time.Now()
}

// detach stops notifications to the client: it polls the task from now on.
func (t *task) detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detached = true
}

// isDetached reports whether the request was answered; it is false for nil.
func (t *task) isDetached() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.detached
}

// startTask performs a call that becomes a task, r.task, if it takes longer than
// Options.TaskAfter. The result is nil then.
func (s *Server) startTask(ctx context.Context, r *request, name string, round mcp.MultiRoundTripParams) *mcp.CallToolResult {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	now := time.Now()
	t := &task{id: rand.Text(), owner: r.conn.owner, began: now, changed: now, status: taskWorking, cancel: cancel, ending: r.conn.tasks.ending}
	q := &request{conn: r.conn, out: r.out, message: r.message, token: r.token, task: t}
	first := make(chan *mcp.CallToolResult, 1)
	go func() { first <- s.perform(own, q, name, round) }()
	timer := time.NewTimer(s.opts.TaskAfter)
	defer timer.Stop()
	select {
	case result := <-first:
		cancel(nil)
		r.fault = q.fault
		return result
	case <-timer.C:
	}
	store := r.conn.tasks
	if store.add(t) {
		if detach() {
			r.task = t
			go func() {
				defer store.running.Done()
				t.follow(own, s, q, name, <-first)
			}()
			return nil
		}
		store.remove(t) // the request has ended first
		store.running.Done()
	}
	result := <-first
	cancel(nil)
	r.fault = q.fault
	return result
}

// follow ends the task with result. As long as the result asks the client for input, it calls
// the tool again with the answers first.
func (t *task) follow(ctx context.Context, s *Server, q *request, name string, result *mcp.CallToolResult) {
	defer t.cancel(nil)
	for round := 1; q.fault == nil && result.NeedsInput() && ctx.Err() == nil; round++ {
		answers := t.ask(ctx, fmt.Sprintf("%d.", round), result.InputRequests)
		if ctx.Err() == nil {
			result = s.perform(ctx, q, name, mcp.MultiRoundTripParams{InputResponses: answers, RequestState: result.RequestState})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed, t.asked = time.Now(), nil
	end, cancelled := errors.AsType[taskEnd](context.Cause(ctx))
	switch {
	case cancelled:
		t.status, t.message = taskCancelled, end.Error()
	case q.fault != nil:
		t.status, t.message, t.fault = taskFailed, q.fault.Message, q.fault
	default:
		t.status, t.result = taskCompleted, result
	}
}

// ask waits until the client has answered all requests, and returns the answers. The keys get
// a prefix, because a task may use a key only once. Without requests it only waits a while.
func (t *task) ask(ctx context.Context, prefix string, requests mcp.InputRequests) mcp.InputResponses {
	wait := keepTask
	t.mu.Lock()
	t.answers, t.answered = mcp.InputResponses{}, make(chan struct{})
	if len(requests) == 0 {
		wait = taskPoll
	} else {
		t.status, t.changed, t.asked = taskAsking, time.Now(), mcp.InputRequests{}
		for key, q := range requests {
			t.asked[prefix+key] = q
		}
	}
	answered := t.answered
	t.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-answered:
	case <-ctx.Done():
	case <-t.ending:
		t.cancel(errEnded)
	case <-timer.C:
		if len(requests) > 0 {
			t.cancel(errNoAnswer)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status, t.changed = taskWorking, time.Now()
	answers := mcp.InputResponses{}
	for key, a := range t.answers {
		answers[strings.TrimPrefix(key, prefix)] = a
	}
	return answers
}

// answer records answers of the client. It ignores those that the task does not wait for.
func (t *task) answer(answers mcp.InputResponses) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, a := range answers {
		if _, ok := t.asked[key]; !ok {
			continue
		}
		delete(t.asked, key)
		t.answers[key] = a
		if len(t.asked) == 0 {
			close(t.answered)
		}
	}
}

// expired reports whether the task was kept long enough after its end.
func (t *task) expired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended() && time.Since(t.changed) > keepTask
}

// ended reports whether the task has a final state, under mu.
func (t *task) ended() bool { return t.status != taskWorking && t.status != taskAsking }

// fields returns the state of the task as a message of the protocol. The answer to the call
// itself is not detailed: it contains no questions and no result.
func (t *task) fields(detailed bool) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := map[string]any{
		"taskId": t.id, "status": t.status, "pollIntervalMs": taskPoll.Milliseconds(), "ttlMs": nil,
		"createdAt": t.began.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.changed.UTC().Format(time.RFC3339Nano),
	}
	if t.status != taskWorking {
		f["ttlMs"] = (t.changed.Sub(t.began) + keepTask).Milliseconds()
	}
	if t.message != "" {
		f["statusMessage"] = t.message
	}
	if !detailed {
		return f
	}
	switch t.status {
	case taskAsking:
		f["inputRequests"] = maps.Clone(t.asked)
	case taskCompleted:
		f["result"] = t.result
	case taskFailed:
		f["error"] = t.fault
	}
	return f
}

// tasks holds the tasks of a connection of standard streams, or of all clients over HTTP.
type tasks struct {
	max     int // of one owner
	running sync.WaitGroup
	ending  chan struct{} // closed when no task may begin, and none can be answered

	mu   sync.Mutex
	byID map[string]*task
}

func newTasks(max int) *tasks {
	return &tasks{max: max, ending: make(chan struct{}), byID: map[string]*task{}}
}

// add keeps a task, unless its owner has too many or the server is stopping. If it returns
// true, the caller must call running.Done when the task has ended.
func (s *tasks) add(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byID, func(_ string, t *task) bool { return t.expired() })
	own := 0
	for _, other := range s.byID {
		if other.owner == t.owner {
			own++
		}
	}
	if s.isClosed() || own >= s.max {
		return false
	}
	t.detach()
	s.byID[t.id] = t
	s.running.Add(1)
	return true
}

func (s *tasks) remove(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, t.id)
}

// find returns a task of owner, nil if there is none.
func (s *tasks) find(owner, id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byID[id]
	if t == nil || t.owner != owner || t.expired() {
		return nil
	}
	return t
}

// close prevents further tasks, and ends the tasks that wait for answers.
func (s *tasks) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.ending)
	}
}

func (s *tasks) isClosed() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// wait returns when no task is running, or ctx ends. It follows close.
func (s *tasks) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// end ends the tasks, and returns when they have ended.
func (s *tasks) end() {
	s.close()
	s.mu.Lock()
	for _, t := range s.byID {
		t.cancel(errEnded)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// takesTasks reports whether the client declares the extension for tasks.
func (m *message) takesTasks() bool {
	var can mcp.ClientCapabilities
	return m.modern && json.Unmarshal(m.meta[mcp.MetaKeyClientCapabilities], &can) == nil && can.Extensions[extensionTasks] != nil
}

func (m *message) isTask() bool {
	switch m.Method {
	case string(mcp.MethodTasksGet), methodTasksUpdate, string(mcp.MethodTasksCancel):
		return mcp.IsModernProtocol(m.version()) && mcp.IsValidProtocolVersion(m.version())
	}
	return false
}

// wantsTasks reports whether the request asks for notifications about tasks, which this server
// does not send.
func (m *message) wantsTasks() bool {
	var filter struct {
		TaskIDs json.RawMessage `json:"taskIds"`
	}
	return m.listens() && json.Unmarshal(m.params["notifications"], &filter) == nil && filter.TaskIDs != nil
}

// errTasks answers a request that needs a client with tasks.
func errTasks() *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, Message: "the client does not declare the extension " + extensionTasks,
		Data: map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{extensionTasks: struct{}{}}}}}
}

func (c *conn) answerTask(m *message) (map[string]any, *jsonrpc.Error) {
	if !m.takesTasks() {
		return nil, errTasks()
	}
	id, _ := jsonrpc.Text(m.params["taskId"])
	t := c.tasks.find(c.owner, id)
	if t == nil {
		return nil, invalidParams("there is no such task; it may have expired")
	}
	switch m.Method {
	case methodTasksUpdate:
		var answers mcp.InputResponses
		if json.Unmarshal(m.params["inputResponses"], &answers) != nil {
			return nil, invalidParams("params.inputResponses: it must be an object")
		}
		t.answer(answers)
	case string(mcp.MethodTasksCancel):
		t.cancel(errTaskCancelled)
	default:
		return t.fields(true), nil
	}
	return map[string]any{}, nil
}

func (s *Server) result(kind mcp.ResultType, fields map[string]any) map[string]any {
	fields["resultType"] = kind
	fields["_meta"] = map[string]any{mcp.MetaKeyServerInfo: map[string]any{"name": s.opts.Name, "version": s.opts.Version}}
	return fields
}
