package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// MaxBytes limits the text of one schema.
const MaxBytes = 4 << 20

// A Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	raw      any // the decoded text of the schema
	url      string
	compiled *jsonschema.Schema
	size     int        // how many values the schema has
	limit    *stepLimit // nil for a schema without references
}

// Compile compiles the JSON Schema doc, of the draft that its $schema names and
// else of 2020-12. Errors call it name. References are followed within
// doc and to the published metaschemas only. A "pattern" that Go's regexp cannot
// express, for example one with a reference to a group, accepts every string (see
// NotCompared); such a key of "patternProperties" is an error, as leaving it out would refuse what the
// schema allows. Compiling costs from 50 µs to several ms, so keep the result.
func Compile(name string, doc []byte) (*Schema, error) {
	return compile(name, doc, false)
}

// CompileTrusted is Compile for a schema that is part of the program and whose
// own tests compare it with the metaschema: that comparison, which takes most of
// Compile's time, is skipped. Its result for an invalid schema is undefined.
func CompileTrusted(name string, doc []byte) (*Schema, error) {
	return compile(name, doc, true)
}

func compile(name string, doc []byte, trusted bool) (*Schema, error) {
	raw, size, err := decodeSchema(doc)
	if err != nil {
		return nil, fmt.Errorf("compile schema %s: %w", name, err)
	}
	untrusted := doc
	if trusted {
		untrusted = nil
	}
	return compileValue(name, raw, size, untrusted)
}

// compileValue compiles a decoded schema; untrusted is the text of one that is not part
// of the program.
func compileValue(name string, raw any, size int, untrusted []byte) (*Schema, error) {
	fail := func(err error) (*Schema, error) {
		return nil, fmt.Errorf("compile schema %s: %w", name, err)
	}
	if v := hugeNumbers(raw, nil); len(v) > 0 {
		return fail(errors.New(v[0].String()))
	}
	if err := checkKeyPatterns(raw); err != nil {
		return fail(err)
	}
	url := "mem:///schema.json"
	if untrusted == nil || isPlain(raw) {
		// jsonschema takes what lies under this address for a metaschema, and
		// metaschemas for valid.
		url = "https://json-schema.org/trusted/schema.json"
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.UseRegexpEngine(compileRegexp)
	out := &Schema{raw: raw, url: url, size: size}
	if untrusted != nil {
		out.limit = newStepLimit(c, untrusted)
	}
	err := c.AddResource(url, raw)
	if err != nil {
		return fail(err)
	}
	out.compiled, err = c.Compile(url)
	if err != nil {
		return fail(plainCompileError(err))
	}
	return out, nil
}

// plainCompileError says in plain words what is wrong with a schema.
func plainCompileError(err error) error {
	if out, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("$ref: %s is not in this schema, and other files are not read", strings.TrimPrefix(out.URL, "mem:///"))
	}
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return err
	}
	verr, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		return err
	}
	var lines []string
	for _, v := range (&Schema{}).violations(verr) {
		lines = append(lines, v.String())
	}
	return errors.New(strings.Join(lines, "; "))
}

// decodeSchema decodes the text of a schema within the limits. size is the number of its values.
func decodeSchema(text []byte) (raw any, size int, err error) {
	if len(text) > MaxBytes {
		return nil, 0, fmt.Errorf("it is %d bytes long; the limit is %d", len(text), MaxBytes)
	}
	if size = countValues(text); size > maxParts {
		return nil, 0, fmt.Errorf("it has more than %d values", maxParts)
	}
	raw, err = decode(text)
	return raw, size, err
}

// decode reads one JSON text; numbers stay json.Number.
func decode(text []byte) (any, error) {
	doc, err := jsondoc.Parse(text, jsondoc.Options{Shallow: true})
	if err != nil {
		return nil, err
	}
	return doc.Root.Value, nil
}

func checkKeyPatterns(raw any) error {
	switch v := raw.(type) {
	case []any:
		for _, item := range v {
			if err := checkKeyPatterns(item); err != nil {
				return err
			}
		}
	case map[string]any:
		patterns, _ := v["patternProperties"].(map[string]any)
		for _, p := range slices.Sorted(maps.Keys(patterns)) {
			if _, err := compilePattern(p); err != nil {
				return fmt.Errorf("patternProperties: %w", err)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := checkKeyPatterns(v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// at returns the part of the schema's own text that url points to.
func (s *Schema) at(url string) (map[string]any, bool) {
	fragment, ok := strings.CutPrefix(url, s.url+"#")
	pointer, err := neturl.PathUnescape(fragment)
	if !ok || err != nil || s.url == "" {
		return nil, false
	}
	v := s.raw
	for _, tok := range jsondoc.SplitPointer(pointer) {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[tok]
		case []any:
			i, err := strconv.Atoi(tok)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, false
			}
			v = parent[i]
		default:
			return nil, false
		}
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// known returns the sorted names of the properties that the schema at url has.
func (s *Schema) known(url string) []string {
	m, _ := s.at(url)
	props, _ := m["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(props))
}

// wants names the types, or else the values, that the schema at url demands of
// the property name.
func (s *Schema) wants(url, name string) []string {
	m, _ := s.at(url)
	props, _ := m["properties"].(map[string]any)
	prop, _ := props[name].(map[string]any)
	if ref, ok := prop["$ref"].(string); ok {
		prop, _ = s.at(s.url + ref)
	}
	if v, ok := prop["const"]; ok {
		return []string{show(v)}
	}
	if values, ok := prop["enum"].([]any); ok {
		return shown(values)
	}
	types, ok := prop["type"].([]any)
	if !ok {
		types = []any{prop["type"]}
	}
	var want []string
	for _, v := range types {
		if text, ok := v.(string); ok && text != "null" {
			want = append(want, text)
		}
	}
	return want
}

// isPlain reports whether v is a valid schema of draft 2020-12 that holds nothing
// but the common keywords, as nearly every tool's schema does. It is by far
// cheaper than the comparison with the metaschema, which takes some milliseconds
// in a program that has compared none yet. For any other schema, valid or not,
// it returns false.
func isPlain(v any) bool {
	if _, ok := v.(bool); ok {
		return true
	}
	members, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range members {
		switch key {
		case "type":
			ok = isType(value)
		case "properties":
			ok = arePlain(value)
		case "items", "additionalProperties":
			ok = isPlain(value)
		case "required":
			ok = areNames(value)
		case "enum":
			_, ok = value.([]any)
		case "description", "title":
			_, ok = value.(string)
		case "minimum", "maximum":
			_, ok = value.(json.Number)
		case "const", "default":
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

// arePlain reports whether v is an object of plain schemas.
func arePlain(v any) bool {
	members, ok := v.(map[string]any)
	for _, member := range members {
		ok = ok && isPlain(member)
	}
	return ok
}

// areNames reports whether v is an array of strings, none of them twice.
func areNames(v any) bool {
	items, ok := v.([]any)
	seen := map[any]bool{}
	for _, item := range items {
		if _, isText := item.(string); !isText || seen[item] {
			return false
		}
		seen[item] = true
	}
	return ok
}
