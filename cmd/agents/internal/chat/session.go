package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/terminal/input"
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
	f, err := os.OpenFile(input.ExpandHome(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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
	u, err := sessions.LastPrompt(session.Events(c.path))
	if err != nil {
		return "", err
	}
	was := c.id()
	if u.Before == 0 {
		err = c.begin()
	} else {
		err = c.copyOf(u.Rest(session.Events(c.path)))
	}
	return u.Text() + "  session " + was + " stays as it was\n", err
}
