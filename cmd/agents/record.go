package main

import (
	"fmt"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/session"
)

// envRecord tells the `agents` that a tool runs where the record is kept to which it
// belongs.
const envRecord = "AGENTS_RECORD"

// recordPlace is the folder of a record: that of --record, or of the run whose tool
// this process is. A record holds the sessions of the whole tree, so the latter counts
// also where no session is wanted; only one that goes on stays where it is.
func (p *program) recordPlace(k *keepFlags) (config.Place, error) {
	place := config.Place{Path: k.record, Why: "--record"}
	if place.Path == "" && k.session == "" && !k.last && k.file == "" {
		place = config.Place{Path: p.getenv(envRecord), Why: envRecord}
	}
	if place.Path == "" {
		return config.Place{}, nil
	}
	var err error
	place.Path, err = filepath.Abs(place.Path)
	return place, err
}

// beginRecord begins a session in the folder of a record, and tells the tools of it.
func (p *program) beginRecord(place config.Place, err error) (*kept, error) {
	if err == nil {
		err = writable(place.Path)
	}
	if err != nil {
		return nil, nothingRan(fmt.Errorf("record the run (%s): %w", place.Why, err), "")
	}
	return &kept{Journal: session.Create(place.Path, newOptions()), dir: " --session-dir " + place.Path, record: place.Path}, nil
}
