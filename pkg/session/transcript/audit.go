package transcript

import (
	"cmp"
	"iter"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Trail is what a session did, for an audit: what people asked for, and each call of a
// tool with the decisions about it, in order.
type Trail struct {
	Session string    `json:"session"`
	Agent   string    `json:"agent"`
	Source  string    `json:"source"` // the agent file
	Prompts []Prompt  `json:"prompts"`
	Calls   []Audited `json:"calls"`
	// Receipts are those of the agents that were called, and of the runs.
	Receipts []AuditedReceipt `json:"receipts,omitempty"`

	agents map[string]string       // the path of the agent of a session
	calls  map[string]int          // by key
	facts  map[string]*agent.Facts // of the calls of agents in progress, by key; of the run for ""
	parent map[string]string       // the key that a session answers
}

// An AuditedReceipt is a receipt in the session.
type AuditedReceipt struct {
	Time  time.Time `json:"time"`
	Agent string    `json:"agent"`
	Key   string    `json:"key,omitempty"` // of the call; "" of a run
	Chain string    `json:"chain,omitempty"`
	// Elsewhere says that Chain is not of this journal: the session was copied.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Differs says in what the events contradict the receipt; "" in nothing. Files are not
	// among it.
	Differs string `json:"differs,omitempty"`
}

// A Prompt is a message of a person to the root agent.
type Prompt struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// An Audited is a call of a tool.
type Audited struct {
	Time time.Time `json:"time"`
	// By is the agent that called it: the slugs from the root, joined by "/".
	By     string `json:"by"`
	Turn   int    `json:"turn"`
	Tool   string `json:"tool"`
	Args   string `json:"args"`
	Key    string `json:"key"`
	Prompt int    `json:"prompt"` // the number of the prompt that led to it, from 1
	// Decisions are those about the call; none means that no rule applied.
	Decisions []Decided `json:"decisions"`
	// Argv is what was executed and Digest the hash of the executable.
	Argv   []string `json:"argv,omitempty"`
	Digest string   `json:"digest,omitempty"`
	// Sandbox is what confined it; "" if that is not recorded.
	Sandbox string `json:"sandbox"`
	// Outcome is "ok", "failed", "refused" (nothing ran) or "open" (without a result).
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"` // the result of a call that is not ok
	Millis  int64  `json:"millis"`
}

// A Decided is one decision about a call.
type Decided struct {
	Time     time.Time      `json:"time"`
	Decision agent.Decision `json:"decision"`
	// Reason is why, and says who decided if it was not the rule alone.
	Reason string `json:"reason,omitempty"`
	// Rule is the rule that fits the call, with its file; "" if there is none.
	Rule string `json:"rule,omitempty"`
	// Reviewer is "human" if nothing but a person could allow it.
	Reviewer string `json:"reviewer,omitempty"`
}

// Audit reads the trail of a session. With an error it is the trail up to the error.
func Audit(events iter.Seq2[agent.Event, error]) (*Trail, error) {
	t := &Trail{Prompts: []Prompt{}, Calls: []Audited{}, agents: map[string]string{}, calls: map[string]int{}, facts: map[string]*agent.Facts{}, parent: map[string]string{}}
	for e, err := range events {
		if err != nil {
			return t, err
		}
		t.note(&e)
	}
	return t, nil
}

func (t *Trail) note(e *agent.Event) {
	if t.Session == "" {
		t.Session, t.Agent = e.Session, e.Agent
	}
	t.receipt(e)
	switch e.Kind {
	case agent.EventSession:
		t.agents[e.Session] = strings.TrimPrefix(t.agents[agent.CallSession(e.Parent)]+"/"+e.Agent, "/")
		if e.Judging() { // on behalf of the agent above
			t.agents[e.Session] = t.agents[agent.CallSession(e.Parent)]
		}
		if e.Session == t.Session {
			t.Source = e.Source
		}
	case agent.EventMessage:
		m := e.Message
		if e.Session == t.Session && m != nil && m.Role == agent.RoleUser && !e.Opening && e.Attempt == 0 && !e.Closing {
			t.Prompts = append(t.Prompts, Prompt{e.Time, m.Text()})
		}
	case agent.EventVerdict:
		c := t.call(e)
		c.Decisions = append(c.Decisions, Decided{e.Time, e.Decision, e.Text, e.Rule, e.Reviewer})
	case agent.EventHook:
		if text := e.HookText(); e.CallID != "" && text != "" {
			c := t.call(e)
			c.Decisions = append(c.Decisions, Decided{Time: e.Time, Decision: "hook", Reason: text, Rule: e.Rule})
		}
	case agent.EventCallStarted:
		c := t.call(e)
		c.Time, c.Args, c.Argv, c.Digest, c.Sandbox = e.Time, e.Args, e.Argv, e.Digest, e.Sandbox
	case agent.EventCallEnded:
		c := t.call(e)
		c.Millis = e.Millis
		switch ran := c.Outcome == "open" && !c.Time.IsZero(); {
		case e.Result != nil && !e.Result.Failed:
			c.Outcome = "ok"
		case ran:
			c.Outcome = "failed"
		default:
			c.Outcome = "refused"
		}
		if c.Outcome != "ok" && e.Result != nil {
			c.Error = e.Result.Text()
		}
		if c.Time.IsZero() {
			c.Time, c.Args = e.Time, e.Args
		}
	}
}

// receipt gathers the facts of an event, and compares a receipt with those before it.
func (t *Trail) receipt(e *agent.Event) {
	key := e.Key
	if e.Kind == agent.EventEnd {
		key = ""
	}
	if e.Kind == agent.EventCallEnded && (e.Result == nil || e.Result.Handle == "") || e.Kind == agent.EventMessage && key != "" { // the end of a call, or of an agent in the background
		t.compare(e, key)
		delete(t.facts, key)
	}
	if e.Session == t.Session && e.Begins() {
		delete(t.facts, "")
	}
	if e.Kind == agent.EventSession && e.Session != t.Session {
		t.parent[e.Session] = e.Parent
		if t.facts[e.Parent] == nil {
			t.facts[e.Parent] = &agent.Facts{}
		}
	}
	if t.facts[""] == nil {
		t.facts[""] = &agent.Facts{}
	}
	t.facts[""].Note(e)
	for at := t.parent[e.Session]; at != ""; at = t.parent[agent.CallSession(at)] {
		if f := t.facts[at]; f != nil {
			f.Note(e)
		}
	}
	if e.Kind == agent.EventEnd && e.Session == t.Session {
		t.compare(e, "")
	}
}

func (t *Trail) compare(e *agent.Event, key string) {
	if e.Receipt == nil {
		return
	}
	r := AuditedReceipt{Time: e.Time, Agent: e.Receipt.Agent, Key: key, Chain: e.Receipt.Chain, Differs: "there are no events of this run"}
	if f := t.facts[key]; f != nil {
		r.Differs = e.Receipt.Differs(f.Receipt(e.Time))
	}
	t.Receipts = append(t.Receipts, r)
}

func (t *Trail) call(e *agent.Event) *Audited {
	i, ok := t.calls[e.Key]
	if !ok {
		i = len(t.Calls)
		t.calls[e.Key] = i
		t.Calls = append(t.Calls, Audited{By: cmp.Or(t.agents[e.Session], e.Agent), Turn: e.Turn, Tool: e.Tool, Key: e.Key, Prompt: len(t.Prompts), Decisions: []Decided{}, Outcome: "open"})
	}
	return &t.Calls[i]
}
