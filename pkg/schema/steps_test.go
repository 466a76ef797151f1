package schema_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/schema"
)

// doubling is a schema whose comparison takes twice as long with each of n lines.
func doubling(n int, head, branch, leaf string) string {
	var b strings.Builder
	b.WriteString(`{` + head + `"type":"object","$ref":"#/$defs/a0","properties":{"q":{"type":"string"}},"required":["q"],"$defs":{`)
	for i := range n {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		fmt.Fprintf(&b, `"a%d":{`+branch+`},`, i, ref, ref)
	}
	fmt.Fprintf(&b, `"a%d":%s}}`, n, leaf)
	return b.String()
}

// A schema whose references branch cannot keep anything waiting: a call is compared
// with what is simple in it.
func TestSchemasThatTakeForEverAreGivenUp(t *testing.T) {
	for _, tt := range []struct{ name, schema string }{
		{"allOf", doubling(30, "", `"allOf":[%s,%s]`, `{"type":"object"}`)},
		{"anyOf that fails", doubling(30, "", `"anyOf":[%s,%s]`, `{"type":"string"}`)},
		{"not", doubling(30, "", `"not":{"not":{"allOf":[%s,%s]}}`, `{"type":"object"}`)},
		{"if", doubling(30, "", `"if":%s,"then":%s`, `{"type":"object"}`)},
		{"a name of its own", doubling(30, `"$id":"https://example.com/x",`, `"allOf":[%s,%s]`, `{"type":"object"}`)},
		{"draft 7", strings.ReplaceAll(doubling(30, `"$schema":"http://json-schema.org/draft-07/schema#",`, `"allOf":[%s,%s]`, `{"type":"object"}`), `"$ref":"#/$defs/a0"`, `"allOf":[{"$ref":"#/$defs/a0"}]`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schema.Compile("test", []byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if v := s.Validate([]byte(`{"q":"x"}`)); len(v) != 1 || v[0].Rule != "steps" {
				t.Errorf("Validate = %v, want that it takes too many steps", v)
			}
			tool := &spy{schema: tt.schema}
			checked := schema.Checked(tool)
			if call(t, checked, `{"q":"x"}`); tool.calls.Load() != 1 {
				t.Errorf("%d calls, want 1", tool.calls.Load())
			}
			if err := call(t, checked, `{"q":1}`); err == nil || !strings.Contains(err.Error(), "argument /q [type]: got number, want string") {
				t.Errorf("Call with a wrong type: %v", err)
			}
		})
	}
}

// Schemas that refer to themselves take as many steps as their values are large.
func TestReferencesAreFollowedAsFarAsTheValueGoes(t *testing.T) {
	s, err := schema.Compile("test", []byte(`{"$ref":"#/$defs/tree","$defs":{
		"tree":{"type":"object","properties":{"v":{"type":"integer"},"left":{"$ref":"#/$defs/tree"},"right":{"$ref":"#/$defs/tree"}},"required":["v"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tree := `{"v":1}`
	for range 11 {
		tree = `{"v":1,"left":` + tree + `,"right":` + tree + `}`
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if v := s.Validate([]byte(tree)); len(v) != 0 {
				t.Errorf("Validate = %v, want nothing", v[0])
			}
		})
	}
	wait.Wait()
}
