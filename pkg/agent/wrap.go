package agent

import "context"

// A wrapped tool is another one with something around its calls.
type wrapped struct {
	Tool
	call func(ctx context.Context, inv *Invocation, next Tool) (Result, error)
}

// Wrap returns tool with call around its calls. What else tool can do (see As)
// it still can.
func Wrap(tool Tool, call func(ctx context.Context, inv *Invocation, next Tool) (Result, error)) Tool {
	return &wrapped{tool, call}
}

func (w *wrapped) Call(ctx context.Context, inv *Invocation) (Result, error) {
	return w.call(ctx, inv, w.Tool)
}

func (w *wrapped) Unwrap() any { return w.Tool }

// WrapToolset returns set with tools around what it offers. What else set can do
// (see As) it still can.
func WrapToolset(set Toolset, tools func(ctx context.Context, list []Tool, err error) ([]Tool, error)) Toolset {
	return &wrappedSet{set, tools}
}

type wrappedSet struct {
	Toolset
	tools func(ctx context.Context, list []Tool, err error) ([]Tool, error)
}

func (w *wrappedSet) Tools(ctx context.Context) ([]Tool, error) {
	list, err := w.Toolset.Tools(ctx)
	return w.tools(ctx, list, err)
}

// SessionTools implements SessionToolset.
func (w *wrappedSet) SessionTools(ctx context.Context, s *State) ([]Tool, error) {
	list, err := ToolsOf(ctx, w.Toolset, s)
	return w.tools(ctx, list, err)
}

func (w *wrappedSet) Unwrap() any { return w.Toolset }

// As finds what else a tool or a toolset can do: the first T among v and what it
// wraps. A decorator has a method Unwrap() any.
func As[T any](v any) (T, bool) {
	for v != nil {
		if t, ok := v.(T); ok {
			return t, true
		}
		u, ok := v.(interface{ Unwrap() any })
		if !ok {
			break
		}
		v = u.Unwrap()
	}
	var none T
	return none, false
}
