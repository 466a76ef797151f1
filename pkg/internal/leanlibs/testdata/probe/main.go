// Command probe compiles and checks what it finds in the test data of the JSON
// Schema library (its folder is the one argument) and some schemas of its own, all
// at once, and prints every outcome. Two builds of the library agree when they
// print the same. A second pass, one by one, must agree with the first.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// An item is a schema and documents to hold against it.
type item struct {
	name   string
	draft  *jsonschema.Draft
	schema any
	docs   []any
}

var drafts = []*jsonschema.Draft{
	jsonschema.Draft4, jsonschema.Draft6, jsonschema.Draft7, jsonschema.Draft2019, jsonschema.Draft2020,
}

func main() {
	items := own()
	for _, pattern := range []string{"invalid_schemas.json", "Extra-Test-Suite/tests/*/*.json", "Extra-Test-Suite/tests/*/*/*.json", "Extra-Test-Suite/tests/*/*/*/*.json"} {
		files, err := filepath.Glob(filepath.Join(os.Args[1], filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			fmt.Println("no test data:", pattern, err)
			os.Exit(1)
		}
		for _, file := range files {
			items = append(items, read(file)...)
		}
	}
	atOnce := make([]string, len(items))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, it := range items {
		all.Go(func() {
			<-start
			atOnce[i] = it.outcome()
		})
	}
	close(start)
	all.Wait()
	for i, it := range items {
		fmt.Printf("%s\n%s", it.name, atOnce[i])
		if again := it.outcome(); again != atOnce[i] {
			fmt.Printf("DIFFERS one by one:\n%s", again)
			os.Exit(1)
		}
	}
}

// own makes the same items for every draft: good and bad schemas, the metaschema
// itself as a schema, formats, and a metaschema that names its vocabularies.
func own() []item {
	var items []item
	for _, d := range drafts {
		for i, text := range []string{
			`{"type":"object","properties":{"a":{"type":"integer","minimum":0}},"required":["a"]}`,
			`{"$ref":"#/definitions/x","definitions":{"x":{"enum":[1,"a",null]}}}`,
			`{"type":12}`, `{"properties":[]}`, `{"$ref":"#/nowhere"}`, `{"pattern":"("}`, `{"$schema":7}`,
			`{"format":"email"}`, `{"$ref":"` + d.String() + `"}`, `{"$schema":"mem:///meta","type":"string"}`,
		} {
			docs := []any{parse(`{"a":1}`), parse(`{"a":-1}`), parse(`{"type":12}`), parse(`{"type":"string","pattern":"("}`), "a", "a@b.example", nil}
			items = append(items, item{fmt.Sprintf("own %s %d", d, i), d, parse(text), docs})
		}
	}
	return items
}

// read makes items of a file of the library's test data.
func read(file string) []item {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var groups []struct {
		Description string
		Schema      json.RawMessage
		Tests       []struct{ Data json.RawMessage }
	}
	if err := json.Unmarshal(text, &groups); err != nil {
		panic(err)
	}
	draft := jsonschema.Draft2020
	for _, d := range drafts {
		if year := strings.Trim(filepath.Base(filepath.Dir(d.String())), "draft-0"); strings.Contains(file, "draft"+year) {
			draft = d
		}
	}
	var items []item
	for _, g := range groups {
		it := item{name: filepath.Base(file) + " " + g.Description, draft: draft, schema: parse(string(g.Schema))}
		for _, t := range g.Tests {
			it.docs = append(it.docs, parse(string(t.Data)))
		}
		items = append(items, it)
	}
	return items
}

// outcome compiles the schema with a compiler of its own and validates.
func (it item) outcome() string {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(it.draft)
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	vocab := strings.TrimSuffix(it.draft.String(), "schema") + "vocab/"
	meta := parse(`{"$schema":"` + it.draft.String() + `","$vocabulary":{"` + vocab + `core":true,"` + vocab + `validation":true}}`)
	for url, doc := range map[string]any{"mem:///meta": meta, "mem:///schema": it.schema} {
		if err := c.AddResource(url, doc); err != nil {
			return fmt.Sprintln(" ", err)
		}
	}
	sch, err := c.Compile("mem:///schema")
	out := text(err)
	if err != nil {
		return out
	}
	for _, doc := range it.docs {
		out += text(sch.Validate(doc))
	}
	return out
}

// text is an error without what depends on the order of a map: lines are sorted,
// and of an error that names one of several places only the type is told.
func text(err error) string {
	switch err.(type) {
	case nil:
		return "  valid\n"
	case *jsonschema.ValidationError, *jsonschema.SchemaValidationError:
		lines := strings.Split(err.Error(), "\n")
		slices.Sort(lines)
		return "  " + strings.Join(lines, "\n  ") + "\n"
	default:
		return fmt.Sprintf("  %T\n", err)
	}
}

func parse(text string) any {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	return doc
}
