package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// maxServed is the size limit of a session that a client reads, in bytes.
const maxServed = 8 << 20

// sessions are the sessions on disk as resources. Only names are listed, because
// the list is made again and again to notify clients.
func (s *service) sessions() mcpserver.Collection {
	store := &sessions.Store{Env: s.p, Dir: s.flags.Keep.Dir}
	return mcpserver.Collection{
		Prefix: "agents://session/", Variable: "id", Name: "session", MIMEType: "text/markdown",
		Description: "a session of an earlier run, as Markdown",
		List:        func(context.Context) ([]mcpserver.Item, error) { return served(store) },
		Read:        func(_ context.Context, id string) (string, error) { return readSession(store, id) },
	}
}

// served are the sessions, those that changed last first.
func served(s *sessions.Store) ([]mcpserver.Item, error) {
	dirs, err := s.Folders()
	if err != nil {
		return nil, err
	}
	type entry struct {
		id      string
		changed time.Time
	}
	var list []entry
	for _, dir := range dirs {
		found, _ := os.ReadDir(dir) // one that is not there has none
		for _, e := range found {
			if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.IsDir() && session.ValidID(e.Name()) {
				list = append(list, entry{e.Name(), info.ModTime()})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Or(b.changed.Compare(a.changed), strings.Compare(b.id, a.id)) })
	items := make([]mcpserver.Item, len(list))
	for i, e := range list {
		items[i] = mcpserver.Item{Name: e.id}
	}
	return items, nil
}

func readSession(s *sessions.Store, id string) (string, error) {
	dirs, err := s.Folders()
	if err != nil {
		return "", err
	}
	path := folderOf(dirs, id)
	if path == "" {
		return "", fmt.Errorf("session %s: %w", id, fs.ErrNotExist)
	}
	events := session.Events(path)
	sum, err := sessions.Summary(events)
	if err != nil {
		return "", err
	}
	m := &transcript.Markdown{Calls: transcript.Cut, SubAgents: true}
	var b strings.Builder
	b.WriteString(m.Head(sum))
	for t, err := range transcript.Turns(events) {
		if err != nil {
			fmt.Fprintf(&b, "**The session cannot be read any further**: %v\n", err)
			break
		}
		if b.WriteString(m.Turn(t)); b.Len() > maxServed {
			return "", errors.New("the session is too long to be read as a resource")
		}
	}
	return b.String(), nil
}

// pruneEvery is how often the server looks for sessions beyond --keep-sessions.
const pruneEvery = time.Hour

// prune removes the sessions of clients that exceed k, at once and every hour, until stop is
// called.
func (h *agentServer) prune(ctx context.Context, k session.Keep, limit string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	said := map[string]bool{}
	once := func() {
		removed, left, err := k.Prune(ctx, h.dirs[0], func(id string) bool {
			_, err := os.Stat(filepath.Join(h.notes, id+noteSuffix)) // a server may have to continue it
			return err == nil
		})
		if ctx.Err() != nil {
			return
		}
		if removed > 0 {
			h.say(fmt.Sprintf("--keep-sessions %s: %d %s of clients removed", limit, removed, program.Plural(removed, "session")))
		}
		for _, path := range left {
			if id := filepath.Base(path); !said[id] {
				said[id] = true
				h.say(fmt.Sprintf("session %s is beyond --keep-sessions %s and is kept: its last run has no end, so it is not known what its calls did", id, limit))
			}
		}
		if err != nil {
			h.say("warning: --keep-sessions: " + err.Error())
		}
	}
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			once()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
