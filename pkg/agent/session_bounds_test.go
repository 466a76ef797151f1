package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
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
		if got := tt.e.Begins(); got != tt.want {
			t.Errorf("%+v begins a run: %t", tt.e, got)
		}
	}
}
