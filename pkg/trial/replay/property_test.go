package replay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/replay"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// randomAgent is an agent with random tools and experts, whose model says random
// things, some of them wrong.
func randomAgent(t *rapid.T, slug string, depth int) *agent.Agent {
	tools := []agent.Tool{works("works"), fails("fails"), fails("prints", agent.Text("x\n"), media("png")), samples()}
	tools = append(tools, works("refused"), tool{"long", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(strings.Repeat("long ", 300)), nil
	}})
	names := []string{"works", "long", "long", "fails", "prints", "samples", "unknown", "refused"}
	if depth < 2 {
		for i := range rapid.IntRange(0, 2).Draw(t, slug+" experts") {
			name := fmt.Sprintf("expert%d", i)
			tools = append(tools, expert(name, randomAgent(t, slug+"-"+name, depth+1)))
			names = append(names, name, name)
		}
	}
	args := rapid.SampledFrom([]string{"{}", `{"prompt": "why?"}`, `{"prompt": "how?"}`, `{"prompt": 1}`, "", `{"a`, "\xff", "<&>"})
	list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any {
		switch rapid.SampledFrom([]string{"calls", "calls", "calls", "calls", "text", "text", "nothing", "cut", "error", "too long"}).Draw(t, "answer") {
		case "calls", "cut":
			var cs []string
			for range rapid.IntRange(1, 4).Draw(t, "calls") {
				cs = append(cs, rapid.SampledFrom(names).Draw(t, "tool")+" "+args.Draw(t, "args"))
			}
			return cut(calls(cs...), rapid.SampledFrom([]agent.Finish{"", "", "", agent.FinishStop, agent.FinishLength, agent.FinishContentFilter}).Draw(t, "finish"))
		case "nothing":
			return &agent.Response{}
		case "error":
			return &agent.ModelError{Status: 503, Message: "overloaded"}
		case "too long":
			return &agent.ModelError{Status: 400, Message: "too long", TooLong: true}
		default:
			return say(rapid.StringN(0, 20, -1).Draw(t, "text"))
		}
	}), 1, 8).Draw(t, slug+" answers")
	a := newAgent(slug, answers(list...), tools...)
	a.MaxTurns = rapid.IntRange(0, 6).Draw(t, slug+" limit")
	a.MaxParallelTools = rapid.IntRange(0, 2).Draw(t, slug+" parallel")
	a.ContextTokens = rapid.SampledFrom([]int{0, 300}).Draw(t, slug+" context")
	if rapid.Bool().Draw(t, slug+" opening") {
		opening(a)
	}
	return a
}

func TestEveryTreeIsReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := randomAgent(rt, "root", 0)
		prompts := []string{"one", "two", "three"}[:rapid.IntRange(1, 3).Draw(rt, "prompts")]
		depth := rapid.IntRange(0, 2).Draw(rt, "depth")
		events, want := record(t, &runner.Runner{Agent: a, Policy: refuse("refused"), MaxDepth: depth}, prompts...)
		check(t, events, want)
		n := rapid.IntRange(2, len(events)).Draw(rt, "cut")
		if _, err := replay.New(seq(events[:n])); err != nil {
			return // its prompt is missing
		}
		if _, last := again(t, events[:n]); last.err == "" && last != want && len(prompts) == 1 {
			t.Errorf("the first %d of %d events end in %+v", n, len(events), last)
		}
		// The loaded tree makes the same requests, and gets the recorded answers.
		p := &replay.Player{Record: newRecord(t, events)}
		for _, sub := range agentsBelow(a) {
			p.Wrap(sub)
		}
		j := &journal{t: t}
		out, err := p.Run(t.Context(), runners(&runner.Runner{Agent: a, Journal: j, MaxDepth: depth}))
		if got := outcomeOf(out, err); got != want {
			t.Errorf("the loaded tree ends in %+v, want %+v", got, want)
		}
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// agentsBelow are an agent and all experts below it.
func agentsBelow(a *agent.Agent) []*agent.Agent {
	list := []*agent.Agent{a}
	for _, t := range a.Toolsets[0].(agent.ToolList) {
		if sub, ok := t.(*agent.Subagent); ok {
			list = append(list, agentsBelow(sub.Agent)...)
		}
	}
	return list
}

// TestEveryPrefixIsReplayed cuts records where a process could have died.
func TestEveryPrefixIsReplayed(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: tree()}, "go")
	for n := 2; n < len(events); n++ {
		_, last := again(t, events[:n])
		if last.err != replay.ErrUnfinished.Error() && last.answer != "the answer" {
			t.Errorf("the first %d events: %+v", n, last)
		}
	}
}

func TestARecordAloneIsRepeatedExactly(t *testing.T) {
	events, _ := record(t, &runner.Runner{Agent: tree()}, "go")
	got, _ := again(t, events)
	for _, list := range [][]agent.Event{events, got} {
		for i := range list {
			list[i].Time, list[i].Millis = time.Time{}, 0
			list[i].Total = nil // it has durations
			if list[i].Kind == agent.EventSetup {
				list[i].Digest = "" // of schemas with their spaces
			}
		}
	}
	// The prompts and ends of sessions that run at the same time follow of themselves.
	ordered := func(list []agent.Event) []agent.Event {
		return slices.DeleteFunc(list, func(e agent.Event) bool {
			return e.Depth > 0 && (e.Kind == agent.EventMessage || e.Kind == agent.EventSetup || e.Kind == agent.EventEnd)
		})
	}
	if diff := cmp.Diff(ordered(events), ordered(got)); diff != "" {
		t.Errorf("events (-recorded +replayed):\n%s", diff)
	}
}
