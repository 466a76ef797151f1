package sessionindex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// keep writes a session of one run: a prompt, a call with its result, an answer.
func keep(t *testing.T, folder, id, slug, prompt, result, answer string) string {
	t.Helper()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e := func(kind agent.EventKind, more agent.Event) agent.Event {
		more.Kind, more.Session, more.Agent, more.Time = kind, id, slug, at
		at = at.Add(time.Hour)
		return more
	}
	p, c := agent.UserText(prompt), agent.ToolCall{ID: "c", Name: "grep", Args: `{"for":"zebra"}`}
	ask := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{c}}
	say := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(answer)}}
	events := []agent.Event{
		e(agent.EventSession, agent.Event{Model: "m"}), e(agent.EventMessage, agent.Event{Message: &p}),
		e(agent.EventAnswer, agent.Event{Turn: 1, Message: &ask, Finish: agent.FinishStop}),
		e(agent.EventCallEnded, agent.Event{Turn: 1, CallID: "c", Tool: "grep", Args: c.Args, Key: id + ".1.1", N: 1, Result: &agent.ToolResult{CallID: "c", Name: "grep", Parts: []agent.Part{agent.Text(result)}}}),
		e(agent.EventAnswer, agent.Event{Turn: 2, Message: &say, Finish: agent.FinishStop}),
		e(agent.EventEnd, agent.Event{Status: agent.StatusOK}),
	}
	err := session.Copy(session.Create(folder, session.Options{}), func(yield func(agent.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, id)
}

func open(t *testing.T, path string) *Index {
	t.Helper()
	x, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// search updates and searches, and returns a line for each hit, sorted.
func search(t *testing.T, x *Index, q Query) string {
	t.Helper()
	if err := x.Update(t.Context(), q.Folders); err != nil {
		t.Fatal(err)
	}
	hits, err := x.Search(t.Context(), &q)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, h := range hits {
		text := ""
		for _, p := range h.Snippet {
			if p.Match {
				text += "[" + p.Text + "]"
			} else {
				text += p.Text
			}
		}
		list = append(list, fmt.Sprintf("%s %s %s %d: %s", h.Session, h.Agent, strings.TrimSpace(h.Kind+" "+h.Tool), h.Turn, text))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

func TestSearch(t *testing.T) {
	folder := t.TempDir()
	keep(t, folder, "one", "lead", "Where is the old lease?", "lease.txt: a LEASE of 1998", "In the archive, naïve reader.")
	keep(t, folder, "two", "clerk", "Write a \x02\x1b[31m letter", "done \x03", "The lease is old; \"quoted\" AND NOT text.")
	x := open(t, filepath.Join(t.TempDir(), "new", "index"))
	since := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC).UnixMilli()
	tests := []struct {
		name string
		q    Query
		want string
	}{
		{"one word in every kind of text", Query{Words: []string{"lease"}},
			"one lead prompt 1: Where is the old [lease]?\none lead result grep 1: [lease].txt: a [LEASE] of 1998\ntwo clerk answer 2: The [lease] is old; \"quoted\" AND NOT text."},
		{"all words in one text", Query{Words: []string{"old", "Lease"}},
			"one lead prompt 1: Where is the [old] [lease]?\ntwo clerk answer 2: The [lease] is [old]; \"quoted\" AND NOT text."},
		{"words as they stand", Query{Words: []string{"old lease"}}, "one lead prompt 1: Where is the [old lease]?"},
		{"the beginning of a word", Query{Words: []string{"arch*"}}, "one lead answer 2: In the [archive], naïve reader."},
		{"accents do not count", Query{Words: []string{"NAIVE"}}, "one lead answer 2: In the archive, [naïve] reader."},
		{"arguments of calls", Query{Words: []string{"zebra"}, Agent: "lead"}, `one lead call grep 1: grep {"for":"[zebra]"}`},
		{"by agent", Query{Words: []string{"lease"}, Agent: "clerk"}, "two clerk answer 2: The [lease] is old; \"quoted\" AND NOT text."},
		{"by tool", Query{Words: []string{"lease"}, Tool: "grep"}, "one lead result grep 1: [lease].txt: a [LEASE] of 1998"},
		{"since", Query{Words: []string{"lease"}, Since: since}, "two clerk answer 2: The [lease] is old; \"quoted\" AND NOT text."},
		{"until", Query{Words: []string{"lease"}, Until: since, Tool: "grep"}, "one lead result grep 1: [lease].txt: a [LEASE] of 1998"},
		{"operators are words", Query{Words: []string{"AND", "NOT", `"quoted"`, "^"}}, "two clerk answer 2: The lease is old; \"[quoted]\" [AND] [NOT] text."},
		{"marks in texts", Query{Words: []string{"letter"}}, "two clerk prompt 1: Write a   [31m [letter]"},
		{"nothing", Query{Words: []string{"giraffe"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.q.Folders = []string{folder}
			if got := search(t, x, tt.q); got != strings.ReplaceAll(tt.want, "[31m [letter]", "[31m [letter]") {
				t.Errorf("found\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	if _, err := x.Search(t.Context(), &Query{Words: []string{"*", "--"}, Folders: []string{folder}}); !errors.Is(err, ErrNoWords) {
		t.Errorf("Search without words = %v, want ErrNoWords", err)
	}
	if hits, err := x.Search(t.Context(), &Query{Words: []string{"lease"}, Folders: []string{folder}, Limit: 2}); err != nil || len(hits) != 2 {
		t.Errorf("with a limit of 2 there are %d hits, %v", len(hits), err)
	}
}

func TestASnippetShowsTheMostMatchesTogether(t *testing.T) {
	filler := strings.Repeat("filler of a text ", 30)
	for marked, want := range map[string]string{
		"":                    "",
		"a \x02b\x03 c":       "a [b] c",
		"\x02B\x03 \x02b\x03": "[B] [b]",
		filler + "\x02one\x03 " + filler + "a \x02one\x03 and \x02two\x03 b": "… text filler of a text filler of a text filler of a text a [one] and [two] b",
		"\x02one\x03 " + strings.Repeat("é", 300):                            "[one] " + strings.Repeat("é", 98) + "…",
	} {
		got := ""
		for _, p := range snippet(marked) {
			if p.Match {
				got += "[" + p.Text + "]"
			} else {
				got += p.Text
			}
		}
		if got != want {
			t.Errorf("snippet(%q) = %q, want %q", marked, got, want)
		}
	}
}

func TestTheIndexFollowsTheSessions(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	x := open(t, filepath.Join(t.TempDir(), "index"))
	q := Query{Words: []string{"word"}, Folders: []string{folder}}
	if got := search(t, x, q); got != "" {
		t.Errorf("an empty folder has %s", got)
	}
	path := keep(t, folder, "one", "a", "the word", "-", "-")
	keep(t, other, "elsewhere", "a", "the word", "-", "-")
	if got := search(t, x, q); !strings.HasPrefix(got, "one a prompt 1") {
		t.Errorf("a new session: %q", got)
	}
	both := Query{Words: q.Words, Folders: []string{folder, other}}
	if got := search(t, x, both); strings.Count(got, "\n") != 1 {
		t.Errorf("both folders: %q", got)
	}
	if err := session.Remove(path); err != nil {
		t.Fatal(err)
	}
	keep(t, folder, "one", "a", "changed", "-", "-")
	if got := search(t, x, q); got != "" {
		t.Errorf("a changed session still has %q", got)
	}
	if got := search(t, x, Query{Words: []string{"changed"}, Folders: q.Folders}); got == "" {
		t.Error("the new text of a changed session is not found")
	}
	if err := os.RemoveAll(filepath.Join(other, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	// It is gone although its folder was not asked for.
	search(t, x, q)
	if hits, _ := x.Search(t.Context(), &both); len(hits) != 0 {
		t.Errorf("a session that was removed is still found: %v", hits)
	}
}

func TestADamagedSessionIsFoundUpToTheDamage(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(keep(t, folder, "one", "a", "begins well", "-", "ends badly"), journalName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), "ends badly", "ends bADly", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	x := open(t, filepath.Join(t.TempDir(), "index"))
	if got := search(t, x, Query{Words: []string{"well"}, Folders: []string{folder}}); got == "" {
		t.Error("what comes before the damage is not found")
	}
	if got := search(t, x, Query{Words: []string{"ends"}, Folders: []string{folder}}); got != "" {
		t.Errorf("what is damaged is found: %s", got)
	}
}

func TestADamagedIndexIsBuiltAgain(t *testing.T) {
	folder := t.TempDir()
	for i := range 20 {
		keep(t, folder, fmt.Sprint("s", i), "a", strings.Repeat(fmt.Sprintf("word%d ", i), 500), "-", "-")
	}
	path := filepath.Join(t.TempDir(), "index")
	q := Query{Words: []string{"word7"}, Folders: []string{folder}}
	x, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if got := search(t, x, q); got == "" {
		t.Fatal("nothing is found")
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	for i := 8192; i < len(flipped); i += 37 {
		flipped[i] ^= 0x5a
	}
	for name, data := range map[string][]byte{
		"in what only a search reads": flipped,
		"text":                        []byte(strings.Repeat("no database ", 500)), "cut": whole[:len(whole)/3], "cut in a page": whole[:5000],
		"zeros after the header": append(slices.Clone(whole[:100]), make([]byte, len(whole)-100)...), "empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := search(t, open(t, path), q); !strings.HasPrefix(got, "s7 a prompt 1") {
				t.Errorf("found %q", got)
			}
		})
	}
	t.Run("another version", func(t *testing.T) {
		x := open(t, path)
		if _, err := x.db.Exec("PRAGMA user_version = 99"); err != nil {
			t.Fatal(err)
		}
		x.Close()
		if got := search(t, open(t, path), q); !strings.HasPrefix(got, "s7 a prompt 1") {
			t.Errorf("found %q", got)
		}
	})
}

func TestProcessesUpdateAtTheSameTime(t *testing.T) {
	folder := t.TempDir()
	for i := range 5 {
		keep(t, folder, fmt.Sprint("s", i), "a", "the word", "-", "-")
	}
	path := filepath.Join(t.TempDir(), "index")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			x, err := Open(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			if err := x.Update(context.Background(), []string{folder}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := search(t, open(t, path), Query{Words: []string{"word"}, Folders: []string{folder}}); strings.Count(got, "\n") != 4 {
		t.Errorf("found\n%s\nwant every session once", got)
	}
}

func TestTheIndexIsForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "index")
	open(t, path)
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("the mode of %s is %v, want %v", p, info.Mode().Perm(), want)
		}
	}
}

func TestTurnsAreThoseOfTheRootSession(t *testing.T) {
	var turns []any
	a := &adder{last: 10, insert: func(values ...any) error { turns = append(turns, values[5]); return nil }}
	ask, say := agent.UserText("why?"), agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("so")}}
	for _, e := range []agent.Event{
		{Kind: agent.EventMessage, Session: "root", Message: &ask},
		{Kind: agent.EventCompaction, Session: "sub-agent", Turn: 7},
		{Kind: agent.EventAnswer, Session: "root", Turn: 1, Message: &say},
	} {
		if err := a.event(&e); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(turns, []any{1, 1}) {
		t.Errorf("texts are in turns %v, want 1 and 1", turns)
	}
}
