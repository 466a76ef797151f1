package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/terminal/input"
)

// An Approver answers the questions of all agents in a run. Whether a call may run, it
// decides by a remembered answer or by asking the person; all other questions go to the
// person.
type Approver struct {
	Env *program.Env
	// Person is the person at the terminal; nil if nobody is there.
	Person *Person
	// Yes allows every call that a person would be asked about, except where only a
	// person may answer.
	Yes bool
	// File remembers answers for later runs; "" remembers none.
	File string
	// Folder is the working folder, without symbolic links.
	Folder string
	// Session returns the id of the root session, "" if none is kept; nil if it never is.
	Session func() string
	// Refuse ends the run if it requires a call that nobody can allow. If nil, only the
	// call is denied.
	Refuse func(cause error)

	mu      sync.Mutex
	allowed []config.Approval // in this run
	last    map[string]string // the arguments of the last call by tool
	alone   unasked
	denied  int // calls that --yes would have allowed
}

// unasked is what is known of the calls about which nothing decided.
type unasked struct {
	judged  map[string]bool // the keys of calls about which there is a verdict
	ran     map[string]int  // the others, by tool
	changes map[string]bool // the tools that may change something
}

func (u *unasked) observe(e agent.Event) {
	if u.ran == nil {
		u.judged, u.ran, u.changes = map[string]bool{}, map[string]int{}, map[string]bool{}
	}
	switch e.Kind {
	case agent.EventSetup:
		for _, s := range e.Specs {
			u.changes[s.Name] = u.changes[s.Name] || s.Effects != agent.EffectsNone && !s.IsAgent()
		}
	case agent.EventVerdict:
		u.judged[e.Key] = true
	case agent.EventCallStarted:
		if !u.judged[e.Key] {
			u.ran[e.Tool]++
		}
		delete(u.judged, e.Key)
	}
}

// Unasked returns how many calls ran that a person at a terminal would have been asked about.
// specs are the tools of the tree, which a session that continues does not report again.
func (a *Approver) Unasked(specs []agent.ToolSpec) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alone.observe(agent.Event{Kind: agent.EventSetup, Specs: specs})
	for tool, times := range a.alone.ran {
		if a.alone.changes[tool] {
			n += times
		}
	}
	return n
}

// Denied returns how many calls were denied because nobody could be asked, and --yes would have
// allowed.
func (a *Approver) Denied() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.denied
}

// NewApprover returns the Approver of a run. person is nil if nobody is at a terminal.
func NewApprover(p *program.Env, person *Person, yes bool, refuse context.CancelCauseFunc) *Approver {
	a := &Approver{Env: p, Person: person, Yes: yes, File: p.ApprovalsFile(), Refuse: refuse}
	if dir, err := os.Getwd(); err == nil {
		a.Folder, _ = filepath.EvalSymlinks(dir) // without it no folder is offered
	}
	return a
}

// The fields Approval and Reviewer of a question.
const (
	approvalAlways   = "always"   // ask about each call
	approvalRequired = "required" // the run is refused if nobody can be asked
	reviewerHuman    = "human"    // only a person may answer
)

// A refusal is the cause of a context that ended because nobody could allow a required
// call. It wraps context.Canceled.
type refusal struct{ text string }

func (r *refusal) Error() string   { return r.text }
func (r *refusal) Unwrap() []error { return []error{agent.ErrRefused, context.Canceled} }

// Observe remembers the arguments of each call, to show how those of the next one differ, and
// counts for Unasked.
func (a *Approver) Observe(e agent.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alone.observe(e)
	if e.Kind != agent.EventCallStarted {
		return
	}
	if a.last == nil {
		a.last = map[string]string{}
	}
	a.last[e.Tool] = e.Args
}

// Answer has the signature of Runner.Person.
func (a *Approver) Answer(ctx context.Context, q agent.Event) (json.RawMessage, error) {
	if q.What != "approve" {
		if a.Person == nil {
			return nil, agent.ErrNobody
		}
		return a.Person.answer(ctx, q)
	}
	if q.Reviewer != reviewerHuman {
		if a.Yes {
			return decided(agent.Allow, "--yes")
		}
		if reason, ok := a.remembers(q); ok {
			return decided(agent.Allow, reason)
		}
	}
	err := agent.ErrNobody
	if a.Person == nil && q.Reviewer != reviewerHuman {
		a.mu.Lock()
		a.denied++
		a.mu.Unlock()
	}
	if a.Person != nil {
		var answer approval
		if answer, err = a.Person.approve(ctx, q, a.changes(q), a.scopes(q)); err == nil {
			return a.keep(ctx, q, answer)
		}
	}
	if errors.Is(err, agent.ErrNobody) && q.Approval == approvalRequired && a.Refuse != nil {
		a.Refuse(&refusal{fmt.Sprintf("%s: agent %s needs the call of %s, approval is %q (%s), and %v", agent.ErrRefused, strings.Join(q.Path, " > "), q.Tool, approvalRequired, q.Text, err)})
	}
	return nil, err
}

// decided is the answer to a question about a call.
func decided(d agent.Decision, reason string) (json.RawMessage, error) {
	return json.Marshal(struct {
		Decision agent.Decision `json:"decision"`
		Reason   string         `json:"reason"`
	}{d, reason})
}

// remembers reports whether an earlier answer allows the call, and which.
func (a *Approver) remembers(q agent.Event) (reason string, ok bool) {
	if q.Approval == approvalAlways {
		return "", false
	}
	args := canonical(q.Args)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, old := range a.allowed {
		if old.Tool == q.Tool && old.Source == q.Source && old.Digest == q.Digest && (old.Args == nil || canonical(string(old.Args)) == args) {
			return "a person allowed it before in this run", true
		}
	}
	if a.File == "" {
		return "", false
	}
	list, err := config.ReadApprovals(a.File)
	if err != nil {
		a.Env.Warn(err.Error())
	}
	for _, old := range list {
		switch {
		case !old.Covers(q.Tool, q.Source, q.Digest, args):
		case old.Folder != "" && old.Folder == a.Folder:
			return "a person allowed it in this folder: " + a.File, true
		case old.Session != "" && old.Session == a.session():
			return "a person allowed it in this session: " + a.File, true
		}
	}
	return "", false
}

func (a *Approver) session() string {
	if a.Session == nil {
		return ""
	}
	return a.Session()
}

// canonical returns a JSON text in a form that is the same for equal values.
func canonical(text string) string { return jsondoc.Format(cmp.Or(text, "{}"), "") }

// changes describes how the arguments differ from those of the last call of the tool.
func (a *Approver) changes(q agent.Event) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.last[q.Tool]
	if !ok {
		return "the first call of this tool in this run"
	}
	return difference(last, q.Args)
}

// scopes returns the answers that are offered besides yes and no.
func (a *Approver) scopes(q agent.Event) []string {
	return input.Answers(&q, a.File != "" && a.Folder != "")[2:] // without yes and no
}

func (a *Approver) keep(ctx context.Context, q agent.Event, answer approval) (json.RawMessage, error) {
	if answer.scope == scopeNo {
		return decided(agent.Deny, strings.TrimSuffix("a person denied it: "+answer.reason, ": "))
	}
	reason := "a person allowed it"
	if len(a.scopes(q)) == 0 {
		return decided(agent.Allow, reason)
	}
	entry := config.Approval{Tool: q.Tool, Source: q.Source, Digest: q.Digest, Time: time.Now().UTC().Truncate(time.Second)}
	if answer.scope == scopeOnce || answer.scope == scopeCall {
		entry.Args = json.RawMessage(canonical(q.Args))
	}
	a.mu.Lock()
	a.allowed = append(a.allowed, entry)
	a.mu.Unlock()
	switch answer.scope {
	case scopeSession, scopeCall:
		entry.Session = a.session()
		reason += " in this session"
	case scopeFolder:
		entry.Folder = a.Folder
		reason += " in this folder"
	}
	if a.File != "" && entry.Folder+entry.Session != "" {
		if err := config.AddApproval(ctx, a.File, entry); err != nil {
			a.Env.Warn(fmt.Sprintf("the answer is not kept for later runs: %v", err))
		}
	}
	return decided(agent.Allow, reason)
}
