package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// A clientTool is one that only the holder of a channel can run.
type clientTool struct {
	spec    ToolSpec
	schema  *jsonschema.Resolved
	channel *Channel
}

func (t *clientTool) Spec() ToolSpec { return t.spec }

// Validate implements Validator.
func (t *clientTool) Validate(_ context.Context, inv *Invocation) error {
	return validate(t.schema, inv)
}

func (t *clientTool) Call(ctx context.Context, inv *Invocation) (Result, error) {
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
	e := inv.event(EventClientCall)
	e.Args = inv.Call.Args
	c.runner.root().observe(e)
	select {
	case r := <-result:
		if r.failed {
			return r.Result, errors.New("the tool failed")
		}
		return r.Result, nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}
