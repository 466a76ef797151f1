package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/filelock"
)

// Copy writes events to a new journal and closes it. It refuses events that could not
// be opened as a session again, such as a result without its call. After an error
// nothing of the new session remains.
//
// A copy of a session with another id, up to its third turn:
//
//	events := session.UpTo(session.Rename(session.Events(path), id), 3)
//	err := session.Copy(session.Create(dir, session.Options{}), events)
func Copy(j *Journal, events iter.Seq2[agent.Event, error]) error {
	err := j.copy(events)
	if err == nil {
		return j.Close()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.fresh {
		err = errors.Join(err, remove(j.path, j.blobs), j.f.Close())
	}
	return err
}

func (j *Journal) copy(events iter.Seq2[agent.Event, error]) error {
	sessions := map[string]*agent.Session{}
	n := 0
	for e, err := range events {
		if err != nil {
			return err
		}
		n++
		if sessions[e.Session] == nil {
			sessions[e.Session] = &agent.Session{}
		}
		if err := sessions[e.Session].Apply(e); err != nil {
			return fmt.Errorf("event %d (%s): %w", n, e.Kind, err)
		}
		if err := j.Append(context.Background(), e); err != nil {
			return err
		}
	}
	if n == 0 {
		return errors.New("copy session: there are no events")
	}
	return j.Sync(context.Background())
}

// UpTo returns the events of a session up to the end of one turn of the root session,
// counted from 1, with its results and, if the run ends there, the end. A turn that
// is missing or incomplete is an error.
func UpTo(events iter.Seq2[agent.Event, error], turn int) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		root, turns, open := "", 0, 0
		for e, err := range events {
			if turns == turn && turns > 0 && open == 0 {
				if err == nil && e.Kind == agent.EventEnd && e.Session == root {
					yield(e, nil)
				}
				return
			}
			if err != nil {
				yield(e, err)
				return
			}
			if root == "" {
				root = e.Session
			}
			if !yield(e, nil) {
				return
			}
			if e.Session != root {
				continue
			}
			switch {
			case e.Kind == agent.EventAnswer && e.Message != nil:
				turns++
				open = len(e.Message.Calls)
			case e.Kind == agent.EventCallEnded:
				open--
			}
		}
		switch {
		case turn < 1 || turns < turn:
			yield(agent.Event{}, fmt.Errorf("there is no turn %d: the session has %d", turn, turns))
		case open > 0:
			yield(agent.Event{}, fmt.Errorf("turn %d is not complete: %d of its calls have no result", turn, open))
		}
	}
}

// Rename returns the events of a session with other ids: the given one for the root
// session, new ones for those of sub-agents, and the Keys of calls accordingly. With
// the old Keys, a process that opens the copy would end processes of the original's
// calls.
func Rename(events iter.Seq2[agent.Event, error], id string) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ids := map[string]string{}
		key := func(key string) string {
			caller := callerOf(key)
			if renamed, ok := ids[caller]; ok {
				return renamed + key[len(caller):]
			}
			return key
		}
		for e, err := range events {
			if err == nil && ids[e.Session] == "" {
				if len(ids) > 0 {
					id = NewID()
				}
				ids[e.Session] = id
			}
			e.Session, e.Key, e.Parent = ids[e.Session], key(e.Key), key(e.Parent)
			if !yield(e, err) {
				return
			}
		}
	}
}

// Remove removes the session at path, a folder or a file; of a symbolic link it
// removes the link. The error is an InUseError while a process has it open.
func Remove(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return os.Remove(path)
	}
	in, err := openReader(path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer in.file.Close()
	if err := lock(in.file); err != nil {
		return err
	}
	defer filelock.Unlock(in.file)
	if _, _, _, err := in.next(); errors.Is(err, ErrNotSession) {
		return err
	}
	return remove(in.path, in.blobs)
}

// remove removes the files of a session, and its folders if nothing else is in them.
func remove(file string, dir blobs) error {
	if dir == "" {
		return os.Remove(file)
	}
	found, err := os.ReadDir(string(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range found {
		if isBlob(strings.TrimSuffix(e.Name(), partSuffix)) {
			if err := os.Remove(filepath.Join(string(dir), e.Name())); err != nil {
				return err
			}
		}
	}
	os.Remove(string(dir)) // there need not be one
	if err := os.Remove(file); err != nil {
		return err
	}
	os.Remove(filepath.Dir(file))
	return nil
}
