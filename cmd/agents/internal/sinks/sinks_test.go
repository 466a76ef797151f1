package sinks

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// A panic in what shows the end of a run is an error of the output, and one in a log a warning:
// what the run has started is ended in both cases.
func TestAPanicAtTheEndEndsTheTree(t *testing.T) {
	for at, want := range map[string]error{"the size": guard.ErrPanic, "the log": nil} {
		t.Run(at, func(t *testing.T) {
			reach := func(name string) {
				if name == at {
					panic(name)
				}
			}
			var errs strings.Builder
			ended := false
			s := &Sinks{P: &program.Env{Out: io.Discard, Err: &errs, Getenv: func(string) string { return "" }}, Log: &load.ServerLog{}, Hide: strings.Clone,
				progress: &view.Text{W: &errs, Live: true, Size: func() (int, int) { reach("the size"); return 80, 24 }},
				ending:   func() error { ended = true; return nil },
				closers:  []func() error{func() error { reach("the log"); return nil }}}
			err := s.Finish(&agent.Outcome{Agent: "a", Total: agent.TotalUsage{Usage: agent.Usage{Requests: 1}}}, nil)
			if !errors.Is(err, want) || !ended || !strings.Contains(errs.String(), "internal error: "+at) {
				t.Errorf("Finish = %v, the tree has ended: %v; stderr: %s", err, ended, errs.String())
			}
		})
	}
}
