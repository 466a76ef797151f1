package acpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
)

func (t *talk) notify(method string, params json.RawMessage) {
	var n acp.Notification
	if method != acp.MethodUpdate || acp.Decode(params, &n) != nil || !t.is(n.SessionID) { // another one may be of a later version
		return
	}
	progress := ""
	t.mu.Lock()
	switch u := &n.Update; u.Kind {
	case acp.AgentChunk, acp.ThoughtChunk:
		var block acp.Block
		if json.Unmarshal(u.Content, &block) != nil {
			break
		}
		text := block.URI
		if block.Text != nil {
			text = *block.Text
		}
		to := &t.text
		if u.Kind == acp.ThoughtChunk {
			to = &t.thought
		}
		to.WriteString(strings.ToValidUTF8(text, "\uFFFD"))
		if t.text.Len()+t.thought.Len() > maxText {
			t.end(fmt.Errorf("it sent more than %d bytes of text at once", maxText))
		}
	case acp.ToolCall, acp.ToolCallUpdate:
		var content []acp.CallContent
		_ = json.Unmarshal(u.Content, &content) // without it the call has no output
		if c := t.note(&u.Call, content); c.over() || u.Kind == acp.ToolCall {
			progress = strings.TrimSpace(c.kind() + ": " + c.Title + " (" + c.Status)
			progress = strings.TrimSuffix(progress, " (") + ")"
		}
	case acp.UsageUpdate:
		t.spent(u)
	}
	t.change()
	t.mu.Unlock()
	if progress != "" {
		t.inv.Progress(progress)
	}
}

// spent records what the session has cost so far. The cost never decreases.
func (t *talk) spent(u *acp.Update) {
	if u.Used != nil && *u.Used > t.consumed.InputTokens && *u.Used < 1<<40 { // all of it was read once
		t.consumed.InputTokens = *u.Used
	}
	if t.lent != "" || u.Cost == nil || u.Cost.Currency != "USD" || u.Cost.Amount < 0 || u.Cost.Amount > 1e6 {
		return
	}
	t.cost, t.priced = max(t.cost, agent.Money(math.Round(u.Cost.Amount*float64(agent.Dollar)))), true
	for _, limit := range [...]*agent.Money{t.usd, t.agent.Budget.USD} {
		if limit != nil && t.cost > *limit {
			t.end(&agent.EndError{Status: agent.StatusBudget, Text: fmt.Sprintf("it cost $%s; $%s were left", t.cost, *limit)})
		}
	}
}

// note records what the program reports about a call. t.mu is held.
func (t *talk) note(u *acp.Call, content []acp.CallContent) *call {
	c := t.calls[u.ID]
	if c == nil {
		c = &call{}
		if t.calls[u.ID] = c; len(t.calls) > maxCalls {
			t.end(fmt.Errorf("it made more than %d calls", maxCalls))
		}
	}
	for _, field := range [...]struct{ to, from *string }{{&c.ID, &u.ID}, {&c.Title, &u.Title}, {&c.Call.Kind, &u.Kind}, {&c.Status, &u.Status}} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
	if len(u.Locations) > 0 {
		c.Locations = u.Locations
	}
	if u.RawInput != nil {
		c.RawInput = u.RawInput
	}
	if u.RawOutput != nil {
		c.RawOutput = u.RawOutput
	}
	if len(content) > 0 {
		c.output = shown(content)
	}
	return c
}

// shown is the content of a call as a text.
func shown(content []acp.CallContent) string {
	var b strings.Builder
	for _, c := range content {
		switch {
		case c.Type == "diff" && c.NewText != nil:
			fmt.Fprintf(&b, "changed %s\n", c.Path)
		case c.Content != nil && c.Content.Text != nil:
			b.WriteString(*c.Content.Text + "\n")
		}
	}
	return b.String()
}

func (c *call) kind() string {
	if slices.Contains(acp.Kinds[:], c.Call.Kind) {
		return c.Call.Kind
	}
	return "other"
}

// args are the arguments of the tool: the members of the raw input, and a title and a path
// where it has none.
func (c *call) args() string {
	args := map[string]json.RawMessage{}
	if json.Unmarshal(c.RawInput, &args) != nil || args == nil {
		args = map[string]json.RawMessage{}
		if len(c.RawInput) > 0 {
			args["input"] = c.RawInput
		}
	}
	if args["title"] == nil {
		args["title"] = acp.Raw(c.Title)
	}
	if len(c.Locations) > 0 && args["path"] == nil {
		args["path"] = acp.Raw(c.Locations[0].Path)
	}
	return string(acp.Raw(args))
}

// tools are the tools whose calls are permissions, one for each kind.
func (t *talk) tools() agent.ToolList {
	var list agent.ToolList
	for _, kind := range acp.Kinds {
		list = append(list, &permit{t, kind})
	}
	return list
}

// A permit is a tool whose calls permit the program to do something.
type permit struct {
	talk *talk
	kind string
}

// Spec implements agent.Tool.
func (p *permit) Spec() agent.ToolSpec {
	spec := agent.ToolSpec{Name: p.kind, Description: "what the agent asks permission for: " + p.kind, Schema: json.RawMessage(`{"type":"object"}`), Source: p.talk.agent.Source, Effects: agent.EffectsOnce}
	switch p.kind {
	case "read", "search", "think":
		spec.Effects = agent.EffectsNone
	}
	return spec
}

// Identity implements agent.Identified.
func (p *permit) Identity() (source, digest string) { return p.talk.agent.Identity() }

// WorkDir implements agent.Located.
func (p *permit) WorkDir() string { return p.talk.agent.WorkDir() }

// Sandbox implements agent.Sandboxed.
func (p *permit) Sandbox() string { return p.talk.agent.Sandbox() }

// Approved implements agent.Approved.
func (p *permit) Approved(inv *agent.Invocation) bool {
	p.talk.mu.Lock()
	defer p.talk.mu.Unlock()
	return slices.ContainsFunc(p.talk.asked, func(r *request) bool { return r.id == inv.Call.ID && r.allowed })
}

// Call does what the program has requested.
func (p *permit) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	p.talk.mu.Lock()
	asked := p.talk.asked
	i := slices.IndexFunc(asked, func(r *request) bool { return r.id == inv.Call.ID })
	if i < 0 {
		p.talk.mu.Unlock()
		return agent.Result{}, errors.New("the agent has withdrawn the request")
	}
	r := asked[i]
	if inv.Call.Args != r.args {
		p.talk.mu.Unlock()
		return agent.Result{}, fmt.Errorf("a rule allows this command only in the form %.2000s, and the agent runs its own form", inv.Call.Args)
	}
	p.talk.asked = slices.Delete(asked, i, i+1)
	p.talk.mu.Unlock()
	return r.run(ctx, inv)
}

// errProceeds ends a call while its action may still run: the program has made another
// request, which the run must decide, or has ended its turn.
var errProceeds = errors.New("the agent proceeds")

// until waits until over returns true. It calls over with t.mu held.
func (t *talk) until(ctx context.Context, over func() bool) error {
	for {
		t.mu.Lock()
		changed, ended, err, proceeds := t.changed, over(), t.err, t.asking() || !t.running
		t.mu.Unlock()
		switch {
		case ended:
			return nil
		case err != nil:
			return err
		case proceeds:
			return errProceeds
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow waits until the program has done what it was permitted to do.
func (t *talk) follow(ctx context.Context, c *call) (agent.Result, error) {
	err := t.until(ctx, c.over)
	t.mu.Lock()
	status, output, raw := c.Status, c.output, c.RawOutput
	t.mu.Unlock()
	switch {
	case errors.Is(err, errProceeds):
		return agent.TextResult(output + "[permitted; the agent has not reported the result]"), nil
	case err == nil && status == acp.Failed:
		err = errors.New("the agent reports a failure")
	case err == nil && output == "" && raw != nil:
		output = string(raw)
	}
	return agent.TextResult(output), err
}
