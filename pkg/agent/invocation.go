package agent

import (
	"context"
	"errors"
)

// An Invocation is one call of a tool on its way.
type Invocation struct {
	// Call is what the model asked for.
	Call ToolCall
	// Spec is what the called tool says of itself.
	Spec ToolSpec
	// Key names this call and no other, in all sessions and processes:
	// session, turn and position, "SESSION.TURN.N", safe as a file name. A
	// repeated call keeps its Key.
	Key string
	// Session is the session that the call belongs to, Agent the slug of the
	// agent that makes it, Turn its turn in the session and Depth how many
	// sub-agents are above.
	Session string
	Agent   string
	Turn    int
	Depth   int

	run *run // nil outside a Runner
}

// Progress reports what the running tool is doing. Outside a Runner it does
// nothing.
func (inv *Invocation) Progress(text string) {
	if inv.run == nil {
		return
	}
	inv.run.observe(Event{Kind: EventProgress, Turn: inv.Turn, CallID: inv.Call.ID, Tool: inv.Call.Name, Key: inv.Key, Text: text})
}

// Run runs a as a sub-agent in a new session under the run that makes this
// call: same policy, journal, limits and observer. Outside a Runner that is an
// error.
func (inv *Invocation) Run(ctx context.Context, a *Agent, prompt Message) (*Outcome, error) {
	if inv.run == nil {
		return &Outcome{Status: StatusFailed, Agent: a.Slug}, errors.New("this call is not part of a run")
	}
	return inv.run.sub(ctx, inv, a, prompt)
}
