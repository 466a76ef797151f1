package main

import (
	"errors"
	"maps"
	"slices"
)

const (
	// googleSchema is the path of the module, and with /jsonschema of the package,
	// with which mcp-go makes schemas of Go types.
	googleSchema = "github.com/google/jsonschema-go"
	// cast is the module path of the library that converts values for mcp-go.
	cast = "github.com/spf13/cast"
)

// googleEdits turn the work of an init function, which looks up all fields of a
// large struct, and that of a regular expression into work of the first use. The
// variables become functions, so that a use that no edit knows does not compile.
var googleEdits = map[string][]edit{
	"jsonschema/schema.go": {
		{old: "package jsonschema\n", count: 1, new: "// Changed from the original: the fields are looked up on first use.\n\npackage jsonschema\n"},
		{old: "\t\"slices\"\n", count: 1, new: "\t\"slices\"\n\t\"sync\"\n"},
		{old: "range schemaFieldInfos {\n\t\tfv", count: 2, new: "range fieldInfos() {\n\t\tfv"},
		{old: "\n\tschemaFieldInfos []structFieldInfo\n", count: 1, new: "\n"},
		{old: "\tschemaFieldMap = map[string]reflect.StructField{}\n", count: 1, new: ""},
		{old: "func init() {\n", count: 1, new: `func fieldInfos() []structFieldInfo {
	infos, _ := findFields()
	return infos
}

func fieldMap() map[string]reflect.StructField {
	_, m := findFields()
	return m
}

var findFields = sync.OnceValues(func() (schemaFieldInfos []structFieldInfo, schemaFieldMap map[string]reflect.StructField) {
	schemaFieldMap = map[string]reflect.StructField{}
`},
		{old: "\t\tschemaFieldMap[info.jsonName] = info.sf\n\t}\n}", count: 1, new: "\t\tschemaFieldMap[info.jsonName] = info.sf\n\t}\n\treturn\n})"},
	},
	"jsonschema/infer.go": {
		{old: "range schemaFieldInfos", count: 1, new: "range fieldInfos()"},
		{old: "if disallowedPrefixRegexp.", count: 1, new: "if disallowedPrefixRegexp()."},
		{old: "var disallowedPrefixRegexp = regexp.MustCompile(\"^[^ \\t\\n]*=\")", count: 1,
			new: "var disallowedPrefixRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(\"^[^ \\t\\n]*=\") })"},
		{old: "\t\"regexp\"\n", count: 1, new: "\t\"regexp\"\n\t\"sync\"\n"},
	},
	"jsonschema/resolve.go":      {{old: "range schemaFieldInfos", count: 1, new: "range fieldInfos()"}},
	"jsonschema/json_pointer.go": {{old: ":= schemaFieldMap[", count: 1, new: ":= fieldMap()["}},
}

// castEdits take html/template out, whose init functions fill maps and which links
// text/template. A program without it has no value of its types to convert.
var castEdits = map[string][]edit{
	"caste.go": {
		{old: "package cast\n", count: 1, new: "// Changed from the original: the types of html/template are not known.\n\npackage cast\n"},
		{old: "\t\"html/template\"\n", count: 1},
		{old: templateCase("HTML"), count: 1},
		{old: templateCase("URL"), count: 1},
		{old: templateCase("JS"), count: 1},
		{old: templateCase("CSS"), count: 1},
		{old: templateCase("HTMLAttr"), count: 1},
	},
}

func templateCase(name string) string {
	return "\tcase template." + name + ":\n\t\treturn string(s), nil\n"
}

func patchGoogleSchema(dir string) error { return editFiles(dir, googleSchema, googleEdits) }

func patchCast(dir string) error { return editFiles(dir, cast, castEdits) }

// editFiles makes the edits of each file.
func editFiles(dir, lib string, edits map[string][]edit) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		errs = append(errs, editFile(dir, lib, name, edits[name]))
	}
	return errors.Join(errs...)
}
