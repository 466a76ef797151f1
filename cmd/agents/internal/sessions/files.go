package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/checkpoint"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Files is an undo of what calls of a session changed in a folder. Nothing else can use the
// session until Close.
type Files struct {
	journal *session.Journal
	store   *checkpoint.Store
	plan    *checkpoint.Plan
	others  []string // calls that may have changed something else
}

// OpenFiles prepares to undo what calls of the session at path changed since a turn; 0 is that
// of the last message, and redo is the last undo. The error wraps checkpoint.ErrNone if the
// session has no checkpoints.
func OpenFiles(ctx context.Context, path string, turn int, redo bool) (f *Files, err error) {
	first, err := First(session.Events(path))
	if err != nil {
		return nil, err
	}
	f = &Files{}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.journal, _, err = session.Open(path, session.Options{}); err != nil {
		return f, failure.NothingRan(err, BusyHint(err))
	}
	if f.store, err = checkpoint.OpenLast(ctx, session.CheckpointsOf(path, first.Session)); err != nil {
		hint := ""
		if errors.Is(err, checkpoint.ErrNone) {
			hint = `an agent file with "checkpoints": true has them`
		}
		return f, failure.NothingRan(err, hint)
	}
	if turn == 0 && !redo {
		u, err := LastPrompt(session.Events(path))
		if err != nil {
			return f, failure.NothingRan(err, "")
		}
		turn = u.Turn
	}
	if f.plan, err = f.store.Plan(turn); err == nil && !redo {
		f.others, err = callsSince(session.Events(path), turn)
	}
	return f, err
}

// callsSince are the calls from a turn on that may have changed something.
func callsSince(events Events, turn int) (calls []string, err error) {
	root, turns, harmless := "", 0, effects{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if root == "" {
			root = e.Session
		}
		if e.Session == root && e.Kind == agent.EventAnswer {
			turns = e.Turn
		}
		if call := harmless.of(&e); call != "" && turns >= turn {
			calls = append(calls, call)
		}
	}
	return calls, nil
}

// Any reports whether there is something to put back.
func (f *Files) Any() bool { return len(f.plan.Items) > 0 }

// Text says what would be done and what would not.
func (f *Files) Text() string {
	var items []string
	for _, i := range f.plan.Items {
		items = append(items, fmt.Sprintf("%-8s  %s", i.Do, shownPath(i.Path)))
	}
	text := "  there is nothing to put back\n"
	if f.Any() {
		text = listed("files in "+f.plan.Folder+":", items)
	}
	text += f.Stays()
	for _, note := range f.plan.Notes {
		text += "  note: " + note + "\n"
	}
	return text + listed("not undone: what these calls did elsewhere (other folders, processes, databases, the network)", f.others)
}

func stays(list []checkpoint.Item) string {
	var items []string
	for _, i := range list {
		items = append(items, shownPath(i.Path)+": "+i.Why)
	}
	return listed("these stay as they are:", items)
}

// listed is a title with lines below it, and nothing if there are none.
func listed(title string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	const most = 200
	if more := len(lines) - most; more > 0 {
		lines = append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", more))
	}
	return "  " + title + "\n    " + strings.Join(lines, "\n    ") + "\n"
}

func shownPath(path string) string { return termtext.Line(path, 1000, "…") }

// Undo puts files back, done of them; text names those that changed in the meantime.
func (f *Files) Undo(ctx context.Context) (text string, done int, err error) {
	list, err := f.store.Undo(ctx, f.plan)
	if err != nil {
		err = fmt.Errorf("undo: %w", err)
	}
	return stays(list), max(len(f.plan.Items)-len(list), 0), err
}

// Stays names the files that cannot be put back, in one line each, and All is how many files
// there are with them.
func (f *Files) Stays() string { return stays(f.plan.Stays) }

func (f *Files) All() int { return len(f.plan.Items) + len(f.plan.Stays) }

// Close lets others use the session.
func (f *Files) Close() error {
	var err error
	if f.store != nil {
		err = f.store.Close()
	}
	if f.journal != nil {
		err = errors.Join(err, f.journal.Close())
	}
	return err
}
