package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAnAnswerToAQuestionIsReadStrictly: only an exact decision to allow allows.
func TestAnAnswerToAQuestionIsReadStrictly(t *testing.T) {
	for answer, want := range map[string]Decision{
		`"allow"`: Allow, `"ask"`: AskPerson, `"deny"`: Deny, `{"decision":"allow","reason":"r"}`: Allow, `{"decision":"allow","more":1}`: Allow,
		`{"Decision":"allow"}`: Deny, `{"deciſion":"allow"}`: Deny, `{"decision":"deny","decision":"allow"}`: Deny, `{"decision":"deny","Decision":"allow"}`: Deny,
		`"Allow"`: "Allow", `{}`: Deny, `["allow"]`: Deny, `allow`: Deny, ``: Deny, `null`: Deny, `"allow" "allow"`: Deny, `{"decision":true}`: Deny,
	} {
		if v := readDecision(json.RawMessage(answer)); v.Decision != want {
			t.Errorf("readDecision(%s) = %+v, want %s", answer, v, want)
		}
	}
	full := Verdict{Decision: AskPerson, Reason: "r", Rule: "u", Reviewer: "human", Approval: "always"}
	raw, _ := json.Marshal(full)
	if v := readDecision(raw); v != full {
		t.Errorf("readDecision(%s) = %+v", raw, v)
	}
}

// judging are rights that decide v, and consult c.
type judging struct{ v, c Verdict }

func (j *judging) Decide(*Invocation) Verdict                   { return j.v }
func (j *judging) Consult(context.Context, *Invocation) Verdict { return j.c }
func (j *judging) Hides(*Invocation) bool                       { return j.v.Decision == Deny }
func (j *judging) MarshalJSON() ([]byte, error)                 { return []byte(`[{"source":"s"}]`), nil }

// noting are rights that note the effects of the calls about which they are asked.
type noting struct {
	judging
	effects []Effects
}

func (n *noting) Consult(ctx context.Context, inv *Invocation) Verdict {
	n.effects = append(n.effects, inv.Spec.Effects)
	return n.judging.Consult(ctx, inv)
}

// ruled is a run whose agent has rights, and a call of an agent in another process.
func ruled(v, c Verdict) (*run, *Invocation) {
	t := &tree{now: time.Now, inboxes: &inboxes{}, questionTime: time.Minute, maxDepth: DefaultMaxDepth, remotes: map[string]*remote{}}
	r := &run{tree: t, agent: &Agent{Slug: "root", Rights: &judging{v, c}}, session: &Session{}}
	t.root = r
	return r, &Invocation{Call: ToolCall{Name: "expert_x"}, Spec: ToolSpec{Name: "expert_x", Agent: "x"}, Key: "s.1.1", Host: &call{run: r}}
}

// TestCallsOfAChildNeedWhatTheirRightsRequire: an agent in another process is ended if it starts
// a call without what the rights of its callers require.
func TestCallsOfAChildNeedWhatTheirRightsRequire(t *testing.T) {
	allow, ask, deny := Verdict{Decision: Allow}, Verdict{Decision: AskPerson, Reason: "r"}, Verdict{Decision: Deny, Reason: "no"}
	external := func(v Verdict) Verdict { v.External = true; return v }
	const other = "the other"
	for _, tt := range []struct {
		v    Verdict
		by   []string
		args string
		want string
	}{
		{allow, nil, "{}", ""}, {deny, []string{approved, agreed}, "{}", `it called "t": no`}, {Verdict{Decision: "x"}, []string{approved}, "{}", "it called"}, {allow, nil, "{", "it called"},
		{ask, nil, "{}", "without the consent of a person: r"}, {ask, []string{approved}, "{}", ""}, {ask, []string{other}, "{}", "of a person"}, {ask, []string{agreed}, "{}", "of a person"},
		{external(allow), nil, "{}", "consent of its caller's policy"}, {external(allow), []string{agreed}, "{}", ""}, {external(allow), []string{undecided}, "{}", "of a person"}, {external(allow), []string{undecided, approved}, "{}", ""}, {external(allow), []string{approved}, "{}", "caller's policy"},
		{external(ask), []string{approved}, "{}", "caller's policy"}, {external(ask), []string{agreed}, "{}", "of a person"}, {external(ask), []string{agreed, approved}, "{}", ""}, {external(ask), []string{undecided, approved}, "{}", ""},
	} {
		r, inv := ruled(tt.v, Verdict{})
		s := &remote{session: &Session{}, callKey: inv.Key}
		s.session.Agent = "x"
		for _, by := range tt.by {
			args := tt.args
			if by == other { // the answer was about other arguments
				by, args = approved, `{"a":1}`
			}
			r.note(inv, Event{Tool: "t", Args: args}, by)
		}
		err := r.permitted(inv, s, &Event{Kind: EventCallStarted, Tool: "t", Args: tt.args})
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrChild) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("permitted with %+v and consent of %q = %v, want %q", tt.v, tt.by, err, tt.want)
		}
		if err := r.permitted(inv, s, &Event{Kind: EventCallEnded, Tool: "t", Args: tt.args}); err != nil {
			t.Errorf("permitted = %v about the end of a call", err)
		}
	}
	// What permits a call of an ordinary tool permits none of an agent with the same key.
	r, inv := ruled(ask, Verdict{})
	inv.Spec.Agent = ""
	r.note(inv, Event{Tool: "t", Args: "{}"}, approved)
	if len(r.tree.children) > 0 {
		t.Error("an answer is kept for a call that runs no agent")
	}
}

// TestTheToolsOfAChildAreThoseOfItsSetup: the rights judge a call with the spec that its agent was
// told to have.
func TestTheToolsOfAChildAreThoseOfItsSetup(t *testing.T) {
	r, inv := ruled(Verdict{Decision: Allow}, Verdict{})
	s := &remote{session: &Session{}}
	s.session.Agent = "x"
	r.noteSetup(inv, s, &Event{Kind: EventSetup, Digest: "d", Specs: []ToolSpec{{Name: "t", Effects: EffectsNone}, {Name: "other"}}})
	again := &remote{session: &Session{}}
	r.noteSetup(inv, again, &Event{Kind: EventAnswer, Digest: "d"})
	if again.specs != nil {
		t.Error("an event that is no setup has tools")
	}
	r.noteSetup(inv, again, &Event{Kind: EventSetup, Digest: "d"}) // the specs are known by the digest
	for _, n := range []*remote{s, again} {
		if c := r.remoteCall(n, &Event{Tool: "t"}, []string{"root", "x"}); c.Spec.Effects != EffectsNone || c.Agent != "x" || !c.Remote {
			t.Errorf("the call is %+v with %+v", c, c.Spec)
		}
		if c := r.remoteCall(n, &Event{Tool: "u"}, []string{"x"}); c.Spec.Name != "u" || c.Spec.Effects != "" {
			t.Errorf("the spec of an unknown tool is %+v", c.Spec)
		}
	}
	r.agent.Rights = nil
	none := &remote{}
	if r.noteSetup(inv, none, &Event{Kind: EventSetup, Digest: "e", Specs: []ToolSpec{{}}}); none.specs != nil {
		t.Error("specs are kept without rights")
	}
}

// TestAPolicyIsAskedAboutTheSessionOfItsCall: a child learns the decision, and what is noted is
// what the policy said.
func TestAPolicyIsAskedAboutTheSessionOfItsCall(t *testing.T) {
	for _, tt := range []struct {
		c, want Decision
		args    string
		noted   string
	}{{Allow, Allow, "{}", agreed}, {AskPerson, AskPerson, "{}", undecided}, {Deny, Deny, "{}", ""}, {Allow, Deny, "{", ""}} {
		r, inv := ruled(Verdict{Decision: Allow}, Verdict{Decision: tt.c})
		asked := &noting{judging: judging{Verdict{Decision: Allow}, Verdict{Decision: tt.c}}}
		r.agent.Rights = asked
		own := &remote{session: &Session{}, callKey: inv.Key, specs: []ToolSpec{{Name: "t", Effects: EffectsNone}}}
		r.tree.remotes["mine"], r.tree.remotes["other"] = own, &remote{session: &Session{}, callKey: "s.1.2"}
		for _, session := range []string{"mine", "other", "none"} {
			answer, err := r.answerPolicy(t.Context(), inv, Event{Session: session, Tool: "t", Args: tt.args})
			if v := readDecision(answer); err != nil || v.Decision != tt.want {
				t.Errorf("answerPolicy(%s, %s) = %s, %v, want %s", tt.c, session, answer, err, tt.want)
			}
		}
		if want := []Effects{EffectsNone, "", ""}; tt.args == "{}" && !cmp.Equal(asked.effects, want) {
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
	r, inv := ruled(Verdict{}, Verdict{})
	if v := (&Invocation{}).Consult(t.Context()); v.Decision != Deny {
		t.Errorf("Consult without a run = %+v, want deny", v)
	}
	if v := inv.Consult(t.Context()); v.Decision != Deny || !strings.Contains(v.Reason, "cannot be asked") {
		t.Errorf("Consult without a caller = %+v, want deny", v)
	}
	var asked []string
	for answer, want := range map[string]Decision{`{"decision":"allow"}`: Allow, `{"decision":"ask"}`: AskPerson, `error`: Deny} {
		r.tree.caller = func(ctx context.Context, e Event) (json.RawMessage, error) {
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
		if got := hasRights(json.RawMessage(raw)); got != want {
			t.Errorf("hasRights(%q) = %v", raw, got)
		}
	}
	own, broken := &judging{}, errors.New("broken")
	for _, tt := range []struct {
		raw  string
		read func(json.RawMessage) (Rights, error)
		n    int
		err  string
	}{
		{"", nil, 2, ""}, {"[]", nil, 2, ""}, {"[1]", nil, 2, "cannot evaluate"}, {"[1]", func(json.RawMessage) (Rights, error) { return nil, broken }, 2, "the rights of the lease: broken"}, {"[1]", func(json.RawMessage) (Rights, error) { return &judging{v: Verdict{Decision: Deny}}, nil }, 3, ""},
	} {
		r := &Runner{Rights: own, Callers: []*Agent{{Rights: own}, {}, {Rights: &judging{v: Verdict{Reason: "x"}}}}, ReadRights: tt.read, Lease: Lease{Rights: json.RawMessage(tt.raw)}}
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
			if err := Guard(report, func() error { panic("x") }); err != ErrPanic {
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
		var r Result
		for _, n := range tt.parts {
			r.Parts = append(r.Parts, Text(text(n)))
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
		got, _ := g.limit(Result{Parts: []Part{{Data: make([]byte, tt.data), MIME: "image/png"}}}, nil)
		if len(got.Parts[0].Data) != tt.kept || tt.kept == 0 && !strings.Contains(got.Parts[0].Text, "is left out") {
			t.Errorf("an attachment of %d bytes becomes %d and %q", tt.data, len(got.Parts[0].Data), got.Parts[0].Text)
		}
	}
	if got := cutMiddle(strings.Repeat("é", 500), 400); len(got) > 400 || strings.ContainsRune(got, '\uFFFD') || !strings.HasSuffix(got, "é") {
		t.Errorf("cutMiddle = %q", got)
	}
}

// toolOf is a tool that calls f.
type toolOf func() (Result, error)

func (f toolOf) Spec() ToolSpec                                    { return ToolSpec{Name: "t"} }
func (f toolOf) Call(context.Context, *Invocation) (Result, error) { return f() }

// TestTheEndOfACallSaysWhetherItRan: a call that may have run in an earlier process has an unknown
// outcome if it cannot be started again, and what is not recorded ends the call.
func TestTheEndOfACallSaysWhetherItRan(t *testing.T) {
	full := errors.New("disk full")
	refuse := func(context.Context, *Invocation) Verdict { return Verdict{Decision: Deny, Reason: "no"} }
	for name, tt := range map[string]struct {
		policy  Policy
		again   bool
		fails   EventKind // to be recorded
		err     error     // of the tool
		want    string
		args    string // of the end: they are in the start, if there is one
		started bool
	}{
		"it runs":                {want: "done", started: true},
		"it fails":               {err: errors.New("broke"), want: "error: broke", started: true},
		"it runs again":          {again: true, want: "done", started: true},
		"it fails again":         {again: true, err: errors.New("broke"), want: "error: broke", started: true},
		"refused":                {policy: refuse, want: "error: not run: refused by policy: no", args: "{}"},
		"refused again":          {policy: refuse, again: true, want: ErrUnknownOutcome.Error(), args: "{}"},
		"no verdict is recorded": {policy: refuse, fails: EventVerdict},
		"no start is recorded":   {fails: EventCallStarted},
		"no end is recorded":     {fails: EventCallEnded, started: true},
	} {
		ran := false
		tool := toolOf(func() (Result, error) {
			ran = true
			return TextResult(map[bool]string{true: "done"}[tt.err == nil]), tt.err
		})
		inv := &Invocation{Call: ToolCall{Name: "t", Args: "{}"}, Spec: tool.Spec(), Again: tt.again}
		var end Event
		err := (&Gate{Policy: tt.policy}).Call(t.Context(), tool, inv, func(e Event) error {
			if e.Kind == tt.fails {
				return full
			}
			end = e
			return nil
		})
		if (err == full) != (tt.fails != "") || ran != tt.started {
			t.Errorf("%s: %v, ran: %v", name, err, ran)
		}
		if tt.fails == "" && (end.Kind != EventCallEnded || !strings.Contains(end.Result.Text(), tt.want) || end.Args != tt.args) {
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
	g := &Gate{Policy: func(_ context.Context, inv *Invocation) Verdict {
		dir, box = inv.Dir, inv.Sandbox
		return Verdict{Decision: Allow}
	}}
	inv := &Invocation{Call: ToolCall{Name: "t", Args: "{}"}}
	err := g.Call(t.Context(), placed{func() (Result, error) { return Result{}, nil }}, inv, func(e Event) error {
		if e.Kind == EventCallStarted && e.Sandbox != "a sandbox" {
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
		runner, own Decision
		external    bool
		want        string
	}{{Allow, Allow, true, "ask: policy"}, {AskPerson, Allow, true, "ask: policy"}, {Allow, Allow, false, "allow: "}, {Deny, Allow, true, "deny: runner"}, {Allow, Deny, true, "deny: rule"}, {"odd", Allow, true, "odd: runner"}} {
		r, inv := ruled(Verdict{Decision: tt.own, Reason: map[Decision]string{Deny: "rule"}[tt.own], External: tt.external}, Verdict{Decision: AskPerson, Reason: "policy"})
		if r.tree.policy = nil; tt.runner != Allow {
			r.tree.policy = func(context.Context, *Invocation) Verdict {
				return Verdict{Decision: tt.runner, Reason: map[Decision]string{AskPerson: "policy"}[tt.runner]}
			}
			if strictness(tt.runner) == 2 {
				r.tree.policy = func(context.Context, *Invocation) Verdict { return Verdict{Decision: tt.runner, Reason: "runner"} }
			}
		}
		if v := r.tree.decide(t.Context(), inv); string(v.Decision)+": "+v.Reason != tt.want {
			t.Errorf("decide with %+v = %+v", tt, v)
		}
	}
}

// TestVerdictsAreCombinedStrictly for every pair.
func TestVerdictsAreCombinedStrictly(t *testing.T) {
	list := []Verdict{{Decision: Allow}, {Decision: Allow, Rule: "a"}, {Decision: AskPerson, Rule: "b", Approval: "effects"}, {Decision: AskPerson, Rule: "c", Reviewer: "human", Approval: "always"}, {Decision: Deny, Rule: "d"}, {Decision: "odd", Rule: "e"}}
	for i, v := range list {
		for j, w := range list {
			got := v.And(w)
			if strictness(got.Decision) != max(strictness(v.Decision), strictness(w.Decision)) {
				t.Errorf("%+v and %+v are %+v", v, w, got)
			}
			if strictness(v.Decision) == strictness(w.Decision) && v.Rule != "" && got.Rule != v.Rule || i == 0 && got.Rule != w.Rule {
				t.Errorf("%+v and %+v: the rule is %q", v, w, got.Rule)
			}
			if asks := v.Decision == AskPerson && w.Decision == AskPerson; asks && (max(i, j) == 3) != (got.Reviewer == "human" && got.Approval == "always") {
				t.Errorf("%+v and %+v are %+v", v, w, got)
			}
		}
	}
	if got := (Verdict{Decision: Allow, External: true, Args: "x"}).And(Verdict{Decision: Deny, Rule: "d"}); !cmp.Equal(got, Verdict{Decision: Deny, Rule: "d", External: true, Args: "x"}) {
		t.Errorf("And = %+v", got)
	}
	for _, tt := range [][3]string{{"", "effects", "effects"}, {"required", "always", "required"}, {"odd", "effects", "effects"}, {"odd", "odd", ""}} {
		if got := stricterApproval(tt[0], tt[1]); got != tt[2] {
			t.Errorf("stricterApproval(%q, %q) = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}
