package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// attachToAWorkerThatIsGone returns what attach says of a run whose worker has just died. The
// server still lists the worker, as one that asks for work.
func attachToAWorkerThatIsGone(t *testing.T, file, address string) string {
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	poll, stop := context.WithTimeout(t.Context(), time.Minute) // the server refuses a short one
	time.AfterFunc(time.Second, stop)
	_, _ = c.WorkflowService().PollWorkflowTaskQueue(poll, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: "default", TaskQueue: &taskqueue.TaskQueue{Name: "left"}, Identity: "gone"})
	code, id, stderr := do(t.Context(), "", "submit", "--queue", "left", "--agent-file", file, "--prompt", "x")
	if code != 0 || stderr != "" {
		return "submit: " + stderr
	}
	ctx, leave := context.WithTimeout(t.Context(), 40*time.Second)
	defer leave()
	var said safe
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, environment(strings.NewReader(""), &said, &said), []string{"agents-fleet", "attach", strings.TrimSpace(id)})
	}()
	for ctx.Err() == nil && !strings.Contains(said.String(), "warning") {
		time.Sleep(50 * time.Millisecond)
	}
	leave()
	<-ended
	return said.String()
}
