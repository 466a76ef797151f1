package schema

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPatternsStopWithTheContext: thousands of texts times hundreds of patterns take
// minutes, which a time limit ends.
func TestPatternsStopWithTheContext(t *testing.T) {
	patterns := strings.Join(slices.Repeat([]string{`{"pattern":"^(a|aa)+$"}`}, 300), ",")
	s, err := Compile("s", []byte(`{"items":{"allOf":[`+patterns+`]}}`))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(slices.Repeat([]string{strings.Repeat("a", 3000)}, 2000))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Validate(ctx, doc); err == nil {
		t.Error("Validate did not report the end of its context")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Validate took %v after a limit of 50 ms", took)
	}
}
