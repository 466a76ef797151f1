package openapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

// describe returns a document in which each operation has an operationId; where is its path.
func describe(operations map[string]string, more string) string {
	var paths []string
	for _, path := range sorted(operations) {
		paths = append(paths, fmt.Sprintf("%q:%s", path, operations[path]))
	}
	return `{"openapi":"3.1.0","paths":{` + strings.Join(paths, ",") + `}` + more + `}`
}

// TestReferencesIntoLists: programs that join the files of a document refer to the parameters and
// schemas of other operations by their position.
func TestReferencesIntoLists(t *testing.T) {
	owner := `{"parameters":[{"name":"x","in":"query","description":"the x","schema":{"anyOf":[{"type":"integer","description":"a number"},{"type":"string"}]}}],
		"get":{"operationId":"a","parameters":[{"name":"y","in":"query","schema":{"allOf":[{"type":"boolean","description":"the y"}]}}]}}`
	for ref, want := range map[string]string{
		`{"$ref":"#/paths/~1a/parameters/0"}`:                                                       "the x",
		`{"$ref":"#/paths/~1a/get/parameters/0"}`:                                                   "the y",
		`{"name":"z","in":"query","schema":{"$ref":"#/paths/~1a/parameters/0/schema/anyOf/0"}}`:     "a number",
		`{"name":"z","in":"query","schema":{"$ref":"#/paths/~1a/get/parameters/0/schema/allOf/0"}}`: "the y",
	} {
		b := open(t, describe(map[string]string{"/a": owner, "/b": `{"get":{"operationId":"b","parameters":[` + ref + `]}}`}, ""), companion.OpenAPI{BaseURL: "https://a.example"}, nil)
		if got := string(b.tool(t, "b").Spec().Schema); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q in it", ref, got, want)
		}
	}
	for _, ref := range []string{"#/paths/~1a/parameters/1", "#/paths/~1a/parameters/-1", "#/paths/~1a/parameters/x", "#/paths/~1a/parameters/0/0"} {
		b := open(t, describe(map[string]string{"/a": owner, "/b": `{"get":{"parameters":[{"$ref":"` + ref + `"}]}}`}, ""), companion.OpenAPI{BaseURL: "https://a.example"}, nil)
		if want := "GET /b: " + ref + " is not in the document"; !slices.Contains(b.Skipped, want) {
			t.Errorf("skipped: %q, want %q", b.Skipped, want)
		}
	}
}

