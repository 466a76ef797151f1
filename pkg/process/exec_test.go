package process_test

import (
	"context"
	"errors"
	"testing"

	"github.com/agents-exe/agents/pkg/process"
)

// TestExecEndsWithItsContext: a signal that came before is not lost. If the program starts, this
// test ends with its exit code.
func TestExecEndsWithItsContext(t *testing.T) {
	ended := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if err := process.Exec(ctx, "/bin/sh", []string{"-c", "exit 9"}, nil); !errors.Is(err, ended) {
		t.Errorf("Exec = %v, want %v", err, ended)
	}
}
