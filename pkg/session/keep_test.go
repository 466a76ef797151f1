package session_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/google/go-cmp/cmp"
)

func TestParseKeep(t *testing.T) {
	for text, want := range map[string]session.Keep{
		"all": {}, "30d": {Age: 30 * 24 * time.Hour}, "12h": {Age: 12 * time.Hour}, "1000": {Count: 1000}, "5GB": {Size: 5e9}, "1.5KiB": {Size: 1536},
		"90d, 100, 1MiB": {Age: 90 * 24 * time.Hour, Count: 100, Size: 1 << 20},
	} {
		if got, err := session.ParseKeep(text); err != nil || got != want {
			t.Errorf("ParseKeep(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0d", "-3d", "1e9d", "999999999d", "0GB", "-1GB", "NaNGB", "1e300TB", "5 apples", "1,2", "1d,2d", "1GB,1MB", "all,1", "1,", "d", "GB"} {
		if k, err := session.ParseKeep(text); err == nil {
			t.Errorf("ParseKeep(%q) = %+v, want an error", text, k)
		}
	}
}

// What is beyond the limits is removed, the oldest first; what is not meant, open, without an end or
// spared is not.
func TestPrune(t *testing.T) {
	for _, c := range []struct {
		name string
		keep session.Keep
		want []string // that are left
		left int
	}{
		{"all", session.Keep{}, []string{"b", "c", "local", "new", "old", "open", "spared", "unfinished"}, 0},
		{"by age", session.Keep{Age: 5 * time.Hour}, []string{"b", "c", "local", "new", "open", "spared", "unfinished"}, 1},
		{"by count", session.Keep{Count: 2}, []string{"b", "local", "new", "open", "spared", "unfinished"}, 1},
		{"by size", session.Keep{Size: 1}, []string{"local", "open", "spared", "unfinished"}, 1},
		{"local", session.Keep{Age: 5 * time.Hour, Local: true}, []string{"b", "c", "new", "old", "open", "spared", "unfinished"}, 0},
		{"what comes first", session.Keep{Age: 150 * time.Minute, Count: 100}, []string{"b", "local", "new", "open", "spared", "unfinished"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, s := range []struct {
				id, client string
				ended      bool
				hours      int
			}{
				{"new", "web", true, 0}, {"b", "web", true, 1}, {"c", "other", true, 3}, {"old", "web", true, 10},
				{"local", "", true, 100}, {"unfinished", "web", false, 100}, {"open", "web", true, 100}, {"spared", "web", true, 100},
			} {
				j := session.Create(dir, session.Options{Client: s.client})
				prompt := agent.UserText("go")
				answer := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
				events := []agent.Event{{Kind: agent.EventSession}, {Kind: agent.EventMessage, Message: &prompt}, {Kind: agent.EventAnswer, Message: &answer, Turn: 1}, {Kind: agent.EventEnd, Status: agent.StatusOK}}
				if !s.ended {
					events = events[:2]
				}
				for _, e := range events {
					e.Session, e.Agent = s.id, "a"
					if err := j.Append(t.Context(), e); err != nil {
						t.Fatal(err)
					}
				}
				if s.id == "open" {
					defer j.Close()
				} else if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				at := time.Now().Add(-time.Duration(s.hours) * time.Hour)
				if err := os.Chtimes(filepath.Join(dir, s.id, "journal.jsonl"), at, at); err != nil {
					t.Fatal(err)
				}
			}
			removed, left, err := c.keep.Prune(t.Context(), dir, func(id string) bool { return id == "spared" })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			found, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, path := range found {
				got = append(got, filepath.Base(path))
			}
			if diff := cmp.Diff(c.want, got); diff != "" || removed != 8-len(c.want) || len(left) != c.left {
				t.Errorf("removed %d, left %v (-want +got):\n%s", removed, left, diff)
			}
		})
	}
}
