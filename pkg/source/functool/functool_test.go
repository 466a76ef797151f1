package functool_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

type addArgs struct {
	A    int      `json:"a" jsonschema:"the first number"`
	B    int      `json:"b"`
	Note string   `json:"note,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

func TestFuncIsAToolWithASchema(t *testing.T) {
	add := functool.New("add", "adds two numbers", func(_ context.Context, args addArgs) (string, error) {
		if args.A < 0 {
			return "", errors.New("a is negative")
		}
		return strings.Repeat("x", args.A+args.B) + args.Note + strings.Join(args.Tags, ","), nil
	})
	for _, want := range []string{`"required":["a","b"]`, `"description":"the first number"`, `"additionalProperties":false`} {
		if !strings.Contains(string(add.Spec().Schema), want) {
			t.Errorf("schema %s, want %s in it", add.Spec().Schema, want)
		}
	}
	r := &runner.Runner{Agent: &agent.Agent{}}
	for _, tc := range []struct{ args, want, err string }{
		{`{"a":1,"b":2}`, "xxx", ""},
		{`{"a":1,"b":0,"note":"!","tags":["p","q"]}`, "x!p,q", ""},
		{`{"a":1}`, "", "nothing ran: the arguments do not fit the tool's schema:"},
		{`{"a":1,"b":"2"}`, "", "nothing ran: the arguments do not fit the tool's schema:"},
		{`{"a":1,"b":2,"c":3}`, "", "nothing ran: the arguments do not fit the tool's schema:"},
		{`{"A":1,"b":2}`, "", "nothing ran: the arguments do not fit the tool's schema:"},
		{`{"a":-1,"b":2}`, "", "a is negative"},
		{``, "", "nothing ran: the arguments do not fit the tool's schema:"},
		{`{"a":1,"a":2,"b":2}`, "", "nothing ran: the arguments are refused"},
	} {
		got, err := r.Call(t.Context(), add, tc.args)
		if got.Text() != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
			t.Errorf("add(%s) = %q, %v; want %q, %q", tc.args, got.Text(), err, tc.want, tc.err)
		}
	}
}

func TestFuncOfNoArguments(t *testing.T) {
	now := functool.New("now", "tells the time", func(context.Context, struct{}) (string, error) { return "noon", nil })
	if got, err := (&runner.Runner{Agent: &agent.Agent{}}).Call(t.Context(), now, ""); err != nil || got.Text() != "noon" {
		t.Errorf("now = %q, %v", got.Text(), err)
	}
}
