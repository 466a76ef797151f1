package agentfile

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/source/toolbox/system"
)

func TestSessionsOfOtherFoldersAreNotRead(t *testing.T) {
	write := func(j *session.Journal, id string) {
		t.Helper()
		prompt := agent.UserText("secret")
		err := session.Copy(j, func(yield func(agent.Event, error) bool) {
			_ = yield(agent.Event{Kind: agent.EventSession, Session: id}, nil) && yield(agent.Event{Kind: agent.EventMessage, Session: id, Message: &prompt}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	own, other := t.TempDir(), t.TempDir()
	write(session.Create(own, session.Options{}), "own")
	write(session.Create(other, session.Options{}), "other")
	write(session.CreateFile("here", session.Options{}), "here")
	dirs := sessionFolders{own + "/"}
	if c, err := dirs.Read(t.Context(), "own", system.Part{}); err != nil || !strings.Contains(c.Text, "secret") {
		t.Errorf("Read(own) = %v, %v", c, err)
	}
	for _, id := range []string{"other", filepath.Join(other, "other"), "../" + filepath.Base(other) + "/other", "here", "./here"} {
		if c, err := dirs.Read(t.Context(), id, system.Part{}); err == nil {
			t.Errorf("Read(%q) = %q, want an error", id, c.Text)
		}
	}
}
