package schema_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
)

func validate(t *testing.T, s *schema.Schema, doc string) []schema.Violation {
	t.Helper()
	violations, err := s.Validate(t.Context(), []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return violations
}

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

// A schema whose references branch does not delay a call: only the simple parts of it
// are checked.
func TestBranchingReferencesAreGivenUp(t *testing.T) {
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
			if v := validate(t, s, `{"q":"x"}`); len(v) != 1 || v[0].Rule != "steps" {
				t.Errorf("Validate = %v, want a violation of steps", v)
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
			if v := validate(t, s, tree); len(v) != 0 {
				t.Errorf("Validate = %v, want nothing", v[0])
			}
		})
	}
	wait.Wait()
}

// Numbers are calculated exactly, and an error is kept for each that is wrong: what
// is large is refused before that.
func TestLargeDocumentsAreRefused(t *testing.T) {
	const head = "nothing ran: the arguments do not fit the tool's schema:"
	repeat := func(item string, n int) string {
		return `{"a":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
	}
	for _, tt := range []struct{ name, items, args, want string }{
		{"exponents", `{"type":"integer"}`, repeat("1e4096", 1<<18+1), head + " the arguments [size]: got more than 262144 values"},
		{"a maximum", `{"maximum":1}`, repeat("1e4096", 1<<14), head + "\nargument /a/0 [number]: got 1e4096, want at most 1000 digits and an exponent of at most 400"},
		{"a factor", `{"multipleOf":0.7}`, repeat("1e4096", 1<<14), head + "\nargument /a/0 [number]: got 1e4096"},
		{"a factor, short numbers", `{"multipleOf":7}`, repeat("1e400", 1<<13), head + "\nargument /a/0 [multipleOf]: got 1e+400, want a multiple of 7"},
		{"many violations", `{"type":"string"}`, repeat("1", 1<<18+1), head + " the arguments [size]: got more than 262144 values"},
		{"a large schema", `{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 2000) + `{"type":"string"}]}`, repeat("1", 4000), head + " the arguments [size]: got more than 2092 values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool := &spy{schema: `{"type":"object","properties":{"a":{"type":"array","items":` + tt.items + `}}}`}
			err := call(t, schema.Checked(tool), tt.args)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || tool.calls.Load() != 0 {
				t.Errorf("Call = %.300v with %d calls, want %s", err, tool.calls.Load(), tt.want)
			}
		})
	}
}

// Compiling takes time that grows with the square of the schema.
func TestLargeSchemasAreRefused(t *testing.T) {
	_, err := schema.Compile("test", []byte(`{"anyOf":[`+strings.Repeat(`{"type":"string"},`, 1<<17)+`{}]}`))
	if want := "compile schema test: it has more than 16384 values"; err == nil || err.Error() != want {
		t.Errorf("Compile = %v, want %s", err, want)
	}
}

// Text is as long as it likes: only values count.
func TestCommasInTextAreNotValues(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"text":{"type":"string"}}}`)
	if v := validate(t, s, `{"text":"\"[`+strings.Repeat(`,{`, 1<<19)+`"}`); len(v) != 0 {
		t.Errorf("Validate = %v, want nothing", v)
	}
}

// A comparison ends with its context.
func TestComparisonsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("time is up"))
	s := compile(t, doubling(30, "", `"allOf":[%s,%s]`, `{"type":"object"}`))
	if _, err := s.Validate(ctx, []byte(`{"q":"x"}`)); err == nil || err.Error() != "time is up" {
		t.Errorf("Validate = %v, want time is up", err)
	}
	tool := &spy{schema: `{"type":"object"}`}
	if _, err := (&runner.Runner{Agent: &agent.Agent{}}).Call(ctx, schema.Checked(tool), `{}`); err == nil || tool.calls.Load() != 0 {
		t.Errorf("Call = %v with %d calls, want an error and none", err, tool.calls.Load())
	}
}
