package load

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
)

// Remember notes in the state folder that this person wrote the agent file, so that it
// is used in its folder without being named. It reports whether it did: of a file with
// another name than agent.json, or without a state folder, nothing is noted.
func Remember(p *program.Env, file string) bool {
	note, digest := noteOf(p, file)
	if note == "" || os.MkdirAll(filepath.Dir(note), 0o700) != nil {
		return false
	}
	return os.WriteFile(note, []byte(digest), 0o600) == nil
}

// noteOf is the path of the note about an agent file, and what it says of the present
// contents.
func noteOf(p *program.Env, file string) (note, digest string) {
	state := p.StateDir()
	real, err := filepath.EvalSymlinks(file)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil || state == "" || filepath.Base(real) != UsualFile || !agentfile.IsAgentFile(real) {
		return "", ""
	}
	data, err := os.ReadFile(real)
	if err != nil {
		return "", ""
	}
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	return filepath.Join(state, "own-agents", sum([]byte(real))[:32]), sum(data)
}

// noted reports whether there is a note about the file, and whether it is as it was.
func noted(p *program.Env, file string) (known, same bool) {
	note, digest := noteOf(p, file)
	if note == "" {
		return false, false
	}
	data, err := os.ReadFile(note)
	return err == nil, err == nil && string(data) == digest
}

// addOwn adds the agent file of the working directory to a configuration that names
// none, if this person wrote it. One that has changed is used once it is named again.
func addOwn(p *program.Env, c *config.Config) {
	if len(p.Global.AgentFiles) > 0 {
		for _, file := range c.AgentFiles {
			if known, same := noted(p, file.Path); known && !same {
				Remember(p, file.Path)
			}
		}
	}
	if slices.ContainsFunc(c.AgentFiles, func(f config.AgentFile) bool { return f.Named }) {
		return
	}
	if _, same := noted(p, UsualFile); same {
		path, err := filepath.Abs(UsualFile)
		if err != nil {
			return
		}
		own := config.AgentFile{Place: config.Place{Path: path, Why: "written here by you", Found: true}, Named: true}
		c.AgentFiles = []config.AgentFile{own}
	}
}
