package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// TestTurnsThatRepeatThemselvesAreCounted if there is a limit.
func TestTurnsThatRepeatThemselvesAreCounted(t *testing.T) {
	for _, tt := range []struct {
		warn, end int
		counted   bool
		third     string // the end of the notice after the third turn
	}{
		{0, 0, false, ""}, {-1, -1, false, ""}, {-1, 0, false, ""}, {0, 9, true, ""}, {3, 0, true, "or answer.]"}, {3, -1, true, "or answer.]"}, {3, 3, true, "or answer.]"}, {3, 4, true, "After 4 times the run ends.]"}, {4, 9, true, ""},
	} {
		s := &Session{}
		s.Limits.LoopWarn, s.Limits.LoopEnd = tt.warn, tt.end
		for turn := 1; turn <= 3; turn++ {
			results := []ToolResult{{Parts: []Part{Text("r")}}}
			s.noteLoop([]ToolCall{{Name: "t", Args: "{}"}}, results)
			if s.Loop.Count != map[bool]int{true: turn}[tt.counted] {
				t.Errorf("%+v: after turn %d the count is %d", tt, turn, s.Loop.Count)
			}
			text := results[0].Text()
			if want := turn == 3 && tt.third != ""; want != (text != "r") || want && !strings.HasSuffix(text, tt.third) {
				t.Errorf("%+v: the result of turn %d is %q", tt, turn, text)
			}
			if ends := s.looping() != nil; ends != (tt.end > 0 && turn >= tt.end) {
				t.Errorf("%+v: turn %d ends the run: %t", tt, turn, ends)
			}
		}
	}
	for n, want := range map[int]string{0: "0th", 1: "first", 2: "second", 5: "fifth", 6: "6th", 10: "10th", 11: "11th", 12: "12th", 13: "13th", 20: "20th", 21: "21st", 22: "22nd", 23: "23rd", 24: "24th", 101: "101st", 111: "111th", 112: "112th"} {
		if got := ordinal(n); got != want {
			t.Errorf("ordinal(%d) = %s, want %s", n, got, want)
		}
	}
	var list []ToolCall
	for n, want := range []string{"", "a", "a, b", "a, b, c", "a, b, c, d", "a, b, c, d, e", "a, b, c, d, e, 1 others", "a, b, c, d, e, 2 others"} {
		if got := callNames(append(list, list...)); got != want {
			t.Errorf("%d names are %q, want %q", n, got, want)
		}
		list = append(list, ToolCall{Name: string(rune('a' + n))})
	}
}

// TestOnlyAnAnswerOfTheRunIsJudged.
func TestOnlyAnAnswerOfTheRunIsJudged(t *testing.T) {
	for _, tt := range []struct {
		answers, turns int
		want           StepKind
	}{{3, 1, StepAccept}, {3, 0, StepApply}, {0, 1, StepApply}, {0, 0, StepApply}} {
		s := &Session{}
		s.Running, s.Messages, s.Limits.Answers, s.RunTurns = true, []Message{UserText("u"), {Role: RoleAssistant, Parts: []Part{Text("a")}}}, tt.answers, tt.turns
		step := s.Next()
		if step.Kind != tt.want {
			t.Errorf("%+v: the step is %d", tt, step.Kind)
		}
		if tt.want == StepApply && (step.Events[0].Text == "a") != (tt.turns > 0) {
			t.Errorf("%+v: the answer is %q", tt, step.Events[0].Text)
		}
	}
}

// TestAPlanForAPerson.
func TestAPlanForAPerson(t *testing.T) {
	p := Plan{{ID: "a", Title: "A", State: TaskDone, Note: "n"}, {ID: "b", Title: "B", State: TaskDropped}, {ID: "c", Title: "C"}, {ID: "d", Title: "D", State: TaskDoing, Parent: "c"}}
	if got, want := p.String(), "[x] a: A (n)\n[-] b: B\n[ ] c: C\n  [~] d: D\n"; got != want {
		t.Errorf("the plan is %q, want %q", got, want)
	}
	if got, want := p.Progress(), "1 of 3 tasks are done"; got != want {
		t.Errorf("Progress = %q, want %q", got, want)
	}
}

// TestWhatErrorsAre for errors.Is, and their texts.
func TestWhatErrorsAre(t *testing.T) {
	for status, want := range map[Status]error{StatusInterrupted: context.Canceled, StatusDeadline: context.DeadlineExceeded, StatusFailed: nil} {
		for _, target := range []error{context.Canceled, context.DeadlineExceeded, ErrBudget} {
			if got := errors.Is(&EndError{Status: status}, target); got != (target == want) {
				t.Errorf("%s is %v: %t", status, target, got)
			}
		}
	}
	for want, e := range map[string]ModelError{"m": {Message: "m"}, "c m": {Message: "c m", Code: "c"}, "HTTP 500: m": {Message: "m", Status: 500}, "HTTP 500 (c): m": {Message: "m", Status: 500, Code: "c"}} {
		if got := e.Error(); got != want {
			t.Errorf("%+v says %q, want %q", e, got, want)
		}
	}
	gone, wrapped := errors.New("gone"), fmt.Errorf("gone: %w", context.Canceled)
	for _, cause := range []error{nil, gone, wrapped} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := ContextError(ctx)
		if want := max("context canceled", map[bool]string{true: "gone"}[cause == gone]); cause != nil && (err.Error() != cause.Error() || !errors.Is(err, cause)) || cause == nil && err.Error() != want || !errors.Is(err, context.Canceled) {
			t.Errorf("after %v, the error is %v", cause, err)
		}
		if (err == context.Cause(ctx)) != (cause != gone) {
			t.Errorf("after %v, the error is %#v", cause, err)
		}
	}
}

// TestWhichMessageBeginsARun: one of the user that belongs to none.
func TestWhichMessageBeginsARun(t *testing.T) {
	for _, tt := range []struct {
		e    Event
		want bool
	}{{Event{Kind: EventMessage}, true}, {Event{Kind: EventMessage, Opening: true}, false}, {Event{Kind: EventMessage, Input: true}, false}, {Event{Kind: EventMessage, Closing: true}, false}, {Event{Kind: EventMessage, Attempt: 1}, false}, {Event{Kind: EventAnswer}, false}, {Event{Kind: EventResume}, false}} {
		if got := tt.e.begins(); got != tt.want {
			t.Errorf("%+v begins a run: %t", tt.e, got)
		}
	}
}

// TestOneNameOfAnArgumentIsJudged: the aliases of a tool are replaced, and two values are refused.
func TestOneNameOfAnArgumentIsJudged(t *testing.T) {
	spec := ToolSpec{Aliases: map[string]string{"cmd": "command", "script": "command"}}
	for args, want := range map[string]string{
		`{ "command" : "x" }`: `{ "command" : "x" }`, `{"cmd":"x"}`: `{"command":"x"}`, `{"a":1,"cmd":"x","b":{"cmd":2}}`: `{"a":1,"command":"x","b":{"cmd":2}}`, `{"cmd":"x","script":"x"}`: `{"command":"x"}`,
		`{"cmd":"x","command":"x"}`: `{"command":"x"}`, `{"cmd":"x","command":""}`: `{"command":"x"}`, `{"cmd":"","command":"x"}`: `{"command":"x"}`, `{"cmd":"x","command":null}`: `{"command":"x"}`, `{"cmd":null,"command":"x"}`: `{"command":"x"}`,
		`{"cmd":"x","command":"y"}`: "", `{"cmd":"x","script":"y"}`: "", `{"cmd":"x"`: "", ``: ``, `{}`: `{}`,
	} {
		inv := &Invocation{Call: ToolCall{Args: args}, Spec: spec}
		err := inv.replaceAliases()
		if (err == nil) != (want != "" || args == "") || err == nil && inv.Call.Args != want {
			t.Errorf("%s becomes %s, %v", args, inv.Call.Args, err)
		}
		if err == nil && strings.Contains(want, `"x"`) && inv.Values()["command"] != "x" {
			t.Errorf("the values of %s are %v", args, inv.Values())
		}
	}
}

// TestTheEnvironmentOfACall has what is known of it, and nothing that no process can be given.
func TestTheEnvironmentOfACall(t *testing.T) {
	inv := &Invocation{Session: "s", Key: "s.1.1", Agent: "a", Level: 2, Turn: 1}
	env := inv.Environ()
	if !slices.Contains(env, toolenv.Depth+"=3") || !slices.Contains(env, toolenv.Call+"=s.1.1") || len(env) != 9 {
		t.Errorf("the environment is %q", env)
	}
	inv.AgentSource, inv.NoLinks, inv.Trace = "/a.json", true, "00-1"
	if more := inv.Environ(); !slices.Equal(more, append(env, toolenv.File+"=/a.json", toolenv.NoLinks+"=1", toolenv.Trace+"=00-1")) {
		t.Errorf("the environment is %q", more)
	}
	inv.AgentSource, inv.Agent = "a\x00", strings.Repeat("a", toolenv.MaxEntry)
	if less := inv.Environ(); len(less) != 8 || slices.ContainsFunc(less, func(e string) bool { return !toolenv.Fits(e) }) {
		t.Errorf("the environment has %d entries", len(less))
	}
}

// TestAmountsInDollarsAreLimited: 64 bytes, of which four are the exponent.
func TestAmountsInDollarsAreLimited(t *testing.T) {
	for text, ok := range map[string]bool{"0." + strings.Repeat("0", 61) + "1": true, "0." + strings.Repeat("0", 62) + "1": false, "1e-08": true, "1e-008": false, "1E+09": true, "1e8": true, "e5": false, "1e": false} {
		if _, err := ParseMoney(text); (err == nil) != ok {
			t.Errorf("ParseMoney(%s): %v", text, err)
		}
	}
}

// TestALedgerKnowsItsOwnSessions: those above are only as many as there are agents.
func TestALedgerKnowsItsOwnSessions(t *testing.T) {
	begin := func(session, parent string) *Event {
		return &Event{Kind: EventSession, Session: session, Parent: parent}
	}
	start := func(session, key string) *Event { return &Event{Kind: EventCallStarted, Session: session, Key: key} }
	record := []Event{*begin("r", ""), *begin("b", "r.1.1")}
	two := []*Agent{{Slug: "root"}, {Slug: "b", Budget: Budget{Calls: ptr[int64](5)}}}
	for name, tt := range map[string]struct {
		agents []*Agent
		record []Event
		then   []*Event
		want   int64
	}{
		"its own":            {two, record, []*Event{start("b", "b.1.1")}, 4},
		"the one above":      {two, record, []*Event{start("r", "r.1.1")}, 5},
		"above its agents":   {two[1:], record, []*Event{start("r", "r.1.1"), start("b", "b.1.1")}, 4},
		"another at the top": {two, record[1:], []*Event{begin("z", ""), start("z", "z.1.1")}, 5},
	} {
		l := NewLedger(Lease{}, tt.agents, tt.record, "b")
		for i, e := range tt.then {
			l.Note(int64(i+1), e)
		}
		if left, _ := l.Left(); *left.Calls != tt.want {
			t.Errorf("%s: %d calls are left, want %d", name, *left.Calls, tt.want)
		}
		if of := l.run("z"); of != nil {
			t.Errorf("%s: a session of nobody belongs to %s", name, of.agent.Slug)
		}
	}
	// An event that the reservation has seen does not end it.
	for seq, over := range map[int64]bool{2: true, 3: false, 4: false} {
		l := NewLedger(Lease{}, two, record, "b")
		for i, e := range []*Event{&record[0], &record[1], {Kind: EventCallEnded, Session: "r", Key: "r.1.1"}} {
			l.Note(int64(i+1), e)
		}
		if got := l.over(&Event{Kind: EventReservation, Session: "b", Seq: seq}); got != over {
			t.Errorf("a reservation after %d events is over: %t", seq, got)
		}
	}
}

// TestAttachmentsAreKeptUpToTheirLimit, beside a text that is cut too.
func TestAttachmentsAreKeptUpToTheirLimit(t *testing.T) {
	g := &Gate{Redact: func(s string) string { return strings.ReplaceAll(s, "a", "b") }}
	image := Part{Kind: PartMedia, Text: "a", Data: make([]byte, maxMedia)}
	if got, _ := g.limit(Result{Parts: []Part{image}}, nil); got.Parts[0].Text != "a" {
		t.Error("a result within its limits is changed")
	}
	if got, _ := g.limit(Result{Parts: []Part{Text(strings.Repeat("x", 2*MaxResult)), image}}, nil); len(got.Parts[1].Data) != maxMedia {
		t.Error("an attachment within its limit is left out")
	}
	text := strings.Repeat("h", 600) + strings.Repeat("t", 600)
	cut := cutMiddle(text, 400)
	heads, tails, left := strings.Count(strings.Split(cut, "\n")[0], "h"), 0, 0
	lines := strings.Split(cut, "\n")
	tails = strings.Count(lines[len(lines)-1], "t")
	if _, err := fmt.Sscanf(lines[2], "[%d of 1200 bytes", &left); err != nil || heads == 0 || tails == 0 || heads+tails+left != 1200 {
		t.Errorf("%q: %d + %d + %d bytes of 1200, %v", cut, heads, tails, left, err)
	}
}

// hiding offers no tools, but knows one.
type hiding struct{}

func (hiding) Tools(context.Context) ([]Tool, error) { return nil, nil }
func (hiding) Hidden(_ context.Context, _ *State, name string) error {
	if name == "h" {
		return errors.New("activate it")
	}
	return nil
}

// TestACallOfAHiddenToolSaysHowToGetIt, unless it had started: then its outcome is not known.
func TestACallOfAHiddenToolSaysHowToGetIt(t *testing.T) {
	for name, want := range map[string]string{"h": "activate it", "i": "there is no tool"} {
		for _, state := range []string{"", callStarted} {
			s := &Session{}
			s.ID, s.Running, s.Finish, s.Turn, s.RunTurns = "s", true, FinishStop, 1, 1
			s.Messages = []Message{UserText("go"), {Role: RoleAssistant, Calls: []ToolCall{{ID: "a", Name: name, Args: "{}"}, {ID: "b", Name: name, Args: "{}"}}}}
			s.Calls = []CallState{{State: state}, {State: state}}
			s.derive()
			r := &Runner{Agent: &Agent{Provider: &answersOf{said("done", Usage{})}, Toolsets: []Toolset{hiding{}}}, From: &Resume{Session: s}}
			if _, err := r.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state == callStarted {
				want = "not run again"
			}
			for _, result := range r.Session().Messages[2].Results {
				if !strings.Contains(result.Text(), want) {
					t.Errorf("%s, %q: the result is %q, want %q", name, state, result.Text(), want)
				}
			}
		}
	}
}
