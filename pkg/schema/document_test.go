package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/schema"
)

// A file with very many problems names the first of each kind and counts the others.
func TestVeryManyProblemsAreCounted(t *testing.T) {
	s, err := schema.Compile("test", []byte(`{"properties":{"a":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	var unknown strings.Builder
	for i := range n {
		fmt.Fprintf(&unknown, `"b%05d":1,`, i)
	}
	for _, tt := range []struct {
		name, text, last string
		problems, wrong  int
	}{
		{"unknown keys", `{` + unknown.String() + `"a":[]}`, "1:1: warning: 1900 more problems like these", 101, 0},
		{"unknown keys before a wrong value", `{` + unknown.String() + `"a":1}`, "1:1: warning: 1900 more problems like these", 102, 1},
		{"wrong values", `{"a":[1` + strings.Repeat(`,1`, n) + `]}`, "1:1: 1901 more problems like these", 101, 101},
		{"keys that are there twice", `{` + strings.Repeat(`"a":[],`, n) + `"a":[]}`, "1:1: 1900 more problems like these", 101, 101},
	} {
		problems := s.Check([]byte(tt.text))
		wrong := 0
		for _, p := range problems {
			if !p.Warning {
				wrong++
			}
		}
		if len(problems) != tt.problems || wrong != tt.wrong {
			t.Errorf("%s: %d problems and %d of them errors, want %d and %d", tt.name, len(problems), wrong, tt.problems, tt.wrong)
		} else if last := problems[len(problems)-1]; last.String() != tt.last {
			t.Errorf("%s: last problem %q, want %q", tt.name, last, tt.last)
		}
	}
}
