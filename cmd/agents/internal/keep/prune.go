package keep

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/session"
)

// pruneEvery is how often the sessions in a folder are pruned: with very many, that takes seconds.
const pruneEvery = time.Hour

// prune removes the local sessions in a folder that exceed the limits in the environment. The
// limits are a variable and not a key of a cfg file, because the cfg file of a tree must not
// remove sessions.
func prune(p *program.Env, dir string) error {
	text := p.Getenv(program.EnvKeepSessions)
	if text == "" || p.Getenv(process.MarkVariable) != "" {
		return nil
	}
	limits, err := session.ParseKeep(text)
	if err != nil {
		return failure.Usage("", "%s: %v", program.EnvKeepSessions, err)
	}
	last := filepath.Join(dir, ".pruned")
	if info, err := os.Lstat(last); err == nil && time.Since(info.ModTime()) < pruneEvery {
		return nil
	}
	_ = os.Remove(last)
	if os.WriteFile(last, nil, 0o600) != nil {
		return nil // there is no folder yet, or it cannot be changed
	}
	limits.Local = true
	removed, _, err := limits.Prune(context.Background(), dir, nil)
	if removed > 0 {
		p.Note("%s=%s: %d %s removed", program.EnvKeepSessions, text, removed, program.Plural(removed, "session"))
	}
	if err != nil {
		p.Warn(program.EnvKeepSessions + ": " + err.Error())
	}
	return nil
}
