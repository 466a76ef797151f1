package traceid

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

func TestParse(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, test := range []struct {
		name, in string
		want     Context
		ok       bool
	}{
		{"sampled", "00-" + trace + "-" + span + "-01", Context{trace, span, true}, true},
		{"not sampled", "00-" + trace + "-" + span + "-00", Context{trace, span, false}, true},
		{"unknown flags", "00-" + trace + "-" + span + "-fe", Context{trace, span, false}, true},
		{"later version", "01-" + trace + "-" + span + "-03-more", Context{trace, span, true}, true},
		{"later version without more", "cc-" + trace + "-" + span + "-01", Context{trace, span, true}, true},
		{name: "empty"},
		{name: "version ff", in: "ff-" + trace + "-" + span + "-01"},
		{name: "version 00 with more", in: "00-" + trace + "-" + span + "-01-more"},
		{name: "later version with more digits", in: "01-" + trace + "-" + span + "-011"},
		{name: "upper case", in: "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01"},
		{name: "zero trace", in: "00-00000000000000000000000000000000-" + span + "-01"},
		{name: "zero span", in: "00-" + trace + "-0000000000000000-01"},
		{name: "short", in: "00-" + trace + "-" + span + "-1"},
		{name: "not hexadecimal", in: "00-" + trace + "-" + span + "-0x"},
		{name: "no separators", in: "00+" + trace + "-" + span + "-01"},
		{name: "line break", in: "00-" + trace + "-" + span + "-01\n"},
	} {
		got, ok := Parse(test.in)
		if got != test.want || ok != test.ok {
			t.Errorf("%s: Parse(%q) = %v, %v, want %v, %v", test.name, test.in, got, ok, test.want, test.ok)
		}
	}
}

func TestIDs(t *testing.T) {
	sum := func(s string, n int) string { h := sha256.Sum256([]byte(s)); return fmt.Sprintf("%x", h[:n]) }
	for _, test := range []struct{ got, want string }{
		{Root("S").Trace, sum("S", 16)},
		{Call("S.1.2"), sum("S.1.2", 8)},
		{Run("S", 3), sum("S.run.3", 8)},
		{Model("S", 4), sum("S.4.model", 8)},
		{Summary("S", 4), sum("S.4.summary", 8)},
		{Root("S").String(), ""},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
	c := Root("S")
	c.Span = Call("S.1.2")
	if got, ok := Parse(c.String()); !ok || got != c {
		t.Errorf("Parse(%q) = %v, %v, want %v", c, got, ok, c)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := Parse(s)
		if !ok {
			return
		}
		if again, ok := Parse(c.String()); !ok || again != c {
			t.Errorf("Parse(%q) = %v, and of its String %v, %v", s, c, again, ok)
		}
	})
}
