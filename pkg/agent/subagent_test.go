package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestAPromptOfASubagent: the text, and other arguments below it.
func TestAPromptOfASubagent(t *testing.T) {
	shape := &Shape{Schema: json.RawMessage(`{}`), Check: func(_ context.Context, v json.RawMessage) error {
		if strings.Contains(string(v), "bad") || string(v) == "" {
			return errors.New(" bad")
		}
		return nil
	}}
	for _, tt := range []struct {
		shape      *Shape
		args, want string // "" for an error
	}{
		{nil, `{"prompt":"p"}`, "p"}, {nil, `{"what":"w"}`, "w"}, {nil, `{"prompt":"p","what":"w"}`, "p"}, {nil, `{"prompt":"p","x":1}`, "p"}, {nil, `{}`, ""}, {nil, `{"prompt":1}`, ""}, {nil, `{`, ""}, {nil, `{"x":1}`, ""},
		{shape, `{"prompt":"p"}`, "p"}, {shape, `{"prompt":"p","x":1}`, "p\n\n{\"x\":1}"}, {shape, `{"x":1}`, `{"x":1}`}, {shape, `{"what":"w"}`, `{"what":"w"}`}, {shape, `{"prompt":1}`, `{"prompt":1}`}, {shape, `{"prompt":"bad"}`, ""}, {shape, ``, `{}`},
	} {
		m, err := (&Agent{InputSchema: tt.shape}).Prompt(t.Context(), tt.args)
		if got := strings.Join(strings.Fields(m.Text()), ""); (err == nil) != (tt.want != "") || got != strings.Join(strings.Fields(tt.want), "") || strings.Contains(tt.want, "\n\n") && !strings.HasPrefix(m.Text(), "p\n\n{") {
			t.Errorf("a schema: %t: %s is %q, %v", tt.shape != nil, tt.args, m.Text(), err)
		}
	}
	for _, compat := range []bool{false, true} {
		for _, s := range []*Shape{nil, shape} {
			spec := (&Subagent{Name: "x", Agent: &Agent{InputSchema: s}, Compat: compat}).Spec()
			want := promptSchema
			if s != nil {
				want = "{}"
			} else if compat {
				want = compatSchema
			}
			if string(spec.Schema) != want {
				t.Errorf("compat: %t: the schema is %s", compat, spec.Schema)
			}
		}
	}
	for _, tt := range [][3]string{
		{promptSchema, `{"what":"x"}`, `{"prompt":"x"}`}, {promptSchema, `{"prompt":"x"}`, `{"prompt":"x"}`}, {compatSchema, `{"prompt":"x"}`, `{"what":"x"}`}, {compatSchema, `{"what":"x"}`, `{"what":"x"}`}, {"{}", `{"what":"x"}`, `{"what":"x"}`},
		{promptSchema, `{"what":"x","y":1}`, `{"what":"x","y":1}`}, {promptSchema, `{"what"`, `{"what"`}, {promptSchema, `{"y":"what"}`, `{"y":"what"}`},
	} {
		if got := restateArgs(tt[1], tt[0]); got != tt[2] {
			t.Errorf("restateArgs(%s) = %s, want %s", tt[1], got, tt[2])
		}
	}
}
