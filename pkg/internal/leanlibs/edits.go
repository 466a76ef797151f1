package main

import (
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A library is a module whose copy is changed.
type library struct {
	path  string // of the module
	dir   string // of the copy
	edits []edit
}

// An edit replaces every occurrence of old in a file, or in all Go files of a
// library that begin as file does with "*". Another number of occurrences means
// that the source is not the one that the edit was made for.
type edit struct {
	file     string
	count    int
	old, new string
}

var libraries = []library{
	// The work of the library's init function becomes work of a draft's first use.
	// Only the method getSchema hands compiled metaschemas out, so it compiles them
	// before it reads them. What is compiled goes into a field of its own: the keys
	// of allVocabs are read without a lock elsewhere. The field sch gets another
	// name, so that a use that no edit knows does not compile; of allVocabs, the
	// uses are counted.
	{path: jsonschema, dir: "jsonschema", edits: []edit{
		{"*.go", 1, "func init() {", "func init() {"},
		{"*.go", 11, "allVocabs", "allVocabs"},
		{"draft.go", 1, "package jsonschema\n", "// Changed from the original: a draft's metaschema is compiled on first use.\n\npackage jsonschema\n"},
		{"draft.go", 1, `"strings"` + "\n", `"strings"` + "\n\t" + `"sync"` + "\n"},
		{"draft.go", 1, "\tsch           *Schema\n", "\tonce sync.Once // guards meta and vocabs\n\tmeta *Schema\n\tvocabs map[string]*Schema\n"},
		{"draft.go", 1, "func init() {", "func (d *Draft) compile() { d.once.Do(d.compileOnce) }\n\nfunc (d *Draft) compileOnce() {"},
		{"draft.go", 1, "for _, d := range []*Draft{Draft4, Draft6, Draft7, Draft2019, Draft2020} {", "{\nd.vocabs = make(map[string]*Schema, len(d.allVocabs))"},
		{"draft.go", 1, "d.sch = c.MustCompile(d.url)", "d.meta = c.MustCompile(d.url)"},
		{"draft.go", 1, "d.allVocabs[name] = c.MustCompile(", "d.vocabs[name] = c.MustCompile("},
		{"draft.go", 1, "\tvocabs := d.activeVocabs(assertVocabs, vocabularies)\n", "\td.draft.compile()\n\tvocabs := d.activeVocabs(assertVocabs, vocabularies)\n"},
		{"draft.go", 2, "d.draft.sch", "d.draft.meta"},
		{"draft.go", 2, "sch := d.draft.allVocabs[", "sch := d.draft.vocabs["},
		{"position.go", 1, "package jsonschema\n", "// Changed from the original: no maps are made for places that a schema does not have.\n\npackage jsonschema\n"},
		{"position.go", 1, "m := p.collect(v, ptr)\n", "m := p.collect(v, ptr)\n\tif len(m) == 0 || len(sp) == 0 {\n\t\treturn m\n\t}\n"},
	}},
	// Its init functions do nothing but register how types are decoded. A function
	// named _ is compiled to nothing, and keeps the imports of its file in use.
	{path: openai, dir: "openai-go", edits: []edit{
		{"*.go", 247, "\nfunc init() {", "\nfunc _() {"},
	}},
	// It copies tasks by encoding/gob, whose tables and whose registered types are made at
	// start-up. A task is JSON on its way too, so JSON copies it as well. The work queue of
	// several servers, which nothing here uses, is left out.
	{path: a2a, dir: "a2a-go", edits: []edit{
		{"a2a/core.go", 1, "\t\"encoding/gob\"\n", ""},
		{"a2a/core.go", 1, "func init() {", "func _() {"},
		{"a2a/core.go", 4, "gob.Register(", "_ = ("},
		{"a2a/auth.go", 1, "\t\"encoding/gob\"\n", ""},
		{"a2a/auth.go", 2, "func init() {", "func _() {"},
		{"a2a/auth.go", 10, "gob.Register(", "_ = ("},
		{"a2asrv/taskstore/inmemory.go", 1, "\t\"encoding/gob\"\n", ""},
		{"a2asrv/taskstore/inmemory.go", 1, "func init() {", "func _() {"},
		{"a2asrv/taskstore/inmemory.go", 2, "gob.Register(", "_ = ("},
		{"internal/utils/utils.go", 1, "// DeepCopy uses gob", "// Changed from the original: a copy is made by JSON.\n\n// DeepCopy uses JSON in an"},
		{"internal/utils/utils.go", 1, "\t\"encoding/gob\"\n", ""},
		{"internal/utils/utils.go", 2, "gob.New", "json.New"},
		{"a2asrv/handler.go", 1, "package a2asrv\n", "// Changed from the original: there is no cluster mode.\n\npackage a2asrv\n"},
		{"a2asrv/handler.go", 1, "\tif h.workQueue != nil {\n", "\tif false {\n"},
	}},
	// It looks at the fields of its type Schema when it first needs them.
	{path: jsonschemaGo, dir: "jsonschema-go", edits: []edit{
		{"jsonschema/schema.go", 1, "package jsonschema\n", "// Changed from the original: the fields of Schema are looked at on first use.\n\npackage jsonschema\n"},
		{"jsonschema/schema.go", 1, "\"slices\"\n", "\"slices\"\n\"sync\"\n"},
		{"jsonschema/schema.go", 1, "\nfunc init() {\n", "\nvar fields = sync.OnceValue(readFields)\n\nfunc readFields() []structFieldInfo {\n"},
		{"jsonschema/schema.go", 1, "for _, info := range schemaFieldInfos {\n\t\tschemaFieldMap[info.jsonName] = info.sf\n\t}\n", "infos := schemaFieldInfos\n\tfor _, info := range infos {\n\t\tschemaFieldMap[info.jsonName] = info.sf\n\t}\n\treturn infos\n"},
		{"*.go", 4, "range schemaFieldInfos {", "range fields() {"},
		{"jsonschema/json_pointer.go", 1, "schemaFieldMap[name]; ok {", "fieldNamed(name); ok {"},
		{"jsonschema/json_pointer.go", 1, "\nfunc escapeJSONPointerSegment(", "\nfunc fieldNamed(name string) (reflect.StructField, bool) {\n\tfields()\n\tsf, ok := schemaFieldMap[name]\n\treturn sf, ok\n}\n\nfunc escapeJSONPointerSegment("},
	}},
	// It knows the types of html/template, of which nothing here has a value.
	{path: cast, dir: "cast", edits: []edit{
		{"caste.go", 1, "package cast\n", "// Changed from the original: values of html/template are not known.\n\npackage cast\n"},
		{"caste.go", 1, "\t\"html/template\"\n", ""},
		{"caste.go", 5, "case template.", "case other"},
		{"caste.go", 1, "\nvar errNegativeNotAllowed =", "\ntype (\notherHTML string\notherURL string\notherJS string\notherCSS string\notherHTMLAttr string\n)\n\nvar errNegativeNotAllowed ="},
	}},
	// Its patterns for script files are compiled when they are first needed.
	{path: shell, dir: "sh", edits: []edit{
		{"fileutil/file.go", 1, "package fileutil\n", "// Changed from the original: patterns are compiled on first use.\n\npackage fileutil\n"},
		{"fileutil/file.go", 1, "\"strings\"\n", "\"strings\"\n\"sync\"\n"},
		{"fileutil/file.go", 1, "shebangRe = regexp.MustCompile(", "shebangRe = pattern("},
		{"fileutil/file.go", 1, "extRe     = regexp.MustCompile(", "extRe     = pattern("},
		{"fileutil/file.go", 1, "m := shebangRe.", "m := shebangRe()."},
		{"fileutil/file.go", 1, "case extRe.", "case extRe()."},
		{"fileutil/file.go", 1, "\n// HasShebang reports", "\nfunc pattern(text string) func() *regexp.Regexp {\n\treturn sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })\n}\n\n// HasShebang reports"},
	}},
}

func (lib *library) apply(dir string) error {
	texts := map[string]string{} // by path below dir
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		texts[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, e := range lib.edits {
		n := 0
		for name, text := range texts {
			if e.file == "*.go" || e.file == name {
				if found := strings.Count(text, e.old); found > 0 {
					n += found
					texts[name], changed[name] = strings.ReplaceAll(text, e.old, e.new), true
				}
			}
		}
		if n != e.count {
			return fmt.Errorf("%s/%s: %q occurs %d times, not %d: the library has changed, and the edit must be made anew", lib.path, e.file, e.old, n, e.count)
		}
	}
	for name := range changed {
		text, err := format.Source([]byte(texts[name]))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", lib.path, name, err)
		}
	}
	return nil
}
