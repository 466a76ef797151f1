package exectool

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

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
