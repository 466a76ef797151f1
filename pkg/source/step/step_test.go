package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/step"
	"github.com/agents-exe/agents/pkg/source/toolbox/bash"
	"github.com/agents-exe/agents/schemas"
	"github.com/google/go-cmp/cmp"
)

// every has an action of each kind with all its fields, and its JSON.
var every = []struct {
	action step.Action
	text   string
	tool   string
	args   string
}{
	{step.Action{Kind: step.Run, Command: "ls"}, `{"action":"run","command":"ls"}`, "bash", `{"command":"ls"}`},
	{step.Action{Kind: step.Kill, ID: "b1"}, `{"action":"kill","id":"b1"}`, "bash_kill", `{"id":"b1"}`},
	{step.Action{Kind: step.RunPython, Code: "1+1"}, `{"action":"run_python_cell","code":"1+1"}`, "python", `{"code":"1+1"}`},
	{step.Action{Kind: step.Read, Path: "a", Start: 2, End: 12345678}, `{"action":"read","path":"a","start":2,"end":12345678}`, "bash_read_file", `{"end":12345678,"path":"a","start":2}`},
	{step.Action{Kind: step.Write, Path: "a"}, `{"action":"write","path":"a"}`, "bash_write_file", `{"content":"","path":"a"}`},
	{step.Action{Kind: step.Write, Path: "a", Content: "<b>"}, `{"action":"write","path":"a","content":"<b>"}`, "bash_write_file", `{"content":"<b>","path":"a"}`},
	{step.Action{Kind: step.Browse, URL: "http://x/"}, `{"action":"browse","url":"http://x/"}`, "bash_fetch_url", `{"url":"http://x/"}`},
	{step.Action{Kind: step.Recall, Query: "tea", Where: "all", Topic: "food"}, `{"action":"recall","query":"tea","topic":"food","where":"all"}`, "bash_recall", `{"query":"tea","topic":"food","where":"all"}`},
	{step.Action{Kind: step.Remember, Note: "Tea at four.", Topic: "food"}, `{"action":"remember","note":"Tea at four.","topic":"food"}`, "bash_remember", `{"note":"Tea at four.","topic":"food"}`},
	{step.Action{Kind: step.AddTask, ID: "t", Title: "Tea", Parent: "p"}, `{"action":"add_task","id":"t","title":"Tea","parent":"p"}`, "add_task", `{"id":"t","parent":"p","title":"Tea"}`},
	{step.Action{Kind: step.ModifyTask, ID: "t", State: "done", Note: "hot", Title: "Tea"}, `{"action":"modify_task","id":"t","state":"done","note":"hot","title":"Tea"}`, "modify_task", `{"id":"t","note":"hot","state":"done","title":"Tea"}`},
	{step.Action{Kind: step.Think, Text: "hm"}, `{"action":"think","text":"hm"}`, "think", `{"text":"hm"}`},
	{step.Action{Kind: step.Talk, Text: "hi"}, `{"action":"talk","text":"hi"}`, "", ""},
	{step.Action{Kind: step.Talk, Text: "hi", Continue: true}, `{"action":"talk","continue":true,"text":"hi"}`, "think", `{"text":"I told this to the user."}`},
	{step.Action{Kind: step.Finish, Text: "done"}, `{"action":"finish","text":"done"}`, "finish", `{"text":"done"}`},
	{step.Action{Kind: step.Reject, Text: "no"}, `{"action":"reject","text":"no"}`, "reject", `{"text":"no"}`},
	{step.Action{Kind: step.Message, To: "critic", Text: "look"}, `{"action":"message","to":"critic","text":"look"}`, "expert_critic", `{"prompt":"look"}`},
}

// published is the schema of a state, or of a definition in it.
func published(t *testing.T, def string) *schema.Schema {
	t.Helper()
	doc, err := schemas.Read(schemas.StepName)
	if err != nil {
		t.Fatal(err)
	}
	if def != "" {
		var whole map[string]any
		if err := json.Unmarshal(doc, &whole); err != nil {
			t.Fatal(err)
		}
		doc, _ = json.Marshal(map[string]any{"$ref": "#/$defs/" + def, "$defs": whole["$defs"]})
	}
	s, err := schema.CompileTrusted("step", doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func TestActionsAreTheSameFromAndToJSON(t *testing.T) {
	s := published(t, "action")
	for _, c := range every {
		got := marshal(t, c.action)
		var want, have any
		_, _ = json.Unmarshal([]byte(c.text), &want), json.Unmarshal([]byte(got), &have)
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("%s: %s", c.text, d)
		}
		var back step.Action
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != c.action {
			t.Errorf("%s comes back as %+v, %v", got, back, err)
		}
		if problems := s.Check([]byte(got)); len(problems) > 0 {
			t.Errorf("%s does not fit the published schema: %v", got, problems)
		}
	}
}

func TestOtherActionsAreRefused(t *testing.T) {
	s := published(t, "action")
	for text, want := range map[string]string{
		`{"action":"dance"}`:            `there is no action "dance"`,
		`{}`:                            `there is no action ""`,
		`{"action":"run"}`:              "action run: command is missing",
		`{"action":"run","command":""}`: "action run: command is missing",
		`{"action":"run","command":"ls","text":"x"}`: "action run: text does not belong to it",
		`{"action":"run","command":"ls","cwd":"/"}`:  `unknown field "cwd"`,
		`{"action":"message","to":"critic"}`:         "action message: text is missing",
		`{"action":"read","path":"a","start":"1"}`:   "start has the wrong type, a JSON string",
		`["run"]`: "it has the wrong type, a JSON array",
	} {
		var a step.Action
		if err := json.Unmarshal([]byte(text), &a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if len(s.Check([]byte(text))) == 0 {
			t.Errorf("%s fits the published schema", text)
		}
	}
}

func TestObservationsAreTheSameFromAndToJSON(t *testing.T) {
	s := published(t, "observation")
	for _, kind := range []step.ObservationKind{step.Output, step.FileRead, step.FileWritten, step.Browser, step.Recalled, step.Failed, step.Success, step.Said} {
		o := step.Observation{Kind: kind, Action: step.Run, Text: "<x>\n"}
		text := marshal(t, o)
		var back step.Observation
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != o {
			t.Errorf("%s comes back as %+v, %v", text, back, err)
		}
		if problems := s.Check([]byte(text)); len(problems) > 0 {
			t.Errorf("%s does not fit the published schema: %v", text, problems)
		}
	}
}

// A script is an agent that takes its actions in order, and keeps the states.
type script struct {
	actions []step.Action
	states  []step.State
	err     error
}

func (s *script) Step(_ context.Context, state step.State) (step.Action, error) {
	s.states = append(s.states, state)
	return s.actions[min(state.Session.Turns, len(s.actions)-1)], s.err
}

type tool struct {
	name string
	call func(inv *agent.Invocation) (agent.Result, error)
}

func (t tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (t tool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.call(inv)
}

// tools has a tool for each action, whose result is its arguments.
func tools() agent.ToolList {
	var list agent.ToolList
	for _, c := range every {
		if c.tool == "" || slices.ContainsFunc(list, func(t agent.Tool) bool { return t.Spec().Name == c.tool }) {
			continue
		}
		list = append(list, tool{c.tool, func(inv *agent.Invocation) (agent.Result, error) {
			r := agent.TextResult(inv.Call.Args)
			switch inv.Call.Name {
			case "add_task", "modify_task":
				r.Task = &agent.Task{}
				return r, json.Unmarshal([]byte(inv.Call.Args), r.Task)
			case "finish":
				r = agent.TextResult("done")
				r.End = agent.StatusOK
			case "reject":
				r.End = agent.StatusRefused
			case "bash_kill":
				return r, errors.New("there is no such command")
			}
			return r, nil
		}})
	}
	return list
}

func newAgent(a step.Agent, toolsets ...agent.Toolset) *agent.Agent {
	return &agent.Agent{Slug: "walker", System: "be brief", Provider: step.Provider(a), Toolsets: toolsets, NoCompaction: true}
}

func TestEveryActionIsACallAndItsResultAnObservation(t *testing.T) {
	kinds := map[step.ActionKind]step.ObservationKind{step.Run: step.Output, step.Kill: step.Failed, step.RunPython: step.Output, step.Read: step.FileRead,
		step.Write: step.FileWritten, step.Browse: step.Browser, step.Recall: step.Recalled, step.Message: step.Output}
	for _, c := range every {
		if c.tool == "" || c.action.Kind == step.Reject {
			continue
		}
		t.Run(string(c.action.Kind), func(t *testing.T) {
			s := &script{actions: []step.Action{c.action, {Kind: step.Talk, Text: "over"}}}
			r := &runner.Runner{Agent: newAgent(s, tools())}
			if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			call := r.Session().Messages[1].Calls[0]
			if call.Name != c.tool || call.Args != strings.ReplaceAll(strings.ReplaceAll(c.args, "<", `\u003c`), ">", `\u003e`) {
				t.Errorf("it calls %s %s, want %s %s", call.Name, call.Args, c.tool, c.args)
			}
			if c.action.Kind == step.Finish {
				return // there is no second step
			}
			last := s.states[1]
			want := step.Observation{Kind: kinds[c.action.Kind], Action: c.action.Kind, Text: r.Session().Messages[2].Results[0].Text()}
			if want.Kind == "" {
				want.Kind = step.Success
			}
			if c.action.Kind == step.Run {
				want.ExitCode = new(int)
			}
			if d := cmp.Diff([]step.Observation{want}, last.Observations); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]step.Step{{Action: c.action, Observations: last.Observations}}, last.Session.History); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	for command, want := range map[string]string{"exit 0": "0", "echo hello; exit 7": "7", "kill -9 $$": "null", "sleep 300": "null"} {
		opts := bash.Options{Environ: []string{"PATH=" + os.Getenv("PATH")}, SpoolDir: t.TempDir()}
		if command == "sleep 300" { // which continues in the background
			opts.BackgroundAfter = time.Nanosecond
		}
		box := bash.Open(opts)
		s := &script{actions: []step.Action{{Kind: step.Run, Command: command}, {Kind: step.Talk, Text: "over"}}}
		if _, err := (&runner.Runner{Agent: newAgent(s, box)}).Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		if got := marshal(t, s.states[1].Observations[0].ExitCode); got != want {
			t.Errorf("the exit code of %q is %s, want %s: %+v", command, got, want, s.states[1].Observations[0])
		}
	}
}

func TestTheStateIsTheWholeSession(t *testing.T) {
	actions := []step.Action{
		{Kind: step.AddTask, ID: "tea", Title: "Make tea"}, {Kind: step.AddTask, ID: "water", Title: "Boil water", Parent: "tea"},
		{Kind: step.ModifyTask, ID: "water", State: "done", Note: "hot"}, {Kind: step.Finish, Text: "done"}, {Kind: step.Talk, Text: "bye"},
	}
	s := &script{actions: actions}
	r := &runner.Runner{Agent: newAgent(s, tools()), NewID: func() string { return "S" }}
	for _, prompt := range []string{"Make tea.", "More."} {
		if _, err := r.Run(t.Context(), agent.UserText(prompt)); err != nil {
			t.Fatal(err)
		}
	}
	said := func(kind step.ObservationKind, action step.ActionKind, text string) step.Observation {
		return step.Observation{Kind: kind, Action: action, Text: text}
	}
	more := []step.Observation{said(step.Success, step.Finish, "done"), said(step.Said, "", "More.")}
	want := step.State{
		Session: step.Session{ID: "S", Agent: "walker", System: "be brief", Turns: 4, History: []step.Step{
			{actions[0], []step.Observation{said(step.Success, step.AddTask, `{"id":"tea","title":"Make tea"}`)}},
			{actions[1], []step.Observation{said(step.Success, step.AddTask, `{"id":"water","parent":"tea","title":"Boil water"}`)}},
			{actions[2], []step.Observation{said(step.Success, step.ModifyTask, `{"id":"water","note":"hot","state":"done"}`)}},
			{actions[3], more},
		}},
		Observations: more,
		Task: step.Task{Title: "Make tea.", State: "open", Tasks: []step.Task{{ID: "tea", Title: "Make tea", State: "open",
			Tasks: []step.Task{{ID: "water", Title: "Boil water", State: "done", Note: "hot"}}}}},
	}
	if d := cmp.Diff(want, s.states[4]); d != "" {
		t.Error(d)
	}
	for _, state := range s.states {
		text := marshal(t, state)
		if problems := published(t, "").Check([]byte(text)); len(problems) > 0 {
			t.Errorf("%s does not fit the published schema: %v", text, problems)
		}
		var back step.State
		if err := json.Unmarshal([]byte(text), &back); err != nil || cmp.Diff(state, back) != "" {
			t.Errorf("it comes back as %+v, %v", back, err)
		}
	}
}

// journal fails from an event on, as a process that dies.
type journal struct {
	events []agent.Event
	most   int
}

func (j *journal) Append(_ context.Context, e agent.Event) error {
	if j.most > 0 && len(j.events) >= j.most {
		return errors.New("the process ended")
	}
	j.events = append(j.events, e)
	return nil
}

func (j *journal) Sync(context.Context) error { return nil }

// A run that breaks off after any event goes on as if it had not: the states of the
// steps are the same.
func TestAResumedAgentSeesTheSameStates(t *testing.T) {
	actions := []step.Action{{Kind: step.Run, Command: "ls"}, {Kind: step.AddTask, ID: "a", Title: "A"}, {Kind: step.Finish, Text: "done"}}
	list := tools()
	for i, t := range list { // so that calls that had started are run again
		list[i] = idempotent{t}
	}
	whole := &script{actions: actions}
	j := &journal{}
	if _, err := (&runner.Runner{Agent: newAgent(whole, list), Journal: j, NewID: func() string { return "S" }}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	for n := 2; n < len(j.events); n++ {
		s := &script{actions: actions}
		broken := &journal{most: n}
		if _, err := (&runner.Runner{Agent: newAgent(s, list), Journal: broken, NewID: func() string { return "S" }}).Run(t.Context(), agent.UserText("go")); err == nil {
			t.Fatal("the journal did not fail")
		}
		var b runner.Rebuilder
		for _, e := range broken.events {
			if err := b.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		from, _ := b.Resume()
		resumed := &script{actions: actions}
		out, err := (&runner.Runner{Agent: newAgent(resumed, list), From: from}).Resume(t.Context())
		if err != nil || out.Answer != "done" {
			t.Errorf("after %d events: %+v, %v", n, out, err)
		}
		if got := len(resumed.states); got > 0 {
			if d := cmp.Diff(whole.states[len(whole.states)-got:], resumed.states); d != "" {
				t.Errorf("after %d events: %s", n, d)
			}
		}
	}
}

type idempotent struct{ agent.Tool }

func (t idempotent) Spec() agent.ToolSpec {
	s := t.Tool.Spec()
	s.Effects = agent.EffectsIdempotent
	return s
}

func TestHowARunOfStepsEnds(t *testing.T) {
	for name, c := range map[string]struct {
		agent  *script
		tools  agent.ToolList
		status agent.Status
		want   string
	}{
		"talk":               {&script{actions: []step.Action{{Kind: step.Talk, Text: "hi"}}}, nil, agent.StatusOK, "hi <nil>"},
		"finish":             {&script{actions: []step.Action{{Kind: step.Finish, Text: "done"}}}, tools(), agent.StatusOK, "done <nil>"},
		"finish, no tool":    {&script{actions: []step.Action{{Kind: step.Finish, Text: "done"}}}, nil, agent.StatusOK, "done <nil>"},
		"reject":             {&script{actions: []step.Action{{Kind: step.Reject, Text: "not mine"}}}, tools(), agent.StatusRefused, ` {"text":"not mine"}`},
		"error":              {&script{actions: []step.Action{{Kind: step.Talk, Text: "hi"}}, err: errors.New("lost")}, nil, agent.StatusFailed, " ask model m: lost"},
		"not a valid action": {&script{actions: []step.Action{{Kind: step.Run}}}, nil, agent.StatusFailed, " ask model m: action run: command is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(c.agent, c.tools)
			a.Model = "m"
			out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
			if got := fmt.Sprint(out.Answer, " ", err); out.Status != c.status || got != c.want {
				t.Errorf("Run = %s %q, want %s %q", out.Status, got, c.status, c.want)
			}
		})
	}
}

func TestAMissingToolIsAnObservation(t *testing.T) {
	s := &script{actions: []step.Action{{Kind: step.Browse, URL: "http://x/"}, {Kind: step.Talk, Text: "over"}}}
	if _, err := (&runner.Runner{Agent: newAgent(s)}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got := s.states[1].Observations; len(got) != 1 || got[0].Kind != step.Failed || !strings.Contains(got[0].Text, "there is no tool") {
		t.Errorf("it observes %+v", got)
	}
}

func TestConformance(t *testing.T) {
	agenttest.Provider(t, step.Provider(talker{}), agent.UserText("hello"))
}

type talker struct{}

func (talker) Step(context.Context, step.State) (step.Action, error) {
	return step.Action{Kind: step.Talk, Text: "hi"}, nil
}
