// Package sessions finds, reads and shows the sessions of earlier runs.
package sessions

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/checkpoint"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

// NewOptions note the working folder in a new session.
func NewOptions() session.Options {
	dir, _ := os.Getwd() // a session without it is found by its id
	return session.Options{Dir: dir}
}

// A Store is what the commands on sessions share.
type Store struct {
	*program.Env
	Dir string // --session-dir
}

const DirFlag = "session-dir"

// Of are those that a command works on.
func Of(p *program.Env, c *cli.Command) *Store {
	return &Store{Env: p, Dir: c.String(DirFlag)}
}

// Folders are where sessions are looked for; new ones are written to the first.
func (s *Store) Folders() ([]string, error) {
	c, err := load.Harmless(s.Env)
	if err != nil {
		return nil, err
	}
	list := load.Paths(load.SessionDirs(s.Env, c, s.Dir))
	if len(list) == 0 {
		return nil, failure.Usage("--session-dir names a folder", "there is no home folder to keep sessions in")
	}
	return list, nil
}

func latestHere(dirs []string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	list, err := session.List(session.Filter{Limit: 1, Dir: here, Want: func(i *session.Info) bool { return i.Err == nil && i.Parent == "" }}, dirs...)
	if len(list) > 0 {
		return list[0].Path, nil
	}
	return "", failure.NothingRan(cmp.Or(err, errors.New("no session began in this folder")), listHint)
}

const listHint = "`agents session list` shows what there is"

// Find returns the path of a session; "" is the latest that began in the working folder.
func (s *Store) Find(name string) (string, error) {
	dirs, err := s.Folders()
	if err != nil {
		return "", err
	}
	if name == "" {
		return latestHere(dirs)
	}
	path, err := session.Find(name, dirs...)
	if err != nil {
		return "", failure.NothingRan(err, listHint)
	}
	return path, nil
}

// A Events is the events of a session, which can be read several times.
type Events = iter.Seq2[agent.Event, error]

// Open finds a session that is to be read.
func (s *Store) Open(name string) (Events, error) {
	path, err := s.Find(name)
	if err != nil {
		return nil, err
	}
	return EventsOf(path), nil
}

// EventsOf are those of a session's folder or file, or of a file of another form.
func EventsOf(path string) Events {
	if Foreign(path) {
		return readFile(path)
	}
	return session.Events(path)
}

// Foreign reports whether path is a file and not a journal.
func Foreign(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	const journal = `{"kind":"journal"`
	start := make([]byte, len(journal))
	n, _ := io.ReadFull(f, start)
	return !bytes.Equal(start[:n], []byte(journal)[:n]) || n == 0
}

// readFile reads a file of events, or of agents-exe.
func readFile(path string) Events {
	return func(yield func(agent.Event, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(agent.Event{}, err)
			return
		}
		defer f.Close()
		for e, err := range transcript.Read(f) {
			if err != nil {
				err = fmt.Errorf("read %s: %w", path, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Summary summarizes a session. Damage is reported when the contents are read.
func Summary(events Events) (*transcript.Summary, error) {
	sum, err := transcript.Summarize(events)
	if err != nil && sum.ID == "" {
		return nil, notASession(err)
	}
	if sum.ID == "" {
		return nil, failure.NothingRan(errors.New("the session is empty"), "")
	}
	return sum, nil
}

// notASession is the error of something that cannot be read at all.
func notASession(err error) error {
	hint := ""
	if errors.Is(err, session.ErrNotSession) {
		hint = listHint
	}
	return failure.NothingRan(err, hint)
}

// SubAgent returns the id of the session of a sub-agent, by its id or by the slug of the
// sub-agent. It is an error if several sessions have the slug.
func SubAgent(events Events, name string) (string, error) {
	var found []string
	for e, err := range events {
		switch {
		case err != nil:
			return "", notASession(err)
		case e.Kind == agent.EventSession && e.Depth > 0 && (e.Session == name || e.Agent == name):
			found = append(found, e.Session)
		}
	}
	switch len(found) {
	case 0:
		return "", failure.NothingRan(fmt.Errorf("the session has no sub-agent %q", name), "`agents session calls ID --json` shows the agents and their sessions")
	case 1:
		return found[0], nil
	}
	return "", failure.NothingRan(fmt.Errorf("the sub-agent %s has %d sessions: %s", name, len(found), strings.Join(found, ", ")), "--sub-agent takes the id of one of them")
}

// First is the first event of a session, which names its agent.
func First(events Events) (agent.Event, error) {
	for e, err := range events {
		if err != nil {
			return e, notASession(err)
		}
		return e, nil
	}
	return agent.Event{}, failure.NothingRan(errors.New("the session is empty"), "")
}

// Damaged is the error of a session that could be read in part.
func Damaged(err error) error {
	hint := ""
	if d, ok := errors.AsType[*session.DamageError](err); ok && d.Turns > 0 {
		hint = fmt.Sprintf("`agents session fork ID --at %d` keeps what is whole", d.Turns)
	}
	return &failure.Error{Code: failure.ExitFailed, Err: err, Hint: hint}
}

// IDs are the sessions for completion. Only names are looked at.
func IDs(p *program.Env) []string {
	dirs, err := (&Store{Env: p}).Folders()
	if err != nil {
		return nil
	}
	ids := []string{session.Latest}
	for _, dir := range dirs {
		found, _ := os.ReadDir(dir)
		for _, e := range found {
			if e.IsDir() && session.ValidID(e.Name()) {
				ids = append(ids, e.Name())
			}
		}
	}
	return ids
}

// Keep writes events as a new session and prints its id. Unless path is "", they are those of the
// session there, whose checkpoints the copy gets; turns is how many turns it has, negative for all.
func (s *Store) Keep(events Events, path string, turns int) error {
	dirs, err := s.Folders()
	if err != nil {
		return err
	}
	copied, err := Copy(dirs[0], events, path, turns)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("write the session: %w", err), "")
	}
	_, err = fmt.Fprintln(s.Out, filepath.Base(copied))
	return err
}

// Copy writes events as a new session in dir, with the checkpoints of the session at path unless
// that is "". See Keep.
func Copy(dir string, events Events, path string, turns int) (copied string, err error) {
	id := session.NewID()
	if err := session.Copy(session.Create(dir, NewOptions()), session.Rename(events, id)); err != nil {
		return "", err
	}
	copied = filepath.Join(dir, id)
	if path != "" {
		err = checkpoint.Copy(session.CheckpointsOf(path, "").Dir, session.CheckpointsOf(copied, id), turns)
	}
	return copied, err
}

func BusyHint(err error) string {
	if _, busy := errors.AsType[*session.InUseError](err); busy {
		return "wait for it, or end that process"
	}
	return ""
}

// TurnAndPlace is the name of a call in its session: TURN.N, the end of its key.
func TurnAndPlace(c transcript.CallOf) string {
	return program.OneLine(strings.TrimPrefix(c.Key, c.Session+"."), 30)
}
