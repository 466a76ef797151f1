package treetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/trial/standin"
	"github.com/agents-exe/agents/schemas"
)

// A Recording is a run from which Record makes a test.
type Recording struct {
	// AgentFile, WorkDir, Set and Prompt are those of the run; WorkDir "" means
	// the folder of the test file.
	AgentFile string
	WorkDir   string
	Set       map[string]string
	Prompt    string
	// Events are all events of the run, in the order of Runner.Observe.
	Events []agent.Event
	// Redact removes secrets from a text; nil removes none.
	Redact func(string) string
}

// Record returns a test file that repeats a run, to be written to path: its scripts
// are the answers of the models, its stubs the results of the tools, and it expects
// the same calls and the same answer. The error is that the run ended for a reason
// that no script can repeat, or that an agent answered the same prompt in two ways.
func Record(path string, rec Recording) ([]byte, error) {
	r := &recorder{path: path, rec: rec, specs: map[string]agent.ToolSpec{}}
	r.spec.Schema = "https://raw.githubusercontent.com/agents-exe/agents/main/schemas/" + schemas.AgentTestName
	r.ofTree()
	t := traceOf(r.rec.Events)
	if len(t.runs) == 0 {
		return nil, errors.New("nothing ran")
	}
	if status := t.runs[0].status; status != agent.StatusOK && status != agent.StatusLimit {
		return nil, fmt.Errorf("a run that ended as %s cannot be recorded: %s", cmp.Or(string(status), "nothing"), t.runs[0].errors)
	}
	if err := r.place(); err != nil {
		return nil, err
	}
	if err := r.models(t); err != nil {
		return nil, err
	}
	r.tools()
	r.expect(t)
	text, err := encode(r.spec)
	if err != nil {
		return nil, err
	}
	if rec.Redact != nil {
		text = []byte(rec.Redact(string(text)))
	}
	return format(text), nil
}

type recorder struct {
	path  string
	rec   Recording
	spec  Spec
	specs map[string]agent.ToolSpec // the tools as the models saw them
}

// ofTree keeps the tools of the tree and the events of its agents. An agent in another
// process is not one of the tree: its call gets a stub, like that of any tool.
func (r *recorder) ofTree() {
	var events []agent.Event
	tools := map[string]string{} // by the key of the call
	other := map[string]bool{}   // sessions in other processes
	for _, e := range r.rec.Events {
		if e.Depth > 0 && e.Parent != "" && (other[agent.CallSession(e.Parent)] || r.specs[tools[e.Parent]].Agent == "") {
			other[e.Session] = true
		}
		if other[e.Session] {
			continue
		}
		events = append(events, e)
		if e.Kind == agent.EventCallStarted {
			tools[e.Key] = e.Tool
		}
		for _, s := range e.Specs {
			r.specs[s.Name] = s
		}
	}
	r.rec.Events = events
}

// place sets what runs, with paths relative to the folder of the test file.
func (r *recorder) place() error {
	dir, err := filepath.Abs(filepath.Dir(r.path))
	if err != nil {
		return err
	}
	relative := func(path string) string {
		if path, err = filepath.Abs(path); err != nil {
			return path
		}
		rel, relErr := filepath.Rel(dir, path)
		if relErr != nil {
			return path
		}
		return rel
	}
	if file := relative(r.rec.AgentFile); file != "agent.json" {
		r.spec.AgentFile = file
	}
	if r.rec.WorkDir != "" {
		if rel := relative(r.rec.WorkDir); rel != "." {
			r.spec.WorkDir = rel
		}
	}
	r.spec.Set, r.spec.Prompt = r.rec.Set, agentfile.Lines(r.rec.Prompt)
	return err
}

// The parts of a script; see docs/scripted-model.md.
type (
	script struct {
		Rules []rule `json:"rules"`
	}
	rule struct {
		When   when         `json:"when"`
		Answer *ruleAnswer  `json:"answer,omitempty"`
		Fault  *ruleFailure `json:"fault,omitempty"`
	}
	when struct {
		Turn   int    `json:"turn"`
		Prompt string `json:"prompt,omitempty"`
	}
	ruleAnswer struct {
		Text      *string      `json:"text,omitempty"`
		Reasoning string       `json:"reasoning,omitempty"`
		Calls     []ruleCall   `json:"calls,omitempty"`
		Finish    agent.Finish `json:"finish,omitempty"`
	}
	ruleCall struct {
		Tool    string          `json:"tool"`
		Args    json.RawMessage `json:"args,omitempty"`
		RawArgs string          `json:"rawArgs,omitempty"`
	}
	ruleFailure struct {
		Status  int    `json:"status"`
		Message string `json:"message"`
	}
)

// models makes a script of the answers of each model.
func (r *recorder) models(t *trace) error {
	byAgent := map[string][]*agentRun{}
	for _, run := range t.runs {
		byAgent[run.agent] = append(byAgent[run.agent], run)
	}
	r.spec.Models = map[string]json.RawMessage{}
	for _, slug := range slices.Sorted(maps.Keys(byAgent)) {
		rules, err := rulesOf(slug, byAgent[slug])
		if err != nil {
			return err
		}
		if r.spec.Models[slug], err = encode(script{rules}); err != nil {
			return err
		}
	}
	return nil
}

// rulesOf are one rule for each answer of an agent. Where it had more than one
// prompt, a rule names the prompt, too.
func rulesOf(slug string, runs []*agentRun) ([]rule, error) {
	var prompts []string
	byPrompt := map[string][]rule{}
	for _, run := range runs {
		var rules []rule
		for _, e := range run.answers {
			rules = append(rules, rule{When: when{Turn: e.Turn}, Answer: answerOf(e)})
		}
		if run.status == agent.StatusFailed && run.errors != "" {
			rules = append(rules, rule{When: when{Turn: len(rules) + 1}, Fault: &ruleFailure{400, run.errors}})
		}
		if first, again := byPrompt[run.prompt]; again {
			if !sameEncoded(first, rules) {
				return nil, fmt.Errorf("the agent %s was asked the same twice and answered something different; no script can tell the two apart", slug)
			}
			continue
		}
		prompts = append(prompts, run.prompt)
		byPrompt[run.prompt] = rules
	}
	var all []rule
	for _, prompt := range prompts {
		for _, rule := range byPrompt[prompt] {
			if len(prompts) > 1 {
				rule.When.Prompt = promptPattern(prompt)
			}
			all = append(all, rule)
		}
	}
	return all, nil
}

// sameEncoded reports whether two values are the same in a test file.
func sameEncoded(a, b any) bool {
	x, errX := encode(a)
	y, errY := encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// promptPattern is a pattern for a prompt; of a long one, for its beginning.
func promptPattern(prompt string) string {
	const most = 2000
	text := trim(prompt)
	if len(text) <= most {
		return "^" + regexp.QuoteMeta(text) + "$"
	}
	return "^" + regexp.QuoteMeta(strings.ToValidUTF8(text[:most], ""))
}

// answerOf is a model's answer in a script.
func answerOf(e *agent.Event) *ruleAnswer {
	a := &ruleAnswer{}
	if e.Finish != agent.FinishStop {
		a.Finish = e.Finish
	}
	text := e.Message.Text()
	if text != "" || len(e.Message.Calls) == 0 {
		text = literal(text)
		a.Text = &text
	}
	for _, p := range e.Message.Parts {
		if p.Kind == agent.PartReasoning {
			a.Reasoning += literal(p.Text)
		}
	}
	for _, c := range e.Message.Calls {
		call := ruleCall{Tool: c.Name}
		if args, err := agent.DecodeArgs(c.Args); err != nil || strings.Contains(c.Args, "$") {
			call.RawArgs = literal(c.Args)
		} else if len(args) > 0 {
			call.Args = json.RawMessage(c.Args)
		}
		a.Calls = append(a.Calls, call)
	}
	return a
}

// literal escapes the placeholders of scripts in a text.
func literal(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// tools makes a stub of every call that ran.
func (r *recorder) tools() {
	r.spec.Tools = map[string]Stubs{}
	args := map[string]string{} // by the key of the call
	for i := range r.rec.Events {
		e := &r.rec.Events[i]
		switch e.Kind {
		case agent.EventCallStarted:
			args[e.Key] = cmp.Or(e.Args, "{}")
		case agent.EventCallEnded:
			if text, ran := args[e.Key]; ran {
				r.stub(e, text)
			}
		}
	}
}

// stub adds the result of a call. There is none for sub-agents and for refused
// arguments: in the test, sub-agents run and arguments are checked.
func (r *recorder) stub(e *agent.Event, args string) {
	spec, known := r.specs[e.Tool]
	if spec.Agent != "" || known && refused(spec, args) {
		return
	}
	if len(e.Result.Toolgroups) > 0 || r.spec.Tools[e.Tool].Real { // a stub would activate nothing
		r.spec.Tools[e.Tool] = Stubs{Real: true}
		return
	}
	if strings.HasPrefix(e.Tool, "mcp_") && known {
		if r.spec.Specs == nil {
			r.spec.Specs = map[string]ToolSpec{}
		}
		r.spec.Specs[e.Tool] = ToolSpec{spec.Description, spec.Schema}
	}
	s := Stub{Args: json.RawMessage(args)}
	result, err := standin.Result(e.Result)
	if err != nil {
		text := err.Error()
		s.Error = &text
	}
	parts := result.Parts
	if len(parts) == 1 && parts[0].Kind == agent.PartText {
		s.Text = &parts[0].Text
		parts = nil
	}
	for _, p := range parts {
		s.Parts = append(s.Parts, Part{p.Text, p.MIME, p.Data, p.Name})
	}
	if s.Text == nil && s.Error == nil && len(s.Parts) == 0 {
		s.Text = new(string)
	}
	r.add(e.Tool, s)
}

// add adds a stub that is not there already. Stubs with the same arguments and
// different answers answer once each.
func (r *recorder) add(tool string, s Stub) {
	stubs := r.spec.Tools[tool]
	if !slices.ContainsFunc(stubs.List, func(o Stub) bool { return sameEncoded(o, s) }) {
		for i, o := range stubs.List {
			if argsText(string(o.Args)) == argsText(string(s.Args)) {
				stubs.List[i].Times, s.Times = 1, 1
			}
		}
		stubs.List = append(stubs.List, s)
	}
	r.spec.Tools[tool] = stubs
}

// refused reports whether arguments do not fit a tool's schema, so that the tool did
// not run and its stub would not answer.
func refused(spec agent.ToolSpec, args string) bool {
	inv := &agent.Invocation{Call: agent.ToolCall{Name: spec.Name, Args: args}}
	if _, err := inv.Args(); err != nil {
		return true
	}
	v, _ := agent.As[agent.Validator](schema.Checked(specOnly{spec}))
	return v.Validate(context.Background(), inv) != nil
}

func (r *recorder) expect(t *trace) {
	root := t.runs[0]
	e := &r.spec.Expect
	e.Status, e.Turns = root.status, exactly(root.turns)
	if root.status == agent.StatusOK {
		e.Answer = &Text{Exact: &root.answer}
	}
	calls := []ExpectCall{}
	for _, c := range t.calls {
		x := ExpectCall{Agent: c.agent, Tool: c.tool, Failed: c.failed}
		if args, err := agent.DecodeArgs(c.args); err != nil {
			x.RawArgs = &Text{Exact: &c.args}
		} else if len(args) > 0 {
			x.Args = json.RawMessage(c.args)
		}
		calls = append(calls, x)
	}
	e.Calls = &calls
	if len(r.spec.Tools) == 0 {
		r.spec.Tools = nil
	}
}
