package runner_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// namedRights decide by the name of the tool, and note the paths of the calls.
type namedRights struct {
	verdicts map[string]agent.Decision
	hidden   string
	mu       sync.Mutex // calls are judged at the same time
	paths    []string
}

func (r *namedRights) Decide(inv *agent.Invocation) agent.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, strings.Join(inv.Path, "/")+":"+inv.Spec.Name)
	if d := r.verdicts[inv.Spec.Name]; d != "" {
		return agent.Verdict{Decision: d, Reason: "rule", Rule: "a rule"}
	}
	return agent.Verdict{Decision: agent.Allow}
}
func (r *namedRights) Consult(context.Context, *agent.Invocation) agent.Verdict {
	return agent.Verdict{Decision: agent.Allow}
}
func (r *namedRights) Hides(inv *agent.Invocation) bool { return inv.Spec.Name == r.hidden }
func (r *namedRights) MarshalJSON() ([]byte, error)     { return []byte(`[{}]`), nil }

// rightsModel calls a tool and answers with its result. It notes the tools it is offered.
type rightsModel struct {
	tool    string
	offered [][]string
}

func (m *rightsModel) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	var names []string
	for _, s := range req.Tools {
		names = append(names, s.Name)
	}
	m.offered = append(m.offered, names)
	last := req.Messages[len(req.Messages)-1]
	if len(last.Results) > 0 {
		return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(last.Results[0].Parts[0].Text)}}}, nil
	}
	args := `{}`
	if strings.HasPrefix(m.tool, "expert_") {
		args = `{"prompt":"go"}`
	}
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "1", Name: m.tool, Args: args}}}}, nil
}

// rightsTool is a tool that counts its calls.
type rightsTool struct {
	name string
	ran  int
}

func (t *rightsTool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Schema: json.RawMessage(`{"type":"object"}`)}
}
func (t *rightsTool) Call(context.Context, *agent.Invocation) (agent.Result, error) {
	t.ran++
	return agent.Result{Parts: []agent.Part{agent.Text("ran")}}, nil
}

func TestRightsOfAllCallersHold(t *testing.T) {
	for _, tt := range []struct {
		name                string
		caller, root, child *namedRights
		want                string // part of the answer
		ran                 int
	}{
		{name: "nobody decides", want: "ran", ran: 1},
		{name: "all allow", caller: &namedRights{}, root: &namedRights{}, child: &namedRights{}, want: "ran", ran: 1},
		{name: "the root denies what its child allows", root: &namedRights{verdicts: map[string]agent.Decision{"t": agent.Deny}},
			child: &namedRights{verdicts: map[string]agent.Decision{"t": agent.Allow}}, want: "not run: refused by policy: rule"},
		{name: "the child denies", child: &namedRights{verdicts: map[string]agent.Decision{"t": agent.Deny}}, want: "refused by policy: rule"},
		{name: "the caller of the root denies", caller: &namedRights{verdicts: map[string]agent.Decision{"t": agent.Deny}}, want: "refused by policy: rule"},
		{name: "nobody is there to ask", root: &namedRights{verdicts: map[string]agent.Decision{"t": agent.AskPerson}}, want: "nobody can be asked"},
		{name: "an unknown decision denies", root: &namedRights{verdicts: map[string]agent.Decision{"t": "perhaps"}}, want: "refused by policy: rule"},
		{name: "the root hides the tool", root: &namedRights{hidden: "t"}, want: `there is no tool "t"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool, other := &rightsTool{name: "t"}, &rightsTool{name: "u"}
			model := &rightsModel{tool: "t"}
			child := &agent.Agent{Slug: "child", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{tool, other}}}
			root := &agent.Agent{Slug: "root", Provider: &rightsModel{tool: "expert_child"}, Toolsets: []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "expert_child", Agent: child}}}}
			r := &runner.Runner{Agent: root}
			if tt.caller != nil {
				r.Rights = tt.caller
			}
			if tt.root != nil {
				root.Rights = tt.root
			}
			if tt.child != nil {
				child.Rights = tt.child
			}
			var verdicts []agent.Event
			r.Observe = func(e agent.Event) {
				if e.Kind == agent.EventVerdict {
					verdicts = append(verdicts, e)
				}
			}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if err != nil || !strings.Contains(out.Answer, tt.want) || tool.ran != tt.ran {
				t.Errorf("answer %q (%v), ran %d times; want %q, %d times", out.Answer, err, tool.ran, tt.want, tt.ran)
			}
			if strings.Contains(tt.want, "rule") && (len(verdicts) != 1 || verdicts[0].Rule != "a rule" || verdicts[0].Decision == agent.Allow) {
				t.Errorf("events of verdicts: %+v, want one that names the rule", verdicts)
			}
			if tt.root != nil && tt.root.hidden == "" && !slices.Contains(tt.root.paths, "root/child:t") {
				t.Errorf("paths of the calls: %v, want root/child:t", tt.root.paths)
			}
			for _, names := range model.offered { // the beginning of the requests stays the same
				if !slices.Equal(names, model.offered[0]) || slices.Contains(names, "t") == (tt.root != nil && tt.root.hidden == "t") {
					t.Errorf("offered tools: %v", model.offered)
				}
			}
		})
	}
}

func TestRightsOfALeaseAreRequired(t *testing.T) {
	tool := &rightsTool{name: "t"}
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: &rightsModel{tool: "t"}, Toolsets: []agent.Toolset{agent.ToolList{tool}}}, Lease: agent.Lease{Rights: json.RawMessage(`[{"rules":[]}]`)}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err == nil || !strings.Contains(err.Error(), "cannot evaluate") {
		t.Errorf("Run = %v, want a refusal", err)
	}
	if _, err := r.Call(t.Context(), tool, "{}"); err == nil || tool.ran > 0 {
		t.Errorf("Call = %v, ran %d times; want a refusal", err, tool.ran)
	}
}

// printingRights judge a call as other arguments, and note what they are asked about.
type printingRights struct {
	namedRights
	args, decision string
	always         bool
	seen           []string
}

func (r *printingRights) Decide(inv *agent.Invocation) agent.Verdict {
	r.seen = append(r.seen, inv.Call.Args)
	v := agent.Verdict{Decision: agent.Decision(r.decision), Rule: "a rule", External: true}
	if inv.Call.Args != r.args || r.always {
		v.Args = r.args
	}
	return v
}
func (r *printingRights) Consult(_ context.Context, inv *agent.Invocation) agent.Verdict {
	r.seen = append(r.seen, "policy "+inv.Call.Args)
	return agent.Verdict{Decision: agent.Allow}
}

// identifiedTool returns its arguments.
type identifiedTool struct{ rightsTool }

func (t *identifiedTool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return agent.TextResult("got " + inv.Call.Args + " " + string(inv.Values()["a"].(string))), nil
}
func (t *identifiedTool) Identity() (source, digest string) { return "/the/tool", "sha256:1" }

func TestACallHasTheArgumentsThatWereJudged(t *testing.T) {
	const args = `{"a":"b"}`
	for name, tt := range map[string]struct {
		rights *printingRights
		want   string
		seen   []string
	}{
		"allowed": {&printingRights{args: args, decision: "allow"}, "got " + args + " b", []string{"{}", args, "policy " + args}},
		"asked":   {&printingRights{args: args, decision: "ask"}, "got " + args + " b", []string{"{}", args, "policy " + args, "person " + args + " /the/tool sha256:1"}},
		"denied":  {&printingRights{args: args, decision: "deny"}, "error: not run: refused by policy: this call is not permitted", []string{"{}"}},
		"never the same": {&printingRights{args: args, decision: "allow", always: true},
			"error: not run: refused by policy: its command line or a path, judged again, is a different one", []string{"{}", args}},
		"not arguments": {&printingRights{args: "{", decision: "allow"}, "error: not run: the arguments are refused: 1:2: the text ends too early", []string{"{}", "{", "policy {"}},
	} {
		t.Run(name, func(t *testing.T) {
			var events []agent.Event
			tool := &identifiedTool{rightsTool{name: "t"}}
			r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: &rightsModel{tool: "t"}, Toolsets: []agent.Toolset{agent.ToolList{tool}}, Rights: tt.rights},
				Observe: func(e agent.Event) { events = append(events, e) },
				Person: func(_ context.Context, q agent.Event) (json.RawMessage, error) {
					tt.rights.seen = append(tt.rights.seen, "person "+q.Args+" "+q.Source+" "+q.Digest)
					return json.RawMessage(`"allow"`), nil
				}}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Answer; got != tt.want || !slices.Equal(tt.rights.seen, tt.seen) {
				t.Errorf("the result is %q, want %q; asked about %q, want %q", got, tt.want, tt.rights.seen, tt.seen)
			}
			for _, e := range events {
				if e.Kind == agent.EventCallStarted && e.Args != args {
					t.Errorf("the start is recorded with %s, want %s", e.Args, args)
				}
			}
		})
	}
}

// A person who is asked about a sub-agent is told where its file is, not by which name its
// caller knows it: an answer that is remembered must not hold for another tree.
func TestTheSourceOfASubagentIsItsFile(t *testing.T) {
	sub := &agent.Subagent{Name: "expert_sub", Source: "sub.json", Agent: &agent.Agent{Slug: "sub", Source: "/tree/sub.json", Provider: &model{answers: []*agent.Response{text("x")}}}}
	var asked []string
	r := &runner.Runner{
		Agent: newAgent(&model{answers: []*agent.Response{calls(call("", "expert_sub", `{"prompt":"go"}`)), text("done")}}, sub),
		Policy: func(context.Context, *agent.Invocation) agent.Verdict {
			return agent.Verdict{Decision: agent.AskPerson}
		},
		Person: func(_ context.Context, q agent.Event) (json.RawMessage, error) {
			asked = append(asked, q.Source)
			return json.RawMessage(`"allow"`), nil
		},
	}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil || !slices.Equal(asked, []string{"/tree/sub.json"}) {
		t.Errorf("asked about %q, %v", asked, err)
	}
}
