package openapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

const tiny = `{"openapi":"3.1.0","paths":{"/a":{"get":{"operationId":"a","description":"D"}}}}`

func TestOpenFails(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		s        companion.OpenAPI
		want     string
	}{
		"no document":       {"", companion.OpenAPI{Document: "testdata/none"}, "no such file"},
		"no JSON":           {`{"openapi": "3.0.0", }`, companion.OpenAPI{}, "invalid character"},
		"no YAML":           {"a: [\n", companion.OpenAPI{}, "read "},
		"something else":    {`{"swagger":"1.2"}`, companion.OpenAPI{}, "not an OpenAPI 3 or Swagger 2 document"},
		"no operations":     {`{"openapi":"3.0.0","paths":[]}`, companion.OpenAPI{}, "has no operation"},
		"nothing permitted": {tiny, companion.OpenAPI{BaseURL: "https://x.example", Filter: json.RawMessage(`{"tag":"AlwaysFalse"}`)}, "has no operation"},
		"no server":         {tiny, companion.OpenAPI{}, "set baseUrl"},
		"bad server":        {tiny, companion.OpenAPI{BaseURL: "ftp://x"}, `"ftp://x" is not the http or https URL of a server`},
		"bad filter":        {tiny, companion.OpenAPI{Filter: json.RawMessage(`{"tag":"And","contents":[{"tag":"Path","contents":"x"}]}`)}, "its contents must be an array of two filters"},
		"unknown filter":    {tiny, companion.OpenAPI{Filter: json.RawMessage(`{"tag":"Not","contents":{"tag":"Path","contents":"x"}}`)}, `filter: there is no tag "Path"`},
		"bad secret":        {tiny, companion.OpenAPI{Secrets: []json.RawMessage{[]byte(`{"source":{"tag":"Given","contents":"hidden"},"decoder":{"tag":"Hexadecimal"}}`)}}, "secret 1: decoder Hexadecimal: the secret does not have this encoding"},
		"failing command":   {tiny, companion.OpenAPI{Secrets: []json.RawMessage{[]byte(`{"source":{"tag":"Command","contents":["false"]}}`)}}, "source Command: false: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.document != "" {
				c.s.Document = filepath.Join(t.TempDir(), "document")
				if err := os.WriteFile(c.s.Document, []byte(c.document), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(t.Context(), c.s, os.Environ(), noProxy); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
		})
	}
}

func TestTooManyOperations(t *testing.T) {
	var paths []string
	for i := range maxTools + 1 {
		paths = append(paths, fmt.Sprintf(`"/%d":{"get":{}}`, i))
	}
	text := `{"openapi":"3.0.0","servers":[{"url":"https://x.example"}],"paths":{` + strings.Join(paths, ",") + `}}`
	file := filepath.Join(t.TempDir(), "document")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), companion.OpenAPI{Document: file}, nil, noProxy); err == nil || !strings.Contains(err.Error(), "1001 operations, but a toolbox can have at most 1000: set a filter") {
		t.Errorf("err = %v", err)
	}
}

func TestFilters(t *testing.T) {
	op := &operation{method: "GET", path: "/api/v1/users/", id: "list"}
	for filter, want := range map[string]bool{
		``: true, `null`: true, `{"tag":"AlwaysTrue"}`: true, `{"tag":"PathPrefix","contents":"/api"}`: true, `{"tag":"PathPrefix","contents":"api/v"}`: false, `{"tag":"PathPrefix","contents":"/"}`: true,
		`{"tag":"PathPrefix","contents":"/api/v1/users/x"}`: false, `{"tag":"PathSuffix","contents":"users"}`: true, `{"tag":"PathSuffix","contents":"sers"}`: false, `{"tag":"PathEqual","contents":"api//v1/users"}`: true,
		`{"tag":"PathContains","contents":"1/us"}`: true, `{"tag":"MethodEquals","contents":"get"}`: true, `{"tag":"OperationIdEquals","contents":"list"}`: true, `{"tag":"TableNameEquals","contents":"list"}`: false,
		`{"tag":"Not","contents":{"tag":"PathPrefix","contents":"/api"}}`:                                                   false,
		`{"tag":"And","contents":[{"tag":"PathPrefix","contents":"/api"},{"tag":"AlwaysFalse"}]}`:                           false,
		`{"tag":"Or","contents":[{"tag":"AlwaysFalse"},{"tag":"Not","contents":{"tag":"MethodEquals","contents":"POST"}}]}`: true,
	} {
		f, err := parseFilter(json.RawMessage(filter))
		if err != nil || f(op) != want {
			t.Errorf("%s: %v, want %v", filter, err, want)
		}
	}
}

// TestSecrets: secrets and keys go to the server of the entry, and are in no result.
func TestSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("736563726574342d6c6f6e67\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	entry := func(source, contents, decoder, serializer string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"source":{"tag":%q,"contents":%s},"decoder":%s,"serializer":%s}`, source, contents, decoder, serializer))
	}
	var sent []string
	b := open(t, "odd.yaml", companion.OpenAPI{Key: "key-of-the-entry", Secrets: []json.RawMessage{
		entry("Given", `"c2VjcmV0MS1sb25n"`, `{"tag":"Base64"}`, `{"tag":"Header","contents":["X-One","Token {{secret}}"]}`),
		entry("Command", `["printf","secret2-long\\n"]`, `{"tag":"Clear","contents":true}`, `{"tag":"QueryString","contents":"auth key"}`),
		entry("FileSystem", fmt.Sprintf("%q", file), `{"tag":"Hexadecimal"}`, `{"tag":"Header","contents":["X-Four",null]}`),
	}}, func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, fmt.Sprint(r.URL.RawQuery, r.Header["X-One"], r.Header["X-Four"], r.Header["X-Api-Key"], r.Header["Authorization"]))
		fmt.Fprintln(w, sent[len(sent)-1])
	})
	for _, c := range []struct{ tool, want string }{
		{"create", "auth+key=secret2-long[Token secret1-long] [secret4-long] [key-of-the-entry] []"},
		{"tree", "auth+key=secret2-long[Token secret1-long] [secret4-long] [] [Basic a2V5LW9mLXRoZS1lbnRyeQ==]"},
		{"raw", "auth+key=secret2-long[Token secret1-long] [secret4-long] [] [Bearer key-of-the-entry]"},
	} {
		got, err := b.call(t, c.tool, `{"b":{"name":"x"}}`)
		if last := sent[len(sent)-1]; err != nil || last != c.want {
			t.Errorf("%s: sent %q, %v, want %q", c.tool, last, err, c.want)
		}
		if strings.Contains(got, "long") || strings.Contains(got, "key-of") || strings.Contains(got, "a2V5") || !strings.Contains(got, "[secret]") {
			t.Errorf("%s: the result has a secret: %s", c.tool, got)
		}
	}
}

// TestKeysStayAtHome: a document from elsewhere, or a server that it names, gets no key.
func TestKeysStayAtHome(t *testing.T) {
	var got []string
	see := func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Key"))
		io.WriteString(w, tiny)
	}
	a, other := httptest.NewServer(http.HandlerFunc(see)), httptest.NewServer(http.HandlerFunc(see))
	defer a.Close()
	defer other.Close()
	s := companion.OpenAPI{Name: "x", Document: other.URL + "/doc?v=1", BaseURL: a.URL, Key: "key-of-a", Headers: map[string]string{"X-Key": "+header"}}
	b, err := Open(t.Context(), s, os.Environ(), noProxy)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.call(t, "a", ""); err != nil {
		t.Error(err)
	}
	s = companion.OpenAPI{Name: "x", Document: filepath.Join(t.TempDir(), "d"), BaseURL: "", Key: "key-of-a", AllowPrivate: true}
	os.WriteFile(s.Document, []byte(strings.Replace(tiny, "{", fmt.Sprintf(`{"servers":[{"url":%q}],`, other.URL), 1)), 0o600)
	if b, err = Open(t.Context(), s, os.Environ(), noProxy); err != nil {
		t.Fatal(err)
	}
	if _, err := b.call(t, "a", ""); err != nil {
		t.Error(err)
	}
	if want := []string{"/doc ", "/a Bearer key-of-a+header", "/a "}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// TestPrivateAddresses: only what the entry names itself may be on this machine.
func TestPrivateAddresses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") }))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	file := filepath.Join(t.TempDir(), "d")
	for _, c := range []struct {
		base, inDocument string
		allow            bool
		proxy            string
		ok               bool
	}{
		{base: "http://127.0.0.1" + port, ok: true},
		{base: "http://localhost" + port, ok: true},
		{inDocument: "http://127.0.0.1" + port},
		{inDocument: "http://localhost" + port},
		{inDocument: "http://127.1" + port},
		{inDocument: "http://[::ffff:127.0.0.1]" + port},
		{inDocument: "http://127.0.0.1" + port, allow: true, ok: true},
		{base: "https://public.example", inDocument: "http://127.0.0.1" + port, proxy: server.URL},
		{base: "http://public.example", proxy: server.URL, ok: true},
		{inDocument: "http://127.0.0.1" + port, proxy: server.URL},
	} {
		text := strings.Replace(tiny, "{", fmt.Sprintf(`{"servers":[{"url":%q}],`, c.inDocument), 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Open(t.Context(), companion.OpenAPI{Document: file, Name: "x", BaseURL: c.base, AllowPrivate: c.allow}, nil, func(*http.Request) (*url.URL, error) {
			if c.proxy == "" {
				return nil, nil
			}
			return url.Parse(c.proxy)
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.call(t, "a", "")
		switch {
		case c.ok && err != nil:
			t.Errorf("%+v: %v", c, err)
		case !c.ok && err == nil:
			t.Errorf("%+v: it was reached", c)
		}
	}
}

// TestOtherPortsOfAPrivateAddress: an address with a port permits that port alone.
func TestOtherPortsOfAPrivateAddress(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") }))
	defer secret.Close()
	var at string
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/d" {
			io.WriteString(w, strings.Replace(tiny, "{", fmt.Sprintf(`{"servers":[{"url":%q}],`, at), 1))
		}
	}))
	defer from.Close()
	for where, ok := range map[string]bool{from.URL: true, secret.URL: false, strings.Replace(secret.URL, "127.0.0.1", "localhost", 1): false} {
		at = where
		b, err := Open(t.Context(), companion.OpenAPI{Document: from.URL + "/d", Name: "x"}, nil, noProxy)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = b.call(t, "a", ""); (err == nil) != ok {
			t.Errorf("a document of %s that names %s: %v", from.URL, where, err)
		}
	}
}

// TestNamesThatLeadHome: the address is looked at after a name was resolved.
func TestNamesThatLeadHome(t *testing.T) {
	b := &Box{}
	client := b.newClient(noProxy)
	dial := client.Transport.(*http.Transport).DialContext
	if _, err := dial(t.Context(), "tcp", "localhost:1"); err == nil || !strings.Contains(err.Error(), errPrivate.Error()) {
		t.Errorf("err = %v, want %v", err, errPrivate)
	}
}

func TestServersOfDocuments(t *testing.T) {
	from, _ := url.Parse("https://here.example/docs/openapi.json")
	for document, want := range map[string]string{
		`{"openapi":"3.0.0"}`: "", `{"openapi":"3.0.0","servers":[{"url":"/v1"}]}`: "https://here.example/v1", `{"openapi":"3.0.0","servers":[{"url":"../v2"}]}`: "https://here.example/v2",
		`{"openapi":"3.0.0","servers":[{"url":"https://{r}.example","variables":{"r":{"default":"eu"}}}]}`: "https://eu.example",
		`{"swagger":"2.0","host":"h.example","basePath":"/b","schemes":["http","https"]}`:                  "https://h.example/b",
		`{"swagger":"2.0","host":"h.example","schemes":["http"]}`:                                          "http://h.example",
		`{"swagger":"2.0","basePath":"/b"}`:                                                                "https://here.example/b", `{"openapi":"3.0.0","servers":[{"url":"file:///etc"}]}`: "",
	} {
		d, err := parse([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		u, err := d.base(&operation{servers: list(d.root["servers"])}, from)
		if want == "" {
			want = "https://here.example/docs/openapi.json"
			if strings.Contains(document, "file:") {
				if err == nil {
					t.Errorf("%s: %s", document, u)
				}
				continue
			}
		}
		if err != nil || u.String() != want {
			t.Errorf("%s: %s, %v, want %s", document, u, err, want)
		}
	}
}

func TestSwagger2(t *testing.T) {
	b := open(t, "swagger2.json", companion.OpenAPI{Key: "a-long-key"}, echo)
	for _, c := range []struct{ tool, args, want string }{
		{"add", `{"b":{"name":"x"}}`, `POST /pets|X-Api-Key: [secret]|Content-Type: application/json|{"name":"x"}`},
		{"find", `{"p_tags":["a","b"],"p_many":[1,2]}`, "GET /pets?tags=a,b&many=1&many=2|X-Api-Key: [secret]"},
		{"change", `{"p_id":7,"b":{"name":"x y"}}`, "POST /pets/7|X-Api-Key: [secret]|Content-Type: application/x-www-form-urlencoded|name=x+y"},
	} {
		if got, err := b.call(t, c.tool, c.args); err != nil || got != "HTTP 200\n"+c.want {
			t.Errorf("%s: %q, %v, want %q", c.tool, got, err, c.want)
		}
	}
	if got, err := b.call(t, "upload", `{"p_id":7,"b":{"file":"content"}}`); err != nil || !strings.Contains(got, "Content-Type: multipart/form-data") {
		t.Errorf("upload: %q, %v", got, err)
	}
}

func TestPostgREST(t *testing.T) {
	methods := []string{"get", "POST", "PATCH", "DELETE"}
	b := open(t, "postgrest.json", companion.OpenAPI{Name: "postgrest_postgrest", PostgREST: true, Methods: methods}, echo)
	var names []string
	for _, tool := range b.Tools {
		names = append(names, tool.Spec().Name)
	}
	if want := []string{"get_rpc_add_them", "post_rpc_add_them", "get_users", "post_users", "patch_users", "delete_users"}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	for _, c := range []struct{ tool, args, want string }{
		{"get_users", `{"filters":{"age":"gt.30","name":null},"subset":{"limit":10,"offset":"5","columns":"id,name"},"ranking":{"order":"name.desc"}}`, "GET /users?age=gt.30&limit=10&offset=5&order=name.desc&select=id%2Cname"},
		{"get_users", `{}`, "GET /users"},
		{"post_users", `{"body":[{"name":"x"}]}`, `POST /users|Content-Type: application/json|Prefer: return=representation|[{"name":"x"}]`},
		{"patch_users", `{"filters":{"id":"eq.1"},"body":{"name":"y"}}`, `PATCH /users?id=eq.1|Content-Type: application/json|Prefer: return=representation|{"name":"y"}`},
		{"delete_users", `{"filters":{"id":"eq.1"}}`, "DELETE /users?id=eq.1"},
		{"get_rpc_add_them", `{"arguments":{"a":1,"b":2}}`, "GET /rpc/add_them?a=1&b=2"},
		{"post_rpc_add_them", `{"body":{"a":1}}`, `POST /rpc/add_them|Content-Type: application/json|Prefer: return=representation|{"a":1}`},
	} {
		if got, err := b.call(t, c.tool, c.args); err != nil || got != "HTTP 200\n"+c.want {
			t.Errorf("%s %s: %q, %v, want %q", c.tool, c.args, got, err, c.want)
		}
	}
	for _, tool := range []string{"patch_users", "delete_users"} {
		if _, err := b.call(t, tool, `{"filters":{"id":null},"body":{}}`); err == nil || !strings.Contains(err.Error(), "without one, the call would change every row") {
			t.Errorf("%s without a filter: %v", tool, err)
		}
	}
	get := string(b.tool(t, "get_users").Spec().Schema)
	for _, want := range []string{`"filters":{`, `"age":{`, `"subset":{`, `"columns":{`, `"ranking":{`, `"order":{`} {
		if !strings.Contains(get, want) {
			t.Errorf("get_users: %s, want %s in it", get, want)
		}
	}
	if patch := string(b.tool(t, "patch_users").Spec().Schema); strings.Contains(patch, `"required"`) || !strings.Contains(patch, `"name":{`) {
		t.Errorf("patch_users: %s", patch)
	}
	if b := open(t, "postgrest.json", companion.OpenAPI{PostgREST: true, BaseURL: "https://x.example"}, nil); len(b.Tools) != 2 {
		t.Errorf("%d tools without allowedMethods, want those that read", len(b.Tools))
	}
}

// FuzzDocument: whatever a document is, its tools have bounded schemas, and calls of them
// make requests or errors.
func FuzzDocument(f *testing.F) {
	for _, name := range []string{"odd.yaml", "swagger2.json", "postgrest.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text []byte, tables bool) {
		d, err := parse(text)
		if err != nil {
			return
		}
		b := &Box{doc: d, settings: companion.OpenAPI{Name: "openapi_openapi", PostgREST: tables}}
		b.base, _ = address("https://x.example")
		b.open(func(*operation) bool { return true })
		for _, each := range b.Tools {
			spec := each.Spec()
			if !json.Valid(spec.Schema) || len("openapi_openapi_"+spec.Name) > 64 {
				t.Errorf("%s: %s", spec.Name, spec.Schema)
			}
			each.(*tool).make(map[string]any{"b": map[string]any{"a": []any{"x"}}, "p_id": "y", "filters": map[string]any{"a": json.Number("1")}})
		}
		d.base(&operation{servers: list(d.root["servers"])}, nil)
	})
}
