package a2aapi_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/agents-exe/agents/pkg/agent"
)

// allocated returns how many bytes f allocates, with the run that it starts.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A task takes memory and time by the length of its message and of its answer: neither is
// copied again with each piece of the answer.
func TestLargeTasks(t *testing.T) {
	c, _ := serve(t, promptSchema, func(_ context.Context, _ *agent.Request, say func(string)) (agent.Message, error) {
		return text(strings.Repeat("piece ", 100), say), nil
	})
	file := a2a.NewRawPart(make([]byte, 1<<20))
	file.MediaType = "image/png"
	for name, part := range map[string]*a2a.Part{
		"a text": a2a.NewTextPart(strings.Repeat("x", 1<<20)), "a file": file, "data": a2a.NewDataPart(strings.Repeat("x", 1<<20)),
		"values": a2a.NewDataPart(make([]any, 50_000)),
	} {
		var task *a2a.Task
		used := allocated(func() { task = send(t, c, user(a2a.NewTextPart("hi"), part)) })
		if task.Status.State != a2a.TaskStateCompleted || len(answer(task)) != 600 {
			t.Errorf("%s: %+v", name, task.Status)
		}
		if used > 100<<20 {
			t.Errorf("%s: the task allocates %d bytes", name, used)
		}
		parts := task.History[0].Parts
		if len(parts) != 2 || parts[0].Text() != "hi" || parts[1].Text() != "(the rest of this message is not kept)" {
			t.Errorf("%s: the task keeps %d parts of the message", name, len(parts))
		}
	}
	if task := send(t, c, user(a2a.NewTextPart("hi"), a2a.NewTextPart("there"))); len(task.History[0].Parts) != 2 || task.History[0].Parts[1].Text() != "there" {
		t.Errorf("the task keeps %+v of a short message", task.History[0])
	}
}

// A long answer to a question does not remain in the task either.
func TestALongAnswerToAQuestion(t *testing.T) {
	c, _ := serve(t, promptSchema, func(_ context.Context, req *agent.Request, _ func(string)) (agent.Message, error) {
		if len(req.Messages) == 1 {
			return agent.Message{Calls: []agent.ToolCall{{ID: "a", Name: "asker", Args: "{}"}}}, nil
		}
		return agent.Message{Parts: []agent.Part{agent.Text("done")}}, nil
	}, asker{which})
	task := send(t, c, user(a2a.NewTextPart("go")))
	next := user(a2a.NewTextPart(strings.Repeat("x", 100<<10)))
	next.Message.TaskID = task.ID
	task = send(t, c, next)
	for _, m := range task.History {
		for _, p := range m.Parts {
			if n := len(p.Text()); n > 64<<10 {
				t.Errorf("the task keeps a part of %d bytes", n)
			}
		}
	}
	if task.Status.State != a2a.TaskStateCompleted || len(task.History) < 3 {
		t.Errorf("%s with %d messages", task.Status.State, len(task.History))
	}
}
