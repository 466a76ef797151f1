package work_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

var oneTool = map[string]string{
	"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
	"root.script.json": `{"rules":[
		{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"one"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"it said ${lastMessage}"}}]}`,
	"tools/note": toolFile("note", "once", `echo "$AGENTS_CALL_ID $3" >>"$FLEET_LOG"; echo "noted $3"`),
}

func TestRunWithATool(t *testing.T) {
	f := newFleet(t, oneTool)
	f.worker()
	run := f.submit("go")
	out := f.result(run)
	if out.Status != string(agent.StatusOK) {
		t.Errorf("status %s\n%s", out.Status, f.shown(run.GetID()))
	}
	about, err := f.client.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"AgentsAgent": `"root"`, "AgentsRoot": `"` + run.GetID() + `"`, "AgentsOutcome": `"ok"`, "AgentsCost": "0"} {
		if got := string(about.WorkflowExecutionInfo.SearchAttributes.GetIndexedFields()[name].GetData()); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := f.lines(); len(got) != 1 || got[0] != run.GetID()+".1.1 one" {
		t.Errorf("the tool wrote %q", got)
	}
}

// TestAWorkerWithoutTheKeySaysSo: the error names the key, whether the root needs it or an agent
// below.
func TestAWorkerWithoutTheKeySaysSo(t *testing.T) {
	const keyed = `{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"openai-v1","modelName":"m",%s}}`
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"the root":        {map[string]string{"agent.json": fmt.Sprintf(keyed, "root", `"apiKeyId":"team-key"`)}, "team-key"},
		"a variable":      {map[string]string{"agent.json": fmt.Sprintf(keyed, "root", `"apiKeyEnv":"FLEET_NO_SUCH_KEY"`)}, "FLEET_NO_SUCH_KEY"},
		"an agent below":  {map[string]string{"agent.json": agentFile("root", `,"toolDirectory":"tools"`), "root.script.json": `{"rules":[{"answer":{"text":"hi"}}]}`, "tools/low.json": fmt.Sprintf(keyed, "low", `"apiKeyId":"low-key"`)}, "low-key"},
		"a model to lend": {map[string]string{"agent.json": agentFile("root", `,"models":{"smart":{"flavor":"openai-v1","modelName":"m","apiKeyId":"lent-key"}},"lend":["smart"]`), "root.script.json": `{"rules":[{"answer":{"text":"hi"}}]}`}, "lent-key"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, test.files)
			f.worker()
			err := f.submit("go").Get(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "does not have this key, and workers do not borrow models from each other: give every worker the key") {
				t.Errorf("the run ended with %v", err)
			}
		})
	}
}

// subagents is a root that asks two agents at the same time.
var subagents = map[string]string{
	"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
	"root.script.json": `{"rules":[
		{"when":{"role":"user"},"answer":{"calls":[{"tool":"expert_left","args":{"prompt":"l"}},{"tool":"expert_right","args":{"prompt":"r"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"both are there: ${lastMessage}"}}]}`,
	"tools/left.json":         agentFile("left", `,"toolDirectory":"lefts"`),
	"tools/left.script.json":  `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"left"}}],"usage":{"inputTokens":10,"outputTokens":1}}},{"when":{"role":"tool"},"answer":{"text":"L"}}]}`,
	"tools/right.json":        agentFile("right", ""),
	"tools/right.script.json": `{"rules":[{"when":{"role":"user"},"answer":{"text":"R"}}]}`,
	"tools/lefts/note":        oneTool["tools/note"],
}

func TestSubagentsAreChildWorkflows(t *testing.T) {
	f := newFleet(t, subagents)
	f.worker()
	run := f.submit("go")
	if out := f.result(run); out.Status != string(agent.StatusOK) {
		t.Fatalf("status %s\n%s", out.Status, f.shown(run.GetID()))
	}
	results, ends := map[string]string{}, map[string]agent.Event{}
	for _, e := range f.events(run.GetID()) {
		switch {
		case e.Kind == agent.EventCallEnded && e.Session == run.GetID():
			results[e.Tool] = e.Result.Answer()
		case e.Kind == agent.EventEnd:
			ends[e.Agent] = e
		}
	}
	if results["expert_left"] != "L" || results["expert_right"] != "R" {
		t.Errorf("the results are %q\n%s", results, f.shown(run.GetID()))
	}
	for _, slug := range []string{"left", "right"} {
		e := ends[slug]
		if e.Depth != 1 || agent.CallSession(e.Parent) != run.GetID() {
			t.Errorf("%s ended at depth %d below call %q", slug, e.Depth, e.Parent)
		}
		about, err := f.client.DescribeWorkflowExecution(t.Context(), e.Session, "")
		if err != nil {
			t.Fatal(err)
		}
		info := about.WorkflowExecutionInfo
		if info.ParentExecution.GetWorkflowId() != run.GetID() || info.Status != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			t.Errorf("the workflow of %s is %v", slug, info)
		}
	}
	if got, want := f.summaries(run.GetID()), []string{"expert_left", "expert_left", "expert_right", "expert_right", "the root", "the root"}; !slices.Equal(got, want) {
		t.Errorf("the server shows the activities %q, want %q", got, want)
	}
	if got, want := f.summaries(ends["left"].Session), []string{"bash_note", "left", "left"}; !slices.Equal(got, want) {
		t.Errorf("the server shows the activities %q of a sub-agent, want %q", got, want)
	}
	total := ends["root"].Total
	if total == nil || total.Usage.Requests != 5 || total.Agents["left"].InputTokens < 10 {
		t.Errorf("the root counts %+v", total)
	}
}

// A budget of the root holds for all agents below it.
func TestBudgetOfSubagents(t *testing.T) {
	f := newFleet(t, subagents)
	f.worker()
	run := f.submit("go", func(s *agent.Start, _ *flow.Input) {
		turns := int64(3) // one for the root, one for each sub-agent
		s.Lease.Turns = &turns
	})
	out := f.result(run)
	var end agent.Event
	for _, e := range f.events(run.GetID()) {
		if e.Kind == agent.EventEnd {
			end = e
		}
	}
	if out.Status != string(agent.StatusBudget) && out.Status != string(agent.StatusPartial) || end.Total.Usage.Requests > 3 {
		t.Errorf("status %s, %+v\n%s", out.Status, end.Total, f.shown(run.GetID()))
	}
}

// summaries are what the server's pages show for the activities of a workflow, sorted.
func (f *fleet) summaries(id string) (all []string) {
	f.t.Helper()
	history := f.client.GetWorkflowHistory(f.t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			f.t.Fatal(err)
		}
		if e.EventType == enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			var text string
			if err := converter.GetDefaultDataConverter().FromPayload(e.UserMetadata.GetSummary(), &text); err != nil {
				f.t.Fatal(err)
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// waiting is an agent whose tool waits until the file of the test is there.
var waiting = map[string]string{
	"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
	"root.script.json": `{"rules":[
		{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"one"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"it said ${lastMessage}"}}]}`,
	"tools/note": toolFile("note", "once", `echo "$$" >>"$FLEET_LOG"; while [ ! -e "$FLEET_LOG.go" ]; do sleep 0.05; done; echo ok`),
}

func callStarted(e agent.Event) bool { return e.Kind == agent.EventCallStarted }

// alive reports whether the process whose id the tool has logged is there.
func (f *fleet) alive() bool {
	return syscall.Kill(f.pid(), 0) == nil
}

func (f *fleet) pid() int {
	for range 200 {
		if pid, err := strconv.Atoi(f.lines()[0]); err == nil {
			return pid
		}
		time.Sleep(20 * time.Millisecond)
	}
	f.t.Fatal("the tool did not start")
	return 0
}

// A worker that stops kills what it runs and records nothing about it: another one
// continues the run.
func TestWorkerStops(t *testing.T) {
	f := newFleet(t, waiting)
	stop := f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the call", callStarted)
	f.pid()
	stop()
	if f.alive() {
		t.Error("the tool's process is there")
	}
	f.worker()
	out := f.result(run)
	text := f.shown(run.GetID())
	if out.Status != string(agent.StatusOK) || len(f.lines()) != 1 || !strings.Contains(text, "whether it took effect is not known") || strings.Contains(text, "interrupted") {
		t.Errorf("status %s, the tool ran %d times\n%s", out.Status, len(f.lines()), text)
	}
}

// A tool that may be repeated is, on another worker.
func TestWorkerStopsDuringARepeatableCall(t *testing.T) {
	files := maps.Clone(waiting)
	files["tools/note"] = strings.Replace(files["tools/note"], `"effects":"once"`, `"effects":"idempotent"`, 1)
	f := newFleet(t, files)
	stop := f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the call", callStarted)
	f.pid()
	stop()
	if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.worker()
	if out, text := f.result(run), f.shown(run.GetID()); out.Status != string(agent.StatusOK) || len(f.lines()) != 2 || !strings.Contains(text, "it said ok") {
		t.Errorf("status %s, the tool ran %d times\n%s", out.Status, len(f.lines()), text)
	}
}

// The model request of a worker that stopped is counted by the next one: its cost is not known.
func TestWorkerStopsDuringARequest(t *testing.T) {
	var requests atomic.Int32
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if requests.Add(1) == 1 {
			<-req.Context().Done()
			return
		}
		fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":1}}`)
	}))
	defer model.Close()
	f := newFleet(t, map[string]string{"agent.json": fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"openai-compatible","modelUrl":%q,"modelName":"m","announce":"a","systemPrompt":["s"],"price":{"input":1,"output":1}}}`, model.URL)})
	stop := f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the request", func(e agent.Event) bool { return e.Kind == agent.EventRequest && requests.Load() == 1 })
	stop()
	f.worker()
	out, events := f.result(run), f.events(run.GetID())
	total := events[len(events)-1].Total.Usage
	if out.Status != string(agent.StatusOK) || requests.Load() != 2 || total.Requests != 2 || total.Unpriced() != 1 || total.Cost <= 21*agent.Dollar/1e6 {
		t.Errorf("status %s after %d requests: %+v\n%s", out.Status, requests.Load(), total, f.shown(run.GetID()))
	}
}

func (f *fleet) update(run client.WorkflowRun, name string, arg any) {
	f.t.Helper()
	u, err := f.client.UpdateWorkflow(f.t.Context(), client.UpdateWorkflowOptions{WorkflowID: run.GetID(), UpdateName: name, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{arg}})
	if err == nil {
		err = u.Get(f.t.Context(), nil)
	}
	if err != nil {
		f.t.Fatalf("update %s: %v", name, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	files := maps.Clone(oneTool)
	files["agent.json"] = agentFile("root", `,"toolDirectory":"tools","permissions":[{"verdict":"ask","tool":"bash_note"}]`)
	f := newFleet(t, files)
	f.worker()
	run := f.submit("go", func(s *agent.Start, _ *flow.Input) { s.Person = new(bool) })
	if f.result(run); !strings.Contains(f.shown(run.GetID()), "nobody can be asked") {
		t.Error(f.shown(run.GetID()))
	}
}

func TestInput(t *testing.T) {
	files := maps.Clone(waiting)
	files["root.script.json"] = `{"rules":[
		{"when":{"role":"user","prompt":"go","turn":1},"answer":{"calls":[{"tool":"bash_note","args":{"text":"one"}}]}},
		{"when":{"lastMessage":"more"},"answer":{"text":"I read it"}},
		{"when":{"role":"tool"},"answer":{"text":"not read"}}]}`
	f := newFleet(t, files)
	f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the call", callStarted)
	f.update(run, flow.UpdateInput, flow.InputMessage{Blob: f.blob(agent.UserText("more"))})
	if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f.result(run); !strings.Contains(f.shown(run.GetID()), "I read it") {
		t.Error(f.shown(run.GetID()))
	}
}

func TestDeadline(t *testing.T) {
	f := newFleet(t, waiting)
	f.worker()
	run := f.submit("go", func(s *agent.Start, _ *flow.Input) {
		seconds := 0.5
		s.Lease.Seconds = &seconds
	})
	out := f.result(run)
	if out.Status != string(agent.StatusBudget) && out.Status != string(agent.StatusDeadline) || f.alive() {
		t.Errorf("status %s\n%s", out.Status, f.shown(run.GetID()))
	}
}

// An agent that cannot be loaded ends the run, and nothing is tried again.
func TestBrokenAgent(t *testing.T) {
	f := newFleet(t, map[string]string{"agent.json": `{"tag":"OpenAIAgentDescription"}`})
	f.worker()
	err := f.submit("go").Get(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "load agent") {
		t.Errorf("the run ended with %v", err)
	}
}

// A cancelled run ends its sub-agents first, and their calls have results.
func TestCancelWithASubagent(t *testing.T) {
	files := maps.Clone(subagents)
	files["tools/lefts/note"] = waiting["tools/note"]
	f := newFleet(t, files)
	f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the call of the sub-agent", func(e agent.Event) bool { return callStarted(e) && e.Depth == 1 })
	f.pid()
	if err := f.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), nil); err == nil {
		t.Error("the run did not end as cancelled")
	}
	var ends []string
	for _, e := range f.events(run.GetID()) {
		switch {
		case e.Kind == agent.EventEnd && e.Agent != "right":
			ends = append(ends, e.Agent+" "+string(e.Status))
		case e.Kind == agent.EventCallEnded && e.Tool == "expert_left":
			ends = append(ends, "result")
		}
	}
	if want := []string{"left interrupted", "result", "root interrupted"}; !slices.Equal(ends, want) || f.alive() {
		t.Errorf("the ends are %q, want %q\n%s", ends, want, f.shown(run.GetID()))
	}
}

// Calls that the budget cannot all permit run one after the other, so that none is one too
// many.
func TestBudgetOfCalls(t *testing.T) {
	files := maps.Clone(oneTool)
	files["root.script.json"] = `{"rules":[
		{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"one"}},{"tool":"bash_note","args":{"text":"two"}},{"tool":"bash_note","args":{"text":"three"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"done"}}]}`
	f := newFleet(t, files)
	f.worker()
	run := f.submit("go", func(s *agent.Start, _ *flow.Input) {
		calls := int64(2)
		s.Lease.Calls = &calls
	})
	f.result(run)
	if n := len(f.lines()); n != 2 {
		t.Errorf("%d calls ran\n%s", n, f.shown(run.GetID()))
	}
}

// A store that was deleted ends the run with a sentence, whether it continues or is cancelled.
func TestALostStore(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		f := newFleet(t, waiting)
		f.worker()
		run := f.submit("go")
		f.wait(run.GetID(), "the call", callStarted)
		f.pid()
		if err := os.RemoveAll(f.root); err != nil {
			t.Fatal(err)
		}
		var err error
		if cancel {
			err = f.client.CancelWorkflow(t.Context(), run.GetID(), "")
		} else {
			err = os.WriteFile(f.log+".go", nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		if err := run.Get(ctx, nil); err == nil || !strings.Contains(err.Error(), "the store has lost a part of the run") || f.alive() {
			t.Errorf("cancelled %t: the run ended with %v", cancel, err)
		}
	}
}

// The traceparent of the caller reaches the tools of all agents, on any worker.
func TestTrace(t *testing.T) {
	files := maps.Clone(subagents)
	files["tools/lefts/note"] = toolFile("note", "once", `echo "$TRACEPARENT" >>"$FLEET_LOG"`)
	f := newFleet(t, files)
	f.worker()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	run := f.submit("go", func(s *agent.Start, _ *flow.Input) { s.Lease.Traceparent = "00-" + trace + "-00f067aa0ba902b7-01" })
	f.result(run)
	if got := f.lines()[0]; !strings.Contains(got, trace) {
		t.Errorf("the tool of the sub-agent saw %q", got)
	}
}

// A message that arrives after the last answer is a warning, not lost without a word.
func TestInputThatIsTooLate(t *testing.T) {
	f := newFleet(t, map[string]string{
		"agent.json":       agentFile("root", ""),
		"root.script.json": `{"rules":[{"answer":{"text":"done"},"delayMillis":300}]}`,
	})
	f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the request", func(e agent.Event) bool { return e.Kind == agent.EventRequest })
	for range 2 { // the first one is read before the end, if it is in the store by then
		f.update(run, flow.UpdateInput, flow.InputMessage{Blob: f.blob(agent.UserText("more"))})
	}
	f.result(run)
	read, late := 0, 0
	for _, e := range f.events(run.GetID()) {
		switch {
		case e.Kind == agent.EventMessage && e.Input:
			read++
		case e.Kind == agent.EventWarning && strings.Contains(e.Text, runner.TooLate):
			late++
		}
	}
	if read != 2 && late != 1 {
		t.Errorf("%d messages were read, and %d warnings\n%s", read, late, f.shown(run.GetID()))
	}
}
