package exectool

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// lockNames are the names of the locks of a call, with its arguments filled in,
// sorted and each once. "{arg}" of an absent argument is empty. terminal is the path of the
// person's terminal.
func (d *Description) lockNames(args map[string]json.RawMessage, terminal string) []string {
	var names []string
	for _, lock := range d.Locks {
		names = append(names, toolenv.LockOf(fillLock(lock, args), terminal))
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
