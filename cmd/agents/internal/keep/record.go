package keep

import (
	"fmt"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/session"
)

// recordPlace returns the folder of --record, or that of the run that started this process
// as a tool. A record holds the sessions of the whole tree, so the latter applies
// even with --no-session; only a continued session stays where it is.
func recordPlace(p *program.Env, k *Flags) (config.Place, error) {
	place := config.Place{Path: k.record, Why: "--record"}
	if place.Path == "" && !k.Continues() && k.file == "" {
		place = config.Place{Path: p.Getenv(program.EnvRecord), Why: program.EnvRecord}
	}
	if place.Path == "" {
		return config.Place{}, nil
	}
	var err error
	place.Path, err = filepath.Abs(place.Path)
	return place, err
}

// beginRecord begins a session in the folder of a record.
func beginRecord(p *program.Env, place config.Place, err error) (*Session, error) {
	if err == nil {
		err = writable(place.Path)
	}
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("record the run (%s): %w", place.Why, err), "")
	}
	return &Session{Kept: New(p, session.Create(place.Path, sessions.NewOptions())), dir: " --session-dir " + place.Path, record: place.Path}, nil
}
