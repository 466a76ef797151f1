package agentfile

import (
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/google/go-cmp/cmp"
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

// A variable with a key is not passed on, however it spells the key.
func TestVariablesWithAKeyAreRemoved(t *testing.T) {
	l := newLoader(Options{Environ: []string{"A=https://u:sk-12%2f34%22567@host", `B={"k":"sk-12\/34\u0022567"}`, `C=sk-12/34"567`, "D=harmless", `E=sk-12/34"567`}})
	l.tree.secrets = append(l.tree.secrets, config.NewSecret(`sk-12/34"567`))
	if diff := cmp.Diff([]string{"D=harmless", `E=sk-12/34"567`}, l.environ([]string{"E"})); diff != "" {
		t.Errorf("environ (-want +got):\n%s", diff)
	}
}
