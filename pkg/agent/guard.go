package agent

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanic means that a part of the program panicked.
var ErrPanic = errors.New("internal error; the log of the program has more")

// Guard runs f and returns its error. If f panics, report gets a text with the stack, and the
// error is ErrPanic. If report is nil, the panic continues. f must release its locks with defer.
func Guard(report func(text string), f func() error) (err error) {
	if report == nil {
		return f()
	}
	defer func() {
		if v := recover(); v != nil {
			err = ErrPanic
			report(fmt.Sprintf("internal error: %v\n%s", v, debug.Stack()))
		}
	}()
	return f()
}

// guard is Guard for a part of a run. After a panic, it fails the rest of the run.
func (t *tree) guard(f func() error) error {
	err := Guard(t.panicked, f)
	if !errors.Is(err, ErrPanic) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.broken = err
	}
	return t.broken
}
