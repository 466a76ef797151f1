package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/checkpoint"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

// Copy writes events to a new journal and closes it. It rejects events that are not a
// valid session, such as a result without its call. After an error it removes the new
// session.
//
// A copy of a session with another id, up to its third turn:
//
//	events := session.UpTo(session.Rename(session.Events(path), id), 3)
//	err := session.Copy(session.Create(dir, session.Options{}), events)
func Copy(j *Journal, events iter.Seq2[agent.Event, error]) error {
	final := j.dir
	if final != "" {
		sweepCopies(final)
		j.dir = filepath.Join(final, copyPrefix+NewID())
	}
	err := j.copy(events)
	if err == nil {
		if err = j.Close(); err == nil && final != "" {
			err = j.publish(final)
		}
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.fresh {
		err = errors.Join(err, j.f.Close(), remove(j.path, j.blobs))
	}
	if final != "" {
		os.Remove(j.dir) // it may not exist
	}
	return err
}

// copyPrefix begins the name of the folder in which a copy is written. The name is not a valid
// id, so that an incomplete copy is not taken for a session.
const copyPrefix = ".copy-"

// keptCopy is how long an incomplete copy may be one in progress.
const keptCopy = 24 * time.Hour

// sweepCopies removes incomplete copies that killed processes have left.
func sweepCopies(dir string) {
	found, _ := os.ReadDir(dir) // it may not exist
	for _, e := range found {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), copyPrefix) && time.Since(info.ModTime()) > keptCopy {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// publish moves a session that is complete into the folder dir.
func (j *Journal) publish(dir string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, to := filepath.Join(j.dir, j.id), filepath.Join(dir, j.id)
	if err := j.disk.rename(from, to); err != nil {
		return errors.Join(fmt.Errorf("create session: %w", err), remove(j.path, j.blobs), os.Remove(j.dir))
	}
	os.Remove(j.dir) // it is empty
	j.dir, j.path = dir, filepath.Join(to, fileName)
	j.blobs = blobs(filepath.Join(to, blobsDir))
	return j.disk.syncDir(dir)
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
		return errors.New("copy session: no events")
	}
	return j.Sync(context.Background())
}

// UpTo returns the events of a session up to the end of a turn of the root session,
// counted from 1: with its results and, if the run ends there, the end event. It is an
// error if the turn is missing or incomplete.
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

// Alone returns the events of a sub-agent's session and of the sessions below it, changed to
// those of a session without a caller. It returns none if events have no such session.
func Alone(events iter.Seq2[agent.Event, error], id string) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		below, depth := map[string]bool{}, 0
		for e, err := range events {
			switch {
			case err != nil:
			case e.Session == id:
				if len(below) == 0 {
					depth = e.Depth
				}
				e.Parent = ""
			case !below[e.Session] && !below[agent.CallSession(e.Parent)]:
				continue
			}
			if err == nil {
				below[e.Session] = true
				e.Depth -= depth
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Rename returns the events of a session with new ids: id for the root session, generated ones
// for sub-agents' sessions, and matching Keys of calls. With the old Keys, a process that opens
// the copy would kill processes of the original's calls. The copy of a session that answers a
// call of another process does not: only the original counts for that call.
func Rename(events iter.Seq2[agent.Event, error], id string) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		ids, root := map[string]string{}, ""
		key := func(key string) string {
			caller := agent.CallSession(key)
			if renamed, ok := ids[caller]; ok {
				return renamed + key[len(caller):]
			}
			return key
		}
		for e, err := range events {
			if err == nil && ids[e.Session] == "" {
				if len(ids) > 0 {
					id = NewID()
				} else {
					root = e.Session
				}
				ids[e.Session] = id
			}
			if e.Session == root {
				e.Parent = ""
			}
			e.Session, e.Key, e.Parent = ids[e.Session], key(e.Key), key(e.Parent)
			e.Left = slices.Clone(e.Left)
			for i := range e.Left {
				e.Left[i].Key = key(e.Left[i].Key)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// CheckpointsOf returns where the checkpoints of the session at path, with an id, are: in its
// folder, or beside its file. The files of sessions are never among what checkpoints keep.
func CheckpointsOf(path, id string) checkpoint.Place {
	if folder, ok := sessionFolder(path); ok {
		return checkpoint.Place{Dir: filepath.Join(folder, checkpointsDir), Session: id, Skip: []string{filepath.Dir(folder), folder}}
	}
	return checkpoint.Place{Dir: path + "." + checkpointsDir, Session: id, Skip: FilesOf(path)}
}

// FilesOf returns the files and folders of the session at path.
func FilesOf(path string) []string {
	folder, ok := sessionFolder(path)
	switch {
	case !ok:
		return []string{path, path + "." + checkpointsDir, path + signatureSuffix}
	case folder != path: // it may be a file of this name in a folder with other files
		return []string{path, path + signatureSuffix, filepath.Join(folder, checkpointsDir), filepath.Join(folder, blobsDir)}
	}
	return []string{folder}
}

// sessionFolder returns the folder of the session at path, if it has one.
func sessionFolder(path string) (string, bool) {
	if filepath.Base(path) == fileName {
		return filepath.Dir(path), true
	}
	info, err := os.Stat(path)
	return path, err == nil && info.IsDir()
}

// Remove removes the session at path, a folder or a file. If path is a symbolic link,
// it removes only the link. The error is an InUseError while a process has it open.
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
	if runtime.GOOS == "windows" { // which removes no open file: nobody else has the session once this is gone
		if err := errors.Join(in.file.Close(), os.Remove(in.path)); err != nil {
			return err
		}
	}
	return remove(in.path, in.blobs)
}

// remove removes the files of a session, and its folders if nothing else is in them.
func remove(file string, dir blobs) error {
	os.Remove(file + signatureSuffix) // there need not be one
	if err := checkpoint.Remove(CheckpointsOf(file, "").Dir); err != nil {
		return err
	}
	if dir == "" {
		return ignoreMissing(os.Remove(file)) // Remove may have removed it
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
	os.Remove(string(dir)) // it may not exist
	if err := ignoreMissing(os.Remove(file)); err != nil {
		return err
	}
	os.Remove(filepath.Dir(file))
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
