package sinks

import (
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/view"
)

// A panic in what shows the end of a run is an error of the output: what the run has started
// is ended, and its logs are closed.
func TestAPanicAtTheEndClosesEverything(t *testing.T) {
	var errs, closed strings.Builder
	s := &Sinks{P: &program.Env{Err: &errs, Getenv: func(string) string { return "" }}, Log: &load.ServerLog{},
		progress: &view.Text{W: &errs, Live: true, Size: func() (int, int) { panic("the size") }},
		ending:   func() error { closed.WriteString("tree "); return nil },
		closers:  []func() error{func() error { closed.WriteString("log"); return nil }}}
	s.progress.Stdout(&errs)
	err := s.Finish(&agent.Outcome{Agent: "a", Total: agent.TotalUsage{Usage: agent.Usage{Requests: 1}}}, nil)
	if !errors.Is(err, agent.ErrPanic) || closed.String() != "tree log" || !strings.Contains(errs.String(), "internal error: the size") {
		t.Errorf("Finish = %v, closed %q; stderr: %s", err, closed.String(), errs.String())
	}
}
