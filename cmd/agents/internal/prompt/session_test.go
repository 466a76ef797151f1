package prompt

import (
	"strings"
	"testing"
)

func TestJoinPairs(t *testing.T) {
	for in, want := range map[string]string{
		"run --session-as-context l ID -p x": "run --session-as-context=l:ID -p x",
		"run --session-as-context=l:ID":      "run --session-as-context=l:ID",
		"run --session-as-context l":         "run --session-as-context l",
		"run --session-as-context huge ID":   "run --session-as-context huge ID",
		"run -- --session-as-context l ID":   "run -- --session-as-context l ID",
	} {
		if got := strings.Join(JoinPairs(strings.Fields(in)), " "); got != want {
			t.Errorf("joinPairs(%q) = %q, want %q", in, got, want)
		}
	}
}
