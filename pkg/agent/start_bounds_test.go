package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestAPromptOfAStart: a message, or the arguments with the media behind them.
func TestAPromptOfAStart(t *testing.T) {
	m, image := UserText("m"), Part{Kind: PartMedia, Data: []byte("x")}
	shape := &Shape{Schema: json.RawMessage(`{}`), Check: func(_ context.Context, v json.RawMessage) error {
		if strings.Contains(string(v), "bad") {
			return errors.New(" bad")
		}
		return nil
	}}
	for name, tt := range map[string]struct {
		s     Start
		shape *Shape
		parts int
		text  string
		err   string
		alone bool // with Compact
	}{
		"a message":         {s: Start{Message: &m, Args: json.RawMessage("{")}, parts: 1, text: "m"},
		"a text":            {s: Start{Args: json.RawMessage(`{"prompt":"p"}`)}, parts: 1, text: "p"},
		"a text and media":  {s: Start{Args: json.RawMessage(`{"prompt":"p"}`), Media: []Part{image}}, parts: 2, text: "p"},
		"media":             {s: Start{Media: []Part{image}}, parts: 1},
		"an empty text":     {s: Start{Args: json.RawMessage(`{"prompt":""}`)}, parts: 1},
		"nothing":           {s: Start{}, err: "missing", alone: true},
		"no prompt":         {s: Start{Args: json.RawMessage(`{}`)}, err: "missing"},
		"null":              {s: Start{Args: json.RawMessage(`{"prompt":null}`)}, err: "missing"},
		"a number":          {s: Start{Args: json.RawMessage(`{"prompt":1}`)}, err: "want a string"},
		"no JSON":           {s: Start{Args: json.RawMessage(`{`)}, err: "args: "},
		"fitting":           {s: Start{Args: json.RawMessage(`{"prompt":"p"}`), Media: []Part{image}}, shape: shape, parts: 2, text: "p"},
		"what does not fit": {s: Start{Args: json.RawMessage(`{"prompt":"bad"}`)}, shape: shape, err: "args: "},
	} {
		got, err := tt.s.Prompt(t.Context(), &Agent{InputSchema: tt.shape})
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || err == nil && (len(got.Parts) != tt.parts || got.Text() != tt.text || got.Role != RoleUser) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
