package exectool

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

const fullDescription = `{
  "$schema": "x",
  "slug": "grep-files", "description": "search <files> & more",
  "args": [
    {"name":"host","description":"name of host","type":"hostname|ip4","backing_type":"string","arity":"single","mode":"positional","allow_dash":true},
    {"name":"depth","description":"","type":"levels","backing_type":"integer","arity":"optional","mode":"dashdashspace","default": 12345678901234567890},
    {"name":"kind","description":"kind","type":"","backing_type":"string","arity":"optional","mode":"dashdashequal","enum":["a", "b<c"]},
    {"name":"tags","description":"tags","type":null,"backing_type":"array","arity":"single","mode":"stdin","items":{"type": "string"}},
    {"name":"rest","description":"rest","backing_type":"array","arity":"optional","mode":"stdin"}
  ],
  "empty-result": {"tag":"AddMessage","contents":"nothing found"},
  "output-media-type": "Image/PNG; q=1",
  "effects": "idempotent", "locks": ["db", "file:{host}"], "timeout-seconds": 1.5, "task": "required"
}
`

func TestParseDescription(t *testing.T) {
	got, notes, err := ParseDescription([]byte(fullDescription))
	if err != nil {
		t.Fatal(err)
	}
	want := &Description{
		Slug: "grep-files", Description: "search <files> & more",
		Args: []Arg{
			{Name: "host", Description: "name of host", Type: "hostname|ip4", Backing: "string", Mode: Positional, AllowDash: true},
			{Name: "depth", Type: "levels", Backing: "integer", Optional: true, Mode: DashDashSpace, Default: json.RawMessage("12345678901234567890")},
			{Name: "kind", Description: "kind", Backing: "string", Optional: true, Mode: DashDashEqual, Enum: json.RawMessage(`["a","b<c"]`)},
			{Name: "tags", Description: "tags", Backing: "array", Mode: Stdin, Items: json.RawMessage(`{"type":"string"}`)},
			{Name: "rest", Description: "rest", Backing: "array", Optional: true, Mode: Stdin},
		},
		Empty: "nothing found", MediaType: "image/png",
		Effects: agent.EffectsIdempotent, Locks: []string{"db", "file:{host}"}, Task: agent.TaskRequired, Timeout: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseDescription (-want +got):\n%s", diff)
	}
	if len(notes) != 0 {
		t.Errorf("notes = %q, want none", notes)
	}
}

func TestModelsOfADescription(t *testing.T) {
	for text, want := range map[string]Description{
		`true`: {Models: true}, `["a","b"]`: {Models: true, ModelNames: []string{"a", "b"}}, `false`: {}, `null`: {}, `[]`: {},
	} {
		d, _, err := ParseDescription([]byte(`{"slug":"s","description":"d","args":[],"models":` + text + `}`))
		if err != nil || d.Models != want.Models || !slices.Equal(d.ModelNames, want.ModelNames) {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

// The derived values are kept in caches: when this test has to change,
// cacheVersion has to change too.
func TestSpecOfCacheVersion7(t *testing.T) {
	d, _, err := ParseDescription([]byte(fullDescription))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(d.Spec())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"bash_grep-files","description":"search \u003cfiles\u003e \u0026 more","schema":` + escapeHTML(wantSchema) +
		`,"effects":"idempotent","locks":["db","file:{host}"],"task":"required"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("Spec (-want +got):\n%s", diff)
	}
	if cacheVersion != "agents tool descriptions 7" {
		t.Errorf("cacheVersion = %q: name this test after its version", cacheVersion)
	}
}

const wantSchema = `{"type":"object","properties":{` +
	`"host":{"type":"string","description":"name of host (hostname|ip4)"},` +
	`"depth":{"type":"integer","description":"(levels)","default":12345678901234567890},` +
	`"kind":{"type":"string","description":"kind","enum":["a","b<c"]},` +
	`"tags":{"type":"array","description":"tags","items":{"type":"string"}},` +
	`"rest":{"type":"array","description":"rest","items":{}}` +
	`},"required":["host","tags"],"additionalProperties":false}`

func escapeHTML(s string) string {
	var b bytes.Buffer
	json.HTMLEscape(&b, []byte(s))
	return b.String()
}

func TestSchema(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{"no arguments", `[]`, `{"type":"object","properties":{},"additionalProperties":false}`},
		{"optional only", `[{"name":"a","description":"x","backing_type":"boolean","arity":"optional","mode":"stdin"}]`,
			`{"type":"object","properties":{"a":{"type":"boolean","description":"x"}},"additionalProperties":false}`},
		{"quotes in names", `[{"name":"a\"<b","description":"x","backing_type":"number","arity":"single","mode":"stdin"}]`,
			`{"type":"object","properties":{"a\"<b":{"type":"number","description":"x"}},"required":["a\"<b"],"additionalProperties":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, _, err := ParseDescription([]byte(`{"slug":"s","description":"d","args":` + tt.args + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Schema()); got != tt.want {
				t.Errorf("Schema() =\n%s, want\n%s", got, tt.want)
			}
		})
	}
	d, _, _ := ParseDescription([]byte(fullDescription))
	if got := string(d.Schema()); got != wantSchema {
		t.Errorf("Schema() =\n%s, want\n%s", got, wantSchema)
	}
}

func TestParseDescriptionNotes(t *testing.T) {
	long := strings.Repeat("s", 80)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"defaults", `{"slug":"s","description":"d","args":[{"name":"a","description":"x"},{"name":"b","description":"x","required":false}]}`, []string{
			`argument "a": backing_type is missing: taken as "string"`,
			`argument "a": arity is missing: taken as "single"`,
			`argument "a": mode is missing: taken as "positional"`,
			`argument "b": backing_type is missing: taken as "string"`,
			`argument "b": arity is missing: taken as "optional"`,
			`argument "b": mode is missing: taken as "positional"`,
		}},
		{"unknown fields", `{"slug":"s","description":"d","Args":1,"args":[{"name":"a","description":"x","backing_type":"string","arity":"single","mode":"stdin","Mode":"x"}],"empty-result":{"tag":"DoNothing","x":1}}`, []string{
			`argument "a": unknown field "Mode" is ignored`,
			`empty-result: unknown field "x" is ignored`,
			`unknown field "Args" is ignored`,
		}},
		{"names", `{"slug":"` + long + `","description":" ","args":[{"name":"a b","description":"x","backing_type":"string","arity":"single","mode":"stdin","allow_dash":true}]}`, []string{
			`argument "a b": a name that not every model accepts; letters, digits, _ and - (not at the beginning), at most 64, are safe`,
			`argument "a b": allow_dash has no meaning in mode stdin, which takes anything`,
			`the description is empty: a model cannot know what the tool is for`,
			`the slug is long: the model sees ` + toolname.Join("bash", long),
		}},
		{"free text", `{"slug":"s","description":"d","args":[{"name":"a","description":"x","type":"Free text","backing_type":"string","arity":"single","mode":"positional"},{"name":"b","description":"x","type":"file-path","backing_type":"string","arity":"single","mode":"positional"},{"name":"c","description":"x","type":"text","backing_type":"string","arity":"single","mode":"stdin"},{"name":"d","description":"x","type":"text","backing_type":"string","arity":"single","mode":"dashdashspace","enum":["x"]}]}`, []string{
			`argument "a": in mode positional a text that looks like an option is refused; dashdashequal and stdin take anything`,
		}},
		{"schema parts", `{"slug":"s","description":"d","locks":["{a}{no}"],"args":[{"name":"a","description":"x","backing_type":"integer","arity":"single","mode":"stdin","enum":[1,1.5,[
1 ],"2"],"items":{}}]}`, []string{
			`argument "a": enum: 1.5 is of another type than backing_type integer`,
			`argument "a": enum: [ 1 ] is of another type than backing_type integer`,
			`argument "a": enum: "2" is of another type than backing_type integer`,
			`argument "a": items has no meaning for backing_type integer`,
			`locks: "{a}{no}": {no} is none of the arguments`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, notes, err := ParseDescription([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDescriptionRequiredFalseMakesOptional(t *testing.T) {
	d, _, err := ParseDescription([]byte(`{"slug":"s","description":"d","args":[{"name":"a","description":"x","required":false},{"name":"b","description":"x","required":false,"arity":"single"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !d.Args[0].Optional || d.Args[1].Optional {
		t.Errorf("optional = %v, %v, want true, false", d.Args[0].Optional, d.Args[1].Optional)
	}
}

func TestParseDescriptionErrors(t *testing.T) {
	arg := func(fields string) string {
		return `{"slug":"s","description":"d","args":[{"name":"a","description":"x",` + fields + `}]}`
	}
	tests := []struct{ name, text, want string }{
		{"nothing", " \n", `a JSON object is expected, and there is nothing`},
		{"text", "usage: grep PATTERN\n", `a JSON object is expected, not "usage: grep PATTERN"`},
		{"array", `[1]`, `a JSON object is expected, not "[1]"`},
		{"long text", strings.Repeat("ä", 50), `a JSON object is expected, not "` + strings.Repeat("ä", 30) + `"…`},
		{"control sequences", "\x1b[31mred", `a JSON object is expected, not "\x1b[31mred"`},
		{"cut off", `{"slug":"s"`, `not valid JSON: the text ends too early near "{\"slug\":\"s\""`},
		{"syntax", `{"slug":"s",}`, `not valid JSON: there is a comma before the closing } near "{\"slug\":\"s\",}"`},
		{"comment", `{"slug": /* x */ "s"}`, `not valid JSON: comments are not allowed in JSON near "{\"slug\": /* x */ \"s\"}"`},
		{"garbage behind", plain("s") + "\ndone\n", `not valid JSON: there is text behind the JSON value near "\"does s\",\"args\":[]}\ndone"`},
		{"two objects", plain("s") + plain("t"), `not valid JSON: there is text behind the JSON value near ":\"does s\",\"args\":[]}{\"slug\":\"t\",\"description\":\"does t\",\"args"…`},
		{"too long", plain("s") + strings.Repeat(" ", MaxDescriptionBytes), `the description is longer than 1048576 bytes`},
		{"a field twice", `{"slug":"s","slug":"t"}`, `the field "slug" is there twice`},
		{"no slug", `{"description":"d","args":[]}`, `the field "slug" is missing`},
		{"slug null", `{"slug":null,"description":"d","args":[]}`, `the field "slug" is missing`},
		{"slug of another case", `{"Slug":"s","description":"d","args":[]}`, `the field "slug" is missing`},
		{"slug number", `{"slug":1}`, `slug must be a string, not a number`},
		{"slug empty", `{"slug":""}`, `slug "": only letters, digits, _ and - are valid, and at least one of them`},
		{"slug odd", `{"slug":"a b"}`, `slug "a b": only letters, digits, _ and - are valid, and at least one of them`},
		{"slug umlaut", `{"slug":"ä"}`, `slug "ä": only letters, digits, _ and - are valid, and at least one of them`},
		{"no description", `{"slug":"s","args":[]}`, `the field "description" is missing`},
		{"no args", `{"slug":"s","description":"d"}`, `the field "args" is missing ([] if the tool takes no arguments)`},
		{"args object", `{"slug":"s","description":"d","args":{}}`, `args must be an array, not an object ([] if the tool takes no arguments)`},
		{"arg string", `{"slug":"s","description":"d","args":["x"]}`, `args: number 1: a JSON object is expected, not "\"x\""`},
		{"arg without name", `{"slug":"s","description":"d","args":[{"description":"x"}]}`, `args: number 1: the field "name" is missing`},
		{"arg empty name", `{"slug":"s","description":"d","args":[{"name":""}]}`, `argument "": name: its length must be 1 to 256 bytes`},
		{"arg name NUL", `{"slug":"s","description":"d","args":[{"name":"a\u0000"}]}`, `argument "a\x00": name: it holds the control character U+0000`},
		{"arg without description", `{"slug":"s","description":"d","args":[{"name":"a"}]}`, `argument "a": the field "description" is missing`},
		{"arg twice", `{"slug":"s","description":"d","args":[{"name":"a","description":"x"},{"name":"a","description":"x"}]}`, `args: "a" is there twice`},
		{"arg field twice", arg(`"mode":"stdin","mode":"stdin"`), `args: number 1: the field "mode" is there twice`},
		{"type", arg(`"type":[]`), `argument "a": type must be a string, not an array`},
		{"backing_type", arg(`"backing_type":"text"`), `argument "a": backing_type "text" is unknown; valid are string, integer, number, boolean, array, object`},
		{"arity", arg(`"arity":"many"`), `argument "a": arity "many" is unknown; valid are single, optional`},
		{"mode", arg(`"mode":"Positional"`), `argument "a": mode "Positional" is unknown; valid are positional, dashdashspace, dashdashequal, stdin`},
		{"mode number", arg(`"mode":3`), `argument "a": mode must be a string, not a number`},
		{"required", arg(`"required":"no"`), `argument "a": required must be true or false, not a string`},
		{"allow_dash", arg(`"allow_dash":"yes"`), `argument "a": allow_dash must be true or false, not a string`},
		{"enum", arg(`"enum":"a|b"`), `argument "a": enum must be an array of values, not a string`},
		{"enum empty", arg(`"enum":[]`), `argument "a": enum: 0 values; 1 to 1000 are valid`},
		{"items", arg(`"items":"string"`), `argument "a": items must be a JSON Schema (an object), not a string`},
		{"empty-result", `{"slug":"s","description":"d","args":[],"empty-result":"x"}`, `empty-result: a JSON object is expected, not "\"x\""; valid are {"tag":"DoNothing"} and {"tag":"AddMessage","contents":TEXT}`},
		{"empty-result tag", `{"slug":"s","description":"d","args":[],"empty-result":{"tag":"x"}}`, `empty-result: tag "x" is unknown; valid are {"tag":"DoNothing"} and {"tag":"AddMessage","contents":TEXT}`},
		{"empty-result contents", `{"slug":"s","description":"d","args":[],"empty-result":{"tag":"AddMessage"}}`, `empty-result: the field "contents" is missing; valid are {"tag":"DoNothing"} and {"tag":"AddMessage","contents":TEXT}`},
		{"output-media-type", `{"slug":"s","description":"d","args":[],"output-media-type":"png"}`, `output-media-type "png" is not a MIME type such as image/png`},
		{"task", `{"slug":"s","description":"d","args":[],"task":"optional"}`, `task "optional" is unknown; the only valid value is required`},
		{"effects", `{"slug":"s","description":"d","args":[],"effects":"many"}`, `effects "many" is unknown; valid are none, idempotent, once`},
		{"locks", `{"slug":"s","description":"d","args":[],"locks":"db"}`, `locks must be an array of strings, not a string`},
		{"locks empty", `{"slug":"s","description":"d","args":[],"locks":[""]}`, `locks: a name is empty`},
		{"models", `{"slug":"s","description":"d","args":[],"models":"all"}`, `models must be true, false or an array of names, not a string`},
		{"models empty", `{"slug":"s","description":"d","args":[],"models":["a",""]}`, `models: a name is empty`},
		{"timeout zero", `{"slug":"s","description":"d","args":[],"timeout-seconds":0}`, `timeout-seconds: 0 is not a valid number of seconds; it must be above 0 and at most 604800`},
		{"timeout huge", `{"slug":"s","description":"d","args":[],"timeout-seconds":1e12}`, `timeout-seconds: 1e+12 is not a valid number of seconds; it must be above 0 and at most 604800`},
		{"timeout text", `{"slug":"s","description":"d","args":[],"timeout-seconds":"5"}`, `timeout-seconds must be a number, not a string`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := ParseDescription([]byte(tt.text))
			if err == nil || err.Error() != tt.want {
				t.Errorf("ParseDescription(%.100q)\n got %v\nwant %s", tt.text, err, tt.want)
			}
		})
	}
}

func TestParseDescriptionCounts(t *testing.T) {
	var args []string
	for i := range MaxArgs + 1 {
		args = append(args, `{"name":"a`+strings.Repeat("x", i%5)+`","description":""}`)
	}
	_, _, err := ParseDescription([]byte(`{"slug":"s","description":"d","args":[` + strings.Join(args, ",") + `]}`))
	if want := "args: 501 arguments; the limit is 500"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	locks := strings.Repeat(`"l",`, MaxLocks) + `"l"`
	_, _, err = ParseDescription([]byte(`{"slug":"s","description":"d","args":[],"locks":[` + locks + `]}`))
	if want := "locks: 101 names; the limit is 100"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func FuzzDescription(f *testing.F) {
	f.Add([]byte(fullDescription))
	f.Add([]byte(plain("s")))
	f.Add([]byte(`{"slug":"s","description":"d","args":[{"name":"a","description":"x","required":false}]}`))
	f.Add([]byte(`{"slug":"s","description":"\ud800","args":[{"name":"` + "\xff" + `","description":"x"}]} x`))
	f.Add([]byte(`{"slug":1e400,"args":[[[[]]]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		d, notes, err := ParseDescription(data)
		if !bytes.Equal(before, data) {
			t.Fatal("ParseDescription changed its input")
		}
		if err != nil {
			return
		}
		schema := d.Schema()
		if !json.Valid(schema) {
			t.Fatalf("Schema() is no JSON: %s", schema)
		}
		if again := d.Schema(); !bytes.Equal(schema, again) {
			t.Fatalf("Schema() differs: %s and %s", schema, again)
		}
		var s struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
		if err := json.Unmarshal(schema, &s); err != nil || len(s.Properties) != len(d.Args) {
			t.Fatalf("%d properties for %d arguments (%v): %s", len(s.Properties), len(d.Args), err, schema)
		}
		if name := d.Spec().Name; !toolname.Valid(name) || len(name) > toolname.Max {
			t.Fatalf("name %q", name)
		}
		e := entry{id: identity{real: "/x", ino: 1}, raw: data, spec: d.Spec(), notes: notes}
		got, ok := decodeCache(encodeCache(map[string]entry{"x": e}))
		if !ok || string(got["x"].raw) != string(data) || !bytes.Equal(got["x"].spec.Schema, schema) {
			t.Fatalf("the cache returns %v, %+v", ok, got["x"])
		}
	})
}
