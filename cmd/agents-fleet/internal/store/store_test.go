package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

// forms are all forms of a Store. location returns an empty one that other processes can open.
var forms = []struct {
	name     string
	location func(t *testing.T) string
}{
	{"folder", func(t *testing.T) string { return t.TempDir() }},
	{"encrypted folder", func(t *testing.T) string { return "encrypted:" + t.TempDir() }},
	{"s3", func(t *testing.T) string { return s3Server(t, unchanged) }},
	{"postgres", postgresServer},
}

func TestMain(m *testing.M) {
	if location := os.Getenv("STORE_TEST_WRITER"); location != "" {
		if err := writer(location, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if postgres.stop != nil {
		postgres.stop()
	}
	os.Exit(code)
}

type written struct{ Writer, N int }

// writer appends events of its own, one or two at a time, and prints how many of them the
// store has acknowledged.
func writer(location, id, count string) error {
	s, err := open(location)
	if err != nil {
		return err
	}
	defer s.Close()
	w, _ := strconv.Atoi(id)
	limit, _ := strconv.Atoi(count)
	after, n := int64(0), 0
	for n < limit {
		var events [][]byte
		for i := range 1 + n%2 {
			e, _ := json.Marshal(written{w, n + i})
			events = append(events, e)
		}
		err := s.Append(context.Background(), "record", after, events)
		if errors.Is(err, ErrBehind) {
			others, err := s.Read(context.Background(), "record", after)
			if err != nil {
				return err
			}
			after += int64(len(others))
			continue
		}
		if err != nil {
			return err
		}
		after += int64(len(events))
		n += len(events)
		fmt.Println(n)
	}
	return nil
}

// open opens a location of a test.
func open(location string) (Store, error) {
	location, encrypted := strings.CutPrefix(location, "encrypted:")
	s, err := Open(context.Background(), location)
	if err == nil && encrypted {
		return Encrypt(s, testKey)
	}
	return s, err
}

var testKey = bytes.Repeat([]byte{7}, 32)

func opened(t *testing.T, location string) Store {
	t.Helper()
	s, err := open(location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func startWriter(t *testing.T, location string, id, count int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], strconv.Itoa(id), strconv.Itoa(count))
	cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+location)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// countWritten fails unless each writer's events are in the record once and in order. It
// returns how many there are of each.
func countWritten(t *testing.T, s Store) map[int]int {
	t.Helper()
	events, err := s.Read(t.Context(), "record", 0)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for i, e := range events {
		var w written
		if err := json.Unmarshal(e, &w); err != nil {
			t.Fatal(err)
		}
		if w.N != counts[w.Writer] {
			t.Fatalf("event %d of the record is number %d of writer %d, want number %d", i+1, w.N, w.Writer, counts[w.Writer])
		}
		counts[w.Writer]++
	}
	return counts
}

func TestStores(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, location string)
	}{
		{"append and read", testAppend},
		{"objects", testObjects},
		{"names", testNames},
		{"expired runs", testExpired},
		{"appenders in several processes", testAppenders},
		{"killed writers", testKilled},
		{"many goroutines", testGoroutines},
	}
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, f.location(t)) })
			}
		})
	}
}

func testAppend(t *testing.T, location string) {
	ctx := t.Context()
	s, other := opened(t, location), opened(t, location)
	events := func(names ...string) (list [][]byte) {
		for _, n := range names {
			list = append(list, []byte(`{"name":"`+n+`"}`))
		}
		return list
	}
	read := func(s Store, after int64, want [][]byte) {
		t.Helper()
		got, err := s.Read(ctx, "r1", after)
		if err != nil || !slices.EqualFunc(want, got, bytes.Equal) {
			t.Errorf("Read(%d) = %.100s, %v, want %.100s", after, got, err, want)
		}
	}
	read(s, 0, nil)
	all := events("a", "b", "c", "d", "e")
	for _, step := range []struct {
		s     Store
		after int64
		count int64
		want  error
	}{
		{s, 0, 3, nil},
		{s, 0, 1, ErrBehind},
		{other, 0, 1, ErrBehind},
		{other, 1, 1, ErrBehind}, // within an append
		{other, 3, 1, nil},
		{s, 3, 1, ErrBehind},
		{s, 4, 1, nil},
	} {
		err := step.s.Append(ctx, "r1", step.after, all[step.after:step.after+step.count])
		if !errors.Is(err, step.want) || (err == nil) != (step.want == nil) {
			t.Errorf("Append behind %d = %v, want %v", step.after, err, step.want)
		}
	}
	for after := range int64(6) {
		read(s, after, all[after:])
		read(other, after, all[after:])
		read(opened(t, location), after, all[after:])
	}
	for _, s := range []Store{s, opened(t, location)} {
		if err := s.Append(ctx, "r1", 9, all[:1]); err == nil || errors.Is(err, ErrBehind) {
			t.Errorf("Append behind the end = %v, want an error", err)
		}
		if _, err := s.Read(ctx, "r1", 6); err == nil {
			t.Error("Read behind the end succeeded")
		}
		if err := s.Append(ctx, "r2", 1, all[:1]); err == nil {
			t.Error("Append behind event 1 of a new record succeeded")
		}
	}
	for _, bad := range [][][]byte{nil, {nil}, {[]byte("{\n}")}} {
		if err := s.Append(ctx, "r3", 0, bad); err == nil {
			t.Errorf("Append(%q) succeeded", bad)
		}
	}
	long := []byte(`"` + strings.Repeat("x", 3<<20) + `"`)
	if err := s.Append(ctx, "r1", 5, [][]byte{long}); err != nil {
		t.Fatal(err)
	}
	read(other, 5, [][]byte{long})
}

func testObjects(t *testing.T, location string) {
	ctx := t.Context()
	s, other := opened(t, location), opened(t, location)
	if _, err := s.Get(ctx, "replies/r1/q1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of an object that is missing = %v, want fs.ErrNotExist", err)
	}
	for i, put := range []struct {
		s          Store
		name, data string
		want       bool
	}{
		{s, "replies/r1/q1", "yes", true},
		{other, "replies/r1/q1", "no", false},
		{s, "replies/r1/q1", "no", false},
		{other, "replies/r1", "", true},
	} {
		if stored, err := put.s.Put(ctx, put.name, []byte(put.data)); stored != put.want || err != nil {
			t.Errorf("Put number %d = %v, %v, want %v", i+1, stored, err, put.want)
		}
	}
	for name, want := range map[string]string{"replies/r1/q1": "yes", "replies/r1": ""} {
		if got, err := opened(t, location).Get(ctx, name); string(got) != want || err != nil {
			t.Errorf("Get(%s) = %q, %v, want %q", name, got, err, want)
		}
	}
	// Of all that put an object at once, one succeeds.
	var mu sync.Mutex
	var winners []string
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			data := strings.Repeat(strconv.Itoa(i), 100_000)
			stored, err := []Store{s, other}[i%2].Put(ctx, "race", []byte(data))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if stored {
				winners = append(winners, data)
			}
		})
	}
	wg.Wait()
	got, err := s.Get(ctx, "race")
	if len(winners) != 1 || err != nil || string(got) != winners[0] {
		t.Errorf("%d writers put one object; it is the first one's: %v; Get = %v", len(winners), len(winners) == 1 && string(got) == winners[0], err)
	}
	blob, err := PutBlob(ctx, s, "r1", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := GetBlob(ctx, other, blob); string(got) != "content" || err != nil {
		t.Errorf("GetBlob = %q, %v", got, err)
	}
}

func testNames(t *testing.T, location string) {
	s := opened(t, location)
	for _, name := range []string{"", "..", "../x", "a/../b", "/a", "a//b", "a/", ".a", "a b", "a\x00", "ä", "a,b", `a\b`, strings.Repeat("x", 300)} {
		if _, err := s.Put(t.Context(), name, nil); err == nil {
			t.Errorf("Put(%q) succeeded", name)
		}
		if _, err := s.Get(t.Context(), name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get(%q) = %v, want that the name is not valid", name, err)
		}
		if err := s.Append(t.Context(), name, 0, [][]byte{[]byte("{}")}); err == nil {
			t.Errorf("Append(%q) succeeded", name)
		}
		if _, err := s.Read(t.Context(), name, 0); err == nil {
			t.Errorf("Read(%q) succeeded", name)
		}
	}
}

// Runs that have ended are removed while other runs work, which lose nothing.
func testExpired(t *testing.T, location string) {
	ctx, s := t.Context(), opened(t, location)
	at := func(day, hour int) time.Time { return time.Date(2020, 1, day, hour, 0, 0, 0, time.UTC) }
	begin := func(id string, events ...agent.Event) {
		t.Helper()
		folder, err := PutBlob(ctx, s, SharedOwner(id), []byte("the same agent"))
		if err == nil {
			_, err = PutBlob(ctx, s, id, []byte("prompt"))
		}
		for i, e := range events {
			if err == nil {
				text, _ := json.Marshal(e)
				err = s.Append(ctx, id, int64(i), [][]byte{text})
			}
		}
		if err == nil {
			err = s.Append(ctx, id+"/workspace", 0, [][]byte{[]byte(`{}`)})
		}
		if _, getErr := GetBlob(ctx, s, folder); err != nil || getErr != nil {
			t.Fatal(err, getErr)
		}
	}
	end := func(id string, when time.Time) agent.Event {
		return agent.Event{Kind: agent.EventEnd, Session: id, Agent: "clerk", Status: agent.StatusOK, Time: when}
	}
	const early, late, open, queued, young = "20200101-080000-early", "20200101-090000-late", "20200102-080000-open", "20200103-080000-queued", "20200105-080000-young"
	begin(early, event(early, "x"), end("sub-agent", at(1, 8)), end(early, at(1, 9)), agent.Event{Kind: agent.EventWarning, Session: early})
	begin(late, end(late, at(9, 0)))
	begin(open, event(open, "x"), end("sub-agent", at(2, 9)))
	begin(queued)
	begin(young, end(young, at(5, 9)))
	remove := func(before time.Time) (names []string) {
		t.Helper()
		for x, err := range ExpiredBefore(ctx, s, before) {
			if err == nil {
				err = s.Remove(ctx, x.Owner)
			}
			if err != nil {
				t.Fatal(err)
			}
			if x.End == nil != strings.HasSuffix(x.Owner, sharedSuffix) || x.End != nil && x.End.Agent != "clerk" {
				t.Errorf("%s ended with %+v", x.Owner, x.End)
			}
			names = append(names, x.Owner)
		}
		return names
	}
	stays := func(id string, events int) {
		t.Helper()
		lines, err := opened(t, location).Read(ctx, id, 0)
		if err != nil || len(lines) != events {
			t.Errorf("%s has %d events, %v, want %d", id, len(lines), err, events)
		}
		for _, owner := range []string{id, SharedOwner(id)} {
			if _, err := PutBlob(ctx, s, owner, nil); err != nil {
				t.Error(err)
			}
		}
	}
	if got := remove(at(4, 0)); cmp.Diff([]string{early}, got) != "" {
		t.Errorf("removed %q, want the run that has ended", got)
	}
	stays(late, 1)
	if _, err := GetBlob(ctx, s, SharedOwner(late)+"/"+blobPrefix+hashOf("the same agent")); err != nil {
		t.Errorf("the agent of a run that stays: %v", err)
	}
	if lines, err := opened(t, location).Read(ctx, early, 0); err != nil || len(lines) > 0 {
		t.Errorf("the removed run has the events %s, %v", lines, err)
	}
	if lines, err := opened(t, location).Read(ctx, early+"/workspace", 0); err != nil || len(lines) > 0 {
		t.Errorf("its workspace has the snapshots %s, %v", lines, err)
	}
	if _, err := s.Get(ctx, early+"/"+blobPrefix+hashOf("prompt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its prompt: %v, want that it does not exist", err)
	}
	var working sync.WaitGroup
	working.Go(func() {
		for n := range int64(20) {
			if err := s.Append(ctx, open, 2+n, [][]byte{[]byte(`{}`)}); err != nil {
				t.Error(err)
			}
		}
	})
	if got := remove(at(10, 0)); cmp.Diff([]string{late, SharedOwner(late), young, SharedOwner(young)}, got) != "" {
		t.Errorf("removed %q, want two runs and the agents of their days", got)
	}
	working.Wait()
	stays(open, 22)
	stays(queued, 0)
	if err := opened(t, location).Append(ctx, early, 4, [][]byte{[]byte(`{}`)}); err == nil || errors.Is(err, ErrBehind) {
		t.Errorf("a removed run continues: %v", err)
	}
	today := SharedOwner(time.Now().UTC().Format("20060102-150405"))
	if _, err := PutBlob(ctx, s, today, nil); err != nil {
		t.Fatal(err)
	}
	if got := remove(time.Now().Add(72 * time.Hour)); len(got) > 0 {
		t.Errorf("removed %q, whose submission may be in progress", got)
	}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func testAppenders(t *testing.T, location string) {
	const writers, each = 4, 20
	var wg sync.WaitGroup
	for i := range writers {
		cmd, out := startWriter(t, location, i, each)
		wg.Go(func() {
			for out.Scan() {
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i, n := range countWritten(t, opened(t, location)) {
		if n != each && n != each+1 {
			t.Errorf("the record has %d events of writer %d, want %d", n, i, each)
		}
	}
}

func testKilled(t *testing.T, location string) {
	const rounds = 8
	random := rand.New(rand.NewPCG(1, 2))
	acknowledged := map[int]int{}
	for i := range rounds {
		cmd, out := startWriter(t, location, i, 1_000_000)
		for range 1 + random.IntN(20) {
			if !out.Scan() {
				t.Fatalf("writer %d ended", i)
			}
		}
		for range random.IntN(1 << 18) { // some part of an append
		}
		cmd.Process.Kill()
		last := out.Text()
		for out.Scan() {
			last = out.Text()
		}
		cmd.Wait()
		acknowledged[i], _ = strconv.Atoi(last)
	}
	counts := countWritten(t, opened(t, location))
	for i, n := range acknowledged {
		if counts[i] < n || counts[i] > n+2 {
			t.Errorf("the record has %d events of writer %d, which was killed after %d were acknowledged", counts[i], i, n)
		}
	}
}

func testGoroutines(t *testing.T, location string) {
	s := opened(t, location)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n, after := 0, int64(0); n < 5; {
				e, _ := json.Marshal(written{w, n})
				err := s.Append(t.Context(), "record", after, [][]byte{e})
				if err == nil {
					n, after = n+1, after+1
					continue
				}
				if !errors.Is(err, ErrBehind) {
					t.Error(err)
					return
				}
				others, err := s.Read(t.Context(), "record", after)
				if err != nil {
					t.Error(err)
					return
				}
				after += int64(len(others))
			}
		})
	}
	wg.Wait()
	for w, n := range countWritten(t, s) {
		if n != 5 {
			t.Errorf("the record has %d events of goroutine %d, want 5", n, w)
		}
	}
}

// Whatever part of the last append a loss of power leaves, the others are read, and the next
// append takes its place.
func TestFolderIgnoresIncompleteAppend(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	first, lost := [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`)}, [][]byte{[]byte(`{"lost":3}`), []byte(`{"lost":4}`)}
	if err := s.Append(t.Context(), "r", 0, first); err != nil {
		t.Fatal(err)
	}
	path := s.(*folder).path(kindRecord, "r")
	whole, _ := os.ReadFile(path)
	torn := encodeBatch(2, lost)
	for n := range torn {
		zeros := bytes.Clone(torn)
		clear(zeros[:n])
		for _, rest := range [][]byte{torn[:n], zeros[:max(n, 1)], append(bytes.Repeat([]byte{0}, n+1), torn[n+1:]...)} {
			if err := os.WriteFile(path, append(bytes.Clone(whole), rest...), 0o600); err != nil {
				t.Fatal(err)
			}
			s := opened(t, dir)
			if got, err := s.Read(t.Context(), "r", 0); err != nil || cmp.Diff(first, got) != "" {
				t.Fatalf("Read with the rest %q = %s, %v, want %s", rest, got, err, first)
			}
			next := [][]byte{[]byte(`3`)}
			if err := s.Append(t.Context(), "r", 2, next); err != nil {
				t.Fatalf("Append with the rest %q: %v", rest, err)
			}
			if got, err := opened(t, dir).Read(t.Context(), "r", 0); err != nil || cmp.Diff(append(first[:2:2], next...), got) != "" {
				t.Fatalf("Read after an append behind the rest %q = %s, %v", rest, got, err)
			}
		}
	}
}

func TestFolderReportsDamage(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	for n := range int64(3) {
		if err := s.Append(t.Context(), "r", n, [][]byte{[]byte(`{"n":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	path := s.(*folder).path(kindRecord, "r")
	text, _ := os.ReadFile(path)
	text[3] = 'm'
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s = opened(t, dir)
	if _, err := s.Read(t.Context(), "r", 0); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Read of a record that was changed = %v", err)
	}
	if err := s.Append(t.Context(), "r", 0, [][]byte{[]byte(`{}`)}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Append to a record that was changed = %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, text) {
		t.Error("the damaged record was written")
	}
}

// The files are synced before Append and Put return, and one that cannot be synced is as if
// it had not been written.
func TestFolderSyncs(t *testing.T) {
	s := opened(t, t.TempDir()).(*folder)
	var synced []string
	var fail error
	s.sync = func(f *os.File) error {
		synced = append(synced, filepath.Base(f.Name()))
		return fail
	}
	event := [][]byte{[]byte(`{}`)}
	if err := s.Append(t.Context(), "r", 0, event); err != nil || cmp.Diff([]string{"record"}, synced) != "" {
		t.Errorf("Append = %v and synced %s, want the record", err, synced)
	}
	if _, err := s.Put(t.Context(), "o", []byte("x")); err != nil || len(synced) != 2 {
		t.Errorf("Put = %v and synced %s, want one more", err, synced)
	}
	fail = errors.New("no space left")
	if err := s.Append(t.Context(), "r", 1, event); !errors.Is(err, fail) {
		t.Errorf("Append = %v, want %v", err, fail)
	}
	if _, err := s.Put(t.Context(), "o2", []byte("x")); !errors.Is(err, fail) {
		t.Errorf("Put = %v, want %v", err, fail)
	}
	if _, err := s.Get(t.Context(), "o2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of an object that could not be synced = %v", err)
	}
	fail = nil
	if got, err := s.Read(t.Context(), "r", 0); err != nil || len(got) != 1 {
		t.Errorf("Read = %d events, %v, want 1", len(got), err)
	}
	if err := s.Append(t.Context(), "r", 1, event); err != nil {
		t.Error(err)
	}
}

func TestFolderIsSharded(t *testing.T) {
	s := opened(t, t.TempDir()).(*folder)
	counts := map[string]int{}
	for i := range 100_000 {
		counts[filepath.Dir(s.owner(fmt.Sprint("2026-11-23-", i)))]++
	}
	for dir, n := range counts {
		if n > 1000 {
			t.Errorf("%s holds %d of 100,000 records", dir, n)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, location := range []string{"", "ftp://host/x", "file://host/x", "file://", "s3://:secret@%zz"} {
		_, err := Open(t.Context(), location)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v", location, err)
		}
	}
}
