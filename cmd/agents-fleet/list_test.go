package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// A withoutObjects is a store that returns no objects.
type withoutObjects struct{ store.Store }

func (withoutObjects) Get(context.Context, string) ([]byte, error) {
	return nil, errors.New("an object was read")
}

// The costs of a list of runs are read without what their tools have printed: with a store in
// the network, each large result would be one more request.
func TestPricesReadNoLargeResults(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := &store.Records{Store: s}
	record, err := records.Get(t.Context(), "run1")
	if err != nil {
		t.Fatal(err)
	}
	large := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(strings.Repeat("x", 100<<10))}}
	usage := &agent.Usage{Requests: 1, Priced: 1, InputTokens: 5, Cost: agent.Dollar}
	if _, err := record.Append(t.Context(), record.Position(), []agent.Event{{Kind: agent.EventAnswer, Session: "run1", Agent: "a", Message: &large, Usage: usage}}, func(*agent.Event) bool { return true }); err != nil {
		t.Fatal(err)
	}
	f := &fleet{store: withoutObjects{s}}
	runs := []listed{{ID: "run1"}, {ID: "run2"}}
	f.prices(t.Context(), runs)
	if got, _ := json.Marshal(runs[0].Cost); runs[0].cost != "$1.00" || string(got) != "1" || runs[1].cost != "$0.00" {
		t.Errorf("the runs cost %q and %q, %s; want $1.00, $0.00 and 1", runs[0].cost, runs[1].cost, got)
	}
}

// What records say is shown without control sequences.
func TestPruneShowsNoControlSequences(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const id = "20200101-000000-a"
	record, err := (&store.Records{Store: s}).Get(t.Context(), id)
	if err == nil {
		_, err = record.Append(t.Context(), record.Position(), []agent.Event{{Kind: agent.EventEnd, Session: id, Agent: "a\x1b[2J", Status: "gone\x1b[2J"}}, func(*agent.Event) bool { return true })
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f := &fleet{Env: &program.Env{Out: &out, Err: &out}, store: s}
	if err := f.prune(t.Context(), time.Now(), true); err != nil {
		t.Fatal(err)
	}
	f.note("a tool said \x1b[2J")
	if got := out.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, `gone\x1b[2J  a\x1b[2J`) {
		t.Errorf("prune prints %q", got)
	}
}

// A run that no worker can end is terminated; one that has ended stays as it is. The list
// shows that costs are not known.
func testTerminate(t *testing.T, file string) {
	code, id, stderr := do(t.Context(), "", "submit", "--queue", "nobody", "--agent-file", file, "--prompt", "x")
	id = strings.TrimSpace(id)
	if code != 0 || !strings.Contains(stderr, "warning: no worker takes work from the queue nobody: run "+id+" waits for one") {
		t.Fatalf("submit: %d, %q", code, stderr)
	}
	for _, want := range []string{"", "note: run " + id + " has already ended\n"} {
		if code, _, stderr := do(t.Context(), "", "terminate", id); code != 0 || stderr != want {
			t.Errorf("terminate: %d, %q, want %q", code, stderr, want)
		}
	}
	if code, _, stderr := do(t.Context(), "", "attach", id); code != 130 || !strings.Contains(stderr, "Terminated") {
		t.Errorf("attach: %d, %q", code, stderr)
	}
	if code, _, stderr := do(t.Context(), "", "terminate", "nothing"); code != 2 {
		t.Errorf("terminate: %d, %q", code, stderr)
	}
	until(t, "the costs are listed", func() bool {
		_, out, _ := do(t.Context(), "", "list")
		return strings.Contains(out, "  ok           unpriced\n") && strings.Contains(out, "terminated")
	})
	waiting := filepath.Join(filepath.Dir(file), "waiting")
	_ = os.Remove(waiting) // of earlier runs
	_, id, _ = do(t.Context(), "", "submit", "--agent-file", file, "--prompt", "wait")
	id = strings.TrimSpace(id)
	until(t, "the call starts", func() bool { _, err := os.Stat(waiting); return err == nil })
	if code, _, stderr := do(t.Context(), "", "terminate", id); code != 0 || stderr != "" {
		t.Errorf("terminate: %d, %q", code, stderr)
	}
	if code, _, stderr := do(t.Context(), "", "attach", id); code != 130 || !strings.Contains(stderr, "the run was terminated") {
		t.Errorf("attach: %d, %q", code, stderr)
	}
	_, id, _ = do(t.Context(), "", "submit", "--agent-file", file, "--prompt", "slow")
	id = strings.TrimSpace(id)
	var events safe
	shown := make(chan int, 1)
	go func() {
		shown <- run(t.Context(), environment(strings.NewReader(""), &events, io.Discard), []string{"agents-fleet", "attach", id, "--output", "jsonl"})
	}()
	until(t, "the request", func() bool { return strings.Contains(events.String(), `"kind":"request"`) })
	if code, _, stderr := do(t.Context(), "", "terminate", id); code != 0 || stderr != "" {
		t.Errorf("terminate: %d, %q", code, stderr)
	}
	if code := <-shown; code != 130 || !strings.Contains(events.String(), `"status":"interrupted","spent":{"usage":{"requests":1,`) {
		t.Errorf("attach: %d, %s", code, events.String())
	}
	_, out, _ := do(t.Context(), "", "list", "--json")
	for line := range strings.Lines(out) {
		if strings.Contains(line, id) && !strings.Contains(line, `"unpriced":1`) {
			t.Errorf("list: %s", line)
		}
	}
}

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

// The Temporal server is two thirds of agents-fleet-dev. Workers do not carry it.
func TestAWorkerHasNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags=noserver", ".").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no go command")
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "go.temporal.io/server") {
			t.Errorf("a build with the tag noserver has %s", line)
		}
	}
}
