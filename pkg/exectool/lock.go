package exectool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/filelock"
)

// EnvLocks names, for a tool that starts `agents` again, the locks that its call
// holds: their ids, joined by spaces. A call below it does not wait for them.
const EnvLocks = "AGENTS_LOCKS"

// lockNames are the names of the locks of a call, with its arguments filled in,
// sorted and each once. "{arg}" of an absent argument is empty.
func (d *Description) lockNames(args map[string]json.RawMessage) []string {
	var names []string
	for _, lock := range d.Locks {
		names = append(names, fillLock(lock, args))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fillLock puts the arguments into a lock's name, in one pass.
func fillLock(lock string, args map[string]json.RawMessage) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(lock, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			b.WriteString("{" + rest)
			return b.String()
		}
		if raw := args[name]; len(raw) > 0 && string(raw) != "null" {
			if text, err := agent.ArgText(raw); err == nil {
				b.WriteString(text)
			}
		}
		lock = after
	}
}

// A held is the set of locks of one call.
type held struct {
	releases []func()
	ids      []string
}

// acquire gets the locks of a call, which takes turns with every other call that
// shares one: of this process, and of all others that use the same folder. They
// are taken in the order of their names, so that no two calls wait for each
// other; those that a call above holds already are skipped. The system releases
// them when the process ends, however it does.
func (t *Tool) acquire(ctx context.Context, names []string) (*held, error) {
	h := &held{}
	if len(names) == 0 || t.opts.LockDir == "" {
		return h, nil
	}
	if err := os.MkdirAll(t.opts.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	above := strings.Fields(lookup(t.opts.Environ, EnvLocks))
	h.ids = above
	for _, name := range names {
		id := lockID(name)
		if slices.Contains(above, id) {
			continue
		}
		release, err := filelock.Acquire(ctx, filepath.Join(t.opts.LockDir, id))
		if err != nil {
			h.release()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		h.releases, h.ids = append(h.releases, release), append(slices.Clip(h.ids), id)
	}
	return h, nil
}

// Lock takes a lock that tools declare, for something that is no call of a tool,
// and waits for it until ctx ends. What a call above holds, as environ says, is
// not waited for. release gives it back.
func Lock(ctx context.Context, dir string, environ []string, name string) (release func(), err error) {
	t := &Tool{opts: &shared{Options: Options{LockDir: dir, Environ: environ}}}
	h, err := t.acquire(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return h.release, nil
}

// Holds reports whether a call above this process holds the lock.
func Holds(environ []string, name string) bool {
	return slices.Contains(strings.Fields(lookup(environ, EnvLocks)), lockID(name))
}

func lockID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

func (h *held) release() {
	for _, release := range h.releases {
		release()
	}
}

// lookup is the value of a variable, "" if there is none.
func lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
