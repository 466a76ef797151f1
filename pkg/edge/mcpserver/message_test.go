package mcpserver

import (
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0},"_meta":{"progressToken":"x"}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"ping","Method":"tools/call"}`, `[]`, `{`, `null`, `{"jsonrpc":"2.0","id":1e400,"method":"ping","params":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, fault := parse([]byte(s))
		if fault != nil {
			if !json.Valid(jsonrpc.Answer(nil, nil, fault)) {
				t.Fatalf("the refusal of %q is no JSON", s)
			}
			return
		}
		if m == nil || m.ID == nil {
			return
		}
		m.token()
		text, err := m.encode()
		if err != nil {
			t.Fatalf("encode %q: %v", s, err)
		}
		again, fault := parse(text)
		if fault != nil || again.Key != m.Key || again.Method != m.Method || again.name != m.name {
			t.Fatalf("%q became %q: %v", s, text, fault)
		}
	})
}
