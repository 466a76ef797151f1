package session_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// A copy has its name only when it is complete, so that a process that is killed leaves no
// part of a session that looks like the whole; one that fails leaves nothing.
func TestACopyIsASessionOnlyWhenItIsComplete(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy")
	failure := errors.New("the source ends")
	for _, fail := range []bool{true, false} {
		seen := 0
		j := session.Create(dir, session.Options{})
		err := session.Copy(j, func(yield func(agent.Event, error) bool) {
			for _, e := range []agent.Event{{Kind: agent.EventSession, Session: "copy", Agent: "a"}, {Kind: agent.EventMessage, Session: "copy", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("x")}}}} {
				if !yield(e, nil) {
					return
				}
				seen++
				if _, err := os.Stat(path); err == nil {
					t.Error("a part of the copy has the name of the session")
				}
			}
			if fail {
				yield(agent.Event{}, failure)
			}
		})
		if fail != errors.Is(err, failure) || !fail && err != nil || seen == 0 {
			t.Fatalf("Copy = %v after %d events", err, seen)
		}
		found, _ := os.ReadDir(dir)
		if want := map[bool]int{true: 0, false: 1}[fail]; len(found) != want {
			t.Errorf("the folder has %v, want %d entries", found, want)
		}
	}
	if list, err := session.List(session.Filter{}, dir); err != nil || len(list) != 1 || list[0].Path != path {
		t.Errorf("List = %v, %v", list, err)
	}
}

// What killed processes have left of copies goes with a later copy, and not one in progress.
func TestPartsOfCopiesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{".copy-old": 25 * time.Hour, ".copy-new": time.Hour, "other": 25 * time.Hour} {
		part := filepath.Join(dir, name, "s")
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(part, 0o700), os.Chtimes(filepath.Dir(part), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	err := session.Copy(session.Create(dir, session.Options{}), func(yield func(agent.Event, error) bool) {
		yield(agent.Event{Kind: agent.EventSession, Session: "s", Agent: "a"}, nil)
	})
	var names []string
	found, _ := os.ReadDir(dir)
	for _, e := range found {
		names = append(names, e.Name())
	}
	if want := []string{".copy-new", "other", "s"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("Copy = %v; the folder has %q, want %q", err, names, want)
	}
}

// The folder of a session that is continued is synced: the process that made it may have been
// killed before.
func TestAContinuedSessionSyncsItsFolder(t *testing.T) {
	dir := t.TempDir()
	event := agent.Event{Kind: agent.EventSession, Session: "s", Agent: "a"}
	j := session.Create(dir, session.Options{})
	if err := errors.Join(j.Append(t.Context(), event), j.Close()); err != nil {
		t.Fatal(err)
	}
	var done []string
	j, _, err := session.Open(filepath.Join(dir, "s"), session.Options{Fail: func(op string, _ int) error { done = append(done, op); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := errors.Join(j.Append(t.Context(), agent.Event{Kind: agent.EventWarning, Session: "s"}), j.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(done, "sync folder") {
		t.Errorf("done: %q, want a sync of the folder", done)
	}
}
