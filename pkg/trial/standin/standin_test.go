package standin_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/standin"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDiffLeadsFromOneTextToTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 12)
		want, got := lines.Draw(t, "want"), lines.Draw(t, "got")
		var a, b []string
		equal := 0
		for _, e := range standin.Align(want, got) {
			if e.Op != '+' {
				a = append(a, want[e.Want])
			}
			if e.Op != '-' {
				b = append(b, got[e.Got])
			}
			if e.Op == ' ' {
				equal++
				if want[e.Want] != got[e.Got] {
					t.Fatalf("%q and %q are aligned", want[e.Want], got[e.Got])
				}
			}
		}
		if !slices.Equal(a, want) || !slices.Equal(b, got) {
			t.Fatalf("Align(%q, %q) leads from %q to %q", want, got, a, b)
		}
		if slices.Equal(want, got) && equal != len(want) {
			t.Fatalf("Align(%q, %q) finds a difference", want, got)
		}
	})
}

func TestDiffShowsWhereAndWhat(t *testing.T) {
	lines := func(text string) []string { return strings.Split(text, "") }
	for _, tc := range []struct{ want, got, diff string }{
		{"abc", "abc", ""},
		{"", "", ""},
		{"abc", "axc", "@@ line 1 @@\n a\n-b\n+x\n c"},
		{"abcdefghi", "abcdefgh", "@@ line 6 @@\n f\n g\n h\n-i"},
		{"abcdefghijkl", "xbcdefghijky", "@@ line 1 @@\n-a\n+x\n b\n c\n d\n@@ line 9 @@\n i\n j\n k\n-l\n+y"},
	} {
		if diff := standin.Diff(lines(tc.want), lines(tc.got)); diff != tc.diff {
			t.Errorf("Diff(%q, %q) = %q, want %q", tc.want, tc.got, diff, tc.diff)
		}
	}
	long := standin.Diff(nil, slices.Repeat([]string{"x"}, 1000))
	if n := strings.Count(long, "\n"); n != standin.MaxDiffLines || !strings.HasSuffix(long, "\n… and 941 more lines") {
		t.Errorf("a long difference has %d lines and ends in %q", n+1, long[len(long)-30:])
	}
}

// own is a tool that says what it executes.
type own struct{ result func() (agent.Result, error) }

func (o own) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "own", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (o own) Call(context.Context, *agent.Invocation) (agent.Result, error) { return o.result() }

func (o own) Command(*agent.Invocation) ([]string, string) { return []string{"own"}, "digest" }

// call passes a call through a gate, and returns its events.
func call(t *testing.T, tool agent.Tool) (started, ended agent.Event) {
	t.Helper()
	inv := &agent.Invocation{Call: agent.ToolCall{ID: "c", Name: "own", Args: "{}"}, Spec: tool.Spec()}
	err := (&runner.Gate{Commands: true}).Call(t.Context(), tool, inv, func(e agent.Event) error {
		if e.Kind == agent.EventCallStarted {
			started = e
		} else {
			ended = e
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return started, ended
}

func TestAResultIsRepeated(t *testing.T) {
	image := agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("x")}
	for name, result := range map[string]func() (agent.Result, error){
		"text":                 func() (agent.Result, error) { return agent.TextResult("done\n"), nil },
		"nothing":              func() (agent.Result, error) { return agent.Result{}, nil },
		"a failure":            func() (agent.Result, error) { return agent.Result{}, errors.New("exit status 3") },
		"a failure with lines": func() (agent.Result, error) { return agent.Result{}, errors.New("exit status 3:\nwhy\n") },
		"a failure with parts": func() (agent.Result, error) {
			return agent.Result{Parts: []agent.Part{agent.Text("it printed\n"), image}}, errors.New("exit status 3")
		},
	} {
		_, want := call(t, own{result})
		tool := &standin.Tool{Tool: own{}, Answer: func(context.Context, *agent.Invocation) (agent.Result, error) {
			return standin.Result(want.Result)
		}}
		started, got := call(t, tool)
		if diff := cmp.Diff(want.Result, got.Result); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if started.Argv != nil || started.Digest != "" {
			t.Errorf("%s: it says that it executes %q", name, started.Argv)
		}
	}
}

func TestAToolSaysWhatItsCallExecuted(t *testing.T) {
	started, _ := call(t, &standin.Tool{Tool: own{},
		Answer:   func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.Result{}, nil },
		Executes: func(*agent.Invocation) ([]string, string) { return []string{"recorded"}, "then" }})
	if diff := cmp.Diff([]string{"recorded"}, started.Argv); diff != "" || started.Digest != "then" {
		t.Errorf("it says %q, %q", started.Argv, started.Digest)
	}
}
