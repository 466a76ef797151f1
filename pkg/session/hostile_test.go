//go:build unix

package session_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// longPrompt makes a session whose prompt is in a blob, and returns its folder, the
// blob and the journal.
func longPrompt(t *testing.T, dir, id string) (path, blob, journal string) {
	t.Helper()
	j := session.Create(dir, session.Options{})
	prompt := agent.UserText("do this\n" + strings.Repeat("and that\n", 10_000))
	for _, e := range []agent.Event{{Kind: agent.EventSession, Session: id, Agent: "a"}, {Kind: agent.EventMessage, Session: id, Message: &prompt}} {
		if err := j.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(j.Path(), "blobs", "*"))
	if err != nil || len(blobs) != 1 {
		t.Fatalf("blobs: %v, %v", blobs, err)
	}
	return j.Path(), blobs[0], filepath.Join(j.Path(), "journal.jsonl")
}

// An answer whose contents are lost does not count as a complete turn.
func TestADamagedAnswerIsNotACompleteTurn(t *testing.T) {
	j := session.Create(t.TempDir(), session.Options{})
	prompt, answer := agent.UserText("go"), agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(strings.Repeat("long ", 20_000))}}
	for _, e := range []agent.Event{
		{Kind: agent.EventSession, Session: "s"}, {Kind: agent.EventMessage, Session: "s", Message: &prompt},
		{Kind: agent.EventAnswer, Session: "s", Message: &answer, Finish: agent.FinishStop},
	} {
		if err := j.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.Close(), os.RemoveAll(filepath.Join(j.Path(), "blobs"))); err != nil {
		t.Fatal(err)
	}
	err := second(j.Path())
	if d, ok := errors.AsType[*session.DamageError](err); !ok || d.Turns != 0 || d.Line != 4 {
		t.Errorf("Open = %v, want damage at line 4 after no turn", err)
	}
}

// A file in a session that cannot be read in any reasonable time is the damage of
// this session, in all commands, and none of the others'.
func TestAHostileFileIsTheDamageOfItsSession(t *testing.T) {
	const giant = 40 << 30
	replace := func(path string, create func(string) error) error {
		return errors.Join(os.Remove(path), create(path))
	}
	pipe := func(path string) error { return exec.Command("mkfifo", path).Run() }
	device := func(path string) error { return os.Symlink("/dev/zero", path) }
	sparse := func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, giant)) }
	for name, tt := range map[string]struct {
		spoil func(blob, journal string) error
		want  string
	}{
		"blob: pipe":                {func(blob, _ string) error { return replace(blob, pipe) }, "not a regular file"},
		"blob: link to a device":    {func(blob, _ string) error { return replace(blob, device) }, "not a regular file"},
		"blob: sparse":              {func(blob, _ string) error { return replace(blob, sparse) }, "more than the limit of"},
		"journal: pipe":             {func(_, journal string) error { return replace(journal, pipe) }, "not a regular file"},
		"journal: link to a device": {func(_, journal string) error { return replace(journal, device) }, "not a regular file"},
		"journal: sparse":           {func(_, journal string) error { return replace(journal, sparse) }, "not a session"},
		"journal: sparse tail":      {func(_, journal string) error { return os.Truncate(journal, giant) }, "more data follows than a crash can leave"},
		"journal: sparse in its lines": {func(_, journal string) error {
			return errors.Join(os.Truncate(journal, 300), os.Truncate(journal, giant))
		}, "more data follows than a crash can leave"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			good, _, _ := longPrompt(t, dir, "good")
			path, blob, journal := longPrompt(t, dir, "hostile")
			if err := tt.spoil(blob, journal); err != nil {
				t.Fatal(err)
			}
			list, err := session.List(session.Filter{}, dir)
			if err != nil || len(list) != 2 {
				t.Fatalf("List = %+v, %v", list, err)
			}
			for _, i := range list {
				if i.ID != filepath.Base(i.Path) || i.Path == good && i.Err != nil || i.Path == path && (i.Err == nil || !strings.Contains(i.Err.Error(), tt.want)) {
					t.Errorf("%s: %v, want %s for hostile alone", i.ID, i.Err, tt.want)
				}
			}
			if got, err := session.Find("good", dir); err != nil || got != good {
				t.Errorf("Find = %s, %v", got, err)
			}
			if err := second(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want %s", err, tt.want)
			}
			for _, err = range session.Events(path) {
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Events = %v, want %s", err, tt.want)
			}
		})
	}
}
