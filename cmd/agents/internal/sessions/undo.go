package sessions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Prompt is the last message of a session, to take it back.
type Prompt struct {
	Before  int      // the events before it, 0 if it is the first message
	Turn    int      // the first turn after it
	text    string   // of the message
	effects []string // the calls after it that may have changed something
}

// Text says what is taken back, and what is not. files is how many files were put back, negative
// if that was not asked for.
func (u *Prompt) Text(files int) string {
	text := "  taken back: " + program.OneLine(u.text, 100) + "\n"
	switch {
	case files >= 0:
		text += fmt.Sprintf("  %d %s put back\n", files, program.Plural(files, "file"))
	case len(u.effects) > 0:
		text += "  What these calls did is not undone:\n    " + strings.Join(u.effects, "\n    ") + "\n"
	}
	return text
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
	root, n, turns, prompts, resumed := "", -1, 0, 0, -1
	harmless := effects{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		n++
		if root == "" {
			root = e.Session
		}
		if call := harmless.of(&e); call != "" && u != nil {
			u.effects = append(u.effects, call)
		}
		switch {
		case e.Session != root:
		case e.Kind == agent.EventAnswer:
			turns = e.Turn
		case e.Kind == agent.EventResume:
			resumed = n
		case e.Kind != agent.EventMessage || e.Opening || e.Message == nil || e.Message.Role != agent.RoleUser:
		case !e.Continues():
			u, resumed = &Prompt{Before: n, Turn: turns + 1, text: input.Typed(e.Message.Text())}, -1
			if prompts++; prompts == 1 {
				u.Before = 0
			}
		case e.Input && resumed >= 0:
			u, resumed = &Prompt{Before: resumed, Turn: turns + 1, text: input.Typed(e.Message.Text())}, -1
		}
	}
	if u == nil {
		return nil, errors.New("nothing was said yet")
	}
	return u, nil
}

// effects are the tools whose calls change nothing themselves, by name.
type effects map[string]bool

// of returns the call that e begins, if it may change something, else "".
func (f effects) of(e *agent.Event) string {
	switch {
	case e.Kind == agent.EventSetup:
		for _, spec := range e.Specs {
			f[spec.Name] = spec.Effects == agent.EffectsNone || spec.IsAgent()
		}
	case e.Kind == agent.EventCallStarted && !f[e.Tool]:
		return termtext.Line(e.Tool+" "+e.Args, 100, "…")
	}
	return ""
}
