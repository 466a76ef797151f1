package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// extensionTasks lets a server of 2026-07-28 answer a call with a task (SEP-2663). In
// 2025-11-25 the client asks for one, for a tool that can be called in no other way.
const extensionTasks = "io.modelcontextprotocol/tasks"

const (
	resultTask        = "task"         // a resultType
	methodTasksUpdate = "tasks/update" // answers questions of a task, from 2026-07-28 on
)

// The time between two polls of a task. The server may set it within these limits.
const (
	taskPoll    = time.Second
	minTaskPoll = 50 * time.Millisecond
	maxTaskPoll = 30 * time.Second
)

// A task is the state of a task as a server reports it. In 2025-11-25 it has no result, and is
// nested in the answer to a call.
type task struct {
	ID       string                     `json:"taskId"`
	Status   string                     `json:"status"`
	Message  string                     `json:"statusMessage"`
	Poll     float64                    `json:"pollInterval"`
	PollMs   float64                    `json:"pollIntervalMs"`
	Result   json.RawMessage            `json:"result"`
	Error    *jsonrpc.Error             `json:"error"`
	Requests map[string]json.RawMessage `json:"inputRequests"`
	Nested   *task                      `json:"task"`
}

// await polls a task until it has ended, and returns its result. If it returns before the end,
// it cancels the task.
func (c *conn) await(ctx context.Context, k *call, raw json.RawMessage) (json.RawMessage, error) {
	var t task
	if err := jsonrpc.Unmarshal(raw, &t); err != nil {
		return nil, misfit(err)
	}
	t = *cmp.Or(t.Nested, &t)
	id, said := t.ID, ""
	if id == "" {
		return nil, errors.New("the server answered with a task without an id")
	}
	if c.modern() {
		t.Status = "working" // the result and the questions are only in the answers to polls
	}
	answered := map[string]bool{}
	for {
		if t.Message != said {
			said = t.Message
			k.show(clip(strings.Join(strings.Fields(said), " "), maxLogLine))
		}
		result, done, err := c.taskResult(ctx, k, id, &t, answered)
		if done || err != nil {
			if !done || ctx.Err() != nil {
				c.abandon(ctx, id)
			}
			return result, err
		}
		poll := time.Duration(cmp.Or(t.PollMs, t.Poll, float64(taskPoll.Milliseconds())) * float64(time.Millisecond))
		if !sleep(ctx, min(max(poll, minTaskPoll), maxTaskPoll)) {
			c.abandon(ctx, id)
			return nil, context.Cause(ctx)
		}
		if t, err = c.poll(ctx, k, id); err != nil {
			c.abandon(ctx, id)
			return nil, fmt.Errorf("task %s: %w", clip(id, 100), err)
		}
	}
}

// poll returns the state of a task. For half a minute it tries again if the server cannot be
// reached: a task does not depend on a connection.
func (c *conn) poll(ctx context.Context, k *call, id string) (t task, err error) {
	for wait := 250 * time.Millisecond; ; wait *= 2 {
		raw, err := c.request(ctx, k, mcp.MethodTasksGet, map[string]any{"taskId": id})
		if err == nil {
			err = jsonrpc.Unmarshal(raw, &t)
		}
		if err == nil || !c.overHTTP() || !unreachable(err) || wait > 16*time.Second || !sleep(ctx, wait) {
			return t, err
		}
	}
}

// unreachable reports whether a request over HTTP may not have reached the server.
func unreachable(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status >= 500 || status.status == http.StatusTooManyRequests
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errCut)
}

// taskResult returns the result of a task if it has ended. Questions are answered once.
func (c *conn) taskResult(ctx context.Context, k *call, id string, t *task, answered map[string]bool) (result json.RawMessage, done bool, err error) {
	switch {
	case t.Status == "cancelled" && t.Message != "":
		return nil, true, fmt.Errorf("the server cancelled the task: %s", clip(t.Message, maxLogLine))
	case t.Status == "cancelled":
		return nil, true, errors.New("the server cancelled the task")
	case t.Status == "working", !c.modern() && t.Status == "submitted":
		return nil, false, nil
	case !c.modern(): // completed, failed, or it asks on the stream of this request
		result, err = c.request(ctx, k, mcp.MethodTasksResult, map[string]any{"taskId": id})
		return result, true, err
	case t.Status == "completed":
		return t.Result, true, nil
	case t.Status == "failed" && t.Error != nil:
		return nil, true, &rpcError{t.Error}
	case t.Status != "input_required":
		return nil, true, fmt.Errorf("the task has the status %q", clip(t.Status, 100))
	}
	for question := range t.Requests {
		if answered[question] {
			delete(t.Requests, question)
		}
		answered[question] = true
	}
	if len(t.Requests) == 0 {
		return nil, false, nil
	}
	answers, err := c.answerAll(ctx, k, t.Requests)
	if err == nil {
		_, err = c.request(ctx, k, methodTasksUpdate, map[string]any{"taskId": id, "inputResponses": answers})
	}
	return nil, false, err
}

// abandon cancels a task whose call has ended early.
func (c *conn) abandon(ctx context.Context, id string) {
	c.spawn(context.WithoutCancel(ctx), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, cancelWait)
		defer cancel()
		_, _ = c.request(ctx, nil, mcp.MethodTasksCancel, map[string]any{"taskId": id}) // a server that ignores it finishes the task
	})
}
