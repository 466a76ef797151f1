package agentsexe

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// Every session is imported, shown, continued with a scripted model and exported.
func TestSessions(t *testing.T) {
	n := 0
	open(t).sessions(t, true, func(path string, data []byte) {
		n++
		dir := t.TempDir()
		id := session.NewID()
		if err := session.Copy(session.Create(dir, session.Options{}), session.Rename(transcript.FromAgentsExe(data), id)); err != nil {
			t.Errorf("%s: import: %v", path, err)
			return
		}
		journal, past, err := session.Open(filepath.Join(dir, id), session.Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		r := runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: model(t)}, Journal: journal, NewID: journal.NewID, From: &past.Resume}
		out, err := r.Run(t.Context(), agent.UserText("more"))
		if closeErr := journal.Close(); err != nil || closeErr != nil || out.Answer != "continued" {
			t.Errorf("%s: continue: %+v %v %v", path, out, err, closeErr)
		}
		events := session.Events(filepath.Join(dir, id))
		var file bytes.Buffer
		if err := transcript.ToAgentsExe(&file, events); err != nil {
			t.Errorf("%s: export: %v", path, err)
		}
		if err := transcript.Write(io.Discard, transcript.FromAgentsExe(file.Bytes())); err != nil {
			t.Errorf("%s: import of the export: %v", path, err)
		}
		shown := &transcript.Markdown{Calls: transcript.Whole, Thinking: true, System: true}
		for turn, err := range transcript.Turns(events) {
			if err != nil || shown.Turn(turn) == "" {
				t.Errorf("%s: show: %v", path, err)
			}
		}
	})
	t.Logf("%d sessions", n)
}

func model(t *testing.T) agent.Provider {
	t.Helper()
	s, err := scripted.Parse("script", []byte(`{"rules":[{"answer":{"text":"continued"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return &scripted.Provider{Script: s}
}
