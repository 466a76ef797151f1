package complete

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		"agents":              {"agents", ""},
		"agents ":             {"agents", ""},
		"agents run":          {"agents", "run"},
		"agents  run\t":       {"agents", "run", ""},
		`a 'b c' "d $e"`:      {"a", "b c", "d $e"},
		`a b\ c "d\"e\f" '\'`: {"a", "b c", `d"e\f`, `\`},
		`a '' ""`:             {"a", "", ""},
		`a 'open b`:           {"a", "open b"},
		`a --x="y z" w`:       {"a", "--x=y z", "w"},
		`a b\`:                {"a", `b\`},
	} {
		if diff := cmp.Diff(want, shellWords(line)); diff != "" {
			t.Errorf("shellWords(%q) (-want +got):\n%s", line, diff)
		}
	}
}
