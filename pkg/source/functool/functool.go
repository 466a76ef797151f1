// Package functool makes tools of Go functions, for programs that embed agents. It is separate
// from package agent because the library that derives schemas from types delays the start of
// every program that imports it by 0.2 ms.
//
//	clock := functool.New("clock", "Tells the time.", func(context.Context, struct{}) (string, error) {
//		return time.Now().Format(time.Kitchen), nil
//	})
//	a := &agent.Agent{Slug: "hello", Provider: p, Toolsets: []agent.Toolset{agent.ToolList{clock}}}
package functool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agents-exe/agents/pkg/agent"
)

// New returns a tool that is a Go function. The fields of the struct T are its
// arguments, with the names and options of their json tags; one without omitempty
// or omitzero is required. A tag jsonschema:"…" describes a field to the model.
// Arguments that do not fit are refused before f is called. f must be safe for
// concurrent use; its text is the result, its error a failed one.
//
// New panics if T has no JSON Schema, for example because it contains a channel.
func New[T any](name, description string, f func(ctx context.Context, args T) (string, error)) agent.Tool {
	schema, err := jsonschema.For[T](nil)
	if err != nil || schema.Type != "object" {
		panic(fmt.Sprintf("functool.New %s: %v has no schema of an object: %v", name, reflect.TypeFor[T](), err))
	}
	text, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("functool.New %s: %v", name, err))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("functool.New %s: %v", name, err))
	}
	return &goFunc[T]{agent.ToolSpec{Name: name, Description: description, Schema: text}, resolved, f}
}

type goFunc[T any] struct {
	spec   agent.ToolSpec
	schema *jsonschema.Resolved
	f      func(context.Context, T) (string, error)
}

func (t *goFunc[T]) Spec() agent.ToolSpec { return t.spec }

// Validate implements Validator.
func (t *goFunc[T]) Validate(_ context.Context, inv *agent.Invocation) error {
	return validate(t.schema, inv)
}

func validate(schema *jsonschema.Resolved, inv *agent.Invocation) error {
	var values map[string]any
	if err := json.Unmarshal(argsText(inv), &values); err != nil {
		return err
	}
	if err := schema.Validate(values); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's schema: %w", err)
	}
	return nil
}

// argsText returns the arguments as a JSON object, even if the model sent none.
func argsText(inv *agent.Invocation) []byte {
	if len(inv.Values()) == 0 {
		return []byte("{}")
	}
	return []byte(inv.Call.Args)
}

func (t *goFunc[T]) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args T
	if err := json.Unmarshal(argsText(inv), &args); err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: the arguments do not fit the tool: %w", err)
	}
	text, err := t.f(ctx, args)
	if text == "" && err != nil {
		return agent.Result{}, err
	}
	return agent.TextResult(text), err
}
