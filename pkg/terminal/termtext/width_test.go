package termtext

import "testing"

func TestCutCountsCells(t *testing.T) {
	for _, test := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"漢字", 4, "漢字"}, {"漢字", 3, "漢…"}, {"漢字", 2, "…"},
		{"e\u0301e\u0301", 2, "e\u0301e\u0301"}, {"abc", 0, ""}, {"abc", -1, ""}, {"👩\u200d💻x", 4, "👩\u200d…"},
	} {
		if got := Cut(test.in, test.n, "…"); got != test.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", test.in, test.n, got, test.want)
		}
	}
	if got := Cut("abcdef", 2, "..."); got != ".." {
		t.Errorf("cut to less than the mark: %q", got)
	}
}
