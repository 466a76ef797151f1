package proof

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestOverhead measures a turn with one call on a fleet of one worker, and the same turn
// with `agents run`, without their starts.
func TestOverhead(t *testing.T) {
	f := newFleet(t)
	agents := filepath.Join(f.dir, "agents")
	if out, err := exec.Command("go", "build", "-C", "../../../..", "-o", agents, "./cmd/agents").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.worker()
	const turns = 40
	start := f.prompt(agent.Budget{})
	folders, dirs := map[int]string{}, map[int]string{}
	for _, n := range []int{1, turns + 1} {
		var rules []rule
		for i := 1; i < n; i++ {
			rules = append(rules, calls(i, "bash_note"))
		}
		def := agentDef{Slug: "root", Then: `echo "$AGENTS_CALL_ID"`, Rules: append(rules, says(n, "done")), Extra: rule{"maxTurns": 100}}
		dirs[n] = filepath.Join(f.TempDir(), "agent")
		f.write(dirs[n], def)
		folders[n] = f.pack(def)
	}
	onFleet := func(n int) time.Duration {
		id := f.submit(folders[n], start)
		if r := f.await(id); r.Status != string(agent.StatusOK) {
			t.Fatalf("the run ended as %s\n%s", r.Status, f.story(id))
		}
		about, err := f.client.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		info := about.WorkflowExecutionInfo
		return info.CloseTime.AsTime().Sub(info.StartTime.AsTime())
	}
	here := func(n int) time.Duration {
		began := time.Now()
		if out, err := exec.Command(agents, "--agent-file", filepath.Join(dirs[n], "agent.json"), "run", "--session-file", filepath.Join(f.TempDir(), "session.jsonl"), "--prompt", "Note.").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return time.Since(began)
	}
	turn := func(run func(int) time.Duration) time.Duration {
		run(1) // loads the agent
		var list []time.Duration
		for range size(3, 7) {
			list = append(list, (run(turns+1)-run(1))/turns)
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	fleet, alone := turn(onFleet), turn(here)
	t.Logf("a turn with one call: %.1f ms on a fleet, %.1f ms with agents run, %.1f ms more", ms(fleet), ms(alone), ms(fleet-alone))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
