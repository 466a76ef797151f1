package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

var errNoSession = errors.New("there is no session yet")

// session are the events of the session, nil if there is none on disk.
func (c *chat) session() sessions.Events {
	path := c.path
	if c.running != nil && c.running.kept != nil {
		path = c.running.kept.Path()
	}
	if path == "" {
		return nil
	}
	return session.Events(path)
}

// save writes the conversation as Markdown to a new file.
func (c *chat) save(_ context.Context, name string) (string, error) {
	events := c.session()
	if events == nil {
		return "", errNoSession
	}
	sum, err := sessions.Summary(events)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(program.ExpandHome(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	m := &transcript.Markdown{Calls: transcript.Cut, SubAgents: true}
	_, err = f.WriteString(m.Head(sum))
	for turn, readErr := range transcript.Turns(events) {
		if err = errors.Join(err, readErr); err != nil {
			break
		}
		_, err = f.WriteString(m.Turn(turn))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("save %s: %w", name, err)
	}
	return "  " + name, nil
}

// fork continues in a copy of the session.
func (c *chat) fork(context.Context, string) (string, error) {
	if c.path == "" {
		return "", errNoSession
	}
	was := c.id()
	if err := c.copyOf(session.Events(c.path)); err != nil {
		return "", err
	}
	return fmt.Sprintf("  a copy: session %s; %s stays as it is", c.id(), was), nil
}

// copyOf makes a copy of events, beside the session, the session of the conversation.
func (c *chat) copyOf(events sessions.Events) error {
	dir := filepath.Dir(c.path)
	id := session.NewID()
	if err := session.Copy(session.Create(dir, sessions.NewOptions()), session.Rename(events, id)); err != nil {
		return fmt.Errorf("copy the session: %w", err)
	}
	c.path = filepath.Join(dir, id)
	return nil
}

// undo takes back the last message and what followed from it. The session stays; the
// conversation continues in a copy of what was before.
func (c *chat) undo(context.Context, string) (string, error) {
	if c.path == "" {
		return "", errNoSession
	}
	u, err := lastPrompt(session.Events(c.path))
	if err != nil {
		return "", err
	}
	was := c.id()
	if u.before == 0 {
		err = c.begin()
	} else {
		err = c.copyOf(first(session.Events(c.path), u.before))
	}
	if err != nil {
		return "", err
	}
	text := "  taken back: " + program.OneLine(u.text, 100) + "\n"
	if len(u.effects) > 0 {
		text += "  What these calls did is not undone:\n    " + strings.Join(u.effects, "\n    ") + "\n"
	}
	return text + "  session " + was + " stays as it was", nil
}

// An undoing is what the last message of a session consists of.
type undoing struct {
	before  int      // the events before it, 0 if it is the first message
	text    string   // of the message
	effects []string // the calls after it that may have changed something
}

// lastPrompt finds the last message that began a run, or continued one that was stopped.
func lastPrompt(events sessions.Events) (*undoing, error) {
	var u *undoing
	harmless := map[string]bool{}
	root, n, prompts, resumed := "", -1, 0, -1
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		n++
		if root == "" {
			root = e.Session
		}
		switch {
		case e.Kind == agent.EventSetup:
			for _, spec := range e.Specs {
				harmless[spec.Name] = spec.Effects == agent.EffectsNone || spec.IsAgent()
			}
		case e.Kind == agent.EventCallStarted && u != nil && !harmless[e.Tool]:
			u.effects = append(u.effects, termtext.Line(e.Tool+" "+e.Args, 100, "…"))
		case e.Session != root:
		case e.Kind == agent.EventResume:
			resumed = n
		case e.Kind != agent.EventMessage || e.Opening || e.Message == nil || e.Message.Role != agent.RoleUser:
		case !e.Continues():
			u, resumed = &undoing{before: n, text: typed(e.Message)}, -1
			if prompts++; prompts == 1 {
				u.before = 0
			}
		case e.Input && resumed >= 0:
			u, resumed = &undoing{before: resumed, text: typed(e.Message)}, -1
		}
	}
	if u == nil {
		return nil, errNoSession
	}
	return u, nil
}

// typed is a message without the files and outputs that went along.
func typed(m *agent.Message) string {
	text := m.Text()
	for _, added := range []string{"\n\n<file path=", "\n\n<command line="} {
		text, _, _ = strings.Cut(text, added)
	}
	return text
}

// first are the first n events.
func first(events sessions.Events, n int) sessions.Events {
	return func(yield func(agent.Event, error) bool) {
		i := 0
		for e, err := range events {
			if i == n || !yield(e, err) {
				return
			}
			i++
		}
	}
}
