package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// maxHolderValues limits the values of the schemas of a holder's tools together: compiling them
// takes 20 µs for each.
const maxHolderValues = 1 << 16

// A clientTool is one that only the holder of a channel can run.
type clientTool struct {
	spec    agent.ToolSpec
	args    *agent.Shape // nil: only the holder checks them
	channel *Channel
}

func (t *clientTool) Spec() agent.ToolSpec { return t.spec }

// Validate implements Validator.
func (t *clientTool) Validate(ctx context.Context, inv *agent.Invocation) error {
	if t.args == nil {
		return nil
	}
	args := json.RawMessage(inv.Call.Args)
	if len(inv.Values()) == 0 {
		args = json.RawMessage("{}")
	}
	if err := t.args.Check(ctx, args); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's schema: %w", err)
	}
	return nil
}

func (t *clientTool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	c := t.channel
	ctx, cancel := context.WithTimeoutCause(ctx, defaultClientTime, fmt.Errorf("no result within %s", defaultClientTime))
	defer cancel()
	result := make(chan clientResult, 1)
	c.mu.Lock()
	c.results[inv.Key] = result
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.results, inv.Key)
	}()
	e := inv.Event(agent.EventClientCall)
	e.Args = inv.Call.Args
	c.runner.root().observe(e)
	select {
	case r := <-result:
		if r.failed {
			return r.Result, errors.New("the tool failed")
		}
		return r.Result, nil
	case <-ctx.Done():
		return agent.Result{}, context.Cause(ctx)
	}
}

func (c *Channel) addTools(specs []agent.ToolSpec) error {
	if len(specs) == 0 {
		return nil
	}
	var list agent.ToolList
	var values jsondoc.Meter
	for _, spec := range specs {
		if _, err := values.Write(spec.Schema); err != nil || values.Values() > maxHolderValues {
			return fmt.Errorf("the holder's tool %.100q: its schema and those before it have more than %d values", spec.Name, maxHolderValues)
		}
	}
	for _, spec := range specs {
		t := &clientTool{spec: spec, channel: c}
		if !validID(spec.Name) {
			return fmt.Errorf("the holder's tool %.100q: its name is not valid: want at most 64 letters, digits, - and _", spec.Name)
		}
		if len(spec.Schema) == 0 {
			return fmt.Errorf("the holder's tool %s: schema is missing; want a JSON Schema such as {\"type\": \"object\"}", spec.Name)
		}
		var err error
		if compile := c.runner.Arguments; compile != nil {
			t.args, err = compile("of the arguments", spec.Schema)
		}
		if err != nil {
			return fmt.Errorf("the holder's tool %s: its schema is not valid: %w", spec.Name, err)
		}
		t.spec.Source, t.spec.Agent = "the holder of the channel", ""
		list = append(list, t)
	}
	a := *c.runner.Agent
	a.Toolsets = append(slices.Clone(a.Toolsets), list)
	c.runner.Agent = &a
	return nil
}
