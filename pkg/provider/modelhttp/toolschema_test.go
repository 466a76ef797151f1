package modelhttp_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/schema"
)

// all refuses what any server is known to refuse.
var all = modelhttp.Refusals{Incomplete: true, Keys: true, Subset: true}

func TestSchemasOfToolsAreFitted(t *testing.T) {
	long := strings.Repeat("k", 65)
	for _, tt := range []struct {
		name    string
		refused modelhttp.Refusals
		schema  string
		want    string // "" means the same bytes
		rule    string // in the description
	}{
		{"plain", all, `{"type": "object", "properties": {"a": {"type":"string"}}, "required":["a"], "additionalProperties": false}`, "", ""},
		{"combinators below the top", modelhttp.RefusedByAnthropic, `{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/x"}]}},"$defs":{"x":{"allOf":[{}]}}}`, "", ""},
		{"no type", modelhttp.Refusals{}, `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`, ""},
		{"types", modelhttp.Refusals{}, `{"type":["object","null"],"properties":{}}`, `{"properties":{},"type":"object"}`, ""},
		{"exactly one of two", modelhttp.Refusals{}, `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"}},"oneOf":[{"required":["id"]},{"required":["name"]}]}`,
			`{"properties":{"id":{"type":"string"},"name":{"type":"string"}},"type":"object"}`, `{"oneOf":[{"required":["id"]},{"required":["name"]}]}`},
		{"kinds", modelhttp.Refusals{}, `{"anyOf":[{"type":"object","properties":{"kind":{"type":"string","const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},{"type":"object","properties":{"kind":{"type":"string","const":"b"}},"required":["kind"]}]}`,
			`{"properties":{"kind":{"enum":["a","b"],"type":"string"},"x":{"type":"integer"}},"required":["kind"],"type":"object"}`, `"anyOf"`},
		{"types of one argument", modelhttp.Refusals{}, `{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"integer"}}}]}`,
			`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"type":"object"}`, `"anyOf"`},
		{"all of", modelhttp.Refusals{}, `{"type":"object","allOf":[{"properties":{"a":{}},"required":["a"]},{"$ref":"#/$defs/b"}],"$defs":{"b":{"properties":{"b":{}},"required":["b"]}}}`,
			`{"$defs":{"b":{"properties":{"b":{}},"required":["b"]}},"properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}`, `"allOf"`},
		{"a reference", modelhttp.Refusals{}, `{"$ref":"#/definitions/A~1B","definitions":{"A/B":{"type":"object","properties":{"a":{"$ref":"#/definitions/A~1B"}},"required":["a"]}}}`,
			`{"definitions":{"A/B":{"properties":{"a":{"$ref":"#/definitions/A~1B"}},"required":["a"],"type":"object"}},"properties":{"a":{"$ref":"#/definitions/A~1B"}},"required":["a"],"type":"object"}`, ""},
		{"not and enum", modelhttp.Refusals{}, `{"type":"object","properties":{"a":{}},"not":{"required":["a","b"]},"enum":[{"a":1}]}`, `{"properties":{"a":{}},"type":"object"}`, `"not":{"required":["a","b"]}`},
		{"a branch that is no object", modelhttp.Refusals{}, `{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{}},"required":["a"]}]}`, `{"properties":{"a":{}},"required":["a"],"type":"object"}`, `"anyOf"`},
		{"closed", modelhttp.Refusals{}, `{"type":"object","properties":{"a":{}},"additionalProperties":false,"anyOf":[{"required":["a"]},{"properties":{"b":{}}}]}`, `{"additionalProperties":false,"properties":{"a":{}},"type":"object"}`, `"anyOf"`},
		{"an array without items", modelhttp.RefusedByOpenAI, `{"type":"object","properties":{"a":{"type":["array","null"]}}}`, `{"properties":{"a":{"items":{},"type":["array","null"]}},"type":"object"}`, ""},
		{"no properties", modelhttp.RefusedByOpenAI, `{"type":"object"}`, `{"properties":{},"type":"object"}`, ""},
		{"a name", modelhttp.RefusedByAnthropic, `{"type":"object","properties":{"filter[id]":{},"a.b-c_D":{},"` + long + `":{}}}`, `{"properties":{"a.b-c_D":{}},"type":"object"}`, ""},
		{"references, constants, empty values", modelhttp.RefusedByGemini, `{"type":"object","properties":{"a":{"$ref":"#/$defs/t","description":"d"},"b":{"const":"x","type":"string"},"c":{"type":"string","enum":["","y"]},"const":{"type":"string"}},"$defs":{"t":{"type":"object","properties":{"t":{"$ref":"#/$defs/u"}}},"u":{"type":"integer"}}}`,
			`{"properties":{"a":{"description":"d","properties":{"t":{"type":"integer"}},"type":"object"},"b":{"enum":["x"],"type":"string"},"c":{"type":"string"},"const":{"type":"string"}},"type":"object"}`, ""},
		{"arguments with the names of keywords", modelhttp.RefusedByGemini, `{"type":"object","properties":{"definitions":{"type":"string"},"$ref":{"type":"string"},"properties":{"const":"x"}},"required":["definitions"]}`,
			`{"properties":{"$ref":{"type":"string"},"definitions":{"type":"string"},"properties":{"enum":["x"]}},"required":["definitions"],"type":"object"}`, ""},
		{"a reference to itself", modelhttp.RefusedByGemini, `{"type":"object","properties":{"f":{"$ref":"#/$defs/f"}},"$defs":{"f":{"properties":{"and":{"$ref":"#/$defs/f"},"or":{"items":{"$ref":"#/$defs/g"}}}},"g":{"$ref":"#/$defs/f","title":"g"}}}`,
			`{"properties":{"f":{"properties":{"and":{},"or":{"items":{}}}}},"type":"object"}`, ""},
		{"rules of one value", modelhttp.Refusals{}, `{"type":"object","anyOf":[{"properties":{"a":{"type":"string","const":"x","maxLength":1}}},{"properties":{"a":{"type":"string","enum":["long"]}}}]}`,
			`{"properties":{"a":{"enum":["x","long"],"type":"string"}},"type":"object"}`, `"anyOf"`},
		{"patterns of one branch", modelhttp.Refusals{}, `{"type":"object","anyOf":[{"properties":{"a":{}}},{"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false}]}`,
			`{"properties":{"a":{}},"type":"object"}`, `"anyOf"`},
		{"what the branches evaluate", modelhttp.Refusals{}, `{"type":"object","unevaluatedProperties":false,"anyOf":[{"additionalProperties":true}]}`, `{"properties":{},"type":"object"}`, `"anyOf"`},
		{"properties beside a reference", modelhttp.RefusedByGemini, `{"type":"object","properties":{"o":{"$ref":"#/$defs/o","properties":{"b":{}}}},"$defs":{"o":{"properties":{"a":{}},"required":["a"],"patternProperties":{"^b$":{}},"additionalProperties":false}}}`,
			`{"properties":{"o":{"patternProperties":{"^b$":{}},"properties":{"a":{},"b":{}},"required":["a"]}},"type":"object"}`, ""},
		{"names that are not texts", modelhttp.Refusals{}, `{"type":"object","anyOf":[{"required":[{"a":1},[]]},{"required":[{"a":1}]}]}`, `{"properties":{},"required":[{"a":1}],"type":"object"}`, `"anyOf"`},
	} {
		got, changed, err := tt.refused.Fit(agent.ToolSpec{Name: "t", Description: "Does it.", Schema: json.RawMessage(tt.schema)})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want := tt.want
		want = cmp.Or(want, tt.schema)
		if string(got.Schema) != want || (tt.want == "") != (changed == nil) && tt.name != "no properties" {
			t.Errorf("%s: %s, changed %q\nwant %s", tt.name, got.Schema, changed, want)
		}
		rule := strings.TrimPrefix(got.Description, "Does it.")
		if !strings.Contains(rule, tt.rule) || tt.rule == "" && rule != "" {
			t.Errorf("%s: the description adds %q, want %s", tt.name, rule, tt.rule)
		}
		if again, _, err := tt.refused.Fit(got); err != nil || string(again.Schema) != want {
			t.Errorf("%s: fitted again it is %s, %v", tt.name, again.Schema, err)
		}
	}
}

func TestSchemasThatCannotBeFitted(t *testing.T) {
	deep := strings.Repeat(`{"allOf":[`, 20) + `{}` + strings.Repeat(`]}`, 20)
	for schema, want := range map[string]string{
		`{"type":"string"}`: "not that of an object",
		`{"anyOf":[{"type":"string"},{"type":"array"}]}`: "no object satisfies",
		`{"$ref":"#/$defs/missing"}`:                     "is not in it",
		`{"$ref":"https://example.org/schema.json"}`:     "is not in it",
		`{"$ref":"#"}`: "nested more than",
		`{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`: "nested more than",
		deep: "nested more than",
		`{"$defs":{"a":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, 100) + `{}]}},"$ref":"#/$defs/a"}`: "more than 1000",
		`{"anyOf":[` + strings.Repeat(`{},`, 1000) + `{}]}`:                                                     "more than 1000",
	} {
		if got, _, err := all.Fit(agent.ToolSpec{Schema: json.RawMessage(schema)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %s, %v; want %s", schema, got.Schema, err, want)
		}
	}
}

// Arguments that the schema of a tool accepts are accepted by the one that the model sees,
// whatever combinators the schema has.
func TestFittedSchemasAcceptWhatTheToolAccepts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	plain := regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	accepted := 0
	for range 40 {
		raw, _ := json.Marshal(randomSchema(r, 3))
		for name, refused := range map[string]modelhttp.Refusals{"none": {}, "openai": modelhttp.RefusedByOpenAI, "anthropic": modelhttp.RefusedByAnthropic, "gemini": modelhttp.RefusedByGemini} {
			fitted, _, err := refused.Fit(agent.ToolSpec{Schema: raw})
			if err != nil {
				continue
			}
			var top struct {
				Type                                 any
				OneOf, AnyOf, AllOf, Not, Enum, Ref_ any
				Properties                           map[string]any
			}
			if err := json.Unmarshal(fitted.Schema, &top); err != nil || top.Type != "object" || top.OneOf != nil || top.AnyOf != nil || top.AllOf != nil || top.Not != nil || top.Enum != nil {
				t.Fatalf("%s: %s became %s, %v", name, raw, fitted.Schema, err)
			}
			for key := range top.Properties {
				if refused.Keys && !plain.MatchString(key) {
					t.Fatalf("%s: %s keeps %q", name, raw, key)
				}
			}
			tool, err1 := schema.Compile("tool", raw)
			seen, err2 := schema.Compile("model", fitted.Schema)
			if err1 != nil || err2 != nil {
				t.Fatalf("%s: %s: %v; %s: %v", name, raw, err1, fitted.Schema, err2)
			}
			for range 20 {
				args, _ := json.Marshal(randomArgs(r))
				if v, err := tool.Validate(t.Context(), args); err != nil || len(v) > 0 || refused.Keys && strings.Contains(string(args), "d e") {
					continue
				}
				accepted++
				if v, err := seen.Validate(t.Context(), args); err != nil || len(v) > 0 {
					t.Fatalf("%s: the tool accepts %s, and the model's schema does not: %v\n%s\n%s", name, args, v, raw, fitted.Schema)
				}
			}
		}
	}
	if accepted < 150 {
		t.Errorf("only %d arguments were accepted by a tool", accepted)
	}
}

// examples are values of the arguments names that each of their schemas accepts: a branch
// that does not describe an argument would accept any, and the model sees those that do.
var (
	names    = []string{"a", "b", "c", "d e"}
	examples = []any{"x", []any{}, 1, "y"}
)

func randomSchema(r *rand.Rand, depth int) map[string]any {
	s := map[string]any{}
	if r.IntN(3) > 0 {
		s["type"] = "object"
	}
	if r.IntN(3) > 0 {
		properties := map[string]any{}
		for range 1 + r.IntN(3) {
			i := r.IntN(4)
			properties[names[i]] = []any{map[string]any{}, map[string]any{"enum": []any{"", examples[i], 7}}, map[string]any{"const": examples[i]}, map[string]any{"type": []any{"string", "array", "integer"}}}[r.IntN(4)]
		}
		s["properties"] = properties
	}
	if r.IntN(4) == 0 {
		s["required"] = []any{names[r.IntN(4)]}
	}
	if r.IntN(6) == 0 {
		s["additionalProperties"] = false
	}
	if r.IntN(6) == 0 {
		s["patternProperties"] = map[string]any{"^[ab]$": map[string]any{"type": "string"}}
	}
	if r.IntN(8) == 0 {
		s["unevaluatedProperties"] = false
	}
	if depth == 0 {
		return s
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if r.IntN(3) == 0 {
			var branches []any
			for range 1 + r.IntN(3) {
				branches = append(branches, randomSchema(r, depth-1))
			}
			s[name] = branches
		}
	}
	if depth == 3 && r.IntN(4) == 0 {
		s["$defs"] = map[string]any{"x": randomSchema(r, 1)}
		s["$ref"] = "#/$defs/x"
	}
	return s
}

func randomArgs(r *rand.Rand) map[string]any {
	args := map[string]any{}
	for range r.IntN(4) {
		i := r.IntN(4)
		args[names[i]] = examples[i]
	}
	return args
}

// What Gemini gets for a schema does not differ from turn to turn, and does not grow without
// a limit.
func TestReferencesAreReplacedInOrder(t *testing.T) {
	var defs []string
	for i := range 8 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"properties":{"a":{"$ref":"#/$defs/d%[2]d"},"b":{"$ref":"#/$defs/d%[2]d"},"c":{"$ref":"#/$defs/d%[2]d"}}}`, i, i+1))
	}
	tool := agent.ToolSpec{Schema: json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `,"d8":{"type":"string"}}}`)}
	first, _, err := modelhttp.RefusedByGemini.Fit(tool)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, _, _ := modelhttp.RefusedByGemini.Fit(tool); string(again.Schema) != string(first.Schema) {
			t.Fatal("the same schema is replaced by different ones")
		}
	}
}
