package load

import (
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/config"
)

// SessionDirs are where sessions are kept: new ones in the first.
func SessionDirs(p *program.Env, c *config.Config, dir string) []config.Place {
	if dir != "" {
		return []config.Place{{Path: dir, Why: "--session-dir"}}
	}
	var list []config.Place
	state := p.StateDir()
	switch {
	case c.File.SessionDir != "":
		list = append(list, config.Place{Path: c.File.SessionDir, Why: "sessions.writeLocation in " + c.File.Path})
	case state != "":
		list = append(list, config.Place{Path: filepath.Join(state, "sessions"), Why: "XDG_STATE_HOME, else ~/.local/state"})
	default:
		list = append(list, config.Place{Why: "there is no home folder"})
	}
	for _, d := range c.File.SessionDirs {
		list = append(list, config.Place{Path: d, Why: "sessions.readLocations in " + c.File.Path})
	}
	return list
}

func Paths(places []config.Place) []string {
	var list []string
	for _, p := range places {
		if p.Path != "" {
			list = append(list, p.Path)
		}
	}
	return list
}
