// Package guard keeps a panic in one part of a server from ending the others.
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanic means that a part of the program panicked.
var ErrPanic = errors.New("internal error; the log of the program has more")

// Run runs f and returns its error. If f panics, report gets a text with the stack, and the
// error is ErrPanic. If report is nil, the panic continues. f must release its locks with defer.
func Run(report func(text string), f func() error) (err error) {
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
