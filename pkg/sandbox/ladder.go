package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The rungs of the ladder: the ways to confine a process, the best first.
const (
	Namespaces = "namespaces" // of Linux: user, mount, PID, network; with Landlock and seccomp
	Bubblewrap = "bubblewrap" // makes the namespaces where the system lets no other program
	Landlock   = "landlock"   // with seccomp, and no namespaces
	Seatbelt   = "seatbelt"   // of macOS
	Limits     = "limits"     // resource limits, and the environment
)

// A Ladder knows which rungs this machine has. Each is tried for real, once, and the answer
// kept in CacheDir: for as long as the kernel runs if the best one works, otherwise for
// minutes. It is safe for concurrent use.
type Ladder struct {
	// Helper is a command line that calls [Helper]: an executable and its arguments.
	Helper []string
	// CacheDir is where the answers are kept; empty means that every process tries.
	CacheDir string
	// Only are the rungs that may be used; nil is all. Limits always may.
	Only []string

	once sync.Once
	why  map[string]string // of each rung that does not work
	facts
}

func (l *Ladder) find() {
	l.once.Do(func() {
		l.facts.find()
		l.why = l.load()
		for _, r := range rungs {
			if len(l.Only) > 0 && !slices.Contains(l.Only, r) && r != Limits {
				l.why[r] = "not to be used"
			}
		}
	})
}

// Rung is the best rung that works.
func (l *Ladder) Rung() string {
	l.find()
	for _, r := range rungs {
		if l.why[r] == "" {
			return r
		}
	}
	return Limits
}

// String says of each rung whether it works, and if not why, for people: "namespaces:
// works".
func (l *Ladder) String() string {
	l.find()
	var lines []string
	for _, r := range rungs {
		lines = append(lines, fmt.Sprintf("%s: %s", r, cmp.Or(l.why[r], "works")))
	}
	return strings.Join(lines, "\n")
}

// An Enforcement is a restriction and what enforces it: "" if nothing does.
type Enforcement struct{ What, By string }

// Enforced says what enforces each restriction of the sandbox on this machine.
func (b *Box) Enforced() []Enforcement { return b.enforcedBy(b.place.Ladder.Rung()) }

// enforcedBy says what enforces each restriction on a rung.
func (b *Box) enforcedBy(rung string) (list []Enforcement) {
	by, c := b.enforcers(rung), b.config
	for _, part := range []struct {
		asked bool
		what  string
	}{
		{c.Read != nil, "read"}, {c.Write != nil, "write"}, {c.Network != nil && !c.Network.All, "network"}, {c.Environment != nil, "environment"},
		{c.Memory > 0, "memory"}, {c.Processes > 0, "processes"}, {c.CPUSeconds > 0, "cpuSeconds"}, {c.OpenFiles > 0, "openFiles"}, {c.FileSize > 0, "fileSize"},
		{b.confines() && by["signals"] == "", "signals"}, // said only where they are not
		{len(b.lately().exist) > 0, "protected files"},
	} {
		if part.asked {
			list = append(list, Enforcement{part.what, by[part.what]})
		}
	}
	return list
}

// confines reports whether the sandbox is more than limits of resources.
func (b *Box) confines() bool {
	return b.config.Read != nil || b.config.Write != nil || b.config.Network != nil
}

// Summary says the same in one line: "namespaces: read, write, network", and what is not
// enforced.
func (b *Box) Summary() string {
	rung := b.place.Ladder.Rung()
	by, missing := b.split(rung)
	text := "nothing is enforced"
	if len(by) > 0 {
		text = rung + ": " + strings.Join(by, ", ")
	}
	if len(missing) > 0 {
		text += "; NOT enforced: " + strings.Join(missing, ", ")
	}
	return text
}

// split returns the restrictions that a rung enforces, with what does, and those that it does not.
func (b *Box) split(rung string) (by, missing []string) {
	for _, e := range b.enforcedBy(rung) {
		if e.By == "" {
			missing = append(missing, e.What)
		} else {
			by = append(by, e.What+" by "+e.By)
		}
	}
	return by, missing
}

// check refuses what is required and not enforced, and says what is not otherwise, once.
func (b *Box) check(rung string) error {
	_, missing := b.split(rung)
	if len(missing) == 0 {
		return nil
	}
	if b.config.Required {
		return fmt.Errorf(`sandbox: it is required and this machine cannot enforce %s (%s)`, strings.Join(missing, ", "), b.place.Ladder.reasons(rung))
	}
	b.mu.Lock()
	noted := b.noted
	b.noted = true
	b.mu.Unlock()
	if !noted {
		b.log(fmt.Sprintf("sandbox: this machine cannot enforce %s (%s)", strings.Join(missing, ", "), b.place.Ladder.reasons(rung)))
	}
	return nil
}

// reasons says why the rungs above one do not work.
func (l *Ladder) reasons(rung string) string {
	var why []string
	for _, r := range rungs {
		if r == rung {
			break
		}
		why = append(why, r+": "+l.why[r])
	}
	if len(why) == 0 {
		return "with " + rung
	}
	return strings.Join(why, "; ")
}
