package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
)

func compile(t *testing.T, doc string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile("test", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func told(violations []schema.Violation) string {
	var lines []string
	for _, v := range violations {
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n")
}

func TestValidateSaysWhatWasFoundAndWhatWasExpected(t *testing.T) {
	tests := []struct{ name, schema, doc, want string }{
		{"valid", `{"type":"object"}`, `{}`, ""},
		{"no JSON", `{}`, `{"a":}`, `the whole [syntax]: 1:6: want a JSON value`},
		{"text behind", `{}`, `{} x`, `the whole [syntax]: 1:4: there is text behind the JSON value`},
		{"type", `{"properties":{"n":{"type":"integer"}}}`, `{"n":"5"}`, `/n [type]: got string, want integer`},
		{"one of several types", `{"type":["string","integer"]}`, `null`, `the whole [type]: got null, want integer or string`},
		{"null for nothing", `{"type":["string","null"]}`, `5`, `the whole [type]: got number, want string`},
		{"fraction", `{"type":"integer"}`, `1.5`, `the whole [type]: got number, want integer`},
		{"required", `{"required":["a","b"],"properties":{"b":{"type":["integer","null"]}}}`, `{}`,
			"/a [required]: missing\n/b [required]: missing, want integer"},
		{"required constant", `{"required":["a"],"properties":{"a":{"const":"x"}}}`, `{}`, `/a [required]: missing, want "x"`},
		{"minimum", `{"minimum":0}`, `-1`, `the whole [minimum]: got -1, want at least 0`},
		{"maximum", `{"maximum":0.5}`, `9007199254740993`, `the whole [maximum]: got 9007199254740993, want at most 0.5`},
		{"exclusive", `{"exclusiveMinimum":0,"exclusiveMaximum":-1}`, `0`,
			"the whole [exclusiveMaximum]: got 0, want less than -1\nthe whole [exclusiveMinimum]: got 0, want more than 0"},
		{"multiple", `{"multipleOf":2}`, `3`, `the whole [multipleOf]: got 3, want a multiple of 2`},
		{"enum", `{"enum":["a","b",1,null]}`, `"c"`, `the whole [enum]: got "c", want one of "a", "b", 1, null`},
		{"const", `{"const":{"x":1}}`, `[2]`, `the whole [enum]: got [2], want {"x":1}`},
		{"length", `{"minLength":2}`, `"é"`, `the whole [minLength]: got 1 character, want at least 2`},
		{"pattern", `{"pattern":"^a+$"}`, `"b"`, `the whole [pattern]: got "b", want text that matches ^a+$`},
		{"pattern in words", `{"pattern":"^a+$","patternErrorMessage":"one a or more"}`, `"b"`, `the whole [pattern]: got "b", want one a or more`},
		{"large number", `{"maximum":1e30}`, `1e31`, `the whole [maximum]: got 1e+31, want at most 1e+30`},
		{"larger than a float", `{"maximum":-1e-399}`, `1e399`, `the whole [maximum]: got 1e+399, want at most -1e-399`},
		{"items", `{"items":{"type":"string"},"maxItems":1}`, `["a",2,"c",4]`,
			"the whole [maxItems]: got 4 items, want at most 1\n/1 [type]: got number, want string\n/3 [type]: got number, want string"},
		{"order of items", `{"items":{"type":"string"}}`, `[0,1,2,3,4,5,6,7,8,9,10]`,
			"/0 [type]: got number, want string\n/1 [type]: got number, want string\n/2 [type]: got number, want string\n" +
				"/3 [type]: got number, want string\n/4 [type]: got number, want string\n/5 [type]: got number, want string\n" +
				"/6 [type]: got number, want string\n/7 [type]: got number, want string\n/8 [type]: got number, want string\n" +
				"/9 [type]: got number, want string\n/10 [type]: got number, want string"},
		{"unique", `{"uniqueItems":true}`, `[1,2,1.0]`, `the whole [uniqueItems]: items 0 and 2 are equal, want no item twice`},
		{"unknown key", `{"properties":{"modelName":{},"slug":{}},"additionalProperties":false}`, `{"modelname":1,"zzz":2}`,
			"/modelname [additionalProperties]: unknown key \"modelname\"; did you mean \"modelName\"?\n/zzz [additionalProperties]: unknown key \"zzz\""},
		{"not", `{"not":{"type":"string"}}`, `"x"`, `the whole [false]: this form is not allowed here`},
		{"false", `{"properties":{"a":false}}`, `{"a":1}`, `/a [false]: not allowed here`},
		{"contains", `{"contains":{"type":"string"}}`, `[1]`, `the whole [contains]: no item matches what one of them must`},
		{"key name", `{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `the whole [propertyNames]: the key "abc" does not have the form of a key here`},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `/b [dependentRequired]: missing, as "a" is there`},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, `/b [dependencies]: missing, as "a" is there`},
		{"reference", `{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, `{"a":1}`, `/a [type]: got number, want string`},
		{"reference without end", `{"$ref":"#"}`, `1`, `the whole [false]: the schema refers to itself without end`},
		{"strange keys", `{"additionalProperties":{"type":"string"}}`, `{"a/b~c d%":1}`, `/a~1b~0c d% [type]: got number, want string`},
		{"long value", `{"maxLength":1,"enum":["x"]}`, `"` + strings.Repeat("é", 100) + `"`, `the whole [enum]: got "` + strings.Repeat("é", 59) + `…, want "x"`},
		{"formats are not asserted", `{"format":"ipv4"}`, `"x"`, ""},
		{"pattern that cannot be expressed", `{"pattern":"(a)\\1","minLength":3}`, `"b"`, `the whole [minLength]: got 1 character, want at least 3`},
		{"exact numbers", `{"maximum":9007199254740992}`, `9007199254740993`, `the whole [maximum]: got 9007199254740993, want at most 9007199254740992`},
		{"number without end", `{"properties":{"n":{"type":"integer","minimum":0}}}`, `{"n":1e99999999}`,
			`/n [number]: got 1e99999999, want at most 1000 digits and an exponent of at most 400`},
		{"two numbers without end", `{}`, `{"b":1e5000,"a":[0,1e5000]}`,
			"/a/1 [number]: got 1e5000, want at most 1000 digits and an exponent of at most 400\n" +
				"/b [number]: got 1e5000, want at most 1000 digits and an exponent of at most 400"},
		{"number too small to be", `{"minimum":0}`, `[1E-99999999]`,
			`/0 [number]: got 1E-99999999, want at most 1000 digits and an exponent of at most 400`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := told(validate(t, compile(t, test.schema), test.doc))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Validate(%s) (-want +got):\n%s", test.doc, diff)
			}
		})
	}
}

func TestValidateOfAChoiceTellsWhatHelps(t *testing.T) {
	const tagged = `{"oneOf":[
		{"properties":{"tag":{"const":"A"},"x":{"type":"string"}},"required":["tag","x"]},
		{"properties":{"tag":{"const":"B"},"y":{"type":"string"}},"required":["tag","y"]}]}`
	tests := []struct{ name, schema, doc, want string }{
		{"types", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, `the whole [type]: got number, want string or null`},
		{"the type that fits", `{"anyOf":[{"type":"string","minLength":2},{"type":"null"}]}`, `"x"`, `the whole [minLength]: got 1 character, want at least 2`},
		{"the tag that fits", tagged, `{"tag":"B"}`, `/y [required]: missing, want string`},
		{"no tag fits", tagged, `{"tag":"C"}`, `/tag [enum]: got "C", want one of "A", "B"`},
		{"a value or a type", `{"anyOf":[{"const":"auto"},{"type":"integer"},{"type":"null"}]}`, `"x"`, `the whole [anyOf]: got "x", want "auto" or integer or null`},
		{"a type or a value", `{"anyOf":[{"type":"integer"},{"enum":["auto"]}]}`, `true`, `the whole [anyOf]: got true, want integer or "auto"`},
		{"constants", `{"oneOf":[{"const":1},{"const":2}]}`, `3`, `the whole [enum]: got 3, want one of 1, 2`},
		{"one key or another", `{"anyOf":[{"required":["modelUrl"]},{"required":["model-url"]}]}`, `{}`, `/modelUrl [required]: missing, want "modelUrl" or "model-url"`},
		{"side by side", `{"anyOf":[{"minLength":3},{"pattern":"^x"}]}`, `"a"`,
			`the whole [anyOf]: none of the alternatives fits: (got "a", want text that matches ^x) or (got 1 character, want at least 3)`},
		{"inside", `{"properties":{"p":{"anyOf":[{"required":["a","b"]},{"properties":{"q":{"minimum":2}},"required":["c"]}]}}}`, `{"p":{"q":1}}`,
			`/p [anyOf]: none of the alternatives fits: (/a missing; /b missing) or (/c missing; /q got 1, want at least 2)`},
		{"several fit", `{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, `the whole [oneOf]: more than one of the alternatives fits, want exactly one`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := told(validate(t, compile(t, test.schema), test.doc))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Validate(%s) (-want +got):\n%s", test.doc, diff)
			}
		})
	}
}

func TestCompileNeverOpensWhatASchemaRefersTo(t *testing.T) {
	// If it were opened, it would be a fine schema.
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + file, file, "http://127.0.0.1:1/x.json", "other.json"} {
		_, err := schema.Compile("foreign", []byte(`{"$ref":"`+ref+`"}`))
		if want := "is not in this schema, and other files are not read"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Compile of a $ref to %s = %v, want %q", ref, err, want)
		}
	}
}

func TestCompileSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"no JSON", `{`, `compile schema t: 1:2: the text ends too early`},
		{"nothing", ``, `compile schema t: 1:1: there is nothing in it; want a JSON value`},
		{"type", `{"type":"strin"}`, `compile schema t: /type [anyOf]: got "strin", want "array" or "boolean" or "integer" or "null" or "number" or "object" or "string" or array`},
		{"no schema", `[]`, `compile schema t: the whole [type]: got array, want boolean or object`},
		{"pattern of keys", `{"patternProperties":{"(?=a)":{}}}`, "compile schema t: patternProperties: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{"number without end", `{"minimum":1e99999999}`, `compile schema t: /minimum [number]: got 1e99999999, want at most 1000 digits and an exponent of at most 400`},
		{"too long", strings.Repeat(" ", schema.MaxBytes) + `{}`, `compile schema t: it is 4194306 bytes long; the limit is 4194304`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.Compile("t", []byte(test.doc))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompileTrustedValidatesAlike(t *testing.T) {
	const doc = `{"$id":"https://example.com/x.json","$schema":"https://json-schema.org/draft/2020-12/schema",
		"$defs":{"s":{"type":"string"}},"properties":{"slug":{"$ref":"#/$defs/s"}},"required":["slug"],"additionalProperties":false}`
	s, err := schema.CompileTrusted("t", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"slug":1}`, `{"slgu":""}`, `{"slug":""}`} {
		want := told(validate(t, compile(t, doc), text))
		if diff := cmp.Diff(want, told(validate(t, s, text))); diff != "" {
			t.Errorf("%s (-Compile +CompileTrusted):\n%s", text, diff)
		}
	}
}

func TestCheckNamesLineAndKey(t *testing.T) {
	s := compile(t, `{"type":"object","required":["tag","contents"],"additionalProperties":false,"properties":{"tag":{"const":"A"},
		"contents":{"type":"object","required":["slug"],"additionalProperties":false,"properties":{
			"slug":{"type":"string"},"modelName":{"type":"string"},"list":{"items":{"required":["a b"],"properties":{"é x":{"type":"string"}}}}}}}}`)
	tests := []struct{ name, text, want string }{
		{"fine", `{"tag":"A","contents":{"slug":"x"}}`, ""},
		{"all at once, in the order of lines", "{\n  \"tag\": \"B\",\n  \"tagg\": 1,\n  \"contents\": {\n    \"modelname\": \"x\",\n    \"modelName\": 5\n  }\n}\n",
			`2:10: tag: got "B", want "A"
3:3: tagg: warning: unknown key "tagg"; did you mean "tag"?
4:15: contents.slug: missing, want string
5:5: contents.modelname: warning: unknown key "modelname"; did you mean "modelName"?
6:18: contents.modelName: got number, want string`},
		{"twice", "{\"tag\":\"A\",\n\"contents\":{\"slug\":\"x\",\n\"slug\":\"y\"}}", `3:1: contents.slug: this key is there twice, first at 2:13`},
		{"in an array", "{\"tag\":\"A\",\"contents\":{\"slug\":\"x\",\"list\":[\n{\"a b\":1},\n{\"ü\":1, \"é x\":2}]}}",
			`3:1: contents.list[1]["a b"]: missing
3:15: contents.list[1]["é x"]: got number, want string`},
		{"one syntax error", "{\n  \"tag\": \"A\",\n}", "3:1: there is a comma before the closing }"},
		{"another type", `[]`, "1:1: got array, want object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			for _, p := range s.Check([]byte(test.text)) {
				lines = append(lines, p.String())
			}
			if diff := cmp.Diff(test.want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProblemOfADocument(t *testing.T) {
	doc, err := schema.Parse([]byte("{\n \"contents\": {\"maxTurns\": 5}}"))
	if err != nil {
		t.Fatal(err)
	}
	got := schema.ProblemAt(doc, "/contents/maxTurns", "too many").String()
	if want := "2:27: contents.maxTurns: too many"; got != want {
		t.Errorf("Problem = %q, want %q", got, want)
	}
}

func TestAnswer(t *testing.T) {
	s, err := schema.CompileAnswer("n.json", []byte(` {"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}} `))
	if err != nil {
		t.Fatal(err)
	}
	was := &agent.Agent{Slug: "a", System: "Count."}
	a := s.Of(was)
	if was.OutputSchema != nil || !strings.Contains(a.OutputSchema.Instructions, `"required":["n"]`) {
		t.Errorf("the agent's output is %+v", a.OutputSchema)
	}
	for _, tc := range []struct{ answer, want, wrong string }{
		{`{"n": 1}`, `{"n": 1}`, ""},
		{"\n```json\n{\"n\": 1}\n```\n", `{"n": 1}`, ""},
		{"```\n{\"n\": 1}```", `{"n": 1}`, ""},
		{"Here: {\"n\": 1}", "", "does not satisfy the JSON Schema n.json:\n- the whole [syntax]"},
		{"", "", "[syntax]"},
		{`{"n": "x"}`, "", "/n [type]"},
		{`{}`, "", "[required]"},
	} {
		got, err := s.Accept(t.Context(), tc.answer)
		if got != tc.want || (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("Accept(%q) = %q, %v; want %q, %q", tc.answer, got, err, tc.want, tc.wrong)
		}
	}
}

func TestAnAnswersSchemaIsChecked(t *testing.T) {
	for doc, want := range map[string]string{
		`{"type": "nothing"}`: "compile schema n.json",
		"":                    "compile schema n.json",
		strings.Repeat(" ", schema.MaxAnswer) + "{}": "longer than",
	} {
		if _, err := schema.CompileAnswer("n.json", []byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CompileAnswer(%d bytes) = %v, want %q", len(doc), err, want)
		}
	}
}

// A file with very many problems names the first of each kind and counts the others.
func TestVeryManyProblemsAreCounted(t *testing.T) {
	s, err := schema.Compile("test", []byte(`{"properties":{"a":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	var unknown strings.Builder
	for i := range n {
		fmt.Fprintf(&unknown, `"b%05d":1,`, i)
	}
	for _, tt := range []struct {
		name, text, last string
		problems, wrong  int
	}{
		{"unknown keys", `{` + unknown.String() + `"a":[]}`, "1:1: warning: 1900 more problems like these", 101, 0},
		{"unknown keys before a wrong value", `{` + unknown.String() + `"a":1}`, "1:1: warning: 1900 more problems like these", 102, 1},
		{"wrong values", `{"a":[1` + strings.Repeat(`,1`, n) + `]}`, "1:1: 1901 more problems like these", 101, 101},
		{"keys that are there twice", `{` + strings.Repeat(`"a":[],`, n) + `"a":[]}`, "1:1: 1900 more problems like these", 101, 101},
	} {
		problems := s.Check([]byte(tt.text))
		wrong := 0
		for _, p := range problems {
			if !p.Warning {
				wrong++
			}
		}
		if len(problems) != tt.problems || wrong != tt.wrong {
			t.Errorf("%s: %d problems and %d of them errors, want %d and %d", tt.name, len(problems), wrong, tt.problems, tt.wrong)
		} else if last := problems[len(problems)-1]; last.String() != tt.last {
			t.Errorf("%s: last problem %q, want %q", tt.name, last, tt.last)
		}
	}
}
