package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
)

// spy is a tool that counts its calls and notes the last arguments.
type spy struct {
	schema string
	specs  atomic.Int64
	calls  atomic.Int64
	args   atomic.Value
}

func (s *spy) Spec() agent.ToolSpec {
	s.specs.Add(1)
	return agent.ToolSpec{Name: "spy", Schema: json.RawMessage(s.schema)}
}

func (s *spy) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	s.calls.Add(1)
	s.args.Store(inv.Call.Args)
	return agent.Result{Parts: []agent.Part{agent.Text("called")}}, errors.New("the tool's own error")
}

func call(t *testing.T, tool agent.Tool, args string) error {
	t.Helper()
	_, err := (&runner.Runner{Agent: &agent.Agent{}}).Call(t.Context(), tool, args)
	return err
}

const grep = `{"type":"object","properties":{"pattern":{"type":"string"},"count":{"type":"integer","minimum":0},
	"mode":{"type":"string","enum":["fast","slow"]}},"required":["pattern"],"additionalProperties":false}`

func TestCheckedPassesGoodArgumentsUnchanged(t *testing.T) {
	for _, args := range []string{
		`{"pattern":"x"}`,
		` {"count": 12345678901234567890, "pattern":"\u00e9"} `,
		`{"pattern":"x","count":null,"mode":null}`,
	} {
		tool := &spy{schema: grep}
		err := call(t, schema.Checked(tool), args)
		if err == nil || err.Error() != "the tool's own error" || tool.calls.Load() != 1 {
			t.Errorf("Call(%s) = %v with %d calls, want the tool's own error", args, err, tool.calls.Load())
		}
		if got := tool.args.Load(); got != args {
			t.Errorf("the tool got %q, want %q", got, args)
		}
	}
}

func TestCheckedSaysHowToCorrectTheArguments(t *testing.T) {
	const head = "nothing ran: the arguments do not fit the tool's schema: "
	tests := []struct{ name, args, want string }{
		{"minimum", `{"pattern":"x","count":-1}`, head + `argument /count [minimum]: got -1, want at least 0`},
		{"several", `{"count":"5","mode":"fats"}`, strings.TrimSpace(head) + `
argument /count [type]: got string, want integer
argument /mode [enum]: got "fats", want one of "fast", "slow"
argument /pattern [required]: missing, want string`},
		{"unknown", `{"Pattern":"x","pattern":"x"}`, head + `argument /Pattern [additionalProperties]: unknown key "Pattern"; did you mean "pattern"?`},
		{"unknown null", `{"pattern":"x","y":null}`, head + `argument /y [additionalProperties]: unknown key "y"`},
		{"null for a required one", `{"pattern":null}`, head + `argument /pattern [type]: got null, want string`},
		{"none", ``, head + `argument /pattern [required]: missing, want string`},
		{"twice", `{"pattern":"x","pattern":"y"}`, `nothing ran: the arguments are refused: 1:16: the key "pattern" is there twice`},
		{"no object", `["x"]`, `nothing ran: the arguments must be one JSON object, not a JSON array`},
		{"cut off", `{"pattern":"x`, `nothing ran: the arguments are refused: 1:14: the text ends too early`},
		{"number without end", `{"pattern":"x","count":1e99999999}`, head + `argument /count [number]: got 1e99999999, want at most 1000 digits and an exponent of at most 400`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tool := &spy{schema: grep}
			err := call(t, schema.Checked(tool), test.args)
			if err == nil || tool.calls.Load() != 0 {
				t.Fatalf("Call = %v with %d calls, want an error and none", err, tool.calls.Load())
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoArgumentHasASecondSpelling: a program that ignores the case of names would read what no
// rule has judged.
func TestNoArgumentHasASecondSpelling(t *testing.T) {
	const schemaText = `{"type":"object","properties":{"path":{"type":"string"},"risk":{"type":"string"},"in":{"type":"object","properties":{"path":{}}},"list":{"items":{"properties":{"path":{}}}},"a":{},"A":{}}}`
	for args, want := range map[string]string{
		`{"PATH":"x"}`:                      "argument /PATH [additionalProperties]: unknown key",
		`{"path":"ok","Path":"x"}`:          "argument /Path [additionalProperties]: unknown key",
		`{"ri\u017fk":"x"}`:                 "argument /riſk [additionalProperties]: unknown key",
		`{"RIS\u212a":"x"}`:                 "argument /RISK [additionalProperties]: unknown key",
		`{"in":{"path":"ok","pAth":"x"}}`:   "argument /in/pAth [additionalProperties]: unknown key",
		`{"list":[{},{"pAth":"x"}]}`:        "argument /list/1/pAth [additionalProperties]: unknown key",
		`{"a":1,"A":2,"other":3,"Other":4}`: "",
	} {
		tool := &spy{schema: schemaText}
		err := call(t, schema.Checked(tool), args)
		if want == "" && tool.calls.Load() != 1 || want != "" && (err == nil || !strings.Contains(err.Error(), want) || tool.calls.Load() != 0) {
			t.Errorf("call with %s = %v, %d calls, want %q", args, err, tool.calls.Load(), want)
		}
		shape, compiled := schema.CompileShape("of a holder's tool", []byte(schemaText))
		if compiled != nil {
			t.Fatal(compiled)
		}
		if err := shape.Check(t.Context(), json.RawMessage(args)); (want == "") != (err == nil) {
			t.Errorf("the holder's tool with %s = %v, want %q", args, err, want)
		}
		var names struct{ Path, Risk string }
		if read := json.Unmarshal([]byte(args), &names); want != "" && strings.Count(want, "/") == 1 && (read != nil || names.Path != "x" && names.Risk != "x") {
			t.Errorf("encoding/json does not read %s any more: %v", args, read)
		}
	}
}

func TestCheckedTellsTwentyFaultsAtMost(t *testing.T) {
	tool := &spy{schema: `{"items":{},"additionalProperties":{"type":"string"}}`}
	var members []string
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		members = append(members, `"`+string(c)+`":1`)
	}
	err := call(t, schema.Checked(tool), "{"+strings.Join(members, ",")+"}")
	if err == nil || strings.Count(err.Error(), "\n") != 21 || !strings.HasSuffix(err.Error(), "\nand 6 more") {
		t.Errorf("Call = %v, want 20 lines and the number of the others", err)
	}
}

func TestCheckedMakesTheBestOfABadSchema(t *testing.T) {
	const head = "nothing ran: the arguments do not fit the tool's schema: "
	tests := []struct{ name, schema, args, want string }{
		{"none", ``, `{"a":1}`, ""},
		{"no JSON", `{`, `{"a":1}`, ""},
		{"no object", `[]`, `{"a":1}`, ""},
		{"null", `null`, `{"a":1}`, ""},
		{"true", `true`, `{"a":1}`, ""},
		{"remote reference", `{"$ref":"http://127.0.0.1:1/","required":["b"]}`, `{"a":1}`, head + `argument /b [required]: missing`},
		{"unknown type", `{"properties":{"a":{"type":"strin"},"b":{"type":"integer"}}}`, `{"a":1,"b":"x"}`, head + `argument /b [type]: got string, want integer`},
		{"types that repeat", `{"properties":{"a":{"type":["string","string"]}}}`, `{"a":1}`, ""},
		{"required is no list", `{"required":true,"properties":{"b":{"type":"integer"}}}`, `{"b":"x"}`, head + `argument /b [type]: got string, want integer`},
		{"closed", `{"properties":{"a":{"pattern":5}},"additionalProperties":false}`, `{"b":"x"}`, head + `argument /b [additionalProperties]: unknown key "b"`},
		{"pattern with a look-ahead", `{"properties":{"a":{"type":"string","pattern":"(?=x)"}}}`, `{"a":"y"}`, ""},
		{"keys with a look-ahead", `{"patternProperties":{"(?=x)":{"type":"string"}}}`, `{"a":1}`, ""},
		{"made-up dialect", `{"$schema":"https://example.com/mine","required":["b"]}`, `{}`, head + `argument /b [required]: missing`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tool := &spy{schema: test.schema}
			err := call(t, schema.Checked(tool), test.args)
			got := err.Error()
			if tool.calls.Load() == 1 {
				got = ""
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckedCompilesOnceForCallsAtTheSameTime(t *testing.T) {
	tool := &spy{schema: grep}
	checked := schema.Checked(tool)
	if got := tool.specs.Load(); got != 0 {
		t.Errorf("%d Specs were asked for before the first call", got)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := call(t, checked, `{"pattern":1}`); err == nil {
				t.Error("no error")
			}
		})
	}
	wg.Wait()
	if got := tool.specs.Load(); got != 17 { // one for each call's Invocation
		t.Errorf("%d Specs for 16 calls, want 17", got)
	}
}

func FuzzChecked(f *testing.F) {
	f.Add(grep, `{"pattern":"x","count":1e400}`)
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(`{"properties":{"a":{"$ref":"#/properties/b"},"b":{"anyOf":[{"minimum":1e9999},{"const":1}]}}}`, `{"b":0}`)
	f.Add(`{"patternProperties":{"(":true},"uniqueItems":5}`, `{"a":[1,1.0]}`)
	f.Fuzz(func(t *testing.T, doc, args string) {
		tool := &spy{schema: doc}
		_ = call(t, schema.Checked(tool), args) // must neither panic nor hang
		if _, err := agent.DecodeArgs(args); err != nil && tool.calls.Load() > 0 {
			t.Errorf("the tool was called with %q: %v", args, err)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := schema.Compile("grep", []byte(grep)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckedCall(b *testing.B) {
	tool := schema.Checked(&spy{schema: grep})
	inv := &agent.Invocation{Call: agent.ToolCall{Args: `{"pattern":"x","count":5}`}}
	for b.Loop() {
		_, _ = tool.Call(b.Context(), inv) // the spy always fails
	}
}
