package session

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/runner"
)

// A Past is the state of a session when its journal is opened.
type Past struct {
	// Resume is where a Runner continues. Its Session is empty, without an ID, if
	// the process that began it died before anything was written.
	runner.Resume
	// Started are the Keys of all calls that started and have no result,
	// at any depth, sorted.
	Started []string
	// OwnerPID is the process that wrote the session last, if it is another one
	// and alive: what was opened is then a copy of its session, and the processes
	// of its calls must not be ended. It is 0 otherwise, and where this is not
	// known: in sessions of earlier versions, and on other systems than Linux.
	OwnerPID int
	// CutBytes is the size of an incomplete end that was cut off.
	CutBytes int64
}

// Open opens a session to continue it: path is its folder or its file. The error is
// an InUseError, a DamageError or an ErrNotSession, or that of the system. If the
// session was not closed, call Sync before you act on what is in it, as a Runner does.
func Open(path string, o Options) (*Journal, *Past, error) {
	f, dir, err := openFile(path, os.O_RDWR)
	if err != nil {
		return nil, nil, err
	}
	j := newJournal(&Journal{path: f.Name(), f: f, blobs: dir}, o)
	past, err := j.open()
	if err != nil {
		filelock.Unlock(f)
		return nil, nil, errors.Join(err, f.Close())
	}
	return j, past, nil
}

// openFile opens the file of a session and finds the folder of its blobs. Neither may
// be a symbolic link in a session's folder, which may come from elsewhere: what is
// written to the session, or removed with it, would be somewhere else.
func openFile(path string, flag int) (f *os.File, dir blobs, err error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		folder := path
		path = filepath.Join(folder, fileName)
		if info, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("%s: %w: there is no %s in it", folder, ErrNotSession, fileName)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("open session: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("%s: %w: it is not a regular file", path, ErrNotSession)
	}
	if filepath.Base(path) == fileName {
		dir = blobs(filepath.Join(filepath.Dir(path), blobsDir))
		if info, err := os.Lstat(string(dir)); err == nil && !info.IsDir() {
			return nil, "", fmt.Errorf("%s: %w: it is not a folder", dir, ErrNotSession)
		}
	}
	if f, err = os.OpenFile(path, flag, 0); err != nil {
		return nil, "", fmt.Errorf("open session: %w", err)
	}
	return f, dir, nil
}

// ClientOf returns the Options.Client with which the session at path began. It reads only the
// first line, without a lock.
func ClientOf(path string) (string, error) {
	first, err := header(path)
	return first.Client, err
}

// header reads the first line of the session at path, and nothing else.
func header(path string) (first fileLine, err error) {
	f, _, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return first, err
	}
	defer f.Close()
	const longest = 64 << 10
	line, err := bufio.NewReader(io.LimitReader(f, longest)).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &first) != nil || first.Kind != kindJournal {
		return fileLine{}, fmt.Errorf("%s: %w: its first line is not a session header", path, ErrNotSession)
	}
	return first, nil
}

func (j *Journal) open() (*Past, error) {
	if err := lock(j.f); err != nil {
		return nil, err
	}
	info, err := j.f.Stat()
	if err != nil {
		return nil, err
	}
	s, err := runFirstPass(j.f, info.Size(), j.path, j.blobs != "")
	if err != nil {
		return nil, err
	}
	past, err := s.past(j.blobs)
	if err != nil {
		return nil, err
	}
	j.size, j.ends.sum = s.good, s.sum
	j.folders = []string{filepath.Dir(j.path)} // it may never have been synced
	if j.ends.link, err = s.lastLink(); err != nil {
		return nil, fmt.Errorf("read session %s: %w", j.path, wholefile.Cause(err))
	}
	j.id = past.Session.ID
	if j.blobs != "" {
		j.dir = filepath.Dir(filepath.Dir(j.path))
		j.folders = append(j.folders, j.dir)
		j.id = cmp.Or(j.id, filepath.Base(filepath.Dir(j.path)))
	}
	if s.good < info.Size() {
		err := j.disk.truncate(j.f, s.good)
		if err == nil {
			err = j.disk.sync(j.f)
		}
		if err != nil {
			return nil, fmt.Errorf("cut off the incomplete end of session %s: %w", j.path, wholefile.Cause(err))
		}
	}
	past.CutBytes, past.OwnerPID = s.cut, s.owner.alive()
	return past, nil
}

// A firstPass is the result of the first pass over a journal. Offsets are of lines of
// the root session, or -1.
type firstPass struct {
	scanner
	compaction int64 // the last one
	counted    int64 // the last event with the usage of the run so far
	// began is the message that began the unfinished run: its facts are those of all events since.
	began int64
	// sessions are those of sub-agents that are rebuilt.
	sessions map[string]bool
	// left are the answers with calls that agents answer in the background, by Key.
	left map[string]int64
}

func runFirstPass(r io.ReaderAt, size int64, path string, named bool) (*firstPass, error) {
	s := &firstPass{scanner: *newScanner(r, size, path, named), compaction: -1, counted: -1, began: -1}
	for {
		line, at, h, err := s.next()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if string(h.session) != s.root {
			continue
		}
		switch agent.EventKind(h.kind) {
		case agent.EventCompaction:
			s.compaction, s.counted = at, at
		case agent.EventMessage, agent.EventEnd:
			s.counted = at
		}
		if err := s.background(line, at, h); err != nil {
			return s, s.damage(at, s.line, err)
		}
	}
}

// background notes the agents that a line of the root session leaves in the background, and
// those of which it tells the end; and where a run begins.
func (s *firstPass) background(line []byte, at int64, h head) error {
	switch {
	case h.is(agent.EventEnd):
		s.left, s.began = nil, -1
	case h.is(agent.EventCallEnded) && bytes.Contains(line, []byte(`"handle":`)), h.is(agent.EventMessage):
		var e agent.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Begins() {
			s.began = at
		}
		delete(s.left, e.Key)
		if e.Result == nil || e.Result.Handle == "" {
			break
		}
		if s.left == nil {
			s.left = map[string]int64{}
		}
		s.left[e.Key] = s.answer
	}
	return nil
}

// nested returns the offset behind which the events of sub-agents are needed: that of the
// last answer, or of the first with a call that is answered in the background.
func (s *firstPass) nested() int64 {
	from := s.answer
	for _, at := range s.left {
		from = min(from, at)
	}
	return from
}

// inRun reports whether a line is of the unfinished run.
func (s *firstPass) inRun(at int64) bool { return s.began >= 0 && at >= s.began }

// needs reports whether a line must be decoded to rebuild the session.
func (s *firstPass) needs(at int64, h head) bool {
	if h.is(agent.EventContext) || s.inRun(at) {
		return true
	}
	if string(h.session) != s.root {
		// Unfinished sub-agents answer calls of the last answer.
		return at > s.nested() || at > s.counted
	}
	return !h.is(agent.EventCallStarted) || at > s.answer || at > s.counted
}

// past rebuilds the sessions from the journal.
func (s *firstPass) past(dir blobs) (*Past, error) {
	var rebuilt runner.Rebuilder
	from := max(s.compaction, 0)
	if len(s.left) > 0 && s.nested() < from { // rare: agents that began before the conversation was shortened
		from = 0
	}
	whole := from // before that, only facts count
	if s.began >= 0 {
		from = min(from, s.began)
	}
	for in := newLines(s.r, from, s.good); ; {
		line, at, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read session %s: it changed while it was read (%w)", s.path, err)
		}
		h, _ := headOf(line)
		if !h.event() || !s.needs(at, h) {
			continue
		}
		var e agent.Event
		err = json.Unmarshal(line, &e)
		if err == nil && at < whole {
			rebuilt.Note(&e)
			continue
		}
		if err == nil {
			e, err = dir.fill(e)
		}
		if err == nil {
			err = s.apply(&rebuilt, e, at)
		}
		if err != nil {
			return nil, s.invalid(at, err)
		}
	}
	resume, started := rebuilt.Resume()
	return &Past{Resume: *resume, Started: started}, nil
}

// apply applies the event at an offset. Of what is in front of the last event that
// has the usage so far, nothing counts.
func (s *firstPass) apply(r *runner.Rebuilder, e agent.Event, at int64) error {
	if e.Session == s.root || e.Kind == agent.EventContext {
		return r.Apply(e)
	}
	if e.Kind == agent.EventSession && at >= s.nested() {
		if s.sessions == nil {
			s.sessions = map[string]bool{}
		}
		s.sessions[e.Session] = true
	}
	if s.sessions[e.Session] {
		return r.Apply(e)
	}
	if at >= s.counted && at < s.nested() {
		r.Count(e)
	}
	if s.inRun(at) {
		r.Note(&e)
	}
	return nil
}

// invalid returns the error for an intact line with an event that is not valid there.
func (s *firstPass) invalid(at int64, err error) error {
	before := newScanner(s.r, s.good, s.path, s.named)
	for {
		if _, pos, _, scanErr := before.next(); scanErr != nil || pos >= at {
			return before.damage(at, before.line, err)
		}
	}
}
