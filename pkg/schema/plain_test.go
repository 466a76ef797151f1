package schema

import (
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plainSchemas are schemas, and whether they are valid and plain.
var plainSchemas = []struct {
	doc   string
	plain bool
}{
	{`true`, true},
	{`{}`, true},
	{`{"type":"object","properties":{"command":{"type":"string","description":"x"}},"required":["command"],"additionalProperties":false}`, true},
	{`{"properties":{"n":{"type":["integer","null"],"enum":[1,null],"default":1,"const":{},"title":"N","minimum":0,"maximum":1e3}}}`, true},
	{`{"type":"array","items":{"type":"array","items":{}}}`, true},
	{`{"additionalProperties":{"type":"string"},"required":[],"enum":[]}`, true},

	{`null`, false},
	{`"string"`, false},
	{`{"type":"text"}`, false},
	{`{"type":[]}`, false},
	{`{"type":["string","string"]}`, false},
	{`{"properties":[]}`, false},
	{`{"properties":{"a":{"properties":{"b":1}}}}`, false},
	{`{"items":[{}]}`, false},
	{`{"additionalProperties":null}`, false},
	{`{"required":"a"}`, false},
	{`{"required":["a","b","a"]}`, false},
	{`{"required":[1]}`, false},
	{`{"enum":1}`, false},
	{`{"description":1}`, false},
	{`{"minimum":"0"}`, false},
	{`{"$ref":"#/nowhere"}`, false},   // a reference is followed, valid or not
	{`{"minLength":2}`, false},        // valid, not common enough
	{`{"$schema":"http://x"}`, false}, // another draft has other rules
}

func TestPlainSchemas(t *testing.T) {
	for _, test := range plainSchemas {
		v, err := decode([]byte(test.doc))
		if err != nil {
			t.Fatal(err)
		}
		if got := isPlain(v); got != test.plain {
			t.Errorf("isPlain(%s) = %t, want %t", test.doc, got, test.plain)
		}
	}
}

// FuzzPlain: what isPlain takes for valid is valid by the metaschema.
func FuzzPlain(f *testing.F) {
	for _, test := range plainSchemas {
		f.Add(test.doc)
	}
	meta, err := jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		v, err := decode([]byte(doc))
		if err != nil || !isPlain(v) {
			return
		}
		if err := meta.Validate(v); err != nil && len(hugeNumbers(v, nil)) == 0 {
			t.Errorf("isPlain(%s), but the metaschema says %v", doc, err)
		}
		if _, err := Compile("t", []byte(doc)); err != nil && len(hugeNumbers(v, nil)) == 0 {
			t.Errorf("Compile(%s) = %v, want none for a plain schema", doc, err)
		}
	})
}
