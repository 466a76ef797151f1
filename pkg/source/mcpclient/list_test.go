package mcpclient

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
)

// wild is a schema with everything that a decoder into types would lose.
const wild = `{"$schema":"https://json-schema.org/draft/2020-12/schema", "type":"object","description":"all <of> it & more",` +
	`"properties":{"n":{"type":"integer","maximum":9007199254740993,"minimum":-1.50},"mode":{"enum":["a",1,null,{"x":2}]},` +
	`"deep":{"anyOf":[{"$ref":"#/$defs/leaf"},{"type":"null"}]}},"oneOf":[{"required":["n"]},{"required":["mode"]}],` +
	`"$defs":{"leaf":{"type":"array","prefixItems":[{"const":1e400}]}},"required":["n"],"x-vendor":[1,  2]}`

func TestSchemasPassUntouched(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		r := newRig(t, mode)
		r.write("tools.json", `{"tools":[{"name":"wild","inputSchema":`+wild+`},{"name":"bare"},{"name":"null","inputSchema":null}]}`)
		tools := r.tools(r.open())
		if got := string(tools["wild"].Spec().Schema); got != wild {
			t.Errorf("%s: the schema is\n%s\nwant\n%s", mode, got, wild)
		}
		for _, name := range []string{"bare", "null"} {
			if got := string(tools[name].Spec().Schema); got != `{"type":"object"}` {
				t.Errorf("%s: the schema of %s is %s", mode, name, got)
			}
		}
	}
}

func TestSpecs(t *testing.T) {
	r := newRig(t, "legacy")
	r.write("tools.json", `{"tools":[
		{"name":"look","description":"looks","title":"Look","annotations":{"readOnlyHint":true,"openWorldHint":false,"title":"Looker"}},
		{"name":"put","title":"Put it","annotations":{"idempotentHint":true,"readOnlyHint":false}},
		{"name":"bang","annotations":{"destructiveHint":true,"title":"Bang!"}}]}`)
	r.server.Name = "my-fake"
	tools := r.tools(r.open())
	schema := []byte(`{"type":"object"}`)
	want := []agent.ToolSpec{
		{Name: "mcp_my-fake_bang", Description: "Bang!", Schema: schema, Source: "tool bang of MCP server my-fake"},
		{Name: "mcp_my-fake_look", Description: "looks", Schema: schema, Source: "tool look of MCP server my-fake", Effects: agent.EffectsNone},
		{Name: "mcp_my-fake_put", Description: "Put it", Schema: schema, Source: "tool put of MCP server my-fake", Effects: agent.EffectsIdempotent},
	}
	var got []agent.ToolSpec
	for _, name := range []string{"bang", "look", "put"} {
		got = append(got, tools[name].Spec())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
	if a := tools["look"].Annotations(); a.OpenWorld == nil || *a.OpenWorld || a.Destructive != nil || a.Title != "Looker" {
		t.Errorf("annotations of look: %+v", a)
	}
}

// names are the names that the model sees, in their order.
func names(tools []agent.Tool) (list []string) {
	for _, t := range tools {
		list = append(list, strings.TrimPrefix(t.Spec().Name, "mcp_fake_"))
	}
	return list
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		change func(*rig)
		tools  []string
		err    string
	}{
		{name: "pages, sorted", tools: []string{"a", "b", "c", "d"}, files: map[string]string{
			"tools.json": `{"tools":[{"name":"d"},{"name":"a"}],"nextCursor":"p2"}`, "p2.json": `{"tools":[{"name":"c"}],"nextCursor":"p3"}`,
			"p3.json": `{"tools":[{"name":"b"}],"nextCursor":null}`}},
		{name: "none", files: map[string]string{"tools.json": `{"tools":[]}`}},
		{name: "a page that repeats", tools: []string{"a", "b"}, files: map[string]string{
			"tools.json": `{"tools":[{"name":"a"}],"nextCursor":"p2"}`, "p2.json": `{"tools":[{"name":"b"}],"nextCursor":"p2"}`},
			err: `list its tools: the list goes in a circle: the cursor "p2" came before`},
		{name: "no object", files: map[string]string{"tools.json": `[1]`}, err: "list its tools: the answer is not an object: [1]"},
		{name: "broken tools are left out alone", tools: []string{"good"}, files: map[string]string{
			"tools.json": `{"tools":[{"name":5},{"name":"good"},{"description":"nameless"},{"name":"odd","inputSchema":true}]}`},
			err: "tool 1 of its list is left out: its name is a number: {\"name\":5}\n" +
				"tool 3 of its list is left out: it has no name\n" +
				"tool 4 of its list is left out: odd: its inputSchema is not an object: true"},
		{name: "what the library cannot read", tools: []string{"odd"}, files: map[string]string{
			"tools.json": `{"tools":[{"name":"odd","inputSchema":{"type":["object"],"required":"all","properties":true}}]}`}},
		{name: "allowed", tools: []string{"get_a", "get_b", "put"}, change: func(r *rig) { r.server.Tools = []string{"get_*", "put", "lost"} },
			files: map[string]string{"tools.json": `{"tools":[{"name":"get_a"},{"name":"get_b"},{"name":"put"},{"name":"output"}]}`},
			err:   `none of its tools is named "lost"`},
		{name: "one name for two", tools: []string{"ok"}, change: func(r *rig) {
			r.opts.Name = func(prefix, slug string) string { return prefix + "_" + strings.ReplaceAll(slug, ".", "_") }
		},
			files: map[string]string{"tools.json": `{"tools":[{"name":"a.b"},{"name":"ok"},{"name":"a_b"}]}`},
			err:   `its tools ["a.b" "a_b"] would all be named mcp_fake_a_b and are left out`},
		{name: "no name for a model", tools: []string{"ok"},
			files: map[string]string{"tools.json": `{"tools":[{"name":"a.b"},{"name":"ok"}]}`},
			err:   `tool "a.b" is left out: "mcp_fake_a.b" is not a valid name for a tool, which has 1 to 64 letters, digits, _ and -`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "legacy")
			for name, data := range c.files {
				r.write(name, data)
			}
			if c.change != nil {
				c.change(r)
			}
			tools, err := r.open().Tools(t.Context())
			if diff := cmp.Diff(c.tools, names(tools)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "MCP server fake: ")
			}
			if got != c.err {
				t.Errorf("the error is\n%s\nwant\n%s", got, c.err)
			}
		})
	}
}

func TestEndlessListEnds(t *testing.T) {
	r := newRig(t, "endless")
	tools, err := r.open().Tools(t.Context())
	want := "MCP server fake: list its tools: the list has more than 100 pages; the rest is left out"
	if err == nil || err.Error() != want || len(tools) != 100 || strings.Count(r.notes(), "tools/list") != 100 {
		t.Errorf("%d tools after %d pages, %v", len(tools), strings.Count(r.notes(), "tools/list"), err)
	}
}

// TestCircularListEnds: a list that comes back to a page is taken once.
func TestCircularListEnds(t *testing.T) {
	r := newRig(t, "legacy")
	r.write("tools.json", `{"tools":[{"name":"a"}],"nextCursor":"p1"}`)
	r.write("p1.json", `{"tools":[{"name":"b"}],"nextCursor":"p2"}`)
	r.write("p2.json", `{"tools":[{"name":"c"}],"nextCursor":"p1"}`)
	tools, err := r.open().Tools(t.Context())
	want := `MCP server fake: list its tools: the list goes in a circle: the cursor "p1" came before`
	if err == nil || err.Error() != want || !slices.Equal(names(tools), []string{"a", "b", "c"}) {
		t.Errorf("Tools = %v, %v; want all three and %s", names(tools), err, want)
	}
}

// TestStormOfChangesCostsOneQuestion: however often a server says that its tools
// have changed, it is asked once a turn.
func TestStormOfChangesCostsOneQuestion(t *testing.T) {
	r := newRig(t, "legacy", "FAKE_HAS=changes")
	set := r.open()
	storm := r.tools(set)["storm"]
	for turn := range 3 {
		if _, err := storm.Call(t.Context(), invocation("{}")); err != nil {
			t.Fatal(err)
		}
		r.tools(set)
		if n := strings.Count(r.notes(), "tools/list"); n != turn+2 {
			t.Errorf("after %d storms the server was asked %d times, want %d", turn+1, n, turn+2)
		}
	}
}

func TestErrorsOfAListAreBounded(t *testing.T) {
	r := newRig(t, "legacy")
	r.write("tools.json", `{"tools":[`+strings.Repeat(`{"name":""},`, 50)+`{"name":"ok"}]}`)
	tools, err := r.open().Tools(t.Context())
	if err == nil || strings.Count(err.Error(), "\n") != 10 || !strings.HasSuffix(err.Error(), "\nand 40 more") || len(tools) != 1 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
}

func TestTooManyTools(t *testing.T) {
	r := newRig(t, "legacy")
	var b strings.Builder
	for i := range MaxTools + 5 {
		fmt.Fprintf(&b, `,{"name":"t%04d"}`, i)
	}
	r.write("tools.json", `{"tools":[`+b.String()[1:]+`]}`)
	tools, err := r.open().Tools(t.Context())
	if want := "MCP server fake: list its tools: the list is longer than 1000; the rest is left out"; err == nil || err.Error() != want || len(tools) != MaxTools {
		t.Errorf("%d tools, %v; want %d and %s", len(tools), err, MaxTools, want)
	}
}

// TestPolling: a server that does not tell of changes is asked again when its
// list is old, and only then.
func TestPolling(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	r.write("tools.json", `{"tools":[{"name":"one"}]}`)
	asked := func(want int, tools ...string) {
		t.Helper()
		list, err := set.Tools(t.Context())
		if err != nil || !slices.Equal(names(list), tools) {
			t.Errorf("Tools = %v, %v; want %v", names(list), err, tools)
		}
		if n := strings.Count(r.notes(), "tools/list"); n != want {
			t.Errorf("the server was asked %d times, want %d", n, want)
		}
	}
	asked(1, "one")
	r.write("tools.json", `{"tools":[{"name":"two"},{"name":"one"}]}`)
	r.pass(29 * time.Second)
	asked(1, "one")
	r.pass(time.Second)
	asked(2, "one", "two")
	r.write("tools.json", `[]`) // a list that fails leaves the tools as they were
	r.pass(30 * time.Second)
	if list, err := set.Tools(t.Context()); err == nil || len(list) != 2 {
		t.Errorf("Tools = %v, %v; want 2 and an error", names(list), err)
	}
	r.write("tools.json", `{"tools":[{"name":"two"}]}`)
	r.pass(30 * time.Second)
	asked(4, "two")
}

// TestChangesAreTold: a server that tells of changes is asked when it does, and
// not otherwise.
func TestChangesAreTold(t *testing.T) {
	r := newRig(t, "legacy", "FAKE_HAS=changes")
	set := r.open()
	tools := r.tools(set)
	r.pass(24 * time.Hour)
	r.tools(set)
	if n := strings.Count(r.notes(), "tools/list"); n != 1 {
		t.Errorf("the server was asked %d times, want 1", n)
	}
	r.write("tools.json", `{"tools":[{"name":"new"}]}`)
	if _, err := tools["change"].Call(t.Context(), invocation("{}")); err != nil {
		t.Fatal(err)
	}
	if now := r.tools(set); len(now) != 1 || now["new"] == nil {
		t.Errorf("after the change there are %d tools", len(now))
	}
}

// TestNamesStayOnTheirLine: a server may give its tools any name; what shows it is
// one short line.
func TestNamesStayOnTheirLine(t *testing.T) {
	for name, want := range map[string]string{
		"read_file":              "read_file",
		"é/ü 1":                  "é/ü 1",
		"two\nlines \x1b[31mred": `"two\nlines \x1b[31mred"`,
		strings.Repeat("x", 300): strings.Repeat("x", 100) + "…",
	} {
		r := newRig(t, "legacy")
		r.opts.Name = func(prefix, _ string) string { return prefix }
		def, _ := json.Marshal(map[string]any{"name": name})
		tool, err := r.open().define(def)
		if err != nil || tool.Spec().Source != "tool "+want+" of MCP server fake" {
			t.Errorf("%q: %q, %v", name, tool.Spec().Source, err)
		}
	}
}
