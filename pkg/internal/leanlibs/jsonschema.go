package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

// jsonschema is the import path of the JSON Schema jsonschema, which is its module
// path too.
const jsonschema = "github.com/santhosh-tekuri/jsonschema/v6"

// draftEdits turn the work of the library's init function, which compiles the
// metaschemas and the vocabularies of five drafts, into work of a draft's first
// use. Only the method getSchema hands compiled metaschemas out, so it compiles
// them before it reads them. What is compiled goes into a field of its own: the
// keys of allVocabs are read without a lock elsewhere. The field sch gets another
// name, so that a use that no edit knows does not compile.
var draftEdits = []edit{
	{old: "package jsonschema\n", count: 1, new: "// Changed from the original: a draft's metaschema is compiled on first use.\n\npackage jsonschema\n"},
	{old: `"strings"` + "\n", count: 1, new: `"strings"` + "\n\t" + `"sync"` + "\n"},
	{old: "\tsch           *Schema\n", count: 1, new: "\tonce sync.Once // guards meta and vocabs\n\tmeta *Schema\n\tvocabs map[string]*Schema\n"},
	{old: "func init() {", count: 1, new: "func (d *Draft) compile() { d.once.Do(d.compileOnce) }\n\nfunc (d *Draft) compileOnce() {"},
	{old: "for _, d := range []*Draft{Draft4, Draft6, Draft7, Draft2019, Draft2020} {", count: 1, new: "{\nd.vocabs = make(map[string]*Schema, len(d.allVocabs))"},
	{old: "d.sch = c.MustCompile(d.url)", count: 1, new: "d.meta = c.MustCompile(d.url)"},
	{old: "d.allVocabs[name] = c.MustCompile(", count: 1, new: "d.vocabs[name] = c.MustCompile("},
	{old: "\tvocabs := d.activeVocabs(assertVocabs, vocabularies)\n", count: 1, new: "\td.draft.compile()\n\tvocabs := d.activeVocabs(assertVocabs, vocabularies)\n"},
	{old: "d.draft.sch", count: 2, new: "d.draft.meta"},
	{old: "sch := d.draft.allVocabs[", count: 2, new: "sch := d.draft.vocabs["},
}

// outputEdits and the package of messages below take the place of
// golang.org/x/text/message. What the library says in a language of the reader's
// choice is shown nowhere: pkg/schema has words of its own.
var outputEdits = []edit{
	{old: "\t\"golang.org/x/text/language\"\n", count: 1},
	{old: "message.NewPrinter(language.English)", count: 1, new: "new(message.Printer)"},
}

const (
	xtextMessage = "golang.org/x/text/message"
	ownMessage   = jsonschema + "/message"
	messageFile  = `// Package message prints English only. It is not part of the original.
package message

import "fmt"

type Printer struct{}

func (*Printer) Sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }
`
)

// patchJSONSchema edits the library in the folder dir in place.
func patchJSONSchema(dir string) error {
	err := errors.Join(editFile(dir, jsonschema, "draft.go", draftEdits), editFile(dir, jsonschema, "output.go", outputEdits))
	if err != nil {
		return err
	}
	if err := printPlainly(dir); err != nil {
		return err
	}
	return check(dir)
}

// printPlainly makes the library in dir import the package of messages above.
func printPlainly(dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "message"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "message", "message.go"), []byte(messageFile), 0o644); err != nil {
		return err
	}
	return eachGoFile(dir, func(path string, text []byte) ([]byte, error) {
		return bytes.ReplaceAll(text, []byte(strconv.Quote(xtextMessage)), []byte(strconv.Quote(ownMessage))), nil
	})
}

// check makes sure of what the edits assume about the rest of the package: that
// nothing else runs at start-up, and that no other place reads compiled
// vocabularies where they no longer are.
func check(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	reads := 0
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				return fmt.Errorf("%s/%s: an init function that the patch does not know", jsonschema, filepath.Base(name))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "allVocabs" {
				reads++
			}
			return true
		})
	}
	// Its length and its keys while compiling, and one look-up of a name.
	if reads != 3 {
		return fmt.Errorf("%s: the patched package reads allVocabs at %d places, not 3: the patch must be made anew", jsonschema, reads)
	}
	return nil
}
