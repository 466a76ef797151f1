package transcript

import (
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

	agents map[string]string // the path of the agent of a session
	calls  map[string]int    // by key
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
	t := &Trail{Prompts: []Prompt{}, Calls: []Audited{}, agents: map[string]string{}, calls: map[string]int{}}
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
	switch e.Kind {
	case agent.EventSession:
		t.agents[e.Session] = strings.TrimPrefix(t.agents[agent.CallSession(e.Parent)]+"/"+e.Agent, "/")
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

// call returns the call that an event is about.
func (t *Trail) call(e *agent.Event) *Audited {
	i, ok := t.calls[e.Key]
	if !ok {
		i = len(t.Calls)
		t.calls[e.Key] = i
		by := t.agents[e.Session]
		if by == "" {
			by = e.Agent
		}
		t.Calls = append(t.Calls, Audited{By: by, Turn: e.Turn, Tool: e.Tool, Key: e.Key, Prompt: len(t.Prompts), Decisions: []Decided{}, Outcome: "open"})
	}
	return &t.Calls[i]
}
