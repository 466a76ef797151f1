package agentfile

import (
	"encoding/json"
	"testing"
)

// Where a tree is, and in which order a server writes its keys, is not part of a lock.
func TestLocksDoNotDependOnTheMachine(t *testing.T) {
	for _, c := range []struct{ dir, path, want string }{
		{"/home/me/tree", "/home/me/tree/tools/x", "tools/x"},
		{"/home/me/tree", "/home/me/shared/x", "../shared/x"},
		{"/home/me/tree", "/opt/tools/x", "/opt/tools/x"},
		{"/tree", "/shared/x", "/shared/x"},
	} {
		if got := relative(c.dir, c.path); got != c.want {
			t.Errorf("relative(%q, %q) = %q, want %q", c.dir, c.path, got, c.want)
		}
	}
	one := canonical(json.RawMessage(`{"type": "object", "properties": {"b": {"maximum": 1e400}, "a": {"const": "<"}}}`))
	two := canonical(json.RawMessage(`{"properties":{"a":{"const":"<"},"b":{"maximum":1e400}},"type":"object"}`))
	if string(one) != string(two) || string(one) != `{"properties":{"a":{"const":"<"},"b":{"maximum":1e400}},"type":"object"}` {
		t.Errorf("canonical = %s and %s, want the same", one, two)
	}
}
