package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// However long the arguments of allowed calls are, the file stays one that can be read, and
// answers without arguments are not lost.
func TestLongApprovalsKeepTheFileReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.json")
	add := func(tool string, size int) error {
		a := Approval{Tool: tool, Session: "s"}
		if size > 0 {
			a.Args = json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`)
		}
		return AddApproval(t.Context(), path, a)
	}
	if err := add("first", 0); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{100, 400_000, 400_000, 400_000, 900_000, 10} {
		if err := add("long", size); err != nil {
			t.Fatal(err)
		}
		list, err := ReadApprovals(path)
		if err != nil || len(list) < 2 || list[0].Tool != "first" || strings.Count(string(list[len(list)-1].Args), "x") != size+1 {
			t.Fatalf("after %d bytes: %d answers, %v", size, len(list), err)
		}
	}
	if err := add("long", maxBytes); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("arguments that do not fit: %v", err)
	}
	if list, err := ReadApprovals(path); err != nil || len(list) < 2 {
		t.Errorf("%d answers, %v", len(list), err)
	}
}
