package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// MaxContext limits the context of a run, in bytes.
const MaxContext = 1 << 20

// A Shape is a JSON Schema with what compares values with it.
type Shape struct {
	Schema json.RawMessage
	// Check says what of a value does not fit. It is safe for concurrent use.
	Check func(ctx context.Context, value json.RawMessage) error
}

// An Output is what the answers of an agent must be.
type Output struct {
	// Schema is the JSON Schema of an answer, and Instructions, behind the system
	// prompt, tell the model about it.
	Schema       json.RawMessage
	Instructions string
	// Accept is as Runner.Accept.
	Accept func(ctx context.Context, answer string) (string, error)
}

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

// SetContext changes the context of the run: value is what the call makes of
// inv.Context. What it has not changed stays as other calls have left it in the
// meantime: members of objects are merged, all else is replaced as a whole. The error
// says why value is refused; the context is then as before.
func (inv *Invocation) SetContext(ctx context.Context, value json.RawMessage) error {
	if inv.run == nil {
		return errors.New("set the context: this call is not part of a run")
	}
	t := inv.run.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	return inv.run.setContext(ctx, inv, value, func(merged json.RawMessage) error {
		if inv.Session != inv.run.session.ID {
			return nil // of Runner.Call, which keeps nothing
		}
		e := inv.event(EventContext)
		e.Context = merged
		return inv.run.happen(ctx, e)
	})
}

// setContext merges value into the context and passes the result to happen, unless
// nothing has changed. r.tree.mu is held.
func (r *run) setContext(ctx context.Context, inv *Invocation, value json.RawMessage, happen func(merged json.RawMessage) error) error {
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
func (r *run) checkContext(ctx context.Context, value json.RawMessage) error {
	switch {
	case !hasContext(value):
		value = json.RawMessage("null")
	case len(value) > MaxContext:
		return fmt.Errorf("%w: it has %d bytes; the limit is %d", ErrContext, len(value), MaxContext)
	case !json.Valid(value):
		return fmt.Errorf("%w: it is not JSON", ErrContext)
	}
	for up := r; up != nil; up = up.up {
		if shape := up.agent.ContextSchema; shape != nil {
			if err := shape.Check(ctx, value); err != nil {
				return fmt.Errorf("%w: it does not fit contextSchema of agent %s:%w", ErrContext, up.agent.Slug, err)
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
func (r *run) contextEvents() []Event {
	t := r.tree
	if r.up != nil || bytes.Equal(t.shared, t.recorded) {
		return nil
	}
	t.recorded = t.shared
	return []Event{{Kind: EventContext, Context: t.shared}}
}

// mergeContext applies to now what differs in after from before.
func mergeContext(now, before, after json.RawMessage) (json.RawMessage, error) {
	if len(after) > MaxContext {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", len(after), MaxContext)
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
	if err == nil && len(merged) > MaxContext {
		err = fmt.Errorf("it has %d bytes with what other calls have added; the limit is %d", len(merged), MaxContext)
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
