package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// compactContext is value without white space between its parts.
func compactContext(value json.RawMessage) json.RawMessage {
	var compact bytes.Buffer
	if !hasContext(value) || json.Compact(&compact, value) != nil {
		return value
	}
	return compact.Bytes()
}

// hasContext reports whether value is there: null is none.
func hasContext(value json.RawMessage) bool {
	return len(value) > 0 && !bytes.Equal(bytes.TrimSpace(value), []byte("null"))
}

// SetContext implements agent.CallingRun.
func (r *run) SetContext(ctx context.Context, inv *agent.Invocation, value json.RawMessage) error {
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.setContext(ctx, inv, value, func(merged json.RawMessage) error {
		if inv.Session != r.session.ID {
			return nil // of Runner.Call, which keeps nothing
		}
		e := inv.Event(agent.EventContext)
		e.Context = merged
		return r.happen(ctx, e)
	})
}

// setContext merges value into the context and passes the result to happen, unless
// nothing has changed. r.tree.mu is held.
func (r *run) setContext(ctx context.Context, inv *agent.Invocation, value json.RawMessage, happen func(merged json.RawMessage) error) error {
	t := r.tree
	merged, err := mergeContext(t.shared, inv.Context, value)
	if err != nil {
		return fmt.Errorf("set the context: %w", err)
	}
	if err := r.checkContext(ctx, merged); err != nil {
		return err
	}
	if !bytes.Equal(merged, t.shared) {
		if err := happen(merged); err != nil {
			return err
		}
		t.shared = merged
	}
	inv.Context = value
	return nil
}

// checkContext returns an error that wraps ErrContext if value does not fit the
// ContextSchema of the agent or of one above it.
func (r *node) checkContext(ctx context.Context, value json.RawMessage) error {
	switch {
	case !hasContext(value):
		value = json.RawMessage("null")
	case len(value) > agent.MaxContext:
		return fmt.Errorf("%w: it has %d bytes; the limit is %d", agent.ErrContext, len(value), agent.MaxContext)
	case !json.Valid(value):
		return fmt.Errorf("%w: it is not JSON", agent.ErrContext)
	}
	for up := r; up != nil; up = up.up {
		if shape := up.agent.ContextSchema; shape != nil {
			if err := shape.Check(ctx, value); err != nil {
				return fmt.Errorf("%w: it does not fit contextSchema of agent %s:%w", agent.ErrContext, up.agent.Slug, err)
			}
		}
	}
	return nil
}

// currentContext is the context for a call that begins now.
func (t *tree) currentContext() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shared
}

// contextEvents record the context with which a run begins, if the journal does not
// have it.
func (r *run) contextEvents() []agent.Event {
	t := r.tree
	if r.up != nil || bytes.Equal(t.shared, t.recorded) {
		return nil
	}
	t.recorded = t.shared
	return []agent.Event{{Kind: agent.EventContext, Context: t.shared}}
}

// mergeContext applies to now what differs in after from before.
func mergeContext(now, before, after json.RawMessage) (json.RawMessage, error) {
	if len(after) > agent.MaxContext {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", len(after), agent.MaxContext)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, after); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if bytes.Equal(now, before) {
		return compact.Bytes(), nil
	}
	var values [3]any
	for i, text := range []json.RawMessage{now, before, after} {
		if len(text) == 0 {
			continue
		}
		var err error
		if values[i], err = jsondoc.Decode(text); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
	}
	merged, err := json.Marshal(mergeValue(values[0], values[1], values[2]))
	if err == nil && len(merged) > agent.MaxContext {
		err = fmt.Errorf("it has %d bytes with what other calls have added; the limit is %d", len(merged), agent.MaxContext)
	}
	return merged, err
}

func mergeValue(now, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return now
	}
	n, isObject := now.(map[string]any)
	b, wasObject := before.(map[string]any)
	a, staysObject := after.(map[string]any)
	if !isObject || !wasObject || !staysObject {
		return after
	}
	out := maps.Clone(n)
	for name := range b {
		if _, kept := a[name]; !kept {
			delete(out, name)
		}
	}
	for name, value := range a {
		if old, had := b[name]; !had {
			out[name] = value
		} else if !reflect.DeepEqual(old, value) {
			out[name] = mergeValue(n[name], old, value)
		}
	}
	return out
}
