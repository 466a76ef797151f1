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
	"github.com/agents-exe/agents/pkg/leaf/checkpoint"
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
	if err := c.copyOf(session.Events(c.path), -1); err != nil {
		return "", err
	}
	return fmt.Sprintf("  a copy: session %s; %s stays as it is", c.id(), was), nil
}

// copyOf makes a copy of events, beside the session, the session of the conversation. turns is
// how many turns they have, negative for all.
func (c *chat) copyOf(events sessions.Events, turns int) error {
	path, err := sessions.Copy(filepath.Dir(c.path), events, c.path, turns)
	if err != nil {
		return fmt.Errorf("copy the session: %w", err)
	}
	c.path = path
	return nil
}

// undo takes back the last message and what followed from it. The session stays; the
// conversation continues in a copy of what was before. If there are files to put back, it asks
// first, and the next line is the answer.
func (c *chat) undo(ctx context.Context, _ string) (string, error) {
	if c.path == "" {
		return "", errNoSession
	}
	u, err := sessions.LastPrompt(session.Events(c.path))
	if err != nil {
		return "", err
	}
	f, err := sessions.OpenFiles(ctx, c.path, u.Turn, false)
	if errors.Is(err, checkpoint.ErrNone) {
		return c.takeBack(u, false)
	}
	if err != nil {
		return "", err
	}
	if !f.Any() {
		return c.takeBack(u, false, f.Close())
	}
	c.answer = func(ctx context.Context, text string) (string, error) {
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			shown, _, err := f.Undo(ctx)
			redo := "agents session undo --redo " + c.id()
			if dir := c.Keep.Dir; dir != "" {
				redo += " --session-dir " + program.ShellQuote(dir)
			}
			said, err := c.takeBack(u, true, err, f.Close())
			return shown + said + "  `" + redo + "` undoes that\n", err
		case "n", "no":
			return c.takeBack(u, false, f.Close())
		}
		return "  nothing is taken back", f.Close()
	}
	return f.Text() + "  Put the files back? yes, no (only the message is taken back), or anything else for neither", nil
}

// takeBack takes back a message, unless there are errors.
func (c *chat) takeBack(u *sessions.Prompt, files bool, errs ...error) (string, error) {
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	was, err := c.id(), error(nil)
	if u.Before == 0 {
		err = c.begin()
	} else {
		err = c.copyOf(u.Rest(session.Events(c.path)), u.Turn-1)
	}
	return u.Text(files) + "  session " + was + " stays as it was\n", err
}
