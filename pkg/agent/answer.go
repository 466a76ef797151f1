package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// AnswerOf returns the result of a call that a run of an agent answers: its answer, or
// the incomplete answer and an error that says why it is incomplete. Unless the run
// ended with StatusOK, the first line that the caller's model reads is how it ended, as
// "[budget]". The runtime writes this line, not the agent: before an answer whose first line
// reads like one, it writes "[ok]".
func AnswerOf(out *Outcome, err error) (Result, error) {
	parts := slices.Clone(out.Message.Parts)
	accepted := out.Answer != "" && out.Answer != out.Message.Text()
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Kind == PartReasoning || accepted && p.Kind == PartText })
	if accepted { // it counts in place of what the model said
		parts = append([]Part{Text(out.Answer)}, parts...)
	}
	switch {
	case err != nil:
		return Result{Parts: parts}, &outcomeError{fmt.Sprintf("[%s] agent %s did not answer: %s", StatusOf(err), out.Agent, err), err}
	case out.Answer == "" && len(parts) == 0:
		return Result{}, &outcomeError{fmt.Sprintf("[%s] agent %s answered with an empty text", StatusFailed, out.Agent), nil}
	case out.Status == StatusPartial:
		line := fmt.Sprintf("[%s] agent %s answered early: %s\n", StatusPartial, out.Agent, out.Reason)
		parts = append([]Part{Text(line)}, parts...)
	case likeOutcome((&Message{Parts: parts}).Text()):
		line := fmt.Sprintf("[%s] agent %s answered:\n", StatusOK, out.Agent)
		parts = append([]Part{Text(line)}, parts...)
	}
	return Result{Parts: parts}, nil
}

// likeOutcome reports whether a text begins with a Status in brackets of any kind, as a
// model would read it: without regard to case, marks and invisible characters.
func likeOutcome(text string) bool {
	const longest = 200 // bytes of the word with what a model does not see
	begin := strings.IndexFunc(text, unicode.IsLetter)
	if begin < 0 || !strings.ContainsFunc(text[:begin], bracket) {
		return false
	}
	rest := strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Mn) || strings.ContainsRune(" *_`", r):
			return -1
		case r >= '\uff01' && r <= '\uff5e': // wide forms of ASCII
			r -= '\uff01' - '!'
		}
		return unicode.ToLower(r)
	}, text[begin:min(begin+longest, len(text))])
	end := strings.IndexFunc(rest, bracket)
	return end >= 0 && Status(rest[:end]).Known()
}

func bracket(r rune) bool { return unicode.In(r, unicode.Ps, unicode.Pe) }

// An outcomeError is the error of a call; its text begins with how the run ended.
type outcomeError struct {
	text string
	err  error
}

func (e *outcomeError) Error() string { return e.text }

func (e *outcomeError) Unwrap() error { return e.err }

// NotRun returns err as the result of a call that did not run. One of AnswerOf stays as it is: it
// says how the agent ended.
func NotRun(err error) error {
	if _, ok := errors.AsType[*outcomeError](err); ok || err == nil {
		return err
	}
	return fmt.Errorf("not run: %w", err)
}

// MaxAnswers is how many answers of one run are put to Accept.
const MaxAnswers = 3

// An Outcome is how a run ended and what it consumed.
type Outcome struct {
	Status Status
	// Message is the answer, and Answer its text. After a failure they hold
	// what there was of an answer that was cut.
	Message Message
	Answer  string
	// Reason says why an answer is partial: which budget was nearly spent.
	Reason  string
	Session string
	Agent   string
	// Turns is the number of model answers in this run.
	Turns    int
	Total    TotalUsage
	Duration time.Duration
	// Receipt is that of the root's run; nil if there is none.
	Receipt *Receipt
}
