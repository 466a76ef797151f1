package acptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChecker(t *testing.T) {
	t.Setenv("ACP_SCHEMA", "")
	c, err := New(nil)
	if err != nil || c != nil {
		t.Fatalf("New without a schema = %v, %v, want nil", c, err)
	}
	fmt.Fprintln(c.Ours(), "anything")

	dir := t.TempDir()
	for version, member := range map[string]string{"v1": "done", "v2": "info"} {
		text := fmt.Sprintf(`{"$defs":{
			"Error":{"type":"object","required":["code"],"properties":{"code":{"type":"integer"}}},
			"SayRequest":{"x-method":"say","type":"object","required":["text"],"properties":{"text":{"$ref":"#/$defs/Text"},"_meta":{}}},
			"SayResponse":{"x-method":"say","type":"object","required":[%[1]q],"properties":{%[1]q:{"type":"boolean"}}},
			"Text":{"type":"string"}}}`, member)
		err := os.Mkdir(filepath.Join(dir, version), 0o700)
		for _, name := range []string{"schema.json", "schema.unstable.json"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ACP_SCHEMA", filepath.Join(dir, "v1"))
	const two = `{"jsonrpc":"2.0","id":1,"method":"say","params":{"protocolVersion":2}}`
	for _, c := range []struct{ theirs, ours, want string }{
		{"", `{"jsonrpc":"2.0","id":1,"method":"say","params":{"text":"a","_meta":{"free":1}}}`, ""},
		{"", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"say"}`, `{"jsonrpc":"2.0","id":1,"result":{"done":true}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"say"}`, `{"jsonrpc":"2.0","id":1,"result":{"done":1}}`, "done"},
		{`{"jsonrpc":"2.0","id":1,"method":"say"}`, `{"jsonrpc":"2.0","id":1,"result":{"done":true,"info":true}}`, `no property "info"`},
		{two, `{"jsonrpc":"2.0","id":1,"result":{"done":true,"info":true}}`, ""},
		{two, `{"jsonrpc":"2.0","id":1,"result":{"done":true}}`, "info"},
		{two, `{"jsonrpc":"2.0","id":1,"result":{"info":true}}`, "done"},
		{two, `{"jsonrpc":"2.0","id":1,"result":{"done":true,"info":true,"more":1}}`, `no property "more"`},
		{two, `{"jsonrpc":"2.0","id":1,"method":"say","params":{"text":"a"}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"say"}`, `{"jsonrpc":"2.0","id":2,"result":{"done":true}}`, "nor an answer"},
		{"", `{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}`, "code"},
		{"", `{"id":1,"method":"say","params":{"text":"a"}}`, "JSON-RPC"},
		{"", `{"jsonrpc":"2.0","method":"shout","params":{"text":"a"}}`, "neither a method"},
		{"", `{"jsonrpc":"2.0","method":"say","params":{"text":1}}`, "text"},
		{"", `{"jsonrpc":"2.0","method":"say","params":{"text":"a","txet":1}}`, `no property "txet"`},
	} {
		var got []string
		check, err := New(func(err error) { got = append(got, err.Error()) })
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(check.Theirs(), c.theirs)
		ours := check.Ours() // a line may come in parts
		fmt.Fprint(ours, c.ours[:9])
		fmt.Fprintln(ours, c.ours[9:])
		if len(got) > 1 || (len(got) == 1) != (c.want != "") || len(got) == 1 && !strings.Contains(got[0], c.want) {
			t.Errorf("%s after %s: %q, want %q", c.ours, c.theirs, got, c.want)
		}
	}
}
