package policy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
)

func TestASubagentHasTwoNamesAndItsPromptToo(t *testing.T) {
	for _, tt := range []struct {
		rule, name string
		want       bool
	}{
		{"expert_x", "io_prompt_agent_x", true}, {"io_prompt_agent_x", "expert_x", true}, {"x", "io_prompt_agent_x", true}, {"expert_y", "io_prompt_agent_x", false}, {"y", "expert_x", false}, {"expert_x", "bash_x", false},
	} {
		v := rights(t, policy.Never, `{"verdict":"deny","tool":"`+tt.rule+`"}`).Decide(call(tt.name, `{}`))
		if got := v.Decision == agent.Deny; got != tt.want {
			t.Errorf("the rule %s is about %s: %v, want %v", tt.rule, tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		pointer, args string
		agent         bool
		want          agent.Decision
	}{
		{"/prompt", `{"prompt":"secret"}`, true, agent.Deny}, {"/prompt", `{"what":"secret"}`, true, agent.Deny}, {"/what", `{"prompt":"secret"}`, true, agent.Deny}, {"/what", `{"what":"a","prompt":"secret"}`, true, agent.Allow},
		{"/prompt", `{"what":"secret"}`, false, agent.Allow}, {"/other", `{"what":"secret"}`, true, agent.Allow}, {"/other", `{"other":"secret"}`, true, agent.Deny},
	} {
		inv := call("expert_x", tt.args)
		if tt.agent {
			inv.Spec.Agent = "x"
		}
		if v := rights(t, policy.Never, `{"verdict":"deny","args":{"`+tt.pointer+`":{"glob":"secret"}}}`).Decide(inv); v.Decision != tt.want {
			t.Errorf("a rule about %s and %s, a sub-agent: %v: %+v, want %s", tt.pointer, tt.args, tt.agent, v, tt.want)
		}
	}
}

func TestAVerdictSaysWhatCouldNotBeCompared(t *testing.T) {
	for _, tt := range []struct{ rule, args, want string }{
		{`{"verdict":"allow","args":{"/n":{"min":1}}}`, `{"n":"x"}`, "agent.json: permissions[0] cannot be evaluated: argument /n: it is not a number that can be compared"},
		{`{"verdict":"allow","args":{"/n/a":{"glob":"x"}}}`, `{"n":{"a":{}}}`, "cannot be evaluated: argument /n/a: it is an object"},
		{`{"verdict":"allow","args":{"/n":{"inside":"/"}}}`, `{"n":5}`, "cannot be evaluated: argument /n: it is not a path"},
		{`{"verdict":"deny","command":["x"]}`, `{"command":"ls '"}`, "denied, since the command cannot be read: 1:4"},
		{`{"verdict":"deny","command":["x"]}`, `{"command":"sh -c 'ls ('"}`, "denied, since a part of the command cannot be read (agent.json: permissions[0])"},
		{`{"verdict":"deny","command":["x"]}`, `{"command":"x"}`, "denied (agent.json: permissions[0])"},
		{`{"verdict":"deny","command":["x"],"reason":"no x"}`, `{"command":"x '"}`, "no x (agent.json: permissions[0])"},
		{`{"verdict":"allow","command":["ls"]}`, `{"command":"ls; rm x"}`, `agent.json allows only some calls of this tool, and not this one: the command "rm"`},
		{`{"verdict":"allow","command":["ls"]}`, `{"command":"ls $(x)"}`, "and not this one: it runs a command inside another one"},
		{`{"verdict":"allow","command":["ls"]}`, `{"command":"ls","env":{}}`, "and not this one: the argument env can change what the command means"},
		{`{"verdict":"allow","command":["ls"]}`, `{"command":" "}`, "and not this one: there is no command"},
		{`{"verdict":"allow","agent":"b"}`, `{}`, "agent.json allows only some calls of this tool, and not this one"},
	} {
		v := rights(t, policy.Never, tt.rule).Decide(call("shell", tt.args))
		if !strings.Contains(v.Reason, tt.want) {
			t.Errorf("%s about %s: the reason is %q, want %q", tt.rule, tt.args, v.Reason, tt.want)
		}
	}
}

// TestARuleAboutACommandAndItsArguments: a rule covers a command only with the arguments that it
// names, in calls of other processes too.
func TestARuleAboutACommandAndItsArguments(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"allow","tool":"shell","command":["git","status"]}`, `{"verdict":"allow","tool":"shell","command":["ls"],"args":{"/n":{"max":1}}}`)
	for args, want := range map[string]agent.Decision{
		`{"command":"git status && ls","n":1}`: agent.Allow, `{"command":"git status && ls","n":2}`: agent.AskPerson, `{"command":"git status && ls"}`: agent.AskPerson, `{"command":"git status","n":2}`: agent.Allow,
	} {
		for _, remote := range []bool{false, true} {
			inv := call("shell", args)
			if inv.Remote = remote; r.Decide(inv).Decision != want {
				t.Errorf("Decide(%s, in another process: %v) = %+v, want %s", args, remote, r.Decide(inv), want)
			}
		}
	}
	// Files of another process may differ from those here: what it decided counts.
	inside := rights(t, policy.Never, `{"verdict":"allow","tool":"shell","command":["ls"],"args":{"/p":{"inside":"/x"}}}`)
	for args, want := range map[string]agent.Decision{`{"command":"ls","p":"/x/y"}`: agent.Allow, `{"command":"ls","p":"y"}`: agent.Allow, `{"command":"ls","p":5}`: agent.Allow} {
		inv := call("shell", args)
		if inv.Remote = true; inside.Decide(inv).Decision != want {
			t.Errorf("Decide(%s of another process) = %+v, want %s", args, inside.Decide(inv), want)
		}
	}
	deny := rights(t, policy.Never, `{"verdict":"deny","command":["curl"]}`, `{"verdict":"ask","command":["wget"]}`)
	for args, want := range map[string]agent.Decision{`{"command":"curl x"}`: agent.Deny, `{"command":"wget x"}`: agent.AskPerson, `{"command":"$X y"}`: agent.Allow, `{"command":"sh -c '('"}`: agent.Allow} {
		inv := call("shell", args)
		if inv.Remote = true; deny.Decide(inv).Decision != want {
			t.Errorf("Decide(%s of another process) = %+v, want %s", args, deny.Decide(inv), want)
		}
	}
}

// TestRightsOfAnotherProcessAreReadStrictly: what is not understood permits nothing.
func TestRightsOfAnotherProcessAreReadStrictly(t *testing.T) {
	for text, ok := range map[string]bool{
		`[]`: true, `[{"source":"a","approval":"always","policy":true,"rules":[{"verdict":"deny","tool":"x","source":"b"}]}]`: true,
		`[{"rules":[{"verdict":"deny"}],"rules":[]}]`: false, `[{"Rules":[{"verdict":"deny"}]}]`: false, `[{"approval":"always","approval":"never"}]`: false, `[{"Policy":true}]`: false,
		`[{"rules":[{"verdict":"deny","verdict":"allow"}]}]`: false, `[{"rules":[{"Verdict":"deny"}]}]`: false, `[{"more":1}]`: false, `{}`: false, `[{}] []`: false, `[{"approval":"x"}]`: false, `false`: false,
	} {
		if _, err := policy.Read([]byte(text)); (err == nil) != ok {
			t.Errorf("Read(%s) = %v, want success: %v", text, err, ok)
		}
	}
}

func TestExplainShowsTheStrictestFirst(t *testing.T) {
	for _, tt := range []struct {
		rules    []string
		approval policy.Approval
		want     string
	}{
		{nil, "", "allow/no rule"}, {nil, policy.Always, "ask/no rule, approval always"},
		{[]string{`{"verdict":"allow","tool":"t"}`}, "", "allow/"}, {[]string{`{"verdict":"allow","tool":"t","agent":"b"}`}, "", "ask/no rule"},
		{[]string{`{"verdict":"allow","tool":"t","command":["ls","-l"]}`, `{"verdict":"ask","args":{"/n":{"max":1},"/a":{"glob":"b"}}}`, `{"verdict":"deny","command":["x"]}`}, policy.Effects,
			`deny/command x ask//a {"glob":"b"} and /n {"max":1} allow/command ls -l ask/otherwise, approval effects`},
		{[]string{`{"verdict":"deny","tool":"t"}`, `{"verdict":"allow","tool":"t"}`}, "", "deny/"},
		{[]string{`{"verdict":"deny","command":["x"]}`}, policy.Never, "deny/command x allow/otherwise"},
	} {
		var got []string
		for _, l := range rights(t, tt.approval, tt.rules...).Explain(call("t", "")) {
			got = append(got, string(l.Decision)+"/"+l.Calls)
			if !strings.HasPrefix(l.Source, "agent.json") {
				t.Errorf("%v: the source is %q", tt.rules, l.Source)
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%v with approval %q: %s, want %s", tt.rules, tt.approval, s, tt.want)
		}
	}
}

// answers is an external policy that decides the same about all calls.
type answers struct {
	decision agent.Decision
	err      error
	asked    int
}

func (p *answers) Decide(context.Context, *agent.Invocation) (agent.Verdict, error) {
	p.asked++
	return agent.Verdict{Decision: p.decision, Reason: string(p.decision)}, p.err
}

func TestAllExternalPoliciesMustAgree(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		policies []*answers
		want     agent.Decision
		last     int // how often the last is asked
	}{
		{[]*answers{{decision: agent.Allow}, {decision: agent.Allow}}, agent.Allow, 1}, {[]*answers{{decision: agent.AskPerson}, {decision: agent.Allow}}, agent.AskPerson, 1},
		{[]*answers{{decision: agent.Deny}, {decision: agent.Allow}}, agent.Deny, 0}, {[]*answers{{decision: agent.Allow}, {decision: agent.Deny}}, agent.Deny, 1},
		{[]*answers{{decision: agent.Allow, err: broken}, {decision: agent.Allow}}, agent.Deny, 0}, {[]*answers{{decision: agent.AskPerson}, {decision: agent.AskPerson, err: broken}}, agent.Deny, 1},
	} {
		var list []policy.Policy
		for _, p := range tt.policies {
			list = append(list, p)
		}
		r, err := policy.New(policy.Set{Source: "a"}, list...)
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Decide(call("t", `{}`)); v.Decision != agent.Allow || !v.External {
			t.Errorf("Decide = %+v, want allow with external policies", v)
		}
		if v := r.Consult(t.Context(), call("t", `{}`)); v.Decision != tt.want || tt.policies[1].asked != tt.last {
			t.Errorf("Consult(%+v, %+v) = %+v, want %s", tt.policies[0], tt.policies[1], v, tt.want)
		}
		// Another process must ask its caller, and is denied if it cannot.
		raw, _ := r.MarshalJSON()
		leased, err := policy.Read(raw)
		if err != nil {
			t.Fatal(err)
		}
		if v := leased.Consult(t.Context(), call("t", `{}`)); v.Decision != agent.Deny {
			t.Errorf("Consult in another process = %+v, want deny", v)
		}
	}
	if v := rights(t, policy.Never).Consult(t.Context(), call("t", `{}`)); v.Decision != agent.Allow {
		t.Errorf("Consult without policies = %+v, want allow", v)
	}
}

func TestApprovalsByStrictness(t *testing.T) {
	order := []policy.Approval{"", policy.Never, policy.Effects, policy.Always, policy.Required}
	for i, a := range order {
		for j, b := range order {
			if got, want := a.Stricter(b), order[max(i, j)]; got != want {
				t.Errorf("%q.Stricter(%q) = %q, want %q", a, b, got, want)
			}
		}
		if err := a.Check(); err != nil {
			t.Errorf("%q.Check() = %v", a, err)
		}
	}
	if policy.Approval("Never").Check() == nil {
		t.Error("an unknown approval passes")
	}
	for _, tt := range []struct {
		set  policy.Set
		want bool
	}{
		{policy.Set{}, true}, {policy.Set{Approval: policy.Never}, true}, {policy.Set{Approval: policy.Effects}, false}, {policy.Set{Policy: true}, false}, {policy.Set{Rules: []*policy.Rule{{}}}, false},
	} {
		if tt.set.Empty() != tt.want {
			t.Errorf("%+v.Empty() = %v", tt.set, !tt.want)
		}
	}
}

func TestRequiredEndsTheRunForEveryQuestion(t *testing.T) {
	for rule, want := range map[string]string{`{"verdict":"ask","tool":"t"}`: "required", `{"verdict":"allow","tool":"t","agent":"b"}`: "required", `{"verdict":"allow","tool":"t"}`: ""} {
		if v := rights(t, policy.Required, rule).Decide(call("t", `{}`)); v.Approval != want {
			t.Errorf("Decide with %s = %+v, want the approval %q", rule, v, want)
		}
		if v := rights(t, policy.Always, rule).Decide(call("t", `{}`)); v.Approval != "" {
			t.Errorf("Decide with %s = %+v, want no approval", rule, v)
		}
	}
	// Of rules that ask, one that only a person answers counts.
	for _, rules := range [][]string{{`{"verdict":"ask"}`, `{"verdict":"ask","reviewer":"human"}`}, {`{"verdict":"ask","reviewer":"human"}`, `{"verdict":"ask"}`}} {
		if v := rights(t, policy.Never, rules...).Decide(call("t", `{}`)); v.Reviewer != "human" {
			t.Errorf("Decide with %s = %+v, want a human", rules, v)
		}
	}
}

// TestACallHasThePathsThatWereJudged: a path through a link is replaced by where it leads, and
// everything else stays as the model wrote it.
func TestACallHasThePathsThatWereJudged(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(top, "work")
	for _, err := range []error{os.MkdirAll(filepath.Join(work, "sub"), 0o755), os.Symlink("sub", filepath.Join(work, "l")), os.Symlink("sub/new", filepath.Join(work, "n")), os.Symlink("sub/a/b", filepath.Join(work, "d")), os.Symlink(work, filepath.Join(top, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	allow := fmt.Sprintf(`{"verdict":"allow","tool":"t","args":{"/path":{"inside":%q}}}`, work)
	deny := fmt.Sprintf(`{"verdict":"deny","tool":"t","args":{"/path":{"inside":%q}}}`, top+"/other")
	list := fmt.Sprintf(`{"verdict":"allow","tool":"t","args":{"/a/*/path":{"inside":%q}}}`, work)
	for _, tt := range []struct{ rule, args, want string }{
		{allow, `{"path": "sub/a"}`, ""},
		{allow, `{"path": "./sub/../sub/none/"}`, ""},
		{allow, `{"path": "l/a",  "n": 1.50}`, `{"path": "WORK/sub/a",  "n": 1.50}`},
		{allow, `{"path":"n"}`, `{"path":"WORK/sub/new"}`},
		{allow, `{"path":"d/../x"}`, `{"path":"WORK/sub/a/x"}`},
		{allow, `{"path":"TOP/link/a"}`, `{"path":"WORK/a"}`},
		{allow, `{"path":["l","sub","l"]}`, `{"path":["WORK/sub","sub","WORK/sub"]}`},
		{list, `{"a":[{"path":["l/<\u003e"]},{"path":"sub"}],"path":"l"}`, `{"a":[{"path":["WORK/sub/<>"]},{"path":"sub"}],"path":"l"}`},
		{deny, `{"path":"l/a"}`, `{"path":"WORK/sub/a"}`},
		{deny, `{"path":"sub/a"}`, ""},
	} {
		for _, dir := range []string{work, filepath.Join(top, "link")} { // a link above the working directory is none of the path
			full := strings.NewReplacer("WORK", work, "TOP", top).Replace
			inv := call("t", full(tt.args))
			inv.Dir = dir
			r := rights(t, policy.Never, tt.rule)
			v := r.Decide(inv)
			if v.Decision != agent.Allow || v.Args != full(tt.want) || !v.NoLinks {
				t.Errorf("%s: Decide(%s) = %+v, want the arguments %s", tt.rule, inv.Call.Args, v, full(tt.want))
				continue
			}
			if v.Args == "" {
				continue
			}
			again := call("t", v.Args)
			again.Dir = dir
			if v := r.Decide(again); v.Decision != agent.Allow || v.Args != "" || !v.NoLinks {
				t.Errorf("%s: Decide(%s) = %+v the second time", tt.rule, again.Call.Args, v)
			}
		}
	}
	inv := call("t", `{"path":"l"}`)
	inv.Dir = work
	if v := rights(t, policy.Never, `{"verdict":"allow","tool":"t","args":{"/path":{"glob":"*"}}}`).Decide(inv); v.Args != "" || v.NoLinks {
		t.Errorf("Decide without inside = %+v, want the arguments as they are", v)
	}
	inv.Remote = true
	if v := rights(t, policy.Never, deny).Decide(inv); v.Args != "" {
		t.Errorf("Decide of a call of another process = %+v, want the arguments as they are", v)
	}
}
