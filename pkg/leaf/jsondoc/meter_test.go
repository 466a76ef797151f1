package jsondoc_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

func TestMeter(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, c := range []struct{ name, text, refused string }{
		{"nothing", ``, ""},
		{"objects", `[` + many(`{},`, jsondoc.MaxContainers-2) + `{}]`, ""},
		{"too many objects", `[` + many(`{},`, jsondoc.MaxContainers) + `{}]`, "lists and objects"},
		{"too many lists", many(`[`, jsondoc.MaxContainers+1), "lists and objects"},
		{"numbers", `[` + many(`1,`, jsondoc.MaxValues-1) + `1]`, ""},
		{"too many numbers", `[` + many(`1,`, jsondoc.MaxValues) + `1]`, "values"},
		{"in a string", `["` + many(`{,[`, jsondoc.MaxValues) + `"]`, ""},
		{"behind a quote in a string", `["\"` + many(`{},`, jsondoc.MaxContainers+1) + `"]`, ""},
		{"behind a string", `["\\",` + many(`{},`, jsondoc.MaxContainers+1) + `]`, "lists and objects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := io.Copy(&jsondoc.Meter{}, iotest.HalfReader(strings.NewReader(c.text)))
			var refused *jsondoc.MeterError
			if errors.As(err, &refused); (c.refused != "" || err != nil) && (refused == nil || refused.What != c.refused) {
				t.Errorf("error %v, want %q", err, c.refused)
			}
		})
	}
}
