package work_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/sdk/client"
)

// leaving returns a root with an agent in the background whose tool waits for a file of the test.
// The arguments are the rules of the root's script after the first.
func leaving(rules string) map[string]string {
	return map[string]string{
		"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
		"root.script.json": `{"rules":[
			{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_slow","args":{"prompt":"s"}}]}},` + rules + `]}`,
		"tools/free":             toolFile("free", "once", `touch "$FLEET_LOG.go"`),
		"tools/slow.json":        agentFile("slow", `,"toolDirectory":"slows","background":true,"receipt":"none"`),
		"tools/slow.script.json": `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"bash_note","args":{"text":"s"}}]}},{"answer":{"text":"slow heard ${lastMessage}"}}]}`,
		"tools/slows/note":       strings.Replace(waiting["tools/note"], `"effects":"once"`, `"effects":"idempotent"`, 1),
	}
}

const waitForSlow = `
	{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_wait","args":{}}]}},
	{"answer":{"text":"told: ${lastMessage}"}}`

// ends returns the agents that ended, the results of the root's calls of slow, and what the root was
// told meanwhile, in order.
func (f *fleet) ends(run client.WorkflowRun) (list []string) {
	for _, e := range f.events(run.GetID()) {
		switch {
		case e.Kind == agent.EventEnd:
			list = append(list, e.Agent+" "+string(e.Status))
		case e.Kind == agent.EventCallEnded && e.Tool == "expert_slow":
			list = append(list, "result "+e.Result.Handle)
		case e.Kind == agent.EventMessage && e.Input && e.Depth == 0:
			list = append(list, "told "+e.Key[max(0, len(e.Key)-4):]+" "+string(e.Status))
		}
	}
	return list
}

func TestAnAgentInTheBackground(t *testing.T) {
	for name, tc := range map[string]struct {
		rules  string
		answer string
		ends   []string
	}{
		"its end is told": {`
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_list","args":{}},{"tool":"agent_send","args":{"agent":"slow-1-1","message":"hurry"}},{"tool":"agent_wait","args":{"seconds":0.01}}]}},
			{"when":{"turn":3},"answer":{"calls":[{"tool":"bash_free","args":{"text":"f"}},{"tool":"agent_wait","args":{"agents":["slow-1-1"]}}]}},
			{"answer":{"text":"told: ${lastMessage}"}}`,
			"told: [agent slow-1-1 has ended]\nslow heard hurry", []string{"result slow-1-1", "slow ok", "told .1.1 ok", "root ok"}},
		"it is stopped": {`
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_stop","args":{"agent":"slow-1-1","reason":"enough"}}]}},
			{"answer":{"text":"told: ${lastMessage}"}}`,
			"told: [agent slow-1-1 has ended]\n[interrupted] agent slow did not answer: a person stopped it: its caller stopped it: enough", []string{"result slow-1-1", "slow interrupted", "told .1.1 failed", "root ok"}},
		"its caller is told once that it would end it": {`
			{"when":{"turn":3},"answer":{"calls":[{"tool":"agent_list","args":{}}]}},
			{"answer":{"text":"early"}}`,
			"early", []string{"result slow-1-1", "told  ", "slow interrupted", "root ok"}},
		"a quick one has an answer": {`{"answer":{"text":"told: ${lastMessage}"}}`, "told: slow heard ok", []string{"slow ok", "result ", "root ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, leaving(tc.rules))
			if name == "a quick one has an answer" {
				if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f.worker()
			run := f.submit("go")
			out, shown := f.result(run), f.shown(run.GetID())
			if out.Status != string(agent.StatusOK) || !strings.Contains(shown, fmt.Sprintf("%q", tc.answer)) {
				t.Errorf("status %s, want the answer %q\n%s", out.Status, tc.answer, shown)
			}
			if got := f.ends(run); !slices.Equal(got, tc.ends) {
				t.Errorf("got %q, want %q\n%s", got, tc.ends, shown)
			}
			if name != "a quick one has an answer" && f.alive() {
				t.Error("a process is left")
			}
		})
	}
}

// The worker stops while the root waits for an agent in the background, and another worker continues
// both. The root is told nothing twice.
func TestAnAgentInTheBackgroundOutlivesAWorker(t *testing.T) {
	f := newFleet(t, leaving(waitForSlow))
	stop := f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
	f.pid()
	stop()
	if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.worker()
	f.result(run)
	if got, want := f.ends(run), []string{"result slow-1-1", "slow ok", "told .1.1 ok", "root ok"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q\n%s", got, want, f.shown(run.GetID()))
	}
}

// A cancelled run ends its agents in the background first.
func TestCancelWithAnAgentInTheBackground(t *testing.T) {
	f := newFleet(t, leaving(waitForSlow))
	f.worker()
	run := f.submit("go")
	f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
	f.pid()
	if err := f.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), nil); err == nil {
		t.Error("the run did not end as cancelled")
	}
	if got, want := f.ends(run), []string{"result slow-1-1", "slow interrupted", "root interrupted"}; !slices.Equal(got, want) || f.alive() {
		t.Errorf("got %q, want %q\n%s", got, want, f.shown(run.GetID()))
	}
}
