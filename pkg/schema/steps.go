package schema

import (
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// References that branch can double the work of a comparison at each step, so that a
// schema of a few lines takes for ever. Nothing can end a comparison from outside;
// so the parts of such a schema count steps, and the one too many ends it.
const (
	fewestSteps   = 1 << 15
	stepsPerValue = 64 // of the document
)

// A meter counts the steps of one comparison at a time.
type meter struct {
	mu   sync.Mutex
	left int
}

// errSteps is what a meter panics with: the comparison has no other way out.
var errSteps = new(int)

// A part is a part of a schema. It costs a step, and one more for each other part that
// every value is compared with.
type part struct {
	meter *meter
	cost  int
}

// Validate implements jsonschema.SchemaExt.
func (p *part) Validate(*jsonschema.ValidatorContext, any) {
	if p.meter.left -= p.cost; p.meter.left < 0 {
		panic(errSteps)
	}
}

// metered makes the parts of s that lie under url count their steps, if a reference is
// among them: without one no part is visited twice for a value. What lies elsewhere,
// a metaschema, belongs to everybody and is not touched.
func metered(s *jsonschema.Schema, url string) *meter {
	m := &meter{}
	refers := false
	parts := map[*jsonschema.Schema]bool{}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if s == nil || parts[s] || !strings.HasPrefix(s.Location, url+"#") {
			return
		}
		parts[s] = true
		refers = refers || s.Ref != nil || s.RecursiveRef != nil || s.DynamicRef != nil
		for _, b := range branches(s) {
			visit(b)
		}
	}
	visit(s)
	if !refers {
		return nil
	}
	for s := range parts {
		s.Extensions = append(s.Extensions, &part{m, 1 + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf) + len(s.PatternProperties)})
	}
	return m
}

// branches are the parts that s consists of.
func branches(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{
		s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema,
	}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	for _, more := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		list = append(list, more...)
	}
	for _, more := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, b := range more {
			list = append(list, b)
		}
	}
	for _, b := range s.PatternProperties {
		list = append(list, b)
	}
	some := []any{s.AdditionalProperties, s.Items, s.AdditionalItems}
	for _, b := range s.Dependencies {
		some = append(some, b)
	}
	for _, v := range some {
		switch v := v.(type) {
		case *jsonschema.Schema:
			list = append(list, v)
		case []*jsonschema.Schema:
			list = append(list, v...)
		}
	}
	there := list[:0]
	for _, b := range list {
		if b != nil {
			there = append(there, b)
		}
	}
	return there
}

// compare compares v with the schema. ok is false if that takes too many steps.
func (s *Schema) compare(v any) (ok bool, err error) {
	if s.meter == nil {
		return true, s.compiled.Validate(v)
	}
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	defer func() {
		if r := recover(); r != nil && r != any(errSteps) {
			panic(r)
		}
	}()
	s.meter.left = fewestSteps + stepsPerValue*values(v)
	err = s.compiled.Validate(v)
	return true, err
}

// values counts v and what is in it.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += values(item)
		}
	case map[string]any:
		for _, item := range v {
			n += values(item)
		}
	}
	return n
}
