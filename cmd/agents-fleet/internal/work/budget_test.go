package work_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/runner"
)

// envNested names the agent file that this program runs as the process of a wrapper.
const envNested = "WORK_NESTED"

// nested runs the agent of a wrapper.
func nested(file string) error {
	ctx := context.Background()
	tree, err := agentfile.Load(ctx, file, agentfile.Options{Environ: os.Environ()})
	if err != nil {
		return err
	}
	defer tree.Close()
	h := host.New(tree)
	s := &channel.Server{In: os.Stdin, Out: os.Stdout, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
		return h.Start(ctx, tree.Root.Slug, start)
	}}
	_, err = s.Serve(ctx)
	return err
}

// wrapperFile is the tool that runs the agent file beside it in a process of its own.
func wrapperFile(slug string) string {
	return fmt.Sprintf(`#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":%q,"description":"d","channel":1,"args":[{"name":"prompt","description":"p","type":"string","backing_type":"string","arity":"single","mode":"dashdashspace"}]}'; exit; }
%s=$(dirname "$0")/../worker.json exec %q
`, slug, envNested, os.Args[0])
}

// spending is the script of an agent that makes requests of 30 cents with one call each.
func spending(turns int) string {
	var rules []string
	for i := range turns {
		rules = append(rules, fmt.Sprintf(`{"when":{"turn":%d},"answer":{"calls":[{"tool":"bash_note","args":{"text":"%d"}}],"usage":{"inputTokens":100,"outputTokens":10,"cost":0.3}},"delayMillis":40}`, i+1, i))
	}
	return `{"rules":[` + strings.Join(append(rules, `{"answer":{"text":"done"}}`), ",") + `]}`
}

// asking is the script of an agent that calls a tool n times in one turn.
func asking(tool string, n int) string {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"tool":%q,"args":{"prompt":"%d"}}`, tool, i))
	}
	return `{"rules":[{"when":{"turn":1},"answer":{"calls":[` + strings.Join(calls, ",") + `]}},{"answer":{"text":"done"}}]}`
}

// A process below a sub-agent is as deep as in a run on one machine.
func TestDepthOfAProcessBelowASubagent(t *testing.T) {
	for depth, want := range map[int]string{2: "the worker answers", 1: "the depth budget allows no agent"} {
		f := newFleet(t, map[string]string{
			"agent.json": agentFile("root", `,"toolDirectory":"tools"`), "root.script.json": asking("expert_inner", 1),
			"tools/inner.json": agentFile("inner", `,"toolDirectory":"../tools2"`), "tools/inner.script.json": asking("bash_wrapper2", 1),
			"tools2/wrapper2": wrapperFile("wrapper2"),
			"worker.json":     agentFile("worker", ""), "worker.script.json": `{"rules":[{"answer":{"text":"the worker answers"}}]}`,
		})
		f.worker()
		run := f.submit("go", func(s *agent.Start, _ *flow.Input) { s.Lease.Depth = &depth })
		if f.result(run); !strings.Contains(f.shown(run.GetID()), want) {
			t.Errorf("depth %d: want %q\n%s", depth, want, f.shown(run.GetID()))
		}
	}
}

// Processes that run at once, on several workers, share the budgets of all agents above.
func TestProcessesShareTheBudgets(t *testing.T) {
	usd := func(cents agent.Money) agent.Budget { m := cents * agent.Dollar / 100; return agent.Budget{USD: &m} }
	count := func(n int64) *int64 { return &n }
	const most = `,"maxParallelTools":16`
	files := func(more map[string]string) map[string]string {
		all := map[string]string{
			"worker.json": agentFile("worker", `,"toolDirectory":"notes"`), "worker.script.json": spending(20),
			"tools/wrapper": wrapperFile("wrapper"), "notes/note": toolFile("note", "once", "echo ok"),
			"agent.json": agentFile("root", `,"toolDirectory":"tools"`+most), "root.script.json": asking("bash_wrapper", 8),
		}
		for name, text := range more {
			all[name] = text
		}
		return all
	}
	inner := agentFile("inner", `,"toolDirectory":"../tools2"`+most+`,"budget":{"usd":1.5}`)
	for _, tt := range []struct {
		name   string
		files  map[string]string
		budget agent.Budget
		want   func(total agent.TotalUsage) bool
	}{
		{"dollars of eight", nil, usd(300), func(s agent.TotalUsage) bool {
			return s.Usage.Cost >= 3*agent.Dollar && s.Usage.Cost <= 330*agent.Dollar/100
		}},
		{"dollars of sixteen", map[string]string{"root.script.json": asking("bash_wrapper", 16)}, usd(300), func(s agent.TotalUsage) bool {
			return s.Usage.Cost >= 3*agent.Dollar && s.Usage.Cost <= 330*agent.Dollar/100
		}},
		{"turns", nil, agent.Budget{Turns: count(20)}, func(s agent.TotalUsage) bool { return s.Usage.Requests == 20 }},
		{"calls", nil, agent.Budget{Calls: count(24)}, func(s agent.TotalUsage) bool { return s.Calls == 24 }},
		{"dollars of two sub-agents with four each", map[string]string{
			"root.script.json":        `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_inner","args":{"prompt":"a"}},{"tool":"expert_inner","args":{"prompt":"b"}}]}},{"answer":{"text":"done"}}]}`,
			"tools/inner.json":        inner,
			"tools/inner.script.json": asking("bash_wrapper2", 4),
			"tools2/wrapper2":         wrapperFile("wrapper2"),
		}, agent.Budget{}, func(s agent.TotalUsage) bool {
			return s.Usage.Cost >= 3*agent.Dollar && s.Usage.Cost <= 360*agent.Dollar/100
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, files(tt.files))
			for range 3 {
				f.worker()
			}
			run := f.submit("go", func(s *agent.Start, _ *flow.Input) { s.Lease.Budget = tt.budget })
			out := f.result(run)
			events := f.events(run.GetID())
			end := events[len(events)-1]
			text, _ := json.Marshal(end.Total)
			t.Logf("%s: %s", out.Status, text)
			if end.Kind != agent.EventEnd || !tt.want(*end.Total) {
				t.Errorf("status %s, total %s\n%s", out.Status, text, f.shown(run.GetID()))
			}
		})
	}
}
