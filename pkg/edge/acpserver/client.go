package acpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
)

// The modes of a session.
const (
	ModeAsk      = "ask"
	ModeAllow    = "allow"
	ModeReadOnly = "read-only"
)

var modes = [...]acp.Mode{
	{ID: ModeAsk, Name: "Ask", Description: "ask before calls, as the agent's rules and its approval say"},
	{ID: ModeAllow, Name: "Allow", Description: "allow calls that would be asked about, except where only a person may answer"},
	{ID: ModeReadOnly, Name: "Read only", Description: "refuse every call that may change something"},
}

// A Client is the person at the client of a session, with the mode that the person has chosen.
type Client struct {
	server *Server
	id     string // of the session

	mu     sync.Mutex
	mode   string
	denied map[string]bool // tools that the person never allows, with their sources
}

// Policy is for host.Host.Policy: in ModeReadOnly it denies calls that may change something. An
// agent in another process may do what it does without asking.
func (c *Client) Policy(_ context.Context, inv *agent.Invocation) agent.Verdict {
	c.mu.Lock()
	mode := c.mode
	c.mu.Unlock()
	own := inv.Spec.Agent != "" && inv.Spec.Channel == 0 && inv.Spec.Effects == ""
	if mode == ModeReadOnly && inv.Spec.Effects != agent.EffectsNone && !own {
		return agent.Verdict{Decision: agent.Deny, Reason: "the person has chosen the mode read-only, and this tool may change something"}
	}
	return agent.Verdict{Decision: agent.Allow}
}

// Approve asks the person whether the call that q is about may run. scopes are the answers
// besides "no" that may be offered: "yes", "session" and "folder"; others are ignored. It returns
// one of them or "no", and a reason for the model. The error wraps agent.ErrNobody if the person
// chooses nothing.
func (c *Client) Approve(ctx context.Context, q agent.Event, scopes []string) (scope, reason string, err error) {
	tool := q.Tool + "\x00" + q.Source
	c.mu.Lock()
	mode, denied := c.mode, c.denied[tool]
	c.mu.Unlock()
	switch {
	case denied:
		return "no", "the person never allows this tool in this conversation", nil
	case mode == ModeAllow && q.Reviewer != "human":
		return "yes", "", nil
	}
	var options []acp.Option
	for _, o := range [...]acp.Option{{ID: "yes", Name: "Allow", Kind: acp.AllowOnce}, {ID: "session", Name: "Always allow " + q.Tool + " in this session", Kind: acp.AllowAlways},
		{ID: "folder", Name: "Always allow " + q.Tool + " in this folder", Kind: acp.AllowAlways}, {ID: "no", Name: "Reject", Kind: acp.RejectOnce}, {ID: "never", Name: "Always reject " + q.Tool + " in this session", Kind: acp.RejectAlways}} {
		if o.ID == "no" || o.ID == "never" || slices.Contains(scopes, o.ID) {
			options = append(options, o)
		}
	}
	var r acp.PermissionResponse
	call := acp.CallUpdate{Call: acp.Call{ID: q.Key, Title: title(&q), Status: acp.Pending, RawInput: rawArgs(q.Args)}}
	err = c.server.conn.Call(ctx, acp.MethodPermission, acp.PermissionRequest{SessionID: c.id, ToolCall: call, Options: options}, &r)
	switch chosen := r.Outcome.OptionID; {
	case err != nil:
		return "no", "", err
	case r.Outcome.Outcome != "selected":
		return "no", "", agent.ErrNobody
	case chosen == "never":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.denied[tool] = true
		return "no", "", nil
	case !slices.ContainsFunc(options, func(o acp.Option) bool { return o.ID == chosen }):
		return "no", "", fmt.Errorf("%w: the editor answered with the option %.50q, which was not offered", agent.ErrNobody, chosen)
	default:
		return chosen, "", nil
	}
}

// reply returns the answer to a question of a run; nil if nobody answers.
func (s *session) reply(ctx context.Context, q agent.Event) (answer json.RawMessage) {
	_ = guard.Run(s.server.Panicked, func() (err error) {
		if q.What == "approve" {
			answer, err = s.Answer(ctx, q)
		} else {
			answer, err = s.fill(ctx, &q)
		}
		return err
	})
	return answer
}

// fill asks the person to fill in the form of a question, or to open its URL. Without the
// capability of the client, the error is agent.ErrNobody.
func (s *session) fill(ctx context.Context, q *agent.Event) (json.RawMessage, error) {
	s.server.mu.Lock()
	can := s.server.caps.Elicitation
	s.server.mu.Unlock()
	r := acp.ElicitRequest{SessionID: s.id, Mode: "form", Message: q.Asker() + ": " + strings.TrimSuffix(q.Text, "\n"+q.URL), Schema: q.Form()}
	switch {
	case can == nil || q.URL == "" && can.Form == nil || q.URL != "" && can.URL == nil:
		return nil, agent.ErrNobody
	case q.URL != "":
		r.Mode, r.URL, r.ElicitationID = "url", q.URL, rand.Text()
	}
	var a acp.ElicitResponse
	if err := s.server.conn.Call(ctx, acp.MethodElicit, r, &a); err != nil {
		return nil, err
	}
	return q.Filled(a.Action, a.Content)
}
