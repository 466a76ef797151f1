package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Info describes a session in a list.
type Info struct {
	// ID is the name by which Find finds the session: that of its folder, or, for
	// a session in one file, the id in it.
	ID string
	// Path is the session's folder or file.
	Path  string
	Agent string
	// Source is the file of the agent.
	Source string
	Model  string
	// Parent is the Key of the call of another process that the session answers,
	// or "".
	Parent string
	// Prompt is the first line of the first prompt that is not blank, at most 200
	// bytes of it.
	Prompt string
	// Turns counts the turns of the root session.
	Turns int
	// Dir is the working folder in which the session began, without symbolic
	// links; empty if that is not known.
	Dir string
	// Usage is the usage of all runs, with sub-agents.
	Usage agent.Usage
	// Status is how the last run ended; empty if it did not.
	Status agent.Status
	// Started is the time of the first event and Changed that of the last change,
	// in UTC, as the time in an id is.
	Started time.Time
	Changed time.Time
	// Size is that of the file, its blobs and its checkpoints, in bytes.
	Size int64
	// PID is the process that has an unfinished session open, 0 if there is none
	// or it is not known.
	PID int
	// Err says what is wrong with the session, for example a DamageError. The
	// other fields then describe what comes before it.
	Err error
}

// Inspect describes the session at path, a folder or a file. The error is also in the
// Info.
func Inspect(path string) (Info, error) {
	return inspect(path, sync.OnceValue(holders))
}

// A Filter selects sessions. The zero Filter selects all.
type Filter struct {
	// Dir selects those that began in this working folder.
	Dir string
	// Before, if it is not zero, selects those that changed before this time.
	Before time.Time
	// Pick, if it is not nil, selects by the path, before anything is read.
	Pick func(path string) bool
	// Want, if it is not nil, selects those for which it is true. It is called in
	// the order of the list.
	Want func(*Info) bool
	// Limit is the maximum number of sessions; 0 means all.
	Limit int
}

// List returns the sessions in folders that f selects, the most recently changed
// first. A folder that does not exist is skipped; if a folder cannot be read, its error
// is returned together with the sessions of the others. Until the Limit is reached,
// every session that matches Dir, Before and Pick is read completely, to detect damage.
//
// The last session of a folder:
//
//	list, err := session.List(session.Filter{Dir: cwd, Limit: 1, Want: func(i *session.Info) bool {
//		return i.Err == nil && i.Parent == ""
//	}}, dirs...)
//
// Those that have not changed for a month, to Remove them:
//
//	list, err := session.List(session.Filter{Before: time.Now().AddDate(0, -1, 0)}, dirs...)
func List(f Filter, dirs ...string) ([]Info, error) {
	found, err := sessions(dirs)
	if f.Limit == 0 {
		f.Limit = len(found)
	}
	began := beganIn(realDir(f.Dir))
	locks := sync.OnceValue(holders)
	var list []Info
	for len(found) > 0 && len(list) < f.Limit {
		var some []entry
		for len(found) > 0 && len(some) < max(f.Limit-len(list), runtime.GOMAXPROCS(0)) {
			if (f.Before.IsZero() || found[0].changed.Before(f.Before)) && (f.Pick == nil || f.Pick(found[0].path)) && began(found[0]) {
				some = append(some, found[0])
			}
			found = found[1:]
		}
		for _, i := range inspectAll(some, locks) {
			if len(list) < f.Limit && (f.Want == nil || f.Want(&i)) {
				list = append(list, i)
			}
		}
	}
	return list, err
}

// Nested are the sessions in folders that answer calls of other processes: their paths,
// oldest first, by the Key of the call. Only the first event of each is read; what cannot
// be read is left out.
func Nested(dirs ...string) map[string][]string {
	found, _ := sessions(dirs) // a folder that cannot be read has no sessions here
	nested := map[string][]string{}
	for _, e := range slices.Backward(found) {
		if first := start(e.path); first.Parent != "" {
			nested[first.Parent] = append(nested[first.Parent], e.path)
		}
	}
	return nested
}

// beganIn returns a function that reports whether a session began in dir, or in any folder if
// dir is empty. The bytes of the first line tell most of what can be thousands of sessions.
func beganIn(dir string) func(entry) bool {
	if dir == "" {
		return func(entry) bool { return true }
	}
	head := make([]byte, 4<<10)
	return func(e entry) bool {
		if !e.regular {
			return false
		}
		f, err := os.Open(filepath.Join(e.path, fileName))
		if err != nil {
			return false
		}
		n, _ := io.ReadFull(f, head)
		f.Close()
		line, _, whole := bytes.Cut(head[:n], []byte("\n"))
		if whole && !bytes.Contains(line, []byte(dir)) && !bytes.Contains(line, []byte(`\`)) {
			return false // without escapes, the line would contain the folder as it is
		}
		first, _ := header(e.path) // a damaged one has none
		return first.Dir == dir
	}
}

func start(path string) (e agent.Event) {
	in, err := openReader(path, os.O_RDONLY)
	if err != nil {
		return e
	}
	defer in.file.Close()
	if line, _, _, err := in.next(); err == nil {
		json.Unmarshal(line, &e)
	}
	return e
}

func inspectAll(found []entry, locks func() lockList) []Info {
	list := make([]Info, len(found))
	var wg sync.WaitGroup
	running := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, e := range found {
		running <- struct{}{}
		wg.Go(func() {
			list[i], _ = inspect(e.path, locks)
			<-running
		})
	}
	wg.Wait()
	return list
}

// An entry is a session that was not read yet.
type entry struct {
	path    string
	changed time.Time
	regular bool // the journal is a file
}

// sessions finds the folders of sessions, the most recently changed first.
func sessions(dirs []string) ([]entry, error) {
	var list []entry
	var errs error
	for _, dir := range dirs {
		found, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, fmt.Errorf("list sessions: %w", err))
		}
		for _, e := range found {
			path := filepath.Join(dir, e.Name())
			if info, err := os.Lstat(filepath.Join(path, fileName)); err == nil && ValidID(e.Name()) {
				list = append(list, entry{path, info.ModTime(), info.Mode().IsRegular()})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Or(b.changed.Compare(a.changed), strings.Compare(b.path, a.path))
	})
	return list, errs
}

func inspect(path string, locks func() lockList) (Info, error) {
	i := Info{Path: path}
	in, err := openReader(path, os.O_RDONLY)
	if err != nil {
		i.ID, i.Err = filepath.Base(path), err
		return i, err
	}
	defer in.file.Close()
	i.Size, i.Changed = in.info.Size(), in.info.ModTime().UTC()
	if in.blobs != "" {
		i.ID = filepath.Base(filepath.Dir(in.path))
		i.Size += sizeOf(string(in.blobs))
	}
	i.Size += sizeOf(CheckpointsOf(path, "").Dir)
	named := i.ID
	i.Err = i.read(in)
	i.ID = cmp.Or(named, i.ID)
	if i.Status == "" {
		i.PID = locks().of(in.info)
	}
	return i, i.Err
}

func (i *Info) read(in *reader) error {
	for {
		line, at, h, err := in.next()
		i.Turns, i.Dir = in.answers, in.dir
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := i.note(in, line, h); err != nil {
			return in.damage(at, in.line, err)
		}
	}
}

func (i *Info) note(in *reader, line []byte, h head) error {
	root, kind := string(h.session) == in.root, agent.EventKind(h.kind)
	var brief struct { // decoding what was said takes time
		Usage  *agent.Usage
		Status agent.Status
	}
	switch {
	case kind == agent.EventAnswer || kind == agent.EventCompaction || kind == agent.EventFailure || kind == agent.EventResume || root && kind == agent.EventEnd:
		if err := json.Unmarshal(line, &brief); err != nil {
			return err
		}
		if kind == agent.EventEnd {
			break
		}
		if brief.Status = ""; brief.Usage != nil {
			i.Usage = i.Usage.Add(*brief.Usage)
		}
	case root && (kind == agent.EventSession || kind == agent.EventMessage && i.Prompt == ""):
		var e agent.Event
		err := json.Unmarshal(line, &e)
		if err == nil {
			e, err = in.blobs.fill(e)
		}
		if err != nil {
			return err
		}
		if kind == agent.EventMessage {
			i.Prompt = FirstLine(e.Message)
		} else {
			i.ID, i.Agent, i.Source, i.Model, i.Parent, i.Started = e.Session, e.Agent, e.Source, e.Model, e.Parent, e.Time.UTC()
		}
	}
	if root {
		i.Status = brief.Status // that of the end, if nothing follows it
	}
	return nil
}

// FirstLine returns the first line of a message that is not blank, at most 200 bytes of it.
func FirstLine(m *agent.Message) string {
	if m == nil {
		return ""
	}
	for line := range strings.Lines(m.Text()) {
		if line = strings.TrimSpace(line); line != "" {
			return strings.ToValidUTF8(line[:min(len(line), 200)], "")
		}
	}
	return ""
}
