package jsondoc_test

import (
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

func TestFormat(t *testing.T) {
	for _, tc := range []struct{ text, indent, want string }{
		{`{"b": 1.50, "a": "<x>"}`, "", `{"a":"<x>","b":1.50}`},
		{`[1, {}]`, " ", "[\n 1,\n {}\n]"},
		{`12345678901234567890`, "", `12345678901234567890`},
		{`{"a": 1} {}`, "", `{"a": 1} {}`},
		{`{"a": 1}}`, "", `{"a": 1}}`},
		{`[1]]`, "", `[1]]`},
		{`{"a`, "  ", `{"a`},
		{"", "", ""},
	} {
		if got := jsondoc.Format(tc.text, tc.indent); got != tc.want {
			t.Errorf("Format(%q, %q) = %q, want %q", tc.text, tc.indent, got, tc.want)
		}
	}
}
