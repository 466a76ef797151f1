package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestDecodeArgsIsStrict(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"array", `[1]`, "the arguments must be one JSON object, not a JSON array"},
		{"string", `"x"`, "the arguments must be one JSON object, not a JSON string"},
		{"number", `12`, "the arguments must be one JSON object, not a JSON number"},
		{"cut", `{"a":"b`, "1:8: the text ends too early"},
		{"text behind", `{"a":1} {"b":2}`, "1:9: there is text behind the JSON value"},
		{"garbage behind", `{"a":1}x`, "1:8: there is text behind the JSON value"},
		{"same key twice", `{"a":1,"a":2}`, `1:8: the key "a" is there twice`},
		{"same key twice inside", `{"o":[{"k":1,"k":2}]}`, `1:14: the key "k" is there twice`},
		{"same key in other spelling", `{"a":1,"\u0061":2}`, `1:8: the key "a" is there twice`},
		{"half a surrogate pair", `{"a":"\ud83d"}`, `1:7: half of a surrogate pair (\ud83d)`},
		{"low surrogate", `{"a":"\ude00x"}`, `1:7: half of a surrogate pair (\ude00)`},
		{"no UTF-8", "{\"a\":\"\xff\"}", "1:7: not valid UTF-8"},
		{"too deep", strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001), "1:5001: nested more than 1000 deep"},
		{"too long", `{"a":"` + strings.Repeat("x", agent.MaxArgsBytes) + `"}`, "1:1: the text is 16777224 bytes long; the limit is 16777216"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, err := agent.DecodeArgs(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("DecodeArgs = %v, %v\nwant %s", args, err, tt.want)
			}
		})
	}
}

func TestDecodeArgsKeepsWhatTheModelSent(t *testing.T) {
	args, err := agent.DecodeArgs(`{"Name":1,"name":2,"big":12345678901234567890123,"o":{"b":1,"a":[1,{"a":2}]},"e":"\ud83d\ude00\\ud83d"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Name": "1", "name": "2", "big": "12345678901234567890123", "o": `{"b":1,"a":[1,{"a":2}]}`, "e": `"\ud83d\ude00\\ud83d"`}
	for k, v := range want {
		if string(args[k]) != v {
			t.Errorf("%s = %s, want %s", k, args[k], v)
		}
	}
	for _, empty := range []string{"", " ", "null", "{}"} {
		if args, err := agent.DecodeArgs(empty); err != nil || len(args) != 0 || args == nil {
			t.Errorf("DecodeArgs(%q) = %v, %v, want no arguments", empty, args, err)
		}
	}
}

func TestArgText(t *testing.T) {
	tests := []struct{ in, want string }{
		{`"a \"b\" \n é \ud83d\ude00"`, "a \"b\" \n é 😀"},
		{`""`, ""},
		{`true`, "true"},
		{`[1, {"b": 2,  "a": 1}]`, `[1,{"b":2,"a":1}]`},
		{`12345678901234567890123`, "12345678901234567890123"},
		{`100000000000000000000000`, "100000000000000000000000"},
		{`1.0`, "1"}, {`1.50`, "1.5"}, {`-0`, "0"}, {`-0.0e5`, "0"}, {`0.10`, "0.1"}, {`-12.5`, "-12.5"},
		{`2e3`, "2000"}, {`2E+3`, "2000"}, {`1.5e1`, "15"}, {`15e-1`, "1.5"}, {`1e-3`, "0.001"}, {`1e-9`, "1e-9"}, {`12e-10`, "1.2e-9"},
		{`1e400`, "1e400"}, {`1.25e400`, "1.25e400"}, {`1e99999999`, "1e99999999"},
		{`0.1234567890123456789012345`, "0.1234567890123456789012345"},
	}
	for _, tt := range tests {
		if got, err := agent.ArgText(json.RawMessage(tt.in)); err != nil || got != tt.want {
			t.Errorf("ArgText(%s) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

func FuzzDecodeArgs(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,2,{"b":null}]}`, `{"a":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `[`, ``, `{"n":-1.5e-3}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := agent.DecodeArgs(s)
		if err != nil {
			return
		}
		for k, raw := range args {
			text, err := agent.ArgText(raw)
			if err != nil {
				t.Fatalf("ArgText(%s) of key %q: %v", raw, k, err)
			}
			if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
				var a, b json.Number
				if json.Unmarshal(raw, &a) != nil || json.Unmarshal([]byte(text), &b) != nil {
					t.Fatalf("%s became %s, which is no JSON number", raw, text)
				}
			}
		}
	})
}
