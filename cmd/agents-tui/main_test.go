package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/terminal/tui"
)

func TestErrorsControlNoTerminal(t *testing.T) {
	for _, text := range []string{"\x1b]0;title\abad", "\x1b[31mbad", "\u009b31mbad", "\u202ebad", "bad\rgood"} {
		for _, test := range []struct {
			err  error
			code int
		}{{errors.New(text), 1}, {&tui.ServerError{Code: 2, Text: text}, 2}} {
			var b strings.Builder
			code := report(&b, test.err)
			if got := b.String(); code != test.code || strings.ContainsAny(got, "\x1b\a\r\u009b\u202e") || !strings.Contains(got, "bad") {
				t.Errorf("report(%q) writes %q and returns %d, want the code %d and no controls", test.err, got, code, test.code)
			}
		}
	}
	var b strings.Builder
	for _, err := range []error{nil, fmt.Errorf("stopped: %w", context.Canceled)} {
		if code := report(&b, err); code != 0 || b.Len() > 0 {
			t.Errorf("report(%v) writes %q and returns %d", err, b.String(), code)
		}
	}
	if code := report(&b, errTerminated); code != 143 || b.Len() > 0 {
		t.Errorf("after a SIGTERM report writes %q and returns %d, want 143", b.String(), code)
	}
}
