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

// Copy writes events to a new journal and closes it. What cannot be opened as a
// session again is refused: a result without its call, say. After an error nothing
// of the new session is left.
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
	byID := map[string]*agent.Session{}
	n := 0
	for e, err := range events {
		if err != nil {
			return err
		}
		n++
		s := byID[e.Session]
		if s == nil {
			s = &agent.Session{}
			byID[e.Session] = s
		}
		if err := s.Apply(e); err != nil {
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

// UpTo is the events of a session up to the end of one turn of the root session,
// counted from 1, with its results and, if the run ends there, the end. A turn that
// is not there or not complete is an error.
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

// Rename is the events of a session in which every session has another id, the root
// that one, and with it the Keys of its calls. Were the ids of sub-agents' sessions
// kept, whoever goes on with a copy would end the processes of the original's calls,
// which are told by their Keys.
func Rename(events iter.Seq2[agent.Event, error], id string) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ids := map[string]string{}
		key := func(key string) string {
			of := key
			for range 2 { // the turn and the position
				of = of[:max(strings.LastIndexByte(of, '.'), 0)]
			}
			if renamed, ok := ids[of]; ok {
				return renamed + key[len(of):]
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

// Remove removes the session at path, a folder or a file, and of a symbolic link
// the link. It is refused with an InUseError while a process has it open.
func Remove(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove session: %w", err)
		}
		return nil
	}
	file, dir, err := locate(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("remove session: %w", err)
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return err
	}
	defer filelock.Unlock(f)
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("remove session: %w", err)
	}
	if _, _, _, err := newScanner(f, info.Size(), file, dir != "").next(); errors.Is(err, ErrNotSession) {
		return err
	}
	return remove(file, dir)
}

// remove removes what belongs to a session. A folder in which there is something
// else stays, with that, and so do files in blobs that are none.
func remove(file string, dir blobs) error {
	if dir == "" {
		return os.Remove(file)
	}
	found, err := os.ReadDir(string(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove session: %w", err)
	}
	for _, e := range found {
		if !isBlob(strings.TrimSuffix(e.Name(), partSuffix)) {
			continue
		}
		if err := os.Remove(filepath.Join(string(dir), e.Name())); err != nil {
			return fmt.Errorf("remove session: %w", err)
		}
	}
	os.Remove(string(dir)) // there may be none
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("remove session: %w", err)
	}
	os.Remove(filepath.Dir(file)) // if nothing is left in it
	return nil
}
