package agentfile

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/source/toolbox/system"
)

// sessionFolders are the folders whose sessions a SystemToolbox shows.
type sessionFolders []string

// List implements system.Sessions.
func (dirs sessionFolders) List(context.Context) ([]system.Session, error) {
	infos, err := dirs.infos()
	var list []system.Session
	for _, i := range infos {
		status := string(i.Status)
		if status == "" {
			status = "active"
		}
		list = append(list, system.Session{ID: i.ID, Agent: i.Agent, Prompt: i.Prompt, Turns: i.Turns, Status: status, Modified: i.Changed.Format(time.RFC3339)})
	}
	return list, err
}

// infos are the sessions that are not those of nested processes.
func (dirs sessionFolders) infos() ([]session.Info, error) {
	return session.List(session.Filter{Want: func(i *session.Info) bool { return i.Err == nil && i.Parent == "" }}, dirs...)
}

// Search implements system.Sessions.
func (dirs sessionFolders) Search(ctx context.Context, words []string, most int) (found []system.Match, total int, err error) {
	infos, err := dirs.infos()
	for _, i := range infos {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		text := preview(i.Path, words)
		if text == "" {
			continue
		}
		if total++; len(found) < most {
			found = append(found, system.Match{ID: i.ID, Turns: i.Turns, Preview: text})
		}
	}
	return found, total, err
}

// preview is what is around the first of the words in a session, "" if it has none.
func preview(path string, words []string) string {
	const around = 100
	for e, err := range session.Events(path) {
		if err != nil {
			return ""
		}
		if e.Message == nil {
			continue
		}
		text := e.Message.Text()
		lower := strings.ToLower(text)
		for _, w := range words {
			if at := strings.Index(lower, w); at >= 0 && len(lower) == len(text) {
				near := strings.ToValidUTF8(text[max(0, at-around):min(len(text), at+around)], "")
				return "..." + strings.Join(strings.Fields(near), " ") + "..."
			}
		}
	}
	return ""
}

// Read implements system.Sessions. Only the ids of sessions in the folders count: a model may know
// the path of any other.
func (dirs sessionFolders) Read(_ context.Context, id string, p system.Part) (*system.Content, error) {
	if !session.ValidID(id) {
		return nil, fmt.Errorf("%.100q is not the id of a session", id)
	}
	path, err := session.Find(id, dirs...)
	if err == nil && !slices.ContainsFunc(dirs, func(dir string) bool { return filepath.Clean(dir) == filepath.Dir(path) }) {
		err = fmt.Errorf("find session %q: %w", id, session.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	format := transcript.Markdown{Thinking: p.Thinking, SubAgents: p.Calls}
	if p.Calls {
		format.Calls = transcript.Whole
	}
	var turns []string
	c := &system.Content{ID: id}
	for turn, err := range transcript.Turns(session.Events(path)) {
		if err != nil {
			return nil, err
		}
		if c.Total++; c.Total > p.First {
			turns = append(turns, format.Turn(turn))
		}
	}
	if p.Last > 0 {
		turns = turns[max(0, len(turns)-p.Last):]
	}
	if p.Max > 0 {
		turns = turns[:min(len(turns), p.Max)]
	}
	c.Turns, c.Text = len(turns), strings.Join(turns, "\n")
	return c, nil
}
