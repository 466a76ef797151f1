package sessions

import (
	"cmp"
	"errors"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Prompt is the last message of a session, to take it back.
type Prompt struct {
	Before int      // the events before it, 0 if it is the first message
	Turn   int      // the first turn after it
	text   string   // of the message
	calls  []string // those that may have changed something
	turns  []int    // of calls
}

// since are the calls from a turn on that may have changed something.
func (u *Prompt) since(turn int) []string {
	first, _ := slices.BinarySearch(u.turns, turn)
	return u.calls[first:]
}

// Text says what is taken back, and what is not, unless that was said when files were put back.
func (u *Prompt) Text(files bool) string {
	text := "  taken back: " + program.OneLine(u.text, 100) + "\n"
	if files {
		return text
	}
	return text + listed("What these calls did is not undone:", u.since(u.Turn))
}

// Rest are the events before the message.
func (u *Prompt) Rest(events Events) Events {
	return func(yield func(agent.Event, error) bool) {
		i := 0
		for e, err := range events {
			if i == u.Before || !yield(e, err) {
				return
			}
			i++
		}
	}
}

// LastPrompt finds the last message that began a run, or continued one that was stopped.
func LastPrompt(events Events) (*Prompt, error) {
	var u *Prompt
	var calls []string
	var turns []int
	root, n, turn, prompts, resumed := "", -1, 0, 0, -1
	harmless := map[string]bool{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		n++
		root = cmp.Or(root, e.Session)
		switch {
		case e.Kind == agent.EventSetup:
			for _, spec := range e.Specs {
				harmless[spec.Name] = spec.Effects == agent.EffectsNone || spec.IsAgent()
			}
		case e.Kind == agent.EventCallStarted && !harmless[e.Tool]:
			calls, turns = append(calls, termtext.Line(e.Tool+" "+e.Args, 100, "…")), append(turns, turn)
		case e.Session != root:
		case e.Kind == agent.EventAnswer:
			turn = e.Turn
		case e.Kind == agent.EventResume:
			resumed = n
		case e.Kind != agent.EventMessage || e.Opening || e.Message == nil || e.Message.Role != agent.RoleUser:
		case !e.Continues():
			u, resumed = &Prompt{Before: n, Turn: turn + 1, text: input.Typed(e.Message.Text())}, -1
			if prompts++; prompts == 1 {
				u.Before = 0
			}
		case e.Input && resumed >= 0:
			u, resumed = &Prompt{Before: resumed, Turn: turn + 1, text: input.Typed(e.Message.Text())}, -1
		}
	}
	if u == nil {
		return nil, errors.New("nothing was said yet")
	}
	u.calls, u.turns = calls, turns
	return u, nil
}
