package runner

import (
	"errors"

	"github.com/agents-exe/agents/pkg/leaf/guard"
)

// guard is guard.Run for a part of a run. After a panic, it fails the rest of the run.
func (t *tree) guard(f func() error) error {
	err := guard.Run(t.panicked, f)
	if !errors.Is(err, guard.ErrPanic) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.broken = err
	}
	return t.broken
}
