package program_test

import (
	"context"
	"errors"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

// TestExecEndsWithASignalBefore: it is not lost. If the program starts, this test ends with its
// exit code.
func TestExecEndsWithASignalBefore(t *testing.T) {
	ended := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &program.Env{Unhandle: func() { cancel(ended) }}
	if err := p.Exec(ctx, "/bin/sh", []string{"-c", "exit 9"}); !errors.Is(err, ended) {
		t.Errorf("Exec = %v, want %v", err, ended)
	}
}
