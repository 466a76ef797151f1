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
	"github.com/agents-exe/agents/pkg/termtext"
	"github.com/agents-exe/agents/pkg/transcript"
	"github.com/agents-exe/agents/pkg/view"
)

var errNoSession = errors.New("there is no session yet")

// session are the events of the session, nil if there is none on disk.
func (t *terminal) session() sessions.Events {
	path := t.path
	if r, ok := t.run.(*run); ok && r.kept != nil {
		path = r.kept.Path()
	}
	if path == "" {
		return nil
	}
	return session.Events(path)
}

// save writes the conversation as Markdown to a new file.
func (t *terminal) save(_ context.Context, name string) error {
	events := t.session()
	if events == nil {
		return errNoSession
	}
	sum, err := sessions.Summary(events)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(program.ExpandHome(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("save: %w", err)
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
		return fmt.Errorf("save %s: %w", name, err)
	}
	t.say("  %s", name)
	return nil
}

// fork continues in a copy of the session.
func (t *terminal) fork(context.Context, string) error {
	if t.path == "" {
		return errNoSession
	}
	was := t.id()
	if err := t.copyOf(session.Events(t.path)); err != nil {
		return err
	}
	t.say("  a copy: session %s; %s stays as it is", t.id(), was)
	return nil
}

// copyOf makes a copy of events, beside the session, the session of the conversation.
func (t *terminal) copyOf(events sessions.Events) error {
	dir := filepath.Dir(t.path)
	id := session.NewID()
	if err := session.Copy(session.Create(dir, sessions.NewOptions()), session.Rename(events, id)); err != nil {
		return fmt.Errorf("copy the session: %w", err)
	}
	t.path = filepath.Join(dir, id)
	return nil
}

// undo takes back the last message and what followed from it. The session stays; the
// conversation continues in a copy of what was before.
func (t *terminal) undo(context.Context, string) error {
	if t.path == "" {
		return errNoSession
	}
	u, err := lastPrompt(session.Events(t.path))
	if err != nil {
		return err
	}
	was := t.id()
	if u.before == 0 {
		err = t.chat.begin()
	} else {
		err = t.copyOf(first(session.Events(t.path), u.before))
	}
	if err != nil {
		return err
	}
	t.show.tree = view.Tree{}
	t.say("  taken back: %s", program.OneLine(u.text, 100))
	if len(u.effects) > 0 {
		t.say("  What these calls did is not undone:")
		for _, effect := range u.effects {
			t.say("    %s", effect)
		}
	}
	t.say("  session %s stays as it was", was)
	return nil
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
