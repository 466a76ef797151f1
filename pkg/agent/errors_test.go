package agent

import (
	"strings"
	"testing"
)

// TestCodesOfErrors: the provider's name if it is short, else the HTTP status.
func TestCodesOfErrors(t *testing.T) {
	for _, c := range []struct {
		e    ModelError
		want string
	}{
		{ModelError{Code: "overloaded", Status: 529}, "overloaded"}, {ModelError{Status: 529}, "529"}, {ModelError{}, ""},
		{ModelError{Code: strings.Repeat("x", 64), Status: 529}, strings.Repeat("x", 64)}, {ModelError{Code: strings.Repeat("x", 65), Status: 529}, "529"}, {ModelError{Code: strings.Repeat("x", 65)}, ""},
	} {
		if got := c.e.code(); got != c.want {
			t.Errorf("the code of %+v is %q, want %q", c.e, got, c.want)
		}
	}
}
