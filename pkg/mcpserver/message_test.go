package mcpserver

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
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
			if !json.Valid(refusal(nil, fault)) {
				t.Fatalf("the refusal of %q is no JSON", s)
			}
			return
		}
		if m == nil || m.id == nil {
			return
		}
		m.token()
		text, err := m.encode()
		if err != nil {
			t.Fatalf("encode %q: %v", s, err)
		}
		again, fault := parse(text)
		if fault != nil || again.key != m.key || again.method != m.method || again.name != m.name {
			t.Fatalf("%q became %q: %v", s, text, fault)
		}
	})
}

// FuzzID compares the id that is found in pieces with that of a decoder.
func FuzzID(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"id":2}}`)
	f.Add(`{"params":["id",{"id":2},"\"\\"],"id":"a\"b\\"}`)
	f.Add(`{"id":{"id":3}}`)
	f.Add(`{ "id" : -7 }`)
	f.Fuzz(func(t *testing.T, s string) {
		var members map[string]json.RawMessage
		if strings.ContainsAny(s, "\n") || strings.Contains(s, `\u`) || len(s) > 200 ||
			json.Unmarshal([]byte(s), &members) != nil || members == nil {
			return
		}
		want := ""
		if _, ok := idKey(members["id"]); ok {
			want = string(members["id"])
		}
		l, _ := readLine(bufio.NewReaderSize(strings.NewReader(s), 16), 4)
		if l.tooLong && string(l.id) != want {
			t.Fatalf("the id of %q is %q, want %q", s, l.id, want)
		}
	})
}
