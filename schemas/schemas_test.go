package schemas_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

var update = flag.Bool("update", false, "write the expected messages")

// byPrefix are the schemas of the files in testdata, by the first word of their
// names.
var byPrefix = map[string]string{
	"agent":   schemas.AgentName,
	"tool":    schemas.ToolDescriptionName,
	"keys":    schemas.KeysName,
	"cfg":     schemas.CfgName,
	"session": schemas.SessionName,
	"prices":  schemas.PricesName,
	"lock":    schemas.LockName,
	"step":    schemas.StepName,
	"toolkit": schemas.ToolkitName,
	"remote":  schemas.RemoteAgentName,
	"acp":     schemas.ACPAgentName,

	"agenttest": schemas.AgentTestName,
}

func compileFor(t *testing.T, file string) *schema.Schema {
	t.Helper()
	prefix, _, _ := strings.Cut(filepath.Base(file), "-")
	doc, err := schemas.Read(byPrefix[prefix])
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.CompileTrusted(byPrefix[prefix], doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob(%q) = %v, %v, want files", pattern, files, err)
	}
	return files
}

func TestEverySchemaIsValid(t *testing.T) {
	names := schemas.Names()
	for _, name := range byPrefix {
		if !strings.Contains(strings.Join(names, " "), name) {
			t.Errorf("Names() = %v, want %s in it", names, name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			doc, err := schemas.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			// Compile compares the schema with the metaschema of 2020-12.
			if _, err := schema.Compile(name, doc); err != nil {
				t.Error(err)
			}
			var head struct {
				Schema      string `json:"$schema"`
				ID          string `json:"$id"`
				Title       string
				Description string
				Properties  map[string]any
			}
			if err := json.Unmarshal(doc, &head); err != nil {
				t.Fatal(err)
			}
			if head.Schema != "https://json-schema.org/draft/2020-12/schema" {
				t.Errorf("$schema = %q", head.Schema)
			}
			if !strings.HasSuffix(head.ID, "/schemas/"+name) {
				t.Errorf("$id = %q, want it to end in the file's name", head.ID)
			}
			if head.Title == "" || head.Description == "" {
				t.Error("title or description is missing")
			}
			if name != schemas.ToolDescriptionName && name != schemas.SessionName && name != schemas.StepName && head.Properties["$schema"] == nil {
				t.Error("files may not say $schema")
			}
		})
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, name := range byPrefix {
		doc, err := schemas.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		var root map[string]any
		if err := json.Unmarshal(doc, &root); err != nil {
			t.Fatal(err)
		}
		var walk func(at string, v any)
		walk = func(at string, v any) {
			switch v := v.(type) {
			case []any:
				for _, item := range v {
					walk(at, item)
				}
			case map[string]any:
				conditional := strings.Contains(at, "/if") || strings.Contains(at, "/then") || strings.Contains(at, "/else")
				if props, ok := v["properties"].(map[string]any); ok && !conditional {
					for key, prop := range props {
						m, _ := prop.(map[string]any)
						if _, ref := m["$ref"]; m["description"] == nil && !ref {
							t.Errorf("%s: %s/properties/%s has no description", name, at, key)
						}
					}
				}
				for key, child := range v {
					walk(at+"/"+key, child)
				}
			}
		}
		walk("", root)
	}
}

func TestGoodFilesHaveNoProblem(t *testing.T) {
	for _, file := range glob(t, "testdata/good/*.json") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range compileFor(t, file).Check(text) {
				t.Errorf("%s:%s", file, p)
			}
		})
	}
}

func TestBadFilesAreToldByLineAndKey(t *testing.T) {
	for _, file := range glob(t, "testdata/bad/*.json") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, p := range compileFor(t, file).Check(text) {
				got.WriteString(filepath.Base(file) + ":" + p.String() + "\n")
			}
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.Len() == 0 {
				t.Error("no problem was found")
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

func TestReadOfAnUnknownNameIsAnError(t *testing.T) {
	if doc, err := schemas.Read("other.schema.json"); err == nil {
		t.Errorf("Read = %d bytes, want an error", len(doc))
	}
}

func BenchmarkCompileAgent(b *testing.B) {
	for b.Loop() {
		if _, err := schema.CompileTrusted("agent", schemas.Agent()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckAgentFile(b *testing.B) {
	s, err := schema.CompileTrusted("agent", schemas.Agent())
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile("testdata/good/agent-boxes.json")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.Check(text)
	}
}

// TestAgentFilesAgainstPartsOfTheSchema changes each value of each agent file, and expects
// of schema.Own, which looks at parts of the schema first, what the whole schema reports.
func TestAgentFilesAgainstPartsOfTheSchema(t *testing.T) {
	whole, err := schema.CompileTrusted(schemas.AgentName, schemas.Agent())
	if err != nil {
		t.Fatal(err)
	}
	own := schema.Own{Name: schemas.AgentName, Text: schemas.Agent}
	compare := func(text []byte) {
		doc, err := schema.Parse(text)
		if err != nil {
			return // a file with a syntax error is compared with no schema
		}
		if diff := cmp.Diff(whole.CheckDocument(doc), own.CheckDocument(doc)); diff != "" {
			t.Errorf("%s (-whole +own):\n%s", text, diff)
		}
	}
	for _, file := range glob(t, "testdata/good/agent-*.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compare(text)
		var root any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		changeEach(root, func() {
			changed, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			compare(changed)
		})
	}
}

// changeEach calls try with each member of v in turn left out and replaced by a number.
func changeEach(v any, try func()) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			old := v[key]
			changeEach(old, try)
			delete(v, key)
			try()
			v[key] = 1
			try()
			v[key] = old
		}
	case []any:
		for i, old := range v {
			changeEach(old, try)
			v[i] = 1
			try()
			v[i] = old
		}
	}
}
