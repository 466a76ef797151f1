package session

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

// fill sets every field of a value, each to something else.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 15, 30, 12, 123_456_789, time.FixedZone("", 3600))))
		return
	case json.RawMessage:
		v.SetBytes([]byte(`{"extra":[1,2.5,"x\n",null]}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", *n%7) + "\"\\\n\r\t\x01\x7f é \u2028 😀 <&> / text " + string(rune('a'+*n%26)))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n)*1_000_003 - 5)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"one", "two"} {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(value, n)
			v.SetMapIndex(reflect.ValueOf(key), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic(v.Type())
	}
}

// everyField is an event in which no field is empty.
func everyField() agent.Event {
	var e agent.Event
	n := 0
	fill(reflect.ValueOf(&e).Elem(), &n)
	for _, parts := range [][]agent.Part{e.Message.Parts, e.Message.Results[0].Parts, e.Message.Results[1].Parts, e.Result.Parts} {
		noBlobs(parts)
	}
	for _, m := range e.Messages {
		noBlobs(m.Parts)
		for _, r := range m.Results {
			noBlobs(r.Parts)
		}
	}
	return e
}

// noBlobs: what is appended has its contents.
func noBlobs(parts []agent.Part) {
	for i := range parts {
		parts[i].Blob = ""
	}
}

func encoded(t testing.TB, e *agent.Event) []byte {
	t.Helper()
	w := encoder{}
	w.event(e)
	if w.err != nil {
		t.Fatal(w.err)
	}
	return append(w.b, '}')
}

func TestEveryFieldOfAnEventIsKept(t *testing.T) {
	want := everyField()
	line := encoded(t, &want)
	var std, own agent.Event
	if err := json.Unmarshal(line, &std); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	if diff := cmp.Diff(want, std); diff != "" {
		t.Errorf("encoding/json reads something else (-want +got):\n%s", diff)
	}
	d := decoder{b: line}
	d.event(&own)
	if d.odd || d.i != len(line) {
		t.Errorf("the own decoder gave up at %d of %s", d.i, line)
	}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("the own decoder reads something else (-want +got):\n%s", diff)
	}
}

func TestTheKeysAreThoseOfEncodingJSON(t *testing.T) {
	e := everyField()
	std, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(std, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded(t, &e), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the line differs (-encoding/json +own):\n%s", diff)
	}
}

func TestTextThatIsNotUTF8IsReplaced(t *testing.T) {
	e := agent.Event{Kind: agent.EventEnd, Text: "a\xffb\xc3", Time: time.Unix(0, 0)}
	var got agent.Event
	if err := decode(encoded(t, &e), &got); err != nil || got.Text != "a\uFFFDb\uFFFD" {
		t.Errorf("text = %q, %v", got.Text, err)
	}
}

func TestUnknownFieldsAndSpacesAreTolerated(t *testing.T) {
	for _, line := range []string{
		`{"time":"2026-11-21T15:30:12Z","kind":"end","session":"s","agent":"a","new":{"x":["}",{}]},"text":"t"}`,
		`{ "kind" : "end", "text":"t", "session":"s", "agent":"a", "time":"2026-11-21T15:30:12Z", "new": [1, {"a":"\""}] }`,
		`{"time":"2026-11-21T15:30:12Z","kind":"end","session":"s","agent":"a","te\u0078t":"t"}`,
		`{"time":"2026-11-21T15:30:12Z","kind":"end","session":"s","agent":"a","message":null,"text":"t"}`,
	} {
		var e agent.Event
		if err := decode([]byte(line), &e); err != nil || e.Kind != "end" || e.Text != "t" || e.Session != "s" {
			t.Errorf("decode(%s) = %+v, %v", line, e, err)
		}
		if h, ok := headOf([]byte(line)); !ok || !h.is("end") || string(h.session) != "s" {
			t.Errorf("headOf(%s) = %s %s %v", line, h.kind, h.session, ok)
		}
	}
}

// Whatever stands in a line, the own decoder reads it as encoding/json does, or
// leaves it to that.
func FuzzDecode(f *testing.F) {
	e := everyField()
	f.Add(encoded(f, &e))
	f.Add([]byte(`{"n":01}`))
	f.Add([]byte(`{"message":{"parts":[]}}`))
	f.Add([]byte(`{"n":-12,"turn":1e3,"usage":{"cost":1e-7}}`))
	f.Add([]byte(`{"message":{"role":"user","parts":[{"kind":"text","text":"\ud83d\ude00"}]}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var own, std agent.Event
		d := decoder{b: line}
		d.event(&own)
		if d.odd || d.i != len(line) || !json.Valid(line) || !plainKeys(json.NewDecoder(bytes.NewReader(line))) {
			return
		}
		if !utf8.Valid(line) {
			return // decode looks at that first
		}
		if err := json.Unmarshal(line, &std); err != nil {
			t.Fatalf("encoding/json refuses what the decoder took: %v", err)
		}
		if diff := cmp.Diff(std, own); diff != "" {
			t.Errorf("differs (-encoding/json +own):\n%s", diff)
		}
	})
}

// plainKeys reports whether no object of a valid text has a key twice, or one in
// capitals or other letters: there encoding/json has ways of its own, and such lines are never
// written.
func plainKeys(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return false
	}
	seen := map[string]bool{}
	for token == json.Delim('{') || token == json.Delim('[') {
		if !d.More() {
			d.Token()
			return true
		}
		if token == json.Delim('{') {
			key, _ := d.Token()
			name, _ := key.(string)
			odd := func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' }
			if seen[name] || strings.ContainsFunc(name, odd) {
				return false
			}
			seen[name] = true
		}
		if !plainKeys(d) {
			return false
		}
	}
	return true
}

func allTypes(reflect.Type) bool { return true }
