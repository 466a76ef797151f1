package openapi

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/schema"
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

// TestQueriesOfPaths: a path with a query keeps it, beside that of the address and the parameters.
func TestQueriesOfPaths(t *testing.T) {
	for _, path := range []string{"/a", "/a?lifecycle", "/a?kind=x&all=true", "/{id}?kind=x"} {
		for _, base := range []string{"", "/v1", "/v1?key=1"} {
			for _, args := range []string{`{"p_id":"a"}`, `{"p_id":"a","p_q":"1"}`} {
				b := open(t, describe(map[string]string{path: `{"delete":{"operationId":"op","parameters":[{"name":"id","in":"path"},{"name":"q","in":"query"}]}}`}, ""), companion.OpenAPI{BaseURL: base}, echo)
				got, err := b.call(t, "op", args)
				_, query, _ := strings.Cut(strings.TrimPrefix(got, "HTTP 200\nDELETE "), "?")
				for _, part := range []string{path, base} {
					_, want, _ := strings.Cut(part, "?")
					if !strings.Contains(query, want) {
						t.Errorf("%s of %q with %s: %q, %v, want %q in the query", path, base, args, got, err, want)
					}
				}
				if strings.Contains(args, "p_q") != strings.Contains(query, "q=1") {
					t.Errorf("%s of %q with %s: %q, %v", path, base, args, got, err)
				}
			}
		}
	}
}

// TestArgumentsInQueriesOfPaths: an argument is one value, whatever it contains.
func TestArgumentsInQueriesOfPaths(t *testing.T) {
	for _, path := range []string{"/a?id={id}", "/{id}?id={id}&all", "/a?x=1&id={id}"} {
		for _, value := range []string{"a", "1&force=true", "a+b", "a b", "50%", "?", "#x", "a;b", "é", "{q}"} {
			b := open(t, describe(map[string]string{path: `{"delete":{"operationId":"op","parameters":[{"name":"id","in":"path"},{"name":"q","in":"path"}]}}`}, ""), companion.OpenAPI{BaseURL: "/v1"}, echo)
			args, _ := json.Marshal(map[string]string{"p_id": value, "p_q": "q"})
			got, err := b.call(t, "op", string(args))
			u, parseErr := url.Parse(strings.TrimPrefix(got, "HTTP 200\nDELETE "))
			if err != nil || parseErr != nil || u.Query().Get("id") != value || u.Query().Has("force") {
				t.Errorf("%s with %s: %q, %v", path, args, got, err)
			}
		}
	}
}

// TestAddressesOfDocuments: the document is read from the address that the entry has.
func TestAddressesOfDocuments(t *testing.T) {
	for _, path := range []string{"/", "/schema", "/schema/", "/schema/?format=json", "/a%2Fb/"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RequestURI() != path {
				http.NotFound(w, r)
			}
			io.WriteString(w, tiny)
		}))
		if _, err := Open(t.Context(), companion.OpenAPI{Document: server.URL + path}, nil, noProxy); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		server.Close()
	}
}

// TestArgumentsOfSimilarParameters: each parameter has an argument of its own.
func TestArgumentsOfSimilarParameters(t *testing.T) {
	for _, names := range [][]string{{"t<", "t>", "t=", "t!", "t_"}, {"名前", "住所", "電話"}, {"a.b", "a b", "a_b", "a_b_query", "a_b_2", "a-b"}} {
		var parameters []string
		for _, name := range names {
			parameters = append(parameters, fmt.Sprintf(`{"name":%q,"in":"query"}`, name))
		}
		b := open(t, describe(map[string]string{"/a": `{"get":{"operationId":"a","parameters":[` + strings.Join(parameters, ",") + `]}}`}, ""), companion.OpenAPI{}, echo)
		args, want := map[string]string{}, url.Values{}
		for i, p := range b.Tools[0].(*tool).op.parameters {
			args[p.arg] = fmt.Sprint(i)
			want.Set(p.name, fmt.Sprint(i))
		}
		data, _ := json.Marshal(args)
		got, err := b.call(t, "a", string(data))
		if _, query, _ := strings.Cut(got, "?"); err != nil || len(args) != len(names) || !sameQuery(query, want) {
			t.Errorf("%q with the arguments %s: %q, %v", names, data, got, err)
		}
	}
}

func sameQuery(query string, want url.Values) bool {
	got, err := url.ParseQuery(query)
	return err == nil && got.Encode() == want.Encode()
}

// TestTablesAreNotChangedWithoutAFilter: what only says which columns and how many rows are returned
// is no filter.
func TestTablesAreNotChangedWithoutAFilter(t *testing.T) {
	var sent []string
	b := open(t, "postgrest.json", companion.OpenAPI{Name: "postgrest_postgrest", PostgREST: true, Methods: []string{"PATCH", "DELETE"}}, func(_ http.ResponseWriter, r *http.Request) { sent = append(sent, r.URL.String()) })
	for _, tool := range []string{"patch_users", "delete_users"} {
		for _, args := range []string{`{"filters":{"select":"*"}}`, `{"filters":{"limit":1}}`, `{"filters":{"order":"id","offset":0}}`, `{"filters":{"columns":"name"}}`, `{"filters":{"on_conflict":"id"}}`,
			`{"filters":{"select":"*,actors(*)","actors.limit":1}}`, `{"filters":{"actors.id":"eq.1"}}`, `{"filters":{"actors.or":"(id.eq.1)"}}`, `{"filters":{"":"x"}}`, `{"filters":{"apikey":"x"}}`, `{"filters":{"Select":"id"}}`, `{"filters":{"ID":"eq.1"}}`, `{"filters":{"other->id":"eq.1"}}`,
			`{"arguments":{"id":"eq.1"}}`, `{"arguments":{"x":1},"filters":{"limit":"1"}}`, `{"subset":{"limit":1}}`, `{}`} {
			if _, err := b.call(t, tool, args); err == nil || !strings.Contains(err.Error(), "without one, the call would change every row") {
				t.Errorf("%s %s: %v", tool, args, err)
			}
		}
		if len(sent) > 0 {
			t.Errorf("%s: sent %q", tool, sent)
		}
		for _, args := range []string{`{"filters":{"id":"eq.1"}}`, `{"filters":{"id":"eq.1","limit":1,"order":"id"}}`, `{"filters":{"or":"(id.eq.1,id.eq.2)"}}`, `{"filters":{"not.and":"(id.eq.1,id.eq.2)"}}`, `{"filters":{"id->a->>b":"eq.1"}}`} {
			if _, err := b.call(t, tool, args); err != nil {
				t.Errorf("%s %s: %v", tool, args, err)
			}
		}
		sent = nil
	}
}

// TestWordsOfOtherTypes: a word of a schema whose value has the wrong type counts as absent. Servers of
// models refuse every request that has such a schema.
func TestWordsOfOtherTypes(t *testing.T) {
	values := []string{`"x"`, `"1"`, `""`, `true`, `1`, `-1`, `1.5`, `1e400`, `{}`, `{"a":1}`, `[]`, `[1]`, `[{}]`, `[null]`, `["a","a"]`}
	for _, word := range []string{"default", "const", "format", "enum", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "description", "required", "properties", "items",
		"additionalProperties", "type", "anyOf", "oneOf", "allOf", "nullable", "readOnly", "$ref"} {
		for _, value := range values {
			one := fmt.Sprintf(`{%q:%s}`, word, value)
			b := open(t, describe(map[string]string{"/a": fmt.Sprintf(`{"post":{"operationId":"a","parameters":[{"name":"x","in":"query","schema":%[1]s}],
				"requestBody":{"content":{"application/json":{"schema":{"properties":{"inner":%[1]s}}}}}}}`, one)}, ""), companion.OpenAPI{BaseURL: "https://x.example"}, nil)
			spec := b.tool(t, "a").Spec()
			if _, err := schema.Compile(spec.Name, spec.Schema); err != nil {
				t.Errorf("%s: %v", one, err)
			}
		}
	}
	const good = `{"default":1,"enum":[1,2],"format":"int32","maxItems":5,"maxLength":9,"maximum":2.5,"minItems":0,"minLength":1,"minimum":-1,"type":"integer"}`
	b := open(t, describe(map[string]string{"/a": `{"get":{"operationId":"a","parameters":[{"name":"x","in":"query","schema":` + good + `}]}}`}, ""), companion.OpenAPI{BaseURL: "https://x.example"}, nil)
	if got := string(b.tool(t, "a").Spec().Schema); !strings.Contains(got, good) {
		t.Errorf("%s, want %s in it", got, good)
	}
}

// TestWideSchemas: of a schema with more properties than fit into a tool, no more than these are read.
func TestWideSchemas(t *testing.T) {
	for _, n := range []int{maxNodes - 1, maxNodes, 10 * maxNodes} {
		wide := map[string]any{}
		for i := range n {
			wide[fmt.Sprint("property", i)] = map[string]any{"properties": map[string]any{"x": map[string]any{}, "y": map[string]any{}}}
		}
		e := &expander{&document{}, maxNodes, 0}
		e.schema(map[string]any{"properties": wide}, 8, nil)
		if read := maxNodes - e.nodes; read > maxNodes+10 {
			t.Errorf("of %d properties, %d schemas were read, the limit is %d", n, read, maxNodes)
		}
	}
}

// TestNamesOfFields: servers of forms know a field by the parameter "name", not "name*" (RFC 7578).
func TestNamesOfFields(t *testing.T) {
	var dispositions, names []string
	b := open(t, describe(map[string]string{"/a": `{"post":{"operationId":"a","requestBody":{"content":{"multipart/form-data":{}}}}}`}, ""), companion.OpenAPI{}, func(_ http.ResponseWriter, r *http.Request) {
		_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		form := multipart.NewReader(r.Body, params["boundary"])
		for part, err := form.NextPart(); err == nil; part, err = form.NextPart() {
			dispositions, names = append(dispositions, part.Header.Get("Content-Disposition")), append(names, part.FormName())
		}
	})
	for _, name := range []string{"plain", "größe", "名前", "a b", "file[]", `a"b`, `a\b`, "a;b=c", "a; filename=x"} {
		for _, value := range []string{"text", "data:text/plain;base64,YQ=="} {
			dispositions, names = nil, nil
			args, _ := json.Marshal(map[string]any{"b": map[string]string{name: value}})
			if _, err := b.call(t, "a", string(args)); err != nil || !slices.Equal(names, []string{name}) || strings.Contains(dispositions[0], "name*") || strings.HasPrefix(value, "data:") != strings.Contains(dispositions[0], `; filename="`) {
				t.Errorf("%q: %q, %q, %v", name, names, dispositions, err)
			}
		}
	}
}
