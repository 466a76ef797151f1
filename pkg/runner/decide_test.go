package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/google/go-cmp/cmp"
)

// TestAnAnswerToAQuestionIsReadStrictly: only an exact decision to allow allows.
func TestAnAnswerToAQuestionIsReadStrictly(t *testing.T) {
	for answer, want := range map[string]agent.Decision{
		`"allow"`: agent.Allow, `"ask"`: agent.AskPerson, `"deny"`: agent.Deny, `{"decision":"allow","reason":"r"}`: agent.Allow, `{"decision":"allow","more":1}`: agent.Allow,
		`{"Decision":"allow"}`: agent.Deny, `{"deciſion":"allow"}`: agent.Deny, `{"decision":"deny","decision":"allow"}`: agent.Deny, `{"decision":"deny","Decision":"allow"}`: agent.Deny,
		`"Allow"`: "Allow", `{}`: agent.Deny, `["allow"]`: agent.Deny, `allow`: agent.Deny, ``: agent.Deny, `null`: agent.Deny, `"allow" "allow"`: agent.Deny, `{"decision":true}`: agent.Deny,
	} {
		if v := readDecision(json.RawMessage(answer)); v.Decision != want {
			t.Errorf("readDecision(%s) = %+v, want %s", answer, v, want)
		}
	}
	full := agent.Verdict{Decision: agent.AskPerson, Reason: "r", Rule: "u", Reviewer: "human", Approval: "always"}
	raw, _ := json.Marshal(full)
	if v := readDecision(raw); v != full {
		t.Errorf("readDecision(%s) = %+v", raw, v)
	}
}

// judging are rights that decide v, and consult c.
type judging struct{ v, c agent.Verdict }

func (j *judging) Decide(*agent.Invocation) agent.Verdict { return j.v }

func (j *judging) Consult(context.Context, *agent.Invocation) agent.Verdict { return j.c }

func (j *judging) Hides(*agent.Invocation) bool { return j.v.Decision == agent.Deny }

func (j *judging) MarshalJSON() ([]byte, error) { return []byte(`[{"source":"s"}]`), nil }

// noting are rights that note the effects of the calls about which they are asked.
type noting struct {
	judging
	effects []agent.Effects
}

func (n *noting) Consult(ctx context.Context, inv *agent.Invocation) agent.Verdict {
	n.effects = append(n.effects, inv.Spec.Effects)
	return n.judging.Consult(ctx, inv)
}

// ruled is a run whose agent has rights, and a call of an agent in another process.
func ruled(v, c agent.Verdict) (*run, *agent.Invocation) {
	t := &tree{now: time.Now, inboxes: &inboxes{}, questionTime: time.Minute, maxDepth: agent.DefaultMaxDepth, remotes: map[string]*remote{}}
	r := &run{node: node{tree: t, agent: &agent.Agent{Slug: "root", Rights: &judging{v, c}}, session: &agent.Session{}}}
	t.root = r
	return r, &agent.Invocation{Call: agent.ToolCall{Name: "expert_x"}, Spec: agent.ToolSpec{Name: "expert_x", Agent: "x"}, Key: "s.1.1", Caller: r, Driver: &call{run: r}}
}

// TestCallsOfAChildNeedWhatTheirRightsRequire: an agent in another process is ended if it starts
// a call without what the rights of its callers require.
func TestCallsOfAChildNeedWhatTheirRightsRequire(t *testing.T) {
	allow, ask, deny := agent.Verdict{Decision: agent.Allow}, agent.Verdict{Decision: agent.AskPerson, Reason: "r"}, agent.Verdict{Decision: agent.Deny, Reason: "no"}
	external := func(v agent.Verdict) agent.Verdict { v.External = true; return v }
	const other = "the other"
	for _, tt := range []struct {
		v    agent.Verdict
		by   []string
		args string
		want string
	}{
		{allow, nil, "{}", ""}, {deny, []string{approved, agreed}, "{}", `it called "t": no`}, {agent.Verdict{Decision: "x"}, []string{approved}, "{}", "it called"}, {allow, nil, "{", "it called"},
		{ask, nil, "{}", "without the consent of a person: r"}, {ask, []string{approved}, "{}", ""}, {ask, []string{other}, "{}", "of a person"}, {ask, []string{agreed}, "{}", "of a person"},
		{external(allow), nil, "{}", "consent of its caller's policy"}, {external(allow), []string{agreed}, "{}", ""}, {external(allow), []string{undecided}, "{}", "of a person"}, {external(allow), []string{undecided, approved}, "{}", ""}, {external(allow), []string{approved}, "{}", "caller's policy"},
		{external(ask), []string{approved}, "{}", "caller's policy"}, {external(ask), []string{agreed}, "{}", "of a person"}, {external(ask), []string{agreed, approved}, "{}", ""}, {external(ask), []string{undecided, approved}, "{}", ""},
	} {
		r, inv := ruled(tt.v, agent.Verdict{})
		s := r.away(inv.Key)
		for _, by := range tt.by {
			args := tt.args
			if by == other { // the answer was about other arguments
				by, args = approved, `{"a":1}`
			}
			r.note(inv, agent.Event{Tool: "t", Args: args}, by)
		}
		err := r.permitted(inv, s, &agent.Event{Kind: agent.EventCallStarted, Tool: "t", Args: tt.args})
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, agent.ErrChild) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("permitted with %+v and consent of %q = %v, want %q", tt.v, tt.by, err, tt.want)
		}
		if err := r.permitted(inv, s, &agent.Event{Kind: agent.EventCallEnded, Tool: "t", Args: tt.args}); err != nil {
			t.Errorf("permitted = %v about the end of a call", err)
		}
	}
	// What permits a call of an ordinary tool permits none of an agent with the same key.
	r, inv := ruled(ask, agent.Verdict{})
	inv.Spec.Agent = ""
	r.note(inv, agent.Event{Tool: "t", Args: "{}"}, approved)
	if len(r.tree.children) > 0 {
		t.Error("an answer is kept for a call that runs no agent")
	}
}

// TestTheToolsOfAChildAreThoseOfItsSetup: the rights judge a call with the spec that its agent was
// told to have.
func TestTheToolsOfAChildAreThoseOfItsSetup(t *testing.T) {
	r, inv := ruled(agent.Verdict{Decision: agent.Allow}, agent.Verdict{})
	s := r.away(inv.Key)
	r.noteSetup(inv, s, &agent.Event{Kind: agent.EventSetup, Digest: "d", Specs: []agent.ToolSpec{{Name: "t", Effects: agent.EffectsNone}, {Name: "other"}}})
	again := r.away(inv.Key)
	r.noteSetup(inv, again, &agent.Event{Kind: agent.EventAnswer, Digest: "d"})
	if again.specs != nil {
		t.Error("an event that is no setup has tools")
	}
	r.noteSetup(inv, again, &agent.Event{Kind: agent.EventSetup, Digest: "d"}) // the specs are known by the digest
	for _, n := range []*remote{s, again} {
		if c := r.remoteCall(n, &agent.Event{Tool: "t"}, []string{"root", "x"}); c.Spec.Effects != agent.EffectsNone || c.Agent != "x" || !c.Remote {
			t.Errorf("the call is %+v with %+v", c, c.Spec)
		}
		if c := r.remoteCall(n, &agent.Event{Tool: "u"}, []string{"x"}); c.Spec.Name != "u" || c.Spec.Effects != "" {
			t.Errorf("the spec of an unknown tool is %+v", c.Spec)
		}
	}
	r.agent.Rights = nil
	none := &remote{}
	if r.noteSetup(inv, none, &agent.Event{Kind: agent.EventSetup, Digest: "e", Specs: []agent.ToolSpec{{}}}); none.specs != nil {
		t.Error("specs are kept without rights")
	}
}

// TestAPolicyIsAskedAboutTheSessionOfItsCall: a child learns the decision, and what is noted is
// what the policy said.
func TestAPolicyIsAskedAboutTheSessionOfItsCall(t *testing.T) {
	for _, tt := range []struct {
		c, want agent.Decision
		args    string
		noted   string
	}{{agent.Allow, agent.Allow, "{}", agreed}, {agent.AskPerson, agent.AskPerson, "{}", undecided}, {agent.Deny, agent.Deny, "{}", ""}, {agent.Allow, agent.Deny, "{", ""}} {
		r, inv := ruled(agent.Verdict{Decision: agent.Allow}, agent.Verdict{Decision: tt.c})
		asked := &noting{judging: judging{agent.Verdict{Decision: agent.Allow}, agent.Verdict{Decision: tt.c}}}
		r.agent.Rights = asked
		own := r.away(inv.Key)
		own.specs = []agent.ToolSpec{{Name: "t", Effects: agent.EffectsNone}}
		r.tree.remotes["mine"], r.tree.remotes["other"] = own, r.away("s.1.2")
		for _, session := range []string{"mine", "other", "none"} {
			answer, err := r.answerPolicy(t.Context(), inv, agent.Event{Session: session, Tool: "t", Args: tt.args})
			if v := readDecision(answer); err != nil || v.Decision != tt.want {
				t.Errorf("answerPolicy(%s, %s) = %s, %v, want %s", tt.c, session, answer, err, tt.want)
			}
		}
		if want := []agent.Effects{agent.EffectsNone, "", ""}; tt.args == "{}" && !cmp.Equal(asked.effects, want) {
			t.Errorf("asked about calls with the effects %q, want %q: only the session of the call knows its tools", asked.effects, want)
		}
		want := map[answered]bool{}
		if tt.noted != "" {
			want[answered{tt.noted, "t", tt.args}] = true
		}
		if got := r.child(inv).answers; len(got) != len(want) || !got[answered{tt.noted, "t", tt.args}] && tt.noted != "" {
			t.Errorf("noted after %s: %v, want %v", tt.c, got, want)
		}
	}
}

// TestWithoutAnAnswerOfTheCallerACallIsDenied.
func TestWithoutAnAnswerOfTheCallerACallIsDenied(t *testing.T) {
	r, inv := ruled(agent.Verdict{}, agent.Verdict{})
	if v := (&agent.Invocation{}).Consult(t.Context()); v.Decision != agent.Deny {
		t.Errorf("Consult without a run = %+v, want deny", v)
	}
	if v := inv.Consult(t.Context()); v.Decision != agent.Deny || !strings.Contains(v.Reason, "cannot be asked") {
		t.Errorf("Consult without a caller = %+v, want deny", v)
	}
	var asked []string
	for answer, want := range map[string]agent.Decision{`{"decision":"allow"}`: agent.Allow, `{"decision":"ask"}`: agent.AskPerson, `error`: agent.Deny} {
		r.tree.caller = func(ctx context.Context, e agent.Event, _ func(agent.Delta)) (json.RawMessage, error) {
			asked = append(asked, e.Question)
			if _, limited := ctx.Deadline(); !limited || e.What != "policy" {
				t.Errorf("the question %+v has no time limit", e)
			}
			if answer == "error" {
				return nil, errors.New("gone")
			}
			return json.RawMessage(answer), nil
		}
		if v := inv.Consult(t.Context()); v.Decision != want {
			t.Errorf("Consult after %s = %+v, want %s", answer, v, want)
		}
	}
	if len(asked) != 3 || asked[0] == asked[1] {
		t.Errorf("the questions are %q", asked)
	}
}

// TestRightsThatCannotBeReadPermitNothing.
func TestRightsThatCannotBeReadPermitNothing(t *testing.T) {
	for raw, want := range map[string]bool{"": false, "[]": false, "[1]": true, "false": true, "{": true} {
		if got := (&agent.Lease{Rights: json.RawMessage(raw)}).HasRights(); got != want {
			t.Errorf("HasRights of %q = %v", raw, got)
		}
	}
	own, broken := &judging{}, errors.New("broken")
	for _, tt := range []struct {
		raw  string
		read func(json.RawMessage) (agent.Rights, error)
		n    int
		err  string
	}{
		{"", nil, 2, ""}, {"[]", nil, 2, ""}, {"[1]", nil, 2, "cannot evaluate"}, {"[1]", func(json.RawMessage) (agent.Rights, error) { return nil, broken }, 2, "the rights of the lease: broken"}, {"[1]", func(json.RawMessage) (agent.Rights, error) {
			return &judging{v: agent.Verdict{Decision: agent.Deny}}, nil
		}, 3, ""},
	} {
		r := &Runner{Rights: own, Callers: []*agent.Agent{{Rights: own}, {}, {Rights: &judging{v: agent.Verdict{Reason: "x"}}}}, ReadRights: tt.read, Lease: agent.Lease{Rights: json.RawMessage(tt.raw)}}
		list, err := r.leaseRights()
		if len(list) != tt.n || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("leaseRights with %q = %d, %v; want %d, %q", tt.raw, len(list), err, tt.n, tt.err)
		}
	}
}

// TestAPanicContinuesWithoutAReport, and is an error with one.
func TestAPanicContinuesWithoutAReport(t *testing.T) {
	for _, report := range []func(string){nil, func(string) {}} {
		func() {
			defer func() {
				if v := recover(); (v != nil) != (report == nil) {
					t.Errorf("recovered %v", v)
				}
			}()
			if err := guard.Run(report, func() error { panic("x") }); err != guard.ErrPanic {
				t.Errorf("Guard = %v", err)
			}
		}()
	}
}

// TestResultsAreCutAtTheirLimit: whole results are not, and no notice is longer than what it leaves out.
func TestResultsAreCutAtTheirLimit(t *testing.T) {
	text := func(n int) string { return strings.Repeat("a", n) }
	g := &Gate{Redact: func(s string) string { return strings.ReplaceAll(s, "a", "b") }}
	for _, tt := range []struct {
		err   int
		parts []int
		want  []int // lengths of the parts; -1: cut
		clear bool  // nothing was redacted, since nothing is cut
	}{
		{0, []int{MaxResult}, []int{MaxResult}, true}, {0, []int{MaxResult + maxNotice}, []int{MaxResult + maxNotice}, true}, {0, []int{MaxResult + maxNotice + 1}, []int{-1}, false},
		{0, []int{MaxResult, maxNotice + 1}, []int{MaxResult, 0}, false}, {0, []int{1000, MaxResult + 1}, []int{1000, -1}, false}, {MaxResult, []int{maxNotice + 1}, []int{0}, false}, {MaxResult, []int{maxNotice}, []int{maxNotice}, true}, {MaxResult + 1, []int{5}, []int{5}, true}, {1000, []int{MaxResult + 1}, []int{-1}, false},
	} {
		var r agent.Result
		for _, n := range tt.parts {
			r.Parts = append(r.Parts, agent.Text(text(n)))
		}
		var err error
		if tt.err > 0 {
			err = errors.New(text(tt.err))
		}
		got, err := g.limit(r, err)
		total := 0
		if err != nil {
			if tt.err <= MaxResult && !strings.HasPrefix(err.Error(), "a") {
				t.Errorf("an error of %d bytes is redacted", tt.err)
			}
			if total = len(err.Error()); total > MaxResult || tt.err <= MaxResult && total != tt.err {
				t.Errorf("an error of %d bytes has %d", tt.err, total)
			}
		}
		for i, p := range got.Parts {
			total += len(p.Text)
			if tt.want[i] >= 0 && len(p.Text) != tt.want[i] || tt.want[i] < 0 && !strings.Contains(p.Text, "are left out here") {
				t.Errorf("%+v: part %d has %d bytes", tt, i, len(p.Text))
			}
			if strings.Contains(p.Text, "aaa") != (tt.clear && len(p.Text) > 2) {
				t.Errorf("%+v: part %d is redacted: %v", tt, i, !tt.clear)
			}
		}
		if total > MaxResult+maxNotice {
			t.Errorf("%+v: %d bytes", tt, total)
		}
	}
	for _, tt := range []struct{ data, kept int }{{maxMedia, maxMedia}, {maxMedia + 1, 0}} {
		got, _ := g.limit(agent.Result{Parts: []agent.Part{{Data: make([]byte, tt.data), MIME: "image/png"}}}, nil)
		if len(got.Parts[0].Data) != tt.kept || tt.kept == 0 && !strings.Contains(got.Parts[0].Text, "is left out") {
			t.Errorf("an attachment of %d bytes becomes %d and %q", tt.data, len(got.Parts[0].Data), got.Parts[0].Text)
		}
	}
	if got := cutMiddle(strings.Repeat("é", 500), 400); len(got) > 400 || strings.ContainsRune(got, '\uFFFD') || !strings.HasSuffix(got, "é") {
		t.Errorf("cutMiddle = %q", got)
	}
}

// toolOf is a tool that calls f.
type toolOf func() (agent.Result, error)

func (f toolOf) Spec() agent.ToolSpec { return agent.ToolSpec{Name: "t"} }

func (f toolOf) Call(context.Context, *agent.Invocation) (agent.Result, error) { return f() }

// TestTheEndOfACallSaysWhetherItRan: a call that may have run in an earlier process has an unknown
// outcome if it cannot be started again, and what is not recorded ends the call.
func TestTheEndOfACallSaysWhetherItRan(t *testing.T) {
	full := errors.New("disk full")
	refuse := func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.Deny, Reason: "no"}
	}
	for name, tt := range map[string]struct {
		policy  agent.Policy
		again   bool
		fails   agent.EventKind // to be recorded
		err     error           // of the tool
		want    string
		args    string // of the end: they are in the start, if there is one
		started bool
	}{
		"it runs":                {want: "done", started: true},
		"it fails":               {err: errors.New("broke"), want: "error: broke", started: true},
		"it runs again":          {again: true, want: "done", started: true},
		"it fails again":         {again: true, err: errors.New("broke"), want: "error: broke", started: true},
		"refused":                {policy: refuse, want: "error: not run: refused by policy: no", args: "{}"},
		"refused again":          {policy: refuse, again: true, want: agent.ErrUnknownOutcome.Error(), args: "{}"},
		"no verdict is recorded": {policy: refuse, fails: agent.EventVerdict},
		"no start is recorded":   {fails: agent.EventCallStarted},
		"no end is recorded":     {fails: agent.EventCallEnded, started: true},
	} {
		ran := false
		tool := toolOf(func() (agent.Result, error) {
			ran = true
			return agent.TextResult(map[bool]string{true: "done"}[tt.err == nil]), tt.err
		})
		inv := &agent.Invocation{Call: agent.ToolCall{Name: "t", Args: "{}"}, Spec: tool.Spec(), Again: tt.again}
		var end agent.Event
		err := (&Gate{Policy: tt.policy}).Call(t.Context(), tool, inv, func(e agent.Event) error {
			if e.Kind == tt.fails {
				return full
			}
			end = e
			return nil
		})
		if (err == full) != (tt.fails != "") || ran != tt.started {
			t.Errorf("%s: %v, ran: %v", name, err, ran)
		}
		if tt.fails == "" && (end.Kind != agent.EventCallEnded || !strings.Contains(end.Result.Text(), tt.want) || end.Args != tt.args) {
			t.Errorf("%s: %s %q with the arguments %q, want %q with %q", name, end.Kind, end.Result.Text(), end.Args, tt.want, tt.args)
		}
	}
}

// placed is a tool with a folder and a sandbox.
type placed struct{ toolOf }

func (placed) WorkDir() string { return "/work" }

func (placed) Sandbox() string { return "a sandbox" }

// TestRulesJudgeACallWhereItsToolRuns: with its folder and its sandbox.
func TestRulesJudgeACallWhereItsToolRuns(t *testing.T) {
	dir, box := "", ""
	g := &Gate{Policy: func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		dir, box = inv.Dir, inv.Sandbox
		return agent.Verdict{Decision: agent.Allow}
	}}
	inv := &agent.Invocation{Call: agent.ToolCall{Name: "t", Args: "{}"}}
	err := g.Call(t.Context(), placed{func() (agent.Result, error) { return agent.Result{}, nil }}, inv, func(e agent.Event) error {
		if e.Kind == agent.EventCallStarted && e.Sandbox != "a sandbox" {
			t.Errorf("the start says that the sandbox is %q", e.Sandbox)
		}
		return nil
	})
	if err != nil || dir != "/work" || box != "a sandbox" {
		t.Errorf("the policy saw %q and %q (%v)", dir, box, err)
	}
}

// TestADeniedCallIsShownToNoPolicy: external policies are asked only about calls that may run.
func TestADeniedCallIsShownToNoPolicy(t *testing.T) {
	for _, tt := range []struct {
		runner, own agent.Decision
		external    bool
		want        string
	}{{agent.Allow, agent.Allow, true, "ask: policy"}, {agent.AskPerson, agent.Allow, true, "ask: policy"}, {agent.Allow, agent.Allow, false, "allow: "}, {agent.Deny, agent.Allow, true, "deny: runner"}, {agent.Allow, agent.Deny, true, "deny: rule"}, {"odd", agent.Allow, true, "odd: runner"}} {
		r, inv := ruled(agent.Verdict{Decision: tt.own, Reason: map[agent.Decision]string{agent.Deny: "rule"}[tt.own], External: tt.external}, agent.Verdict{Decision: agent.AskPerson, Reason: "policy"})
		if r.tree.policy = nil; tt.runner != agent.Allow {
			r.tree.policy = func(context.Context, *agent.Invocation) agent.Verdict {
				return agent.Verdict{Decision: tt.runner, Reason: map[agent.Decision]string{agent.AskPerson: "policy"}[tt.runner]}
			}
			if (agent.Verdict{Decision: tt.runner}).Denies() {
				r.tree.policy = func(context.Context, *agent.Invocation) agent.Verdict {
					return agent.Verdict{Decision: tt.runner, Reason: "runner"}
				}
			}
		}
		if v := r.tree.decide(t.Context(), inv); string(v.Decision)+": "+v.Reason != tt.want {
			t.Errorf("decide with %+v = %+v", tt, v)
		}
	}
}
