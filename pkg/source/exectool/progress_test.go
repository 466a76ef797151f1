package exectool

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// caller is a model that asks for one call.
type caller struct{ name string }

func (c caller) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{Name: c.name, Args: "{}"}}}}, nil
}

// told are the progress events of a call of a script.
func told(t *testing.T, body string) []string {
	t.Helper()
	return toldBy(t, openOne(t, Source{}, plain("x"), body))
}

// toldBy are the progress events of a call without arguments.
func toldBy(t *testing.T, tool *Tool) []string {
	t.Helper()
	var got []string
	r := &runner.Runner{
		Agent: &agent.Agent{Provider: caller{tool.Spec().Name}, Toolsets: []agent.Toolset{agent.ToolList{tool}}},
		Observe: func(e agent.Event) {
			if e.Kind == agent.EventProgress {
				got = append(got, e.Text)
			}
		},
	}
	if err := r.Prompt(t.Context(), agent.UserText("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the answer, then its call
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestLinesOfStderrAreProgress(t *testing.T) {
	long := strings.Repeat("x", maxProgressLine)
	tests := []struct {
		name, body string
		want       []string
	}{
		{"lines", "echo 1/2 >&2; echo out; echo 2/2 >&2", []string{"1/2", "2/2"}},
		{"a bar that is redrawn", `printf ' 10%%\r 50%%\r\n\n100%%\n' >&2`, []string{"10%", "50%", "100%"}},
		{"an unfinished line", "printf half >&2", nil},
		{"odd bytes", `printf 'caf\351\n' >&2`, []string{"caf\uFFFD"}},
		{"a long line", "echo " + long + "y >&2; echo next >&2", []string{long, "next"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(t, tt.body); !slices.Equal(got, tt.want) {
				t.Errorf("progress %q, want %q", got, tt.want)
			}
		})
	}
	if got := told(t, "seq 5000 >&2"); len(got) != maxProgressLines || got[0] != "1" {
		t.Errorf("%d lines are told, want %d", len(got), maxProgressLines)
	}
}
