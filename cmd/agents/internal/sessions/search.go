package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/process"
)

const searcherVersion = 1

// A Query selects texts of sessions: see package sessionindex, which agents-search has.
type Query struct {
	Words   []string `json:"words"`
	Folders []string `json:"folders"`
	Agent   string   `json:"agent,omitempty"`
	Tool    string   `json:"tool,omitempty"`
	Since   int64    `json:"since,omitempty"`
	Until   int64    `json:"until,omitempty"`
	Limit   int      `json:"limit"`
}

// A Hit is a text that was found.
type Hit struct {
	Session   string  `json:"session"`
	Path      string  `json:"path"`
	RootAgent string  `json:"root_agent"`
	Prompt    string  `json:"prompt"`
	Began     int64   `json:"began"`
	Kind      string  `json:"kind"`
	Agent     string  `json:"agent"`
	Tool      string  `json:"tool,omitempty"`
	Turn      int     `json:"turn"`
	Time      int64   `json:"time"`
	Snippet   []Piece `json:"snippet"`
}

type Piece struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty"`
}

// Search has agents-search look into the index, which it updates first.
func Search(ctx context.Context, p *program.Env, q Query) ([]Hit, error) {
	cache := p.CacheDir()
	if cache == "" {
		return nil, failure.Usage("set XDG_CACHE_HOME", "session search: there is no folder for its index")
	}
	folders := q.Folders
	q.Folders = nil
	for _, d := range folders {
		d, err := filepath.Abs(d)
		if err != nil {
			return nil, failure.NothingRan(err, "")
		}
		q.Folders = append(q.Folders, d)
	}
	r := struct {
		Version int    `json:"version"`
		Index   string `json:"index"`
		Query
	}{searcherVersion, filepath.Join(cache, "sessions.sqlite3"), q}

	path, err := process.Companion(program.Search)
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("session search: %w", err), "`go install github.com/agents-exe/agents/cmd/...@latest` installs it beside agents; `make build` makes both")
	}
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	exit, err := process.Run(ctx, &process.Command{Path: path, Env: p.Environ, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, failure.NothingRan(fmt.Errorf("session search: %w", err), "")
	case exit.Code != 0 || exit.Signal != 0:
		said := strings.TrimPrefix(strings.TrimSpace(errs.String()), "error: ")
		if said == "" {
			said = exit.String()
		}
		return nil, &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("session search: %s", said)}
	}
	hits := []Hit{}
	dec := json.NewDecoder(&out)
	for {
		var h Hit
		if err := dec.Decode(&h); err == io.EOF {
			return hits, nil
		} else if err != nil {
			return nil, fmt.Errorf("session search: read what %s found: %w", path, err)
		}
		hits = append(hits, h)
	}
}

// ParseDate parses a day, a time, or an age such as 7d.
func ParseDate(s string, now time.Time) (time.Time, error) {
	if t, err := time.ParseInLocation(time.DateOnly, s, now.Location()); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, errors.New("want a date as 2026-11-21, a time as 2026-11-21T15:30:00Z, or a duration as 36h or 7d")
}
