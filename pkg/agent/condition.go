package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/glob"
)

// A Condition must hold before an answer of an agent counts. One of Call, File, Changed and Run
// is set.
type Condition struct {
	// Call is the name of a tool, of the agent or of one below it, and Outcome that of its last
	// call: "ok" (the default), "failed", "denied", "unknown" or "none", which means that there is
	// no call. After is "" or "last change": the call began after the last call of another tool
	// ended that could change something.
	Call    string `json:"call,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	After   string `json:"after,omitempty"`
	// File is relative to the working folder. Exists is true if it is nil. Schema is the JSON
	// Schema of its content.
	File   string          `json:"file,omitempty"`
	Exists *bool           `json:"exists,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	// Changed are patterns of files below the working folder (see package glob): one of them was
	// created, changed or removed; with Only, none but these.
	Changed []string `json:"changed,omitempty"`
	Only    bool     `json:"only,omitempty"`
	// Run is an executable.
	Run string `json:"run,omitempty"`

	// Shape is Schema, and Tool is Run, for the Runner.
	Shape *Shape `json:"-"`
	Tool  Tool   `json:"-"`
}

// LastChange is the only value of Condition.After.
const LastChange = "last change"

// Expect is what a caller expects of an agent, and in which form it gets its Receipt.
type Expect struct {
	Accept []Condition
	// Receipt is one of ReceiptNone and so on: see Agent.Receipt.
	Receipt string
	// Dir is the working folder of the agent; "" if it has none on this machine.
	Dir string
	// Workspace says that Dir is a workspace of the call: programs of conditions run there too.
	Workspace bool
}

// A Movable is a Tool that can run in another folder.
type Movable interface {
	In(dir string) Tool
}

// A Workspaced is a Tool of which each call works in a folder of its own.
type Workspaced interface {
	// Reopen returns the folder of a call whose agent has ended in an earlier process, and what
	// completes the result; "" if there is none.
	Reopen(ctx context.Context, key string) (dir string, complete func(Result, error) (Result, error))
}

// An Expected is a Tool that is an agent.
type Expected interface {
	Expects() Expect
}

// Unmet is the error for an answer whose conditions do not hold.
type Unmet struct{ Reasons []string }

// Error returns the reasons on one line.
func (u *Unmet) Error() string { return strings.Join(u.Reasons, "; ") }

// CallUnmet returns why the condition about a call does not hold; "" if it does.
func (f *Facts) CallUnmet(c *Condition) string {
	want := cmp.Or(c.Outcome, callOK)
	t, got := f.tools[c.Call], callNone
	if t != nil {
		got = t.outcome
	}
	for _, open := range f.open {
		if open.tool == c.Call {
			got = callUnknown
		}
	}
	name := shownTool(c.Call)
	switch {
	case want == callNone && got == callNone:
		return ""
	case got == callNone:
		return "there is no call of " + name + " that began; its outcome must be " + want
	case got != want:
		return fmt.Sprintf("the last call of %s has the outcome %s, not %s", name, got, want)
	case c.After != LastChange:
		return ""
	}
	for _, other := range f.tools {
		if other.Tool != c.Call && other.changed > t.started {
			return fmt.Sprintf("the last call of %s did not begin after the last change: a call of %s ended later", name, shownTool(other.Tool))
		}
	}
	for _, open := range f.open {
		if open.tool != c.Call && open.harmful {
			return "a call of " + shownTool(open.tool) + " has no result"
		}
	}
	return ""
}

// ChangedUnmet is CallUnmet for the condition about changes.
func (f *FileReport) ChangedUnmet(c *Condition) string {
	if f == nil {
		return "it cannot be seen which files changed"
	}
	fits := func(ch FileChange) bool {
		return slices.ContainsFunc(c.Changed, func(p string) bool { return glob.New(p).Match(ch.Path) })
	}
	patterns := strings.Join(c.Changed, ", ")
	i := slices.IndexFunc(f.Changes, func(ch FileChange) bool { return fits(ch) != c.Only })
	switch {
	case c.Only && i >= 0 && f.Shared:
		return fmt.Sprintf("%s was %s, perhaps by others that ran at the same time; only %s may change", shown(f.Changes[i].Path, 200), f.Changes[i].Change, patterns)
	case c.Only && i >= 0:
		return fmt.Sprintf("%s was %s, and only %s may change", shown(f.Changes[i].Path, 200), f.Changes[i].Change, patterns)
	case c.Only && (f.Partial != "" || f.More > 0):
		return "not all files were compared (" + cmp.Or(f.Partial, "too many changed") + "), so it cannot be shown that only " + patterns + " changed"
	case !c.Only && i < 0:
		return "no file that fits " + patterns + " was created, changed or removed"
	}
	return ""
}
