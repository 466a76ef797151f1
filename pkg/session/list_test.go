package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/google/go-cmp/cmp"
)

func TestIDsAreSafeAndSortByTime(t *testing.T) {
	form := regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[a-z2-7]{10}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := session.NewID()
		if !form.MatchString(id) || !session.ValidID(id) || seen[id] {
			t.Fatalf("NewID() = %q", id)
		}
		seen[id] = true
	}
	for _, id := range []string{"", ".", "..", "a/b", "a b", "é", "a\x00", strings.Repeat("a", 101)} {
		if session.ValidID(id) {
			t.Errorf("ValidID(%q) = true", id)
		}
		j := session.Create(t.TempDir(), session.Options{})
		if err := j.Append(t.Context(), agent.Event{Kind: agent.EventSession, Session: id}); err == nil {
			t.Errorf("a session %q was created", id)
		}
	}
}

func TestOnlyTheOwnerMayReadASession(t *testing.T) {
	path := closedSession(t)
	err := filepath.WalkDir(filepath.Dir(path), func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := os.FileMode(0o600); d.Type().IsRegular() && info.Mode() != want || d.IsDir() && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", name, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := os.ReadDir(filepath.Join(path, "blobs"))
	if err != nil || len(blobs) != 2 {
		t.Errorf("blobs: %v, %v; want a text file and an image", blobs, err)
	}
}

func TestASessionIsNotWrittenOverAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.jsonl")
	e := agent.Event{Kind: agent.EventSession, Session: "s"}
	for _, content := range []string{"mine", ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		j := session.CreateFile(path, session.Options{})
		if err := j.Append(t.Context(), e); errors.Is(err, os.ErrExist) != (content != "") {
			t.Errorf("Append to a file with %q: %v", content, err)
		}
		if b, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(b), content) {
			t.Errorf("then %q is in it, %v", b, err)
		}
		j.Close()
	}
	if n := len(collect(t, session.Events(path))); n != 1 {
		t.Errorf("%d events in what was an empty file", n)
	}
}

func TestNestedSessionsAreFoundByTheirCalls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	var paths []string
	for i, parent := range []string{"", "s.1.1", "s.1.2", "s.1.1"} {
		j := session.Create(dir, session.Options{})
		if err := errors.Join(j.Append(t.Context(), agent.Event{Kind: agent.EventSession, Session: j.NewID(), Parent: parent}), j.Close()); err != nil {
			t.Fatal(err)
		}
		changed := time.Unix(1_800_000_000+int64(i), 0)
		if err := os.Chtimes(filepath.Join(j.Path(), "journal.jsonl"), changed, changed); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, j.Path())
	}
	want := map[string][]string{"s.1.1": {paths[1], paths[3]}, "s.1.2": {paths[2]}}
	if diff := cmp.Diff(want, session.Nested(dir, filepath.Join(dir, "not-there"))); diff != "" {
		t.Error(diff)
	}
}

func TestListSaysWhatASessionIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	paths := map[string]string{}
	for i, name := range []string{"old", "broken", "open"} {
		j := session.Create(dir, session.Options{})
		run(t, j, session.NewID)
		if name == "open" {
			prompt := agent.UserText("and more")
			if err := j.Append(t.Context(), agent.Event{Kind: agent.EventMessage, Session: j.ID(), Message: &prompt}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
		} else if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		paths[name] = j.Path()
		changed := time.Unix(1_800_000_000+int64(i), 0)
		if err := os.Chtimes(filepath.Join(j.Path(), "journal.jsonl"), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, paths["broken"], `"all done"`)
	if err := os.Mkdir(filepath.Join(dir, "no-session"), 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := session.List(session.Filter{}, dir, filepath.Join(dir, "not-there"))
	if err != nil || len(list) != 3 {
		t.Fatalf("List = %+v, %v", list, err)
	}
	for i, name := range []string{"open", "broken", "old"} {
		got := list[i]
		if got.Path != paths[name] || got.ID != filepath.Base(paths[name]) || got.Agent != "root" || got.Model != "m1" || got.Prompt != "go" || got.Started.IsZero() || got.Size < 150_000 {
			t.Errorf("%s: %+v", name, got)
		}
		if _, damaged := errors.AsType[*session.DamageError](got.Err); damaged != (name == "broken") {
			t.Errorf("%s: error %v", name, got.Err)
		}
	}
	if got := list[2]; got.Turns != 3 || got.Usage.Requests != 5 || got.Usage.Cost != agent.Dollar*3/4 || got.Status != agent.StatusOK || got.PID != 0 {
		t.Errorf("finished: %+v", got)
	}
	if got := list[0]; got.Status != "" || got.PID != os.Getpid() && runtime.GOOS == "linux" {
		t.Errorf("open: %+v, want the process %d", got, os.Getpid())
	}
}

func TestListReadsNoMoreThanItNeeds(t *testing.T) {
	dir := t.TempDir()
	var ids []string // the newest first
	for i := range 40 {
		id := fmt.Sprintf("s%02d", 39-i)
		ids = append([]string{id}, ids...)
		j := session.Create(dir, session.Options{})
		if err := j.Append(t.Context(), agent.Event{Kind: agent.EventSession, Session: id, Agent: fmt.Sprint("agent", i%2)}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		changed := time.Unix(1_800_000_000+int64(i), 0)
		if err := os.Chtimes(filepath.Join(j.Path(), "journal.jsonl"), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	read := 0
	list, err := session.List(session.Filter{Limit: 3, Want: func(i *session.Info) bool {
		read++
		return i.Agent == "agent1"
	}}, dir)
	if err != nil || len(list) != 3 || list[0].ID != ids[0] || list[1].ID != ids[2] || list[2].ID != ids[4] {
		t.Errorf("List = %+v, %v; want %s, %s and %s", list, err, ids[0], ids[2], ids[4])
	}
	if most := 5 + 3*max(3, runtime.GOMAXPROCS(0)); read > most {
		t.Errorf("%d sessions were read, want at most %d", read, most)
	}
	if list, err := session.List(session.Filter{Want: func(*session.Info) bool { return false }}, dir); len(list) > 0 || err != nil {
		t.Errorf("List of none = %+v, %v", list, err)
	}
}

func TestListOfAFolderAndOfATime(t *testing.T) {
	dir, here, there := t.TempDir(), t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(here, link); err != nil {
		t.Fatal(err)
	}
	for i, cwd := range []string{here, there, link, ""} {
		id := fmt.Sprint("s", i)
		j := session.Create(dir, session.Options{Dir: cwd})
		if err := j.Append(t.Context(), agent.Event{Kind: agent.EventSession, Session: id, Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		changed := time.Unix(1_700_000_000+int64(i), 0)
		if err := os.Chtimes(filepath.Join(j.Path(), "journal.jsonl"), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	// Where a session is continued does not matter.
	j, _, err := session.Open(filepath.Join(dir, "s0"), session.Options{Dir: there})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(t.Context(), agent.Event{Kind: agent.EventSetup, Session: "s0"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    session.Filter
		want string
	}{
		{session.Filter{}, "s0 s3 s2 s1"},
		{session.Filter{Limit: 3}, "s0 s3 s2"},
		{session.Filter{Dir: here}, "s0 s2"},
		{session.Filter{Dir: link, Limit: 1}, "s0"},
		{session.Filter{Dir: there}, "s1"},
		{session.Filter{Dir: t.TempDir()}, ""},
		{session.Filter{Before: time.Unix(1_700_000_003, 0)}, "s2 s1"},
		{session.Filter{Before: time.Unix(1_700_000_003, 0), Dir: there}, "s1"},
	} {
		list, err := session.List(tt.f, dir)
		var ids []string
		for _, i := range list {
			ids = append(ids, i.ID)
			if want := map[string]string{"s0": here, "s1": there, "s2": here}[i.ID]; i.Dir != want {
				t.Errorf("%s began in %q, want %q", i.ID, i.Dir, want)
			}
			if i.Changed.Location() != time.UTC || i.Started.Location() != time.UTC {
				t.Errorf("%s: times %v and %v are not in UTC", i.ID, i.Started, i.Changed)
			}
		}
		if got := strings.Join(ids, " "); got != tt.want || err != nil {
			t.Errorf("List(%+v) = %s, %v; want %s", tt.f, got, err, tt.want)
		}
	}
}

// Whatever is in the name of a folder, its sessions are found, and no others.
func TestListOfAnyFolder(t *testing.T) {
	dir, top := t.TempDir(), t.TempDir()
	names := []string{"plain", "plain/below", "a b", `a"b`, `a\b`, "é", "<&>", "\u2028", "\x01", "tab\tnew\nline", strings.Repeat("long/", 900) + "end"}
	for i, name := range names {
		first, err := json.Marshal(map[string]any{"kind": "journal", "dir": filepath.Join(top, name), "after": strings.Repeat("x", i*600)})
		path := filepath.Join(dir, fmt.Sprint("s", i))
		if err := errors.Join(err, os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "journal.jsonl"), append(first, '\n'), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		list, err := session.List(session.Filter{Dir: filepath.Join(top, name)}, dir)
		if len(list) != 1 || list[0].ID != fmt.Sprint("s", i) || err != nil {
			t.Errorf("the sessions of %.20q: %+v, %v", name, list, err)
		}
	}
}

// damage changes a byte of a journal.
func damage(t *testing.T, path, where string) {
	t.Helper()
	file := filepath.Join(path, "journal.jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(b), where)
	if i < 0 {
		t.Fatalf("no %s in the journal", where)
	}
	b[i+2] ^= 1
	info, _ := os.Stat(file)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for i, id := range []string{"20260101-000000-aaaa", "20260101-000000-bbbb", "20260102-000000-cccc"} {
		j := session.Create(dir, session.Options{})
		parent := ""
		if i == 2 {
			parent = "other.1.1"
		}
		if err := j.Append(t.Context(), agent.Event{Kind: agent.EventSession, Session: id, Parent: parent}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		changed := time.Unix(1_800_000_000+int64(i), 0)
		os.Chtimes(filepath.Join(j.Path(), "journal.jsonl"), changed, changed)
	}
	for name, want := range map[string]string{
		"20260101-000000-aaaa": "20260101-000000-aaaa",
		"20260101-000000-b":    "20260101-000000-bbbb",
		"20260102":             "20260102-000000-cccc",
		"cccc":                 "20260102-000000-cccc",
		"bb":                   "20260101-000000-bbbb",
		"latest":               "20260101-000000-bbbb", // the last answers a call of another process
	} {
		if got, err := session.Find(name, dir); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("Find(%q) = %q, %v, want %s", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"2026":    "3 match",
		"00000":   "no such session", // the time is not the random part
		"nothing": `find session "nothing": no such session in ` + dir,
		"":        `find session "": no such session in ` + dir,
		"./x":     "no such file",
	} {
		if got, err := session.Find(name, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q) = %q, %v, want %s", name, got, err, want)
		}
	}
	if path := filepath.Join(dir, "20260102-000000-cccc"); !strings.HasPrefix(path, dir) {
		t.Fatal()
	} else if got, err := session.Find(path); err != nil || got != path {
		t.Errorf("Find(%q) = %q, %v", path, got, err)
	}
}

func TestAForkHasCompleteTurnsAndOwnIDs(t *testing.T) {
	path := closedSession(t)
	original := map[string]bool{}
	for e := range session.Events(path) {
		original[e.Session] = true
	}
	if len(original) < 2 {
		t.Fatal("there is no session of a sub-agent")
	}
	dir := t.TempDir()
	for turn := 1; turn <= 3; turn++ {
		j := session.Create(dir, session.Options{})
		id := fmt.Sprintf("fork-%d", turn)
		if err := session.Copy(j, session.UpTo(session.Rename(session.Events(path), id), turn)); err != nil {
			t.Fatal(err)
		}
		fork, past := open(t, j.Path())
		if fork.ID() != id || past.Session.Turn != turn || len(past.Started) != 0 {
			t.Errorf("turn %d: %q, %+v", turn, fork.ID(), past)
		}
		f := &effects{}
		r := &runner.Runner{Agent: newTree(f), Journal: fork, NewID: fork.NewID, From: &past.Resume}
		if past.Session.Unfinished() != (turn < 3) {
			t.Errorf("turn %d: unfinished %v", turn, past.Session.Unfinished())
		}
		if turn < 3 {
			if out, err := r.Resume(t.Context()); err != nil || out.Answer != "all done" || out.Session != id {
				t.Errorf("turn %d: %+v, %v", turn, out, err)
			}
		}
		if want := map[int]int{1: 1, 2: 0, 3: 0}[turn]; len(f.keys) != want {
			t.Errorf("turn %d: calls %v, want %d", turn, f.keys, want)
		}
		for e, err := range session.Events(j.Path()) {
			keyOf, _, _ := strings.Cut(e.Key, ".")
			parentOf, _, _ := strings.Cut(e.Parent, ".")
			if err != nil || original[e.Session] || original[keyOf] || original[parentOf] {
				t.Errorf("turn %d: %+v, %v", turn, e, err)
			}
		}
	}
	for turn, want := range map[int]string{0: "there is no turn 0", 4: "there is no turn 4: the session has 3"} {
		err := session.Copy(session.Create(dir, session.Options{}), session.UpTo(session.Rename(session.Events(path), "x"), turn))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("turn %d: %v, want %s", turn, err, want)
		}
	}
	if list, err := session.List(session.Filter{}, dir); err != nil || len(list) != 3 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

func TestTheSessionOfASubAgentContinuesAlone(t *testing.T) {
	at := func(session, parent string, depth int) agent.Event {
		return agent.Event{Kind: agent.EventWarning, Session: session, Parent: parent, Depth: depth}
	}
	events := []agent.Event{at("root", "", 0), at("sub", "root.1.1", 1), at("other", "root.1.2", 1), at("deep", "sub.1.1", 2), at("deepest", "deep.1.1", 3), at("sub", "root.1.1", 1), at("root", "", 0)}
	var got []agent.Event
	all := func(yield func(agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	for e, err := range session.Alone(all, "sub") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []agent.Event{at("sub", "", 0), at("deep", "sub.1.1", 1), at("deepest", "deep.1.1", 2), at("sub", "", 0)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	path, id := closedSession(t), ""
	for e := range session.Events(path) {
		if e.Agent == "expert" {
			id = e.Session
		}
	}
	j := session.Create(t.TempDir(), session.Options{})
	if err := session.Copy(j, session.UpTo(session.Rename(session.Alone(session.Events(path), id), "fork"), 1)); err != nil {
		t.Fatal(err)
	}
	fork, past := open(t, j.Path())
	expert := newTree(&effects{}).Toolsets[0].(agent.ToolList)[3].(*agent.Subagent).Agent
	r := &runner.Runner{Agent: expert, Journal: fork, NewID: fork.NewID, From: &past.Resume}
	if out, err := r.Resume(t.Context()); err != nil || !strings.HasPrefix(out.Answer, "expert says") || out.Session != "fork" {
		t.Errorf("the expert alone: %+v, %v", out, err)
	}
}

func TestWhatComesBeforeDamageCanBeCopied(t *testing.T) {
	path := closedSession(t)
	damage(t, path, `"all done"`)
	_, _, err := session.Open(path, session.Options{})
	d, ok := errors.AsType[*session.DamageError](err)
	if !ok || d.Turns != 2 {
		t.Fatalf("Open = %v, want damage after two turns", err)
	}
	dir := t.TempDir()
	if err := session.Copy(session.Create(dir, session.Options{}), session.UpTo(session.Rename(session.Events(path), "copy"), d.Turns)); err != nil {
		t.Fatal(err)
	}
	_, past := open(t, filepath.Join(dir, "copy"))
	if past.Session.Turn != 2 {
		t.Errorf("the copy has %d turns", past.Session.Turn)
	}
}

func TestAMissingOrChangedBlobIsDamage(t *testing.T) {
	for _, change := range []func(string) error{os.Remove, func(name string) error { return os.WriteFile(name, []byte("other"), 0o600) }} {
		path := closedSession(t)
		blobs, err := filepath.Glob(filepath.Join(path, "blobs", "*"))
		if err != nil || len(blobs) == 0 {
			t.Fatal(err)
		}
		if err := change(blobs[0]); err != nil {
			t.Fatal(err)
		}
		_, _, err = session.Open(path, session.Options{})
		if _, ok := errors.AsType[*session.DamageError](err); !ok || !strings.Contains(err.Error(), blobs[0]) {
			t.Errorf("error = %v, want damage that names %s", err, blobs[0])
		}
		if err := session.Remove(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after Remove: %v", err)
		}
	}
}

func TestRemoveLeavesWhatIsNotOfTheSession(t *testing.T) {
	path := closedSession(t)
	mine := filepath.Join(path, "notes.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := session.Remove(path); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(path, "*")); err != nil || len(left) != 1 || left[0] != mine {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestCopyRefusesWhatCannotBeOpened(t *testing.T) {
	path := closedSession(t)
	without := func(kind agent.EventKind) iter.Seq2[agent.Event, error] {
		return func(yield func(agent.Event, error) bool) {
			for e, err := range session.Events(path) {
				if e.Kind != kind && !yield(e, err) {
					return
				}
			}
		}
	}
	dir := t.TempDir()
	err := session.Copy(session.Create(dir, session.Options{}), without(agent.EventAnswer))
	if err == nil || !strings.Contains(err.Error(), "event 4 (call_started)") {
		t.Errorf("error = %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEventsAreThoseThatWereAppended(t *testing.T) {
	j := session.Create(t.TempDir(), session.Options{})
	kept := &keeper{Journal: j}
	run(t, kept, session.NewID)
	got := collect(t, session.Events(j.Path())) // while it is open
	if diff := cmp.Diff(kept.events, got, quickly); diff != "" {
		t.Errorf("(-appended +read):\n%s", diff)
	}
	if blobs, err := os.ReadDir(filepath.Join(j.Path(), "blobs")); err != nil || len(blobs) != 2 {
		t.Errorf("%d contents are beside the file, want 2: %v", len(blobs), err)
	}
	j.Close()
}

type keeper struct {
	agent.Journal
	events []agent.Event
}

func (k *keeper) Append(ctx context.Context, e agent.Event) error {
	k.events = append(k.events, e)
	return k.Journal.Append(ctx, e)
}

// Whatever a tree does, with compactions, a journal gives back the session as it
// was.
func TestReplayEqualsLiveWhateverHappens(t *testing.T) {
	t.Parallel()
	compactions := 0
	for seed := range uint64(40) {
		j := session.Create(t.TempDir(), session.Options{})
		r := &runner.Runner{Agent: randomTree(seed, 0), Journal: j, NewID: session.NewID, Observe: func(e agent.Event) {
			if e.Kind == agent.EventCompaction && e.Depth == 0 {
				compactions++
			}
		}}
		for range 1 + seed%3 {
			if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		_, past := open(t, j.Path())
		if diff := difference(r.Session(), past.Session); diff != "" {
			t.Errorf("seed %d: replay differs (-live +replayed):\n%s", seed, diff)
		}
	}
	if compactions == 0 {
		t.Error("no conversation was shortened")
	}
}

// randomTree is an agent whose model decides by chance, but always in the same
// way in the same situation.
func randomTree(seed uint64, depth int) *agent.Agent {
	big := tool{"big", agent.EffectsNone, func(inv *agent.Invocation) agent.Result {
		return agent.TextResult(strings.Repeat(inv.Key+"\n", 200))
	}}
	tools := agent.ToolList{big, (&effects{}).tool("once", agent.EffectsOnce)}
	if depth < 2 {
		tools = append(tools, &agent.Subagent{Name: "sub", Agent: randomTree(seed+1, depth+1)})
	}
	a := &agent.Agent{Slug: fmt.Sprintf("a%d", depth), Model: "m", Toolsets: []agent.Toolset{tools}, ContextTokens: 4000}
	a.Provider = model(func(req *agent.Request) (resp *agent.Response) {
		defer func() { resp.Usage = agent.Usage{} }() // it does not count
		if req.Summary {
			return text("what was done")
		}
		rng := rand.New(rand.NewPCG(seed, uint64(req.Turn)))
		names := []string{"big", "once", "unknown", "sub"}
		var list []agent.ToolCall
		for range rng.IntN(3 - depth) {
			list = append(list, call([]string{"", "x", fmt.Sprint("id", req.Turn)}[rng.IntN(3)], names[rng.IntN(len(names))], `{"prompt":"q"}`))
		}
		if len(list) == 0 || req.Turn%12 == 0 {
			return text("answer")
		}
		return calls(list...)
	})
	return a
}

// Opening needs memory for what goes to the model, and not for the history.
func TestMemoryOfOpeningDoesNotGrowWithTheHistory(t *testing.T) {
	path := longSession(t, 3000, 200)
	info, err := session.Inspect(path)
	if err != nil || info.Turns != 3001 || info.Size < 6<<20 {
		t.Fatalf("Inspect = %+v, %v", info, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	j, past, err := session.Open(path, session.Options{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n := len(past.Session.Messages); n == 0 || n > 20 || past.Session.Turn != 3001 {
		t.Errorf("%d messages, turn %d", n, past.Session.Turn)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("opening %d MB allocated %d kB, want less than 2 MB", info.Size>>20, used>>10)
	}
	if n := after.Mallocs - before.Mallocs; n > 1000 {
		t.Errorf("opening made %d allocations, want less than 1000", n)
	}
}

// A copy of a session that answers a call of another process is a session of its own. Its
// sub-agents still answer its calls.
func TestACopyAnswersNoCall(t *testing.T) {
	events := []agent.Event{
		{Kind: agent.EventSession, Session: "inner", Agent: "inner", Parent: "outer.1.1"},
		{Kind: agent.EventMessage, Session: "inner", Agent: "inner", Parent: "outer.1.1", Message: &agent.Message{Role: agent.RoleUser}},
		{Kind: agent.EventSession, Session: "sub", Agent: "sub", Parent: "inner.1.1", Depth: 1},
		{Kind: agent.EventEnd, Session: "inner", Agent: "inner", Parent: "outer.1.1"},
	}
	all := func(yield func(agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	var got []string
	for e := range session.Rename(all, "copy") {
		got = append(got, e.Parent)
	}
	if want := []string{"", "", "copy.1.1", ""}; !slices.Equal(got, want) {
		t.Errorf("the parents are %q, want %q", got, want)
	}
}
