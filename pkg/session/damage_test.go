package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// small is a session in one file: two runs, a sub-agent, syncs as a Runner makes
// them. It returns what is in the file and the events.
func small(t testing.TB, closed bool) ([]byte, []agent.Event) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.jsonl")
	j := CreateFile(path, Options{})
	var events []agent.Event
	message := func(role agent.Role, text string, calls ...agent.ToolCall) *agent.Message {
		return &agent.Message{Role: role, Parts: []agent.Part{agent.Text(text)}, Calls: calls}
	}
	result := func(id string) *agent.ToolResult {
		return &agent.ToolResult{CallID: id, Name: "tool", Parts: []agent.Part{agent.Text("result of " + id)}}
	}
	for i, e := range []agent.Event{
		{Kind: agent.EventSession, Model: "m"},
		{Kind: agent.EventMessage, Message: message(agent.RoleUser, "go")},
		{Kind: agent.EventSetup, Model: "m", Digest: "sha256:1", System: "s"}, // 2: sync
		{Kind: agent.EventAnswer, Turn: 1, Finish: agent.FinishStop, Usage: &agent.Usage{Requests: 1, OutputTokens: 5},
			Message: message(agent.RoleAssistant, "", agent.ToolCall{ID: "a", Name: "tool", Args: "{}"}, agent.ToolCall{ID: "b", Name: "expert"})},
		{Kind: agent.EventCallStarted, Turn: 1, CallID: "a", Tool: "tool", Args: "{}", Key: "root.1.1", N: 1}, // 4: sync
		{Kind: agent.EventCallStarted, Turn: 1, CallID: "b", Tool: "expert", Key: "root.1.2", N: 2},
		{Kind: agent.EventSession, Session: "sub", Parent: "root.1.2", Depth: 1},
		{Kind: agent.EventMessage, Session: "sub", Parent: "root.1.2", Depth: 1, Message: message(agent.RoleUser, "q")},
		{Kind: agent.EventCallEnded, Turn: 1, CallID: "a", Tool: "tool", Key: "root.1.1", N: 1, Result: result("a")},
		{Kind: agent.EventAnswer, Session: "sub", Parent: "root.1.2", Depth: 1, Turn: 1, Finish: agent.FinishStop,
			Usage: &agent.Usage{Requests: 1, OutputTokens: 7}, Message: message(agent.RoleAssistant, "sub says")},
		{Kind: agent.EventEnd, Session: "sub", Parent: "root.1.2", Depth: 1, Turn: 1, Status: agent.StatusOK},
		{Kind: agent.EventCallEnded, Turn: 1, CallID: "b", Tool: "expert", Key: "root.1.2", N: 2, Result: result("b")}, // 11: sync
		{Kind: agent.EventAnswer, Turn: 2, Finish: agent.FinishStop, Usage: &agent.Usage{Requests: 1, OutputTokens: 9}, Message: message(agent.RoleAssistant, "done")},
		{Kind: agent.EventEnd, Turn: 2, Status: agent.StatusOK, Text: "done", Total: &agent.TotalUsage{Usage: agent.Usage{Requests: 3, OutputTokens: 21}}}, // 13: sync
		{Kind: agent.EventMessage, Message: message(agent.RoleUser, "more")},                                                                               // 14: sync
		{Kind: agent.EventAnswer, Turn: 3, Finish: agent.FinishStop, Usage: &agent.Usage{Requests: 1, OutputTokens: 2}, Message: message(agent.RoleAssistant, "yes")},
		{Kind: agent.EventEnd, Turn: 3, Status: agent.StatusOK, Text: "yes", Total: &agent.TotalUsage{Usage: agent.Usage{Requests: 1, OutputTokens: 2}}},
	} {
		e.Time, e.Agent = time.Unix(int64(i), 0).UTC(), "agent"
		if e.Session == "" {
			e.Session = "root"
		}
		if err := j.Append(context.Background(), e); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 2, 4, 11, 13, 14:
			if err := j.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		events = append(events, e)
	}
	if closed {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !closed {
		j.f.Close()
	}
	return b, events
}

// rebuild opens what is in a file.
func rebuild(b []byte) (*Past, *firstPass, error) {
	s, err := runFirstPass(bytes.NewReader(b), int64(len(b)), "x.jsonl", false)
	if err != nil {
		return nil, s, err
	}
	p, err := s.past("")
	return p, s, err
}

// folded is what a session is after events, in the simplest way.
func folded(t testing.TB, events []agent.Event) *Past {
	t.Helper()
	p := &Past{Resume: runner.Resume{Session: &agent.Session{}}}
	for _, e := range events {
		if e.Session == "root" {
			if err := p.Session.Apply(e); err != nil {
				t.Fatal(err)
			}
			if e.Kind == agent.EventMessage {
				p.Total = agent.TotalUsage{}
			}
		}
		p.Total.Note(&e)
	}
	if !p.Session.Unfinished() {
		p.Total = agent.TotalUsage{}
	}
	return p
}

var exact = cmp.Options{cmp.AllowUnexported(agent.Session{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(runner.Resume{}, "Pending"), cmpopts.IgnoreFields(Past{}, "Started", "CutBytes")}

func difference(want, got *Past) string {
	if got == nil {
		return "there is none"
	}
	if equal(want, got) {
		return ""
	}
	return cmp.Diff(want, got, exact, cmp.Exporter(allTypes))
}

func equal(a, b *Past) bool {
	return reflect.DeepEqual(a.Session, b.Session) && reflect.DeepEqual(a.Total, b.Total)
}

// states are what a session was after each number of events.
func states(t testing.TB, events []agent.Event) []*Past {
	t.Helper()
	var list []*Past
	for n := range len(events) + 1 {
		list = append(list, folded(t, events[:n]))
	}
	return list
}

func TestEveryPrefixOpens(t *testing.T) {
	whole, events := small(t, true)
	states := states(t, events)
	for n := range len(whole) + 1 {
		got, s, err := rebuild(whole[:n])
		if err != nil {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
		lines := bytes.Count(whole[:n], []byte("\n"))
		count := min(max(lines-1, 0), len(events))
		if diff := difference(states[count], got); diff != "" {
			t.Fatalf("the first %d bytes (-want +got):\n%s", n, diff)
		}
		if want := int64(n - 1 - bytes.LastIndexByte(whole[:n], '\n')); s.cut != want {
			t.Fatalf("the first %d bytes: %d were cut, want %d", n, s.cut, want)
		}
	}
}

// Of a session that was closed every bit counts, but for those of the last line,
// which only says that it was. FuzzJournal tries the bits that this leaves out.
func TestEveryBitFlipIsFound(t *testing.T) {
	whole, events := small(t, true)
	want := folded(t, events)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for i := range whole {
		for _, bit := range []int{i % 8, (i + 3) % 8} {
			bad := bytes.Clone(whole)
			bad[i] ^= 1 << bit
			checkFlip(t, bad, i, i >= last, want)
		}
	}
}

func checkFlip(t *testing.T, bad []byte, at int, harmless bool, want *Past) {
	t.Helper()
	got, _, err := rebuild(bad)
	if err == nil && harmless {
		if diff := difference(want, got); diff != "" {
			t.Fatalf("byte %d changed: a different session (-want +got):\n%s", at, diff)
		}
		return
	}
	damage, ok := errors.AsType[*DamageError](err)
	if !ok && !errors.Is(err, ErrNotSession) {
		t.Fatalf("byte %d changed: error %v", at, err)
	}
	if ok {
		line := 1 + bytes.Count(bad[:damage.Offset], []byte("\n"))
		if damage.Offset > int64(at) || damage.Line != line {
			t.Errorf("byte %d changed: %v, want a line that begins before it", at, err)
		}
	}
}

// Without the last line, what came after the last sync may be cut and nothing
// else.
func TestABitFlipCutsAtMostWhatNoSyncReached(t *testing.T) {
	whole, events := small(t, false)
	starts, states := lineStarts(whole), states(t, events)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 4
		got, _, err := rebuild(bad)
		if err != nil {
			continue
		}
		// The lines behind event 14 say that it is synced; they are 16 and 17.
		if at := int64(i); at < starts[16] {
			t.Fatalf("byte %d changed without an error", i)
		}
		for n := 15; ; n++ {
			if equal(states[n], got) {
				break
			}
			if n == len(events) {
				t.Fatalf("byte %d changed: the session is none of its former states", i)
			}
		}
	}
}

func lineStarts(b []byte) []int64 {
	starts := []int64{0}
	for i, c := range b {
		if c == '\n' {
			starts = append(starts, int64(i+1))
		}
	}
	return starts
}

func TestLostDoubledAndMovedLinesAreFound(t *testing.T) {
	whole, _ := small(t, true)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(parts ...[][]byte) []byte {
		var b []byte
		for _, p := range parts {
			b = append(b, bytes.Join(p, nil)...)
		}
		return b
	}
	for i := range len(lines) - 2 {
		for name, bad := range map[string][]byte{
			"lost":    join(lines[:i], lines[i+1:]),
			"doubled": join(lines[:i+1], lines[i:]),
			"moved":   join(lines[:i], lines[i+1:i+2], lines[i:i+1], lines[i+2:]),
		} {
			if _, _, err := rebuild(bad); err == nil {
				t.Errorf("line %d %s: no error", i+1, name)
			}
		}
	}
}

// After a loss of power, what was not synced may be zeros or not there, in any
// pieces.
func TestHolesInWhatWasNotSyncedAreCut(t *testing.T) {
	whole, events := small(t, false)
	starts, states := lineStarts(whole), states(t, events)
	for from := starts[16]; from < int64(len(whole)); from += 7 {
		for to := from + 1; to <= int64(len(whole)); to += 11 {
			holed := bytes.Clone(whole)
			clear(holed[from:to])
			got, _, err := rebuild(holed)
			if err != nil {
				t.Fatalf("zeros from %d to %d: %v", from, to, err)
			}
			n := 15
			for int(n) < len(events) && starts[n+2] <= from {
				n++
			}
			if diff := difference(states[n], got); diff != "" {
				t.Fatalf("zeros from %d to %d (-want +got):\n%s", from, to, diff)
			}
		}
	}
	for n := range starts[1] { // the first line was not synced either
		if _, _, err := rebuild(append(bytes.Clone(whole[:n]), make([]byte, 300)...)); err != nil {
			t.Fatalf("%d bytes and zeros: %v", n, err)
		}
	}
}

func TestATornEndIsCutBeforeMoreIsWritten(t *testing.T) {
	whole, events := small(t, false)
	path := filepath.Join(t.TempDir(), "torn.jsonl")
	torn := append(bytes.Clone(whole), `{"time":"2026-11-21T15:30:12Z","kind":"mess`...)
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	j, past, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if past.CutBytes != int64(len(torn)-len(whole)) {
		t.Errorf("CutBytes = %d, want %d", past.CutBytes, len(torn)-len(whole))
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, whole) {
		t.Errorf("the file has %d bytes, want %d (%v)", len(b), len(whole), err)
	}
	prompt := agent.UserText("again")
	more := agent.Event{Kind: agent.EventMessage, Session: "root", Agent: "agent", Message: &prompt}
	if err := errors.Join(j.Append(t.Context(), more), j.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := rebuild(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(folded(t, append(events, more)), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file that somebody names by mistake is not taken for a torn journal, which
// would be cut.
func TestOtherFilesAreRefused(t *testing.T) {
	for _, content := range []string{
		"hello\n", "\n", "{\n  \"a\": 1\n}\n", `{"kind":"other"}`, "{\"kind\":\"journal\"}\n", "\x00\x01\x02\n", "PK\x03\x04", "\x00\x00\x00hello\n",
		string(sealed(`{"kind":"journal","format":"other","version":1`)),
		string(sealed(`{"kind":"session","session":"s"`)),
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open(path, Options{})
		if !errors.Is(err, ErrNotSession) {
			t.Errorf("Open of %q = %v, want ErrNotSession", content, err)
		}
		if b, _ := os.ReadFile(path); string(b) != content {
			t.Errorf("%q became %q", content, b)
		}
		if err := Remove(path); !errors.Is(err, ErrNotSession) {
			t.Errorf("Remove of %q = %v", content, err)
		}
	}
}

func sealed(body string) []byte {
	return new(ends).seal([]byte(body), 0, -1)
}

func TestANewerFormatIsRefused(t *testing.T) {
	_, _, err := rebuild(sealed(headerStart + `,"version":2,"id":"x"`))
	want := "x.jsonl was written by a newer version of this program (format 2, known is 1)"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestUnknownKindsAndMembersAreTolerated(t *testing.T) {
	_, events := small(t, true)
	var b []byte
	var e ends
	b = e.seal(append(b, headerStart+`,"version":1,"id":"root","new":{"a":[1]}`...), 0, -1)
	for i := range events {
		start := len(b)
		b, _ = encode(b, &events[i])
		b = e.seal(append(b, `,"news":[{"x":"}\""}]`...), start, -1)
		start = len(b)
		b = e.seal(append(b, `{"kind":"dream","of":"sheep","session":"root"`...), start, -1)
	}
	got, _, err := rebuild(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(folded(t, events), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDamageSaysWhereItIsAndWhatCanBeUsed(t *testing.T) {
	whole, _ := small(t, true)
	i := bytes.Index(whole, []byte("more"))
	whole[i] = 'b'
	_, _, err := rebuild(whole)
	line := lineStarts(whole)[15]
	want := fmt.Sprintf("x.jsonl is damaged at line 16 (byte %d): checksum mismatch; the first 2 turns are complete and can be copied to a new session", line)
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

func TestEventsThatDoNotFitAreDamage(t *testing.T) {
	_, events := small(t, true)
	path := filepath.Join(t.TempDir(), "odd.jsonl")
	j := CreateFile(path, Options{})
	for i, e := range events {
		if i == 3 {
			continue
		}
		if err := j.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(path, Options{})
	damage, ok := errors.AsType[*DamageError](err)
	if !ok || damage.Line != 9 || !strings.Contains(err.Error(), "no call a waits for it") {
		t.Errorf("error = %v, want one about line 9", err)
	}
}

func FuzzJournal(f *testing.F) {
	whole, events := small(f, true)
	f.Add(whole, 0, byte(0), len(whole))
	f.Add(whole[:len(whole)/2], 100, byte(1), 3000)
	f.Add([]byte(headerStart), 3, byte(0), 10)
	f.Add([]byte(`{"kind":"answer","session":"s","message":{"role":"assistant","calls":[{"id":"a"}]}}`+"\n"+`{"kind":"call_ended","session":"s","n":-1,"call_id":"a","result":{}}`), 1, byte(2), 3)
	want := folded(f, events)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	f.Fuzz(func(t *testing.T, any []byte, at int, flip byte, cut int) {
		rebuild(any) // whatever it is, it does not panic
		rebuild(signed(any))

		at, cut = abs(at)%len(whole), abs(cut)%(len(whole)+1)
		bad := bytes.Clone(whole)
		bad[at] ^= flip
		if flip != 0 {
			checkFlip(t, bad, at, at >= last, want)
		}
		if flip == 0 || at >= cut {
			if _, _, err := rebuild(bad[:cut]); err != nil {
				t.Fatalf("the first %d bytes: %v", cut, err)
			}
		}
	})
}

// signed is a journal whose lines are those of text, with right checksums.
func signed(text []byte) []byte {
	var e ends
	b := e.seal([]byte(headerStart+`,"version":1,"id":"x"`), 0, -1)
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(bytes.TrimSpace(line), []byte("}"))
		if len(line) > 0 {
			start := len(b)
			b = e.seal(append(b, line...), start, -1)
		}
	}
	return b
}

func abs(n int) int { return max(n, -(n + 1)) }
