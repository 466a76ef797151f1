package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	"github.com/google/go-cmp/cmp"
)

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// open opens the document in testdata, or one that is given, with calls that go to handle.
func open(t *testing.T, document string, s companion.OpenAPI, handle http.HandlerFunc) *Box {
	t.Helper()
	if s.Document = filepath.Join("testdata", document); strings.Contains(document, "{") || strings.Contains(document, "\n") {
		s.Document = filepath.Join(t.TempDir(), "document")
		if err := os.WriteFile(s.Document, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if handle != nil {
		server := httptest.NewServer(handle)
		t.Cleanup(server.Close)
		s.BaseURL = server.URL + s.BaseURL
	}
	if s.Name == "" {
		s.Name = "openapi_openapi"
	}
	b, err := Open(t.Context(), s, os.Environ(), noProxy)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *Box) tool(t *testing.T, name string) agent.Tool {
	t.Helper()
	var names []string
	for _, tool := range b.Tools {
		if names = append(names, tool.Spec().Name); tool.Spec().Name == name {
			return tool
		}
	}
	t.Fatalf("no tool %s; there are %q", name, names)
	return nil
}

func (b *Box) call(t *testing.T, name, args string) (string, error) {
	t.Helper()
	result, err := b.tool(t, name).Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Name: name, Args: args}})
	return result.Text(), err
}

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s", r.Method, r.URL.EscapedPath())
	if r.URL.RawQuery != "" {
		fmt.Fprintf(w, "?%s", r.URL.RawQuery)
	}
	for _, name := range []string{"Authorization", "X-Trace", "X-Api-Key", "Cookie", "Content-Type", "Prefer"} {
		if v := r.Header.Values(name); len(v) > 0 {
			fmt.Fprintf(w, "|%s: %s", name, strings.Join(v, " & "))
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(w, "|%s", body)
	}
}

func TestTools(t *testing.T) {
	b := open(t, "odd.yaml", companion.OpenAPI{BaseURL: "https://api.example"}, nil)
	got := map[string]string{}
	for _, tool := range b.Tools {
		spec := tool.Spec()
		got[spec.Name] = string(spec.Effects)
		if full := "openapi_openapi_" + spec.Name; len(full) > 64 {
			t.Errorf("%s has %d characters", full, len(full))
		}
		if _, err := schema.Compile(spec.Name, spec.Schema); err != nil {
			t.Errorf("the schema of %s: %v\n%s", spec.Name, err, spec.Schema)
		}
	}
	want := map[string]string{
		"pet_find": "none", "pet_find_2": "none", "openapi_get_pets_id": "none", "openapi_delete_pets_id": "once", "t2_0_put": "idempotent",
		"an_operation_with_a_name_that_is_much_t_4dba016c": "none", "create": "once", "upload": "once", "raw": "once", "form": "once", "tree": "once", "params": "none", "head": "none",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools and their effects, -want +got:\n%s", diff)
	}
	for _, reason := range []string{"GET /broken: #/components/parameters/None is not in the document", "/elsewhere: other.yaml is not in the document"} {
		if !slices.Contains(b.Skipped, reason) {
			t.Errorf("skipped: %q, want %q", b.Skipped, reason)
		}
	}
}

// TestSchemas: references, cycles, composition and old words of OpenAPI become one schema
// that stands alone.
func TestSchemas(t *testing.T) {
	b := open(t, "odd.yaml", companion.OpenAPI{BaseURL: "https://api.example"}, nil)
	for name, want := range map[string]string{
		"openapi_get_pets_id": `{"type":"object","required":["p_id"],"properties":{"p_id":{"type":"integer","description":"the id"},"p_fields_x_":{"type":"array","items":{"type":"string","enum":["a","b"]}}}}`,
		"tree": `{"type":"object","required":["b"],"properties":{"b":{"type":"object","description":"The body, application/json.","required":["name"],"properties":{
			"name":{"type":["string","null"]},"child":{"type":"object","description":"a node"},"size":{"anyOf":[{"type":"integer"},{"type":"string"}]}}}}}`,
	} {
		var got, wanted any
		json.Unmarshal(b.tool(t, name).Spec().Schema, &got)
		json.Unmarshal([]byte(want), &wanted)
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

// TestSchemasAreBounded: a schema that grows without end is cut.
func TestSchemasAreBounded(t *testing.T) {
	wide := map[string]any{}
	for i := range 30 {
		wide[fmt.Sprint("property", i)] = map[string]any{"$ref": fmt.Sprintf("#/components/schemas/S%d", i), "description": strings.Repeat("much text ", 50)}
	}
	schemas := map[string]any{}
	for i := range 30 {
		schemas[fmt.Sprint("S", i)] = map[string]any{"type": "object", "properties": wide}
	}
	text, _ := json.Marshal(map[string]any{"openapi": "3.1.0", "components": map[string]any{"schemas": schemas},
		"paths": map[string]any{"/": map[string]any{"post": map[string]any{"operationId": "x", "requestBody": map[string]any{
			"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/S0"}}}}}}}})
	b := open(t, string(text), companion.OpenAPI{BaseURL: "https://api.example"}, nil)
	got := b.tool(t, "x").Spec().Schema
	if len(got) > maxSchema || !bytes.Contains(got, []byte("property29")) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestRequests(t *testing.T) {
	b := open(t, "odd.yaml", companion.OpenAPI{BaseURL: "/v1/", Headers: map[string]string{"X-Trace": "fixed"}}, echo)
	for _, c := range []struct{ tool, args, want string }{
		{"openapi_get_pets_id", `{"p_id":12345678901234567890,"p_fields_x_":["a","b"]}`, "GET /v1/pets/12345678901234567890?fields%5Bx%5D=a&fields%5Bx%5D=b|X-Trace: fixed"},
		{"params", `{"p_color":["a b","c/d"],"p_csv":["x,y","z"],"p_pipes":[1,2],"p_deep":{"a":{"b":1},"c":[true]},"p_free":{"k":"v"},"p_json":{"a":[1]},"p_X-Trace":"mine","p_session":"s 1","p_Authorization":"forged"}`,
			"GET /v1/params/a%20b,c%2Fd?csv=x%2Cy,z&pipes=1%7C2&deep[a][b]=1&deep[c][0]=true&k=v&json=%7B%22a%22%3A%5B1%5D%7D|X-Trace: fixed|Cookie: session=s+1"},
		{"params", `{"p_color":["a"],"p_csv":null}`, "GET /v1/params/a|X-Trace: fixed"},
		{"create", `{"b":{"name":"Äda","n":1.50}}`, `POST /v1/pets|X-Trace: fixed|Content-Type: application/json|{"n":1.50,"name":"Äda"}`},
		{"form", `{"b":{"a":"x y","list":[1,2],"deep":{"k":"v"},"object":{"k":1}}}`, `POST /v1/form|X-Trace: fixed|Content-Type: application/x-www-form-urlencoded|a=x+y&deep[k]=v&list=1&list=2&object=%7B%22k%22%3A1%7D`},
		{"raw", `{"b":"data:image/png;base64,AAEC"}`, "POST /v1/raw|X-Trace: fixed|Content-Type: image/png|(4"},
		{"raw", `{"b":"plain"}`, "POST /v1/raw|X-Trace: fixed|Content-Type: application/octet-stream|plain"},
	} {
		got, err := b.call(t, c.tool, c.args)
		if c.want = "HTTP 200\n" + c.want; strings.HasSuffix(c.want, "|(4") { // bytes are not shown
			c.want, got = "HTTP 200\n(", got[:len("HTTP 200\n(")]
		}
		if err != nil || got != c.want {
			t.Errorf("%s %s\n got %q, %v\nwant %q", c.tool, c.args, got, err, c.want)
		}
	}
}

func TestMultipart(t *testing.T) {
	var got []string
	b := open(t, "odd.yaml", companion.OpenAPI{}, func(w http.ResponseWriter, r *http.Request) {
		_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		form := multipart.NewReader(r.Body, params["boundary"])
		for part, err := form.NextPart(); err == nil; part, err = form.NextPart() {
			data, _ := io.ReadAll(part)
			got = append(got, fmt.Sprintf("%s %q %s %q", part.FormName(), part.FileName(), part.Header.Get("Content-Type"), data))
		}
	})
	if _, err := b.call(t, "upload", `{"b":{"file":"data:text/csv;base64,YSxi","about":"x","tags":["a","b"],"more":{"k":1}}}`); err != nil {
		t.Error(err)
	}
	want := []string{`about "" "x"`, `file "file" text/csv "a,b"`, `more "" application/json "{\"k\":1}"`, `tags "" "a"`, `tags "" "b"`}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "  ", " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBadArguments: nothing is sent.
func TestBadArguments(t *testing.T) {
	b := open(t, "odd.yaml", companion.OpenAPI{}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent: %s", r.URL) })
	for _, c := range []struct{ tool, args, want string }{
		{"openapi_get_pets_id", `{}`, "p_id is missing"},
		{"openapi_get_pets_id", `{"p_id":".."}`, "leads to another resource"},
		{"openapi_delete_pets_id", `{"p_id":""}`, "leads to another resource"},
		{"openapi_get_pets_id", `[1]`, "not a JSON object"},
		{"create", `{}`, "b, the body, is missing"},
		{"raw", `{"b":"data:x;base64,%"}`, "not valid base64"},
	} {
		if _, err := b.call(t, c.tool, c.args); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("%s %s: %v, want %q", c.tool, c.args, err, c.want)
		}
	}
	if _, err := b.call(t, "params", `{"p_color":"a","p_X-Trace":"a\nb"}`); err == nil {
		t.Error("a header with a line break was sent")
	}
}

func TestResults(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	b := open(t, "odd.yaml", companion.OpenAPI{MaxBytes: 10, TimeoutSeconds: 0.3}, func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/pets/") {
		case "404":
			http.Error(w, "no pet", 404)
		case "429":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
		case "jump":
			http.Redirect(w, r, "http://other.example/?key=1", http.StatusFound)
		case "same":
			http.Redirect(w, r, "/pets/fine", http.StatusFound)
		case "fine":
			w.Header().Set("Link", `</pets/fine?fields[x]=b,c&page=9>; rel="next", </x>; rel=last`)
			w.Header().Set("X-Total-Count", "40")
			io.WriteString(w, "ok")
		case "long":
			io.WriteString(w, "123456789ü and more")
		case "binary":
			w.Header().Set("Content-Type", "application/zip")
			w.Write([]byte{'P', 'K', 0, 1})
		case "latin":
			w.Header().Set("Content-Type", "text/plain; charset=latin1")
			w.Write([]byte{'a', 0xff})
		case "slow":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "cut":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
		}
	})
	for _, c := range []struct{ id, want, err string }{
		{"404", "\nno pet\n", "GET /pets/{id}: HTTP 404"},
		{"429", "\n\n\nRetry-After: 7", "HTTP 429"},
		{"jump", "Location: http://other.example/?key=1", "redirects to another server, http://other.example; this is not followed"},
		{"same", "HTTP 200\nok\n\nX-Total-Count: 40\nFor the next page, set p_fields_x_ to b,c.", ""},
		{"long", "HTTP 200\n123456789\n\nThe response is too long: only its first 10 bytes are shown.", ""},
		{"binary", "HTTP 200\n(4 bytes of application/zip; binary data is not shown)", ""},
		{"latin", "HTTP 200\na\uFFFD", ""},
		{"slow", "", "no answer within 300ms"},
		{"cut", "HTTP 200\nhalf", "unexpected EOF"},
	} {
		got, err := b.call(t, "openapi_get_pets_id", fmt.Sprintf(`{"p_id":%q}`, c.id))
		if !strings.Contains(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v; want %q, %q", c.id, got, err, c.want, c.err)
		}
	}
	if got, err := b.call(t, "head", "{}"); err != nil || got != "HTTP 200 (HEAD request - no body)\n" {
		t.Errorf("head: %q, %v", got, err)
	}
}

func TestCancel(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	b := open(t, "odd.yaml", companion.OpenAPI{}, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := b.tool(t, "head").Call(ctx, &agent.Invocation{}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("err = %v", err)
	}
	<-gone
}
