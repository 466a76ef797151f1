package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// Imported removes from the events of a foreign session what would have an effect here: the
// name of the agent file that continues it.
func Imported(p *program.Env, events Events) Events {
	return func(yield func(agent.Event, error) bool) {
		root := ""
		for e, err := range events {
			if err == nil && e.Kind == agent.EventSession {
				e.Source = ""
				if e.Parent == "" && root != "" && e.Session != root {
					err = fmt.Errorf("the file contains several sessions: %s and %s", root, e.Session)
				}
			}
			root = cmp.Or(root, e.Session)
			if p.Global.Agent != "" && e.Agent == transcript.ImportedAgent {
				e.Agent = p.Global.Agent
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// importedSuffix is appended to the name of a session file of agents-exe to get the name of
// the journal that continues it.
const importedSuffix = ".journal"

// Continued returns the journal that continues the session file of agents-exe at path, if
// there is one, and path otherwise.
func Continued(path string) string {
	if info, err := os.Stat(path + importedSuffix); err == nil && info.Size() > 0 && agentsExe(path) {
		return path + importedSuffix
	}
	return path
}

// importWait limits the wait for another process that imports the same file. Tests shorten it.
var importWait = 10 * time.Second

// ImportFile returns the journal that continues the session file of agents-exe at path: a
// file beside it, which is written the first time. The session file itself does not change.
// Any other path is returned unchanged.
func ImportFile(p *program.Env, path string) (string, error) {
	if !agentsExe(path) {
		return path, nil
	}
	journal := path + importedSuffix
	if Continued(path) != journal {
		// Another process that imports it now may write to its journal as soon as it has one.
		lock := journal + ".lock"
		ctx, cancel := context.WithTimeoutCause(context.Background(), importWait, fmt.Errorf("another process has held %s for %s", lock, importWait))
		defer cancel()
		release, err := filelock.Acquire(ctx, lock)
		if err != nil {
			return "", fmt.Errorf("import %s: %w", path, cmp.Or(context.Cause(ctx), err))
		}
		defer release()
	}
	if Continued(path) == journal {
		p.Note("%s is a session of agents-exe that was imported before: it continues in %s", path, journal)
		return journal, nil
	}
	events := session.Rename(Imported(p, readFile(path)), session.NewID())
	part := journal + "." + session.NewID() // an import that is interrupted is not the journal
	err := session.Copy(session.CreateFile(part, NewOptions()), events)
	if err == nil {
		err = os.Rename(part, journal)
	}
	if err == nil {
		err = wholefile.SyncDir(filepath.Dir(journal))
	}
	if err != nil {
		return "", fmt.Errorf("import %s: %w", path, errors.Join(err, removed(part)))
	}
	p.Note("%s is a session of agents-exe: it was imported and continues in %s; the file itself does not change", path, journal)
	return journal, nil
}

func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func agentsExe(path string) bool {
	var s struct {
		ID    *string         `json:"sessionId"`
		Turns json.RawMessage `json:"turns"`
	}
	if !Foreign(path) {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(data, &s) == nil && s.ID != nil && s.Turns != nil
}
