package jsonrpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:                                                                         "",
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                                                        "",
		`{"jsonrpc":"2.0","id":1,"error":"no"}`:                                                                         "",
		`{"jsonrpc":"2.0","id":1,"Method":"m"}`:                                                                         "method: it must be a string; an answer has a result or an error",
		`{"jsonrpc":"2.0","id":1,"Result":1}`:                                                                           "method: it must be a string; an answer has a result or an error",
		`{"JSONRPC":"2.0","id":1,"method":"m"}`:                                                                         `jsonrpc: it must be "2.0"`,
		`{"jsonrpc":"2.0","id":1,"method":5}`:                                                                           "method: it must be a string",
		`{"jsonrpc":"2.0","id":{},"method":"m"}`:                                                                        "id: it must be a string or a number",
		`{"jsonrpc":"2.0","id":1,"error":{"code":"E"}}`:                                                                 "error: it must be an object with code, a number, and message, a string",
		`{"jsonrpc":"2.0","id":1,"error":{"Code":"E","message":"ok"}}`:                                                  "",
		`{"jsonrpc":"2.0","id":1,"method":"m"` + strings.Repeat(`,"a":1`, MaxMembers-3) + `}`:                           "",
		`{"jsonrpc":"2.0","id":1,"method":"m"` + strings.Repeat(`,"a":1`, MaxMembers-2) + `}`:                           "the message: it has more than 10000 members",
		`{"jsonrpc":"2.0","id":1,"method":"m","params":[",\"{"` + strings.Repeat(`,{"a":"},\\\"{"}`, MaxMembers) + `]}`: "",
		`[]`:       "batches are not supported: send one message a line",
		`1`:        "a message is a JSON object",
		"\"\xff\"": "parse error: the message is not valid UTF-8",
		`{`:        "parse error: unexpected end of JSON input",
	} {
		m, bad := Parse([]byte(text))
		if got := errorText(bad); got != want {
			t.Errorf("Parse(%s) = %+v, %q, want %q", text, m, got, want)
		}
	}
}

func errorText(e *Error) string {
	if e == nil {
		return ""
	}
	return e.Message
}

func TestKeysOfIDs(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1.0`, true}, {`1`, `10e-1`, true}, {`"a"`, `"\u0061"`, true}, {`1`, `"1"`, false}, {`1`, `1.5`, false},
		{`9007199254740993`, `9007199254740992`, false}, {`1e400`, `1e401`, false},
	} {
		a, okA := Key(json.RawMessage(c.a))
		b, okB := Key(json.RawMessage(c.b))
		if !okA || !okB || (a == b) != c.same {
			t.Errorf("the keys of %s and %s are %q and %q, want them the same: %v", c.a, c.b, a, b, c.same)
		}
	}
	for _, none := range []string{"", "null", "{}", "true"} {
		if key, ok := Key(json.RawMessage(none)); ok {
			t.Errorf("Key(%s) = %q", none, key)
		}
	}
}

func TestUnmarshalComparesKeysExactly(t *testing.T) {
	type Named struct {
		Name string `json:"name"`
	}
	type inner struct {
		A string `json:"a"`
	}
	var v struct {
		Named
		Raw   json.RawMessage `json:"raw"`
		Inner inner           `json:"inner"`
		Link  *inner          `json:"link"`
		List  []inner         `json:"list"`
	}
	want := v
	want.Name, want.Inner.A, want.Link, want.List, want.Raw = "n", "x", &inner{"y"}, []inner{{"z"}, {}}, json.RawMessage(`{"A":1}`)
	err := Unmarshal([]byte(`{"name":"n","NAME":"no","Raw":2,"raw":{"A":1},"inner":{"a":"x","A":"no"},"link":{"a":"y"},"list":[{"a":"z"},{"A":"no"}]}`), &v)
	if diff := cmp.Diff(want, v); err != nil || diff != "" {
		t.Errorf("Unmarshal: %v (-want +got):\n%s", err, diff)
	}
	err = Unmarshal([]byte(`{"inner":{"a":5}}`), &v)
	if kind, ok := err.(*json.UnmarshalTypeError); !ok || kind.Field != "inner.a" {
		t.Errorf("Unmarshal of a wrong type: %v", err)
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 100)
	for in, want := range map[string][]Line{
		"a\n\nb": {{Text: []byte("a\n")}, {Text: []byte("\n")}, {Text: []byte("b")}},
		`{"result":{"id":1,"a":[{"id":2}],"s":"\",\"id\":3"},"x":"` + long + `", "id" : "a\"b" }` + "\nc\n": {{TooLong: true, ID: json.RawMessage(`"a\"b"`)}, {Text: []byte("c\n")}, {}},
		`{"id":null,"x":"` + long: {{TooLong: true}},
	} {
		from := bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(in)), 16)
		var got []Line
		for {
			l, err := ReadLine(from, 60)
			got = append(got, l)
			if err == io.EOF {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

// FuzzIDFinder: the id that is found is the one that a decoder finds.
func FuzzIDFinder(f *testing.F) {
	f.Add([]byte(`{"a":{"id":1},"id":"x","jsonrpc":"2.0"}`))
	f.Add([]byte("}]{\"id\":\n\"\\"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var m map[string]json.RawMessage
		var find IDFinder
		_, _ = find.Write(in)
		got := find.ID()
		if json.Unmarshal(in, &m) != nil || bytes.Count(in, []byte(`"id"`)) != 1 || bytes.ContainsRune(in, '\\') {
			return // another spelling of the key is not looked for
		}
		want := m["id"]
		if _, ok := Key(want); !ok || len(want) > maxID {
			want = nil
		}
		if string(got) != string(want) {
			t.Errorf("the id of %s is %s, want %s", in, got, want)
		}
	})
}
