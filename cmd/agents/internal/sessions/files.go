package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
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
	u, err := LastPrompt(session.Events(path))
	if err != nil {
		return f, failure.NothingRan(err, "")
	}
	if redo {
		turn = 0
	} else {
		turn = cmp.Or(turn, u.Turn)
		f.others = u.since(turn)
	}
	f.plan, err = f.store.Plan(turn)
	return f, err
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
	text += stays(f.plan.Stays)
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

// Undo puts the files back. The text names those that changed in the meantime; left is how many
// stay as they are, with those that Text names.
func (f *Files) Undo(ctx context.Context) (text string, left int, err error) {
	list, err := f.store.Undo(ctx, f.plan)
	if err != nil {
		err = fmt.Errorf("undo: %w", err)
	}
	done := max(len(f.plan.Items)-len(list), 0)
	return fmt.Sprintf("%s  %d %s put back\n", stays(list), done, program.Plural(done, "file")), len(list) + len(f.plan.Stays), err
}

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
