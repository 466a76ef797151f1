package checkpoint

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/folder"
)

// A world is a folder with a Store beside it.
type world struct {
	t      *testing.T
	folder string
	place  Place
	store  *Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, folder: filepath.Join(dir, "folder"), place: Place{Dir: filepath.Join(dir, "store"), Session: "one"}}
	if err := os.Mkdir(w.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := Open(context.Background(), w.place, w.folder)
	if err != nil {
		w.t.Fatal(err)
	}
	s.limits.watch = 0 // the system tells what changes, where it can
	w.store = s
	w.t.Cleanup(func() { s.Close() })
}

func (w *world) path(name string) string { return filepath.Join(w.folder, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(w.path(name)), 0o755), os.WriteFile(w.path(name), []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) text(name string) string {
	text, err := os.ReadFile(w.path(name))
	if err != nil {
		return ""
	}
	return string(text)
}

// call does something as a call of a turn.
func (w *world) call(turn int, do func()) {
	w.t.Helper()
	if err := w.store.before(context.Background(), turn, false); err != nil {
		w.t.Fatal(err)
	}
	do()
	if err := w.store.after(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) plan(turn int) *Plan {
	w.t.Helper()
	p, err := w.store.Plan(turn)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) undo(turn int) *Plan {
	w.t.Helper()
	p := w.plan(turn)
	stays, err := w.store.Undo(context.Background(), p)
	if err != nil || len(stays) > 0 {
		w.t.Fatalf("undo of turn %d: %v, %+v", turn, err, stays)
	}
	return p
}

// tree describes everything in a folder, byte for byte.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch rel, _ := filepath.Rel(dir, path); {
		case d.Type()&fs.ModeSymlink != 0:
			text, err = os.Readlink(path)
			fmt.Fprintf(&b, "%q -> %q\n", rel, text)
		case d.IsDir():
			fmt.Fprintf(&b, "%q %v\n", rel, info.Mode())
		default:
			var content []byte
			content, err = os.ReadFile(path)
			fmt.Fprintf(&b, "%q %v %q\n", rel, info.Mode(), content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func whys(list []Item) (why []string) {
	for _, i := range list {
		why = append(why, i.Path+": "+i.Why)
	}
	return why
}

func paths(list []Item) (done []string) {
	for _, i := range list {
		done = append(done, i.Do+" "+i.Path)
	}
	return done
}

// edit changes something in the folder at random. Whatever links are there, it changes nothing
// outside.
func edit(r *rand.Rand, dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	names := []string{"a", "A", "b c", "d\ne", "ü", ".hidden", "x/y", "x/Y", "x/y/z", "deep/er/est"}
	pick := func() string { return names[r.Intn(len(names))] }
	p, q := pick(), pick()
	text := strings.Repeat(string(rune('a'+r.Intn(26))), r.Intn(40))
	switch r.Intn(11) {
	case 0, 1, 2:
		_ = root.MkdirAll(filepath.Dir(p), 0o755)
		_ = root.WriteFile(p, []byte(text), 0o644)
	case 3:
		if f, err := root.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.WriteString(text)
			_ = f.Close()
		}
	case 4:
		if info, err := root.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			mode := []fs.FileMode{0o644, 0o755, 0o600, 0o711, 0o755 | fs.ModeSetuid}[r.Intn(5)]
			if info.IsDir() {
				mode |= 0o700
			}
			_ = root.Chmod(p, mode)
		}
	case 5, 6:
		_ = root.Rename(p, q)
	case 7:
		_ = root.Symlink([]string{"a", "../elsewhere", "/nonexistent/file", "x"}[r.Intn(4)], p)
	case 8:
		_ = root.Remove(p)
	case 9:
		_ = root.RemoveAll(p)
	case 10:
		_ = root.MkdirAll(p, 0o755)
	}
}

var seeds = flag.Int64("seeds", 15, "how many sequences of random edits are undone")

// Random edits in several turns, in several processes, are put back byte for byte, and the undo
// is too.
func TestUndoOfRandomEdits(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		w := newWorld(t)
		r := rand.New(rand.NewSource(seed))
		for range 10 {
			edit(r, w.folder)
		}
		var states []string
		for turn := 1; turn <= 4; turn++ {
			states = append(states, tree(t, w.folder))
			for range 1 + r.Intn(2) {
				w.call(turn, func() {
					for range r.Intn(8) {
						edit(r, w.folder)
					}
				})
			}
			if r.Intn(3) == 0 {
				w.store.Close()
				w.open()
			}
		}
		last := tree(t, w.folder)
		turn := 1 + r.Intn(4)
		w.undo(turn)
		if got := tree(t, w.folder); got != states[turn-1] {
			t.Fatalf("seed %d: undo of turn %d:\n%s\nwant\n%s", seed, turn, got, states[turn-1])
		}
		w.undo(0)
		if got := tree(t, w.folder); got != last {
			t.Fatalf("seed %d: undo of the undo:\n%s\nwant\n%s", seed, got, last)
		}
		if got := w.undo(1); tree(t, w.folder) != states[0] {
			t.Fatalf("seed %d: undo of everything: %v", seed, paths(got.Items))
		}
	}
}

// After random edits, a look at everything finds nothing that the system did not tell.
func TestNothingChangesUnseen(t *testing.T) {
	t.Parallel()
	partly := 0
	for seed := range *seeds {
		w := newWorld(t)
		r := rand.New(rand.NewSource(seed))
		for range 10 {
			edit(r, w.folder)
		}
		other := filepath.Join(filepath.Dir(w.folder), "other name")
		_ = os.Link(w.path("a"), other) // it can change by its other name
		w.call(1, func() {})            // afterwards the system tells
		for turn := range 30 {
			before := w.store.watches
			w.call(turn, func() {
				for range r.Intn(10) {
					edit(r, w.folder)
				}
				if f, err := os.OpenFile(other, os.O_WRONLY|os.O_APPEND, 0); err == nil {
					_, _ = f.WriteString("more")
					_ = f.Close()
				}
			})
			if w.store.watch != nil && w.store.watches == before {
				partly++
			}
			if r.Intn(3) > 0 {
				continue
			}
			index := maps.Clone(w.store.index)
			w.store.unwatch()
			list, err := w.store.scan(t.Context())
			if err != nil || len(list) > 0 || len(index) != len(w.store.index) {
				t.Fatalf("seed %d, call %d: not seen: %v, %v", seed, turn, list, err)
			}
			w.store.watches = 0
		}
	}
	d, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if watch := folder.NewWatch(d); watch != nil {
		if watch.Close(); partly == 0 {
			t.Error("the system never told what changed")
		}
	}
}

// The store is as it was at any of its writes when the machine loses power: what was synced is
// there, and any part of the rest.
func TestUndoAfterPowerLoss(t *testing.T) {
	t.Parallel()
	type moment struct {
		store, folder string
		synced        int64 // bytes of the log
		turn          int   // of the call
	}
	w := newWorld(t)
	r := rand.New(rand.NewSource(7))
	var moments []moment
	var synced int64
	states := []string{"", ""}
	turn := 0
	w.store.fail = func(op string) error {
		m := moment{t.TempDir(), t.TempDir(), synced, turn}
		if err := errors.Join(os.CopyFS(m.store, os.DirFS(w.place.Dir)), copyTree(w.folder, m.folder)); err != nil {
			t.Fatal(err)
		}
		moments = append(moments, m)
		if op == "sync log" {
			synced = w.store.size
		}
		return nil
	}
	for range 5 {
		edit(r, w.folder)
	}
	for turn = 1; turn <= 3; turn++ {
		states = append(states[:turn], tree(t, w.folder))
		w.call(turn, func() {
			for range 4 {
				edit(r, w.folder)
			}
			_ = w.store.fail("during the call")
		})
	}
	w.store.Close()
	for _, m := range moments {
		info, err := os.Stat(filepath.Join(m.store, logName))
		if err != nil {
			t.Fatal(err)
		}
		for cut := m.synced; cut <= info.Size(); cut += max(1, (info.Size()-m.synced)/7) {
			if err := errors.Join(os.RemoveAll(w.place.Dir), os.RemoveAll(w.folder), os.Mkdir(w.folder, 0o755), copyTree(m.folder, w.folder),
				os.CopyFS(w.place.Dir, os.DirFS(m.store)), os.Truncate(filepath.Join(w.place.Dir, logName), cut)); err != nil {
				t.Fatal(err)
			}
			w.open()
			p := w.undo(m.turn)
			if got := tree(t, w.folder); got != states[m.turn] || len(p.Stays) > 0 {
				t.Fatalf("turn %d, log cut at %d of %d..%d:\n%s\nwant\n%s\nplan %v", m.turn, cut, m.synced, info.Size(), got, states[m.turn], paths(p.Items))
			}
			w.store.Close()
		}
	}
	if len(moments) < 10 {
		t.Errorf("only %d moments", len(moments))
	}
}

// copyTree copies with links and modes.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return errors.Join(os.MkdirAll(target, 0o755), os.Chmod(target, info.Mode()))
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, target))
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(target, text, 0o600), os.Chmod(target, info.Mode()))
	})
}

func TestWhatOthersChangeStays(t *testing.T) {
	w := newWorld(t)
	w.write("mine", "1")
	w.write("between", "1")
	w.write("asked", "1")
	w.write("other", "1")
	w.call(1, func() {
		w.write("mine", "2")
		w.write("between", "2")
		w.write("asked", "2")
		w.write("other", "2")
		w.write("new/file", "2")
	})
	w.write("between", "person")
	w.call(2, func() { w.write("between", "3") })
	w.write("mine", "person")
	w.write("new/person", "x")
	p := w.plan(1)
	want := []string{"between: it was changed by somebody else since", "mine: it was changed by somebody else since"}
	if got := whys(p.Stays); !slices.Equal(got, want) {
		t.Errorf("stays %q, want %q", got, want)
	}
	w.write("asked", "while being asked")
	stays, err := w.store.Undo(context.Background(), p)
	want = []string{"new: directory not empty", "asked: it changed in the meantime"}
	if got := whys(stays); err != nil || !slices.Equal(got, want) {
		t.Errorf("undo: %v, stays %q, want %q", err, got, want)
	}
	for name, want := range map[string]string{"mine": "person", "between": "3", "asked": "while being asked", "other": "1", "new/file": "", "new/person": "x"} {
		if got := w.text(name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// A file that changes within one tick of the clock, to the same size, is seen all the same.
func TestAChangeInTheSameTick(t *testing.T) {
	w := newWorld(t)
	at := time.Now().Add(-time.Minute)
	w.write("f", "1")
	for n := range 20 {
		was := w.text("f")
		w.call(n+1, func() { w.write("f", fmt.Sprint(n%10)) })
		w.call(n+1, func() { w.write("f", "x") })
		if w.undo(n + 1); w.text("f") != was {
			t.Fatalf("round %d: %q, want %q", n, w.text("f"), was)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	w.call(100, func() { // the times that it had: only the inode's own time tells
		_ = os.Chtimes(w.path("f"), at, at)
	})
	time.Sleep(150 * time.Millisecond) // more than a tick
	w.call(101, func() {
		w.write("f", "y")
		_ = os.Chtimes(w.path("f"), at, at)
	})
	if p := w.plan(101); len(p.Items) != 1 {
		t.Errorf("plan %v", paths(p.Items))
	}
}

func TestTheProcessDiesInACall(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	if err := w.store.before(context.Background(), 3, false); err != nil {
		t.Fatal(err)
	}
	w.write("f", "2")
	w.store.Close()
	w.open()
	p := w.undo(3)
	if w.text("f") != "1" || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "ended during a call of turn 3") {
		t.Errorf("f has %q, notes %q", w.text("f"), p.Notes)
	}
}

func TestTheProcessDiesInAnUndo(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	w.write("g", "1")
	w.call(1, func() {
		w.write("f", "2")
		w.write("g", "2")
	})
	if err := w.store.before(context.Background(), 0, true); err != nil {
		t.Fatal(err)
	}
	w.write("f", "1")
	w.store.Close()
	w.open()
	p := w.undo(1)
	if w.text("f") != "1" || w.text("g") != "1" || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "during an undo") {
		t.Errorf("f has %q, g %q, notes %q", w.text("f"), w.text("g"), p.Notes)
	}
}

func TestADamagedLineDropsNoOther(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	w.write("g", "1")
	w.call(1, func() { w.write("f", "2") })
	w.call(2, func() { w.write("g", "2") })
	w.store.Close()
	log := filepath.Join(w.place.Dir, logName)
	text, _ := os.ReadFile(log)
	lines := strings.SplitAfter(string(text), "\n")
	lines[2] = strings.Replace(lines[2], "turn", "Turn", 1) // after turn 1
	if err := os.WriteFile(log, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.open()
	p := w.undo(1)
	if w.text("g") != "1" || w.text("f") != "2" || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "1 lines") {
		t.Errorf("f has %q, g %q; notes %q", w.text("f"), w.text("g"), p.Notes)
	}
}

// A log from elsewhere names paths outside of the folder, or behind a link in it.
func TestALogFromElsewhereStaysInTheFolder(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write("dir/victim", "1")
	w.call(1, func() { w.write("dir/victim", "2") })
	var was, is *state
	h, _ := read(w.place.Dir)
	for _, c := range h.lines[len(h.lines)-1].Changes {
		was, is = c.Was, c.Is
	}
	list := []change{}
	for _, path := range []string{"../victim", victim, "dir/../../victim", ".git/config", "dir/.git", "link/victim", ".", ""} {
		list = append(list, change{Path: path, Was: was, Is: is}, change{Path: path + "2", Was: was})
	}
	if err := w.store.append(line{Kind: kindAfter, N: 9, Turn: 2, Folder: w.folder, Changes: list}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, w.path("link")); err != nil {
		t.Skip(err)
	}
	_ = os.WriteFile(victim, []byte("2"), 0o600)
	w.write(".git/config", "2")
	stays, err := w.store.Undo(context.Background(), w.plan(2))
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(victim); string(text) != "2" || w.text(".git/config") != "2" {
		t.Errorf("a file outside has %q, one of .git %q; stays %q", text, w.text(".git/config"), whys(stays))
	}
	if list, _ := os.ReadDir(outside); len(list) != 1 {
		t.Errorf("outside there is %v", list)
	}
}

func TestWhatIsNotKept(t *testing.T) {
	w := newWorld(t)
	w.store.limits.file = 10
	w.place.Skip = []string{w.path("sessions")}
	w.write("large", strings.Repeat("x", 20))
	w.write("node_modules/m", "1")
	w.write("grown", "1")
	w.call(1, func() {
		w.write("large", strings.Repeat("y", 20))
		w.write("node_modules/m", "2")
		w.write("grown", strings.Repeat("y", 20))
		w.write("new", strings.Repeat("z", 20))
		w.write("small", "z")
	})
	p := w.undo(1)
	if got := whys(p.Stays); !slices.Equal(got, []string{"grown: not kept", "large: not kept", "new: not kept"}) {
		t.Errorf("stays %q", got)
	}
	if w.text("small") != "" || w.text("node_modules/m") != "2" || w.text("new") == "" {
		t.Error("something else was put back")
	}
	w.store.limits.store = w.store.used + 3
	w.write("f", "one content that has no room any more")
	w.call(2, func() { w.write("f", "2") })
	if got := whys(w.plan(2).Stays); !slices.Equal(got, []string{"f: not kept"}) {
		t.Errorf("stays %q", got)
	}
}

func TestAFolderWithTooManyFiles(t *testing.T) {
	w := newWorld(t)
	w.write("a", "1")
	w.write("b", "1")
	k := &Keeper{Folder: w.folder, store: w.store}
	w.store.limits.files = 1
	for n := range 3 {
		ended, err := k.Before(context.Background(), 4)
		ended()
		if (err != nil) != (n == 0) || n == 0 && !strings.Contains(err.Error(), "more than 1 files") {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if p := w.plan(1); len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "nothing was kept from turn 4 on") {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestCallsThatOverlapShareACheckpoint(t *testing.T) {
	w := newWorld(t)
	w.store.Close()
	k := &Keeper{Folder: w.folder, Place: func() Place { return w.place }}
	first, err1 := k.Before(context.Background(), 1)
	second, err2 := k.Before(context.Background(), 1)
	w.write("one", "1")
	first()
	w.write("two", "2")
	second()
	if err := errors.Join(err1, err2, k.Close()); err != nil {
		t.Fatal(err)
	}
	h, _ := read(w.place.Dir)
	if len(h.lines) != 3 || len(h.lines[2].Changes) != 2 {
		t.Errorf("the log has %d lines: %+v", len(h.lines), h.lines)
	}
	if ended, err := k.Before(context.Background(), 2); err != nil {
		t.Error(err)
	} else {
		ended()
	}
}

// An interrupt ends the first checkpoint, and the next one begins from the start.
func TestTheFirstCheckpointIsInterrupted(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.store.before(ctx, 1, false); !errors.Is(err, context.Canceled) {
		t.Errorf("before: %v", err)
	}
	w.call(1, func() { w.write("f", "2") })
	if w.undo(1); w.text("f") != "1" {
		t.Errorf("f has %q", w.text("f"))
	}
}

// After a failed write, nothing that exists is taken for something that a call created.
func TestAWriteFails(t *testing.T) {
	full := errors.New("the disk is full")
	for n := 1; n <= 12; n++ {
		w := newWorld(t)
		w.write("f", "1")
		w.write("d/g", "1")
		left := n
		w.store.fail = func(string) error {
			if left--; left == 0 {
				return full
			}
			return nil
		}
		failed := false
		for turn := 1; turn <= 3; turn++ {
			err := w.store.before(context.Background(), turn, false)
			w.write("f", fmt.Sprint("turn ", turn))
			err = errors.Join(err, w.store.after(context.Background()))
			failed = failed || errors.Is(err, full)
		}
		w.store.Close()
		w.open()
		w.undo(1)
		if !failed && n < 9 || w.text("d/g") != "1" || w.text("f") == "" {
			t.Errorf("failure %d (%v): f has %q, g %q", n, failed, w.text("f"), w.text("d/g"))
		}
	}
}

func TestASessionBegunAnewUndoesNothingOfAnEarlierOne(t *testing.T) {
	w := newWorld(t)
	w.write("f", "1")
	w.call(1, func() { w.write("f", "2") })
	w.store.Close()
	w.place.Session = "two"
	if _, err := OpenLast(context.Background(), w.place); !errors.Is(err, ErrNone) {
		t.Errorf("OpenLast: %v", err)
	}
	w.open()
	if p := w.plan(1); len(p.Items) > 0 {
		t.Errorf("plan %v", paths(p.Items))
	}
	if packs, _ := filepath.Glob(filepath.Join(w.place.Dir, "*"+packSuffix)); len(packs) > 0 {
		t.Errorf("packs of the earlier one: %v", packs)
	}
}

// A copy of a session after an earlier turn continues with the same numbers.
func TestCopy(t *testing.T) {
	w := newWorld(t)
	w.write("f", "0")
	w.write("g", "0")
	for turn := 1; turn <= 3; turn++ {
		w.call(turn, func() { w.write("f", fmt.Sprint(turn)) })
	}
	w.undo(3)
	w.store.Close()
	from := w.place.Dir
	w.place = Place{Dir: filepath.Join(filepath.Dir(from), "copy"), Session: "two"}
	if err := Copy(from, w.place, 2); err != nil {
		t.Fatal(err)
	}
	if err := Remove(from); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(from); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first is still there: %v", err)
	}
	w.open()
	w.write("g", "person")
	w.call(3, func() { w.write("g", "three") })
	if w.undo(3); w.text("g") != "person" || w.text("f") != "2" {
		t.Errorf("turn 3: %q, %q", w.text("g"), w.text("f"))
	}
	if w.undo(2); w.text("f") != "1" {
		t.Errorf("turn 2: %q, %q", w.text("f"), whys(w.plan(2).Stays))
	}
	if err := Copy(filepath.Join(from, "none"), w.place, 1); err != nil {
		t.Error(err)
	}
}

// Folders that cannot be written are put back too, and stay as they are.
func TestFoldersWithoutPermission(t *testing.T) {
	w := newWorld(t)
	w.write("d/f", "1")
	was := tree(t, w.folder)
	w.call(1, func() {
		w.write("d/f", "2")
		w.write("new/sub/f", "2")
		_ = os.Chmod(w.path("d"), 0o555)
		_ = os.Chmod(w.path("new/sub"), 0o555)
		_ = os.Chmod(w.path("new"), 0o555)
	})
	last := tree(t, w.folder)
	if w.undo(1); tree(t, w.folder) != was {
		t.Errorf("undo:\n%s\nwant\n%s", tree(t, w.folder), was)
	}
	if w.undo(0); tree(t, w.folder) != last {
		t.Errorf("undo of the undo:\n%s\nwant\n%s", tree(t, w.folder), last)
	}
	for _, dir := range []string{"d", "new", "new/sub"} {
		_ = os.Chmod(w.path(dir), 0o755)
	}
}

// What is in a folder that cannot be read is not taken for removed.
func TestAFolderThatCannotBeRead(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("root and Windows can read every folder")
	}
	for _, mode := range []fs.FileMode{0o000, 0o400, 0o100} {
		w := newWorld(t)
		w.write("d/f", "1")
		w.call(1, func() { w.write("other", "2") })
		w.call(2, func() { _ = os.Chmod(w.path("d"), mode) })
		w.call(3, func() { w.write("other", "3") })
		if got := paths(w.plan(2).Items); !slices.Equal(got, []string{"put back d", "put back other"}) {
			t.Errorf("mode %o: %q", mode, got)
		}
		w.undo(2)
		if w.text("d/f") != "1" || w.text("other") != "2" {
			t.Errorf("mode %o: f has %q, other %q", mode, w.text("d/f"), w.text("other"))
		}
	}
}

// BenchmarkCall is what a call that changes nothing costs, in a folder of 100,000 files.
func BenchmarkCall(b *testing.B) {
	dir := b.TempDir()
	folder := filepath.Join(dir, "folder")
	for d := range 1000 {
		sub := filepath.Join(folder, fmt.Sprint(d%30), fmt.Sprint(d))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range 98 {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%d.go", f)), fmt.Appendf(nil, "%d %d %s", d, f, strings.Repeat("text ", 200)), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	start := time.Now()
	s, err := Open(context.Background(), Place{Dir: filepath.Join(dir, "store"), Session: "one"}, folder)
	if err == nil {
		err = s.before(context.Background(), 1, false)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("the first checkpoint took %v and %d bytes of packs, %d of the log", time.Since(start), s.used, s.size)
	_ = s.after(context.Background())
	time.Sleep(time.Second)
	_ = s.before(context.Background(), 1, false)
	for b.Loop() {
		if err := errors.Join(s.before(context.Background(), 1, false), s.after(context.Background())); err != nil {
			b.Fatal(err)
		}
	}
}
