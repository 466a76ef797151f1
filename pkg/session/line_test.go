package session

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

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
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i), n)
			}
		}
	default:
		panic(v.Type())
	}
}

// appended writes one event to a journal and reads it back.
func appended(t *testing.T, e agent.Event) agent.Event {
	t.Helper()
	j := CreateFile(filepath.Join(t.TempDir(), "one.jsonl"), Options{})
	e.Session = "s"
	if err := j.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for got, err := range Events(j.Path()) {
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	t.Fatal("there is no event")
	return e
}

func TestEveryFieldOfAnEventIsKept(t *testing.T) {
	var want agent.Event
	n := 0
	fill(reflect.ValueOf(&want).Elem(), &n)
	want, _ = MapParts(want, func(p *agent.Part) error {
		p.Blob = "" // what is appended has its contents
		return nil
	})
	want.Session = "s"
	if diff := cmp.Diff(want, appended(t, want)); diff != "" {
		t.Errorf("(-appended +read):\n%s", diff)
	}
}

func TestTextThatIsNotUTF8IsReplaced(t *testing.T) {
	if got := appended(t, agent.Event{Kind: agent.EventEnd, Text: "a\xffb\xc3"}); got.Text != "a\uFFFDb\uFFFD" {
		t.Errorf("text = %q", got.Text)
	}
}

func TestTheHeadOfALineDoesNotDependOnItsForm(t *testing.T) {
	for _, line := range []string{
		`{"time":"2026-11-21T15:30:12Z","kind":"end","session":"s","agent":"a","new":{"x":["}",{}]},"text":"t"}`,
		`{ "kind" : "end", "text":"t", "session":"s", "agent":"a", "time":"2026-11-21T15:30:12Z", "new": [1, {"a":"\""}] }`,
		`{"time":"2026-11-21T15:30:12Z","kind":"e\u006ed","session":"s","agent":"a","text":"t"}`,
		`{"time":"2026-11-21T15:30:12Z","kind":"end","agent":"a","session":"s"}`,
	} {
		if h, err := headOf([]byte(line)); err != nil || !h.is("end") || string(h.session) != "s" {
			t.Errorf("headOf(%s) = %s %s %v", line, h.kind, h.session, err)
		}
	}
}

func allTypes(reflect.Type) bool { return true }
