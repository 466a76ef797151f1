package schema

import (
	"sync"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// An Own checks files against a schema that is part of the program. Compiling a large
// schema takes longer than everything else that is done with a small file. So a file is
// first checked against the parts that can apply to it, and against the whole schema only
// if it has problems. An Own is safe for concurrent use; its fields must not change after
// the first use.
type Own struct {
	Name string        // for errors
	Text func() []byte // a schema as CompileTrusted takes it

	decode, compile sync.Once
	raw             any
	size            int
	whole           *Schema
}

// CheckDocument is Schema.CheckDocument. It panics if the schema is invalid.
func (o *Own) CheckDocument(doc *jsondoc.Document) []Problem {
	o.decode.Do(func() {
		var err error
		if o.raw, o.size, err = decodeSchema(o.Text()); err != nil {
			panic(err)
		}
	})
	keys := map[string]bool{}
	addKeys(keys, doc.Root.Value)
	part, err := compileValue(o.Name, onlyProperties(o.raw, keys), o.size, nil)
	if err == nil && len(part.CheckDocument(doc)) == 0 { // err: a $ref below a property that was left out
		return nil
	}
	o.compile.Do(func() {
		if o.whole, err = compileValue(o.Name, o.raw, o.size, nil); err != nil {
			panic(err)
		}
	})
	return o.whole.CheckDocument(doc)
}

// addKeys adds the keys of every object in v.
func addKeys(keys map[string]bool, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			keys[key] = true
			addKeys(keys, member)
		}
	case []any:
		for _, item := range v {
			addKeys(keys, item)
		}
	}
}

// onlyProperties returns a schema without the properties that are not among keys. Values
// without these properties are valid for it if they are valid for the schema.
func onlyProperties(v any, keys map[string]bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			properties, ok := member.(map[string]any)
			if key != "properties" || !ok {
				out[key] = onlyProperties(member, keys)
				continue
			}
			kept := map[string]any{}
			for name, property := range properties {
				if keys[name] {
					kept[name] = onlyProperties(property, keys)
				}
			}
			out[key] = kept
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = onlyProperties(item, keys)
		}
		return out
	}
	return v
}
