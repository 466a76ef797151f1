package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/schemas"
	"github.com/google/go-cmp/cmp"
)

// prose has the pages that were read, without what is fenced.
var prose sync.Map

// section is the text of a page under a heading, up to the next heading of the
// same level or above.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, ok := prose.Load(page)
	if !ok {
		text = "\n" + fenced.ReplaceAllString(readPage(t, page), "")
		prose.Store(page, text)
	}
	_, rest, ok := strings.Cut(text.(string), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	level := strings.Index(heading, " ")
	if end := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+level)) + `} `).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

// rows are the rows of the tables in a text, without their heads. In code spans
// `\|` is a bar.
func rows(text string) [][]string {
	var list [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		if strings.Trim(line, "|-") == "" {
			list = list[:len(list)-1] // what was before it is the head
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
		}
		list = append(list, cells)
	}
	return list
}

var code = regexp.MustCompile("`([^`]+)`")

// spans are the code spans of a text.
func spans(text string) []string {
	var list []string
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// firstCells are the code spans in the first column of the tables, sorted.
func firstCells(text string) []string {
	var list []string
	for _, row := range rows(text) {
		list = append(list, spans(row[0])...)
	}
	slices.Sort(list)
	return list
}

// same compares what a page names with what there is.
func same(t *testing.T, what string, named, there []string) {
	t.Helper()
	slices.Sort(there)
	if !slices.Equal(there, named) {
		t.Errorf("%s: the program has (-), the page names (+):\n%s", what, cmp.Diff(there, named))
	}
}

func TestManualHasEveryLink(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	known := map[string][]string{} // the anchors of each page
	anchorsOf := func(page string) []string {
		if _, ok := known[page]; !ok {
			known[page] = anchors(readPage(t, page))
		}
		return known[page]
	}
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(readPage(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
			}
			if _, err := os.Stat(filepath.Join(repository, target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, m[1], err)
			} else if anchor != "" && !slices.Contains(anchorsOf(target), anchor) {
				t.Errorf("%s: the link %s leads to no heading", page, m[1])
			}
		}
	}
}

// anchors are the anchors of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var list []string
	punctuation := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		name := punctuation.ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(name, " ", "-"))
	}
	return list
}

func TestManualIndexNamesEveryPage(t *testing.T) {
	index := readPage(t, "docs/README.md")
	for _, page := range pages(t) {
		path, err := filepath.Rel("docs", page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(page, "docs/") && page != "docs/README.md" && !strings.Contains(index, "("+filepath.ToSlash(path)+")") {
			t.Errorf("docs/README.md has no link to %s", page)
		}
	}
}

// TestManualRunsAllElsewhere keeps the list of lines that are not run short.
func TestManualRunsAllElsewhere(t *testing.T) {
	var all string
	for _, page := range pages(t) {
		all += readPage(t, page)
	}
	for command, why := range elsewhere {
		if !strings.Contains(all, command) || why == "" {
			t.Errorf("no page has the line %q any more, or nobody says why it is not run", command)
		}
	}
}

// properties are the keys that a schema knows at a place, other spellings of
// one left out.
func properties(t *testing.T, name string, path ...string) []string {
	t.Helper()
	source, err := schemas.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	var node map[string]any
	if err := json.Unmarshal(source, &node); err != nil {
		t.Fatal(err)
	}
	for _, step := range path {
		node = node[step].(map[string]any)
	}
	var keys []string
	for key, value := range node["properties"].(map[string]any) {
		about, _ := value.(map[string]any)["description"].(string)
		if key != "$schema" && !strings.HasPrefix(about, "Another spelling of ") {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestManualNamesEveryKey(t *testing.T) {
	const agentFiles, tools = "docs/agent-files.md", "docs/tools.md"
	contents := section(t, agentFiles, "## The keys of contents")
	contents, boxes, _ := strings.Cut(contents, "### Toolboxes")
	boxes, servers, _ := strings.Cut(boxes, "### MCP servers")
	boxes, rest, _ := strings.Cut(boxes, "### Builtin toolboxes")
	builtin, runners, _ := strings.Cut(rest, "### Runners")
	builtin, _, _ = strings.Cut(builtin, "### Scripts") // tables of functions too
	runners, remote, _ := strings.Cut(runners, "### Remote agents")
	boxes += runners
	builtin, _, _ = strings.Cut(builtin, "### Scripts")
	same(t, "a remote agent", firstCells(remote), properties(t, schemas.AgentName, "$defs", "remoteAgent"))
	same(t, "an agent of the Agent Client Protocol", firstCells(section(t, "docs/acp.md", "## Agents of the protocol as sub-agents")), properties(t, schemas.ACPAgentName, "properties", "contents"))
	same(t, "settings of BashToolbox", firstCells(builtin), properties(t, schemas.AgentName, "$defs", "bashSettings"))
	same(t, "contents", firstCells(contents), properties(t, schemas.AgentName, "$defs", "contents"))
	unsupported := []string{"bindings", "lifetime"} // named below the table of contents
	same(t, "mcpServers", slices.Sorted(slices.Values(append(firstCells(servers), unsupported...))), properties(t, schemas.AgentName, "$defs", "mcpServer", "properties", "contents"))
	for _, key := range firstCells(boxes) {
		if !slices.Contains(properties(t, schemas.AgentName, "$defs", "bashToolbox", "properties", "contents"), key) {
			t.Errorf("the page names the key %s of a toolbox, which there is not", key)
		}
	}
	same(t, "keys file", firstCells(section(t, agentFiles, "## The keys file")), properties(t, schemas.KeysName, "properties", "keys", "items"))
	same(t, "cfg file", firstCells(section(t, agentFiles, "## agents-exe.cfg.json")), properties(t, schemas.CfgName))
	same(t, "description", firstCells(section(t, tools, "## describe")), properties(t, schemas.ToolDescriptionName))
	var args []string
	for _, row := range rows(section(t, tools, "## Arguments")) {
		if len(row) == 4 {
			args = append(args, spans(row[0])...)
		}
	}
	slices.Sort(args)
	same(t, "arguments", args, properties(t, schemas.ToolDescriptionName, "$defs", "arg"))
}

func TestManualNamesEveryKeyOfATest(t *testing.T) {
	const page = "docs/testing.md"
	tools, _, _ := strings.Cut(section(t, page, "## Tools"), "### MCP servers")
	_, stubs, _ := strings.Cut(tools, "| key of a stub |")
	expect, _, _ := strings.Cut(section(t, page, "## Expectations"), "### Texts")
	for _, test := range []struct {
		what, text string
		path       []string
	}{
		{"test", section(t, page, "## The file"), nil},
		{"stub", "| key |" + stubs, []string{"$defs", "stub"}},
		{"expect", expect, []string{"$defs", "expect"}},
		{"text", section(t, page, "### Texts"), []string{"$defs", "conditions"}},
		{"call", section(t, page, "### Calls"), []string{"$defs", "call"}},
	} {
		same(t, test.what, firstCells(test.text), properties(t, schemas.AgentTestName, test.path...))
	}
}

func TestManualNamesEveryFlavor(t *testing.T) {
	var names []string
	for _, row := range rows(section(t, "docs/agent-files.md", "## Flavors")) {
		name := spans(row[0])[0]
		names = append(names, name)
		if name == "scripted" {
			continue
		}
		for _, spelling := range spans(row[1]) {
			if f, err := openai.ParseFlavor(spelling); err != nil || string(f) != name {
				t.Errorf("ParseFlavor(%q) = %q, %v; the page says %s", spelling, f, err, name)
			}
		}
		if url := strings.Join(spans(row[2]), ""); url != openai.Flavor(name).URL() {
			t.Errorf("the URL of %s is %q, the page says %q", name, openai.Flavor(name).URL(), url)
		}
	}
	slices.Sort(names)
	same(t, "flavors", names, slices.Sorted(slices.Values(append(openai.Flavors(), "scripted", "caller"))))
}

func TestManualNamesSecretsThatAreWithheld(t *testing.T) {
	list := rows(section(t, "docs/tools.md", "## Environment"))
	for i, around := range []string{"x%s", "X%s", "%sx", "%s"} {
		for _, span := range spans(list[i][1]) {
			if name := fmt.Sprintf(around, span); !toolenv.IsSecret(name) {
				t.Errorf("IsSecret(%q) is false; the page says it is a secret", name)
			}
		}
	}
	if toolenv.IsSecret("DATABASE_URL") {
		t.Error("DATABASE_URL is withheld; the page says it is not")
	}
}

// TestManualTranslatesArguments makes the calls of the two tables with the tool
// that stands before them.
func TestManualTranslatesArguments(t *testing.T) {
	page := readPage(t, "docs/tools.md")
	i := slices.IndexFunc(blocks(page), func(b block) bool { return b.file == "mail/description.json" })
	path := filepath.Join(t.TempDir(), "mail")
	text := "#!/bin/sh\n[ \"$1\" = describe ] && exec cat <<'JSON'\n" + blocks(page)[i].text + "JSON\nexit 9\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	set, err := exectool.Open(t.Context(), []exectool.Source{{Path: path}}, exectool.Options{Environ: os.Environ()})
	if err != nil || len(set.List()) != 1 {
		t.Fatal(err, set.Problems())
	}
	tool := set.List()[0]
	translated, refused := 0, 0
	for _, row := range rows(section(t, "docs/tools.md", "## Arguments")) {
		switch args := spans(row[0])[0]; {
		case !strings.HasPrefix(args, "{"):
		case len(row) == 3:
			translated++
			var argv []string
			var stdin string
			unquote(t, spans(row[1])[0], &argv)
			unquote(t, spans(row[2])[0], &stdin)
			gotArgv, gotStdin, err := tool.Translate(&agent.Invocation{Call: agent.ToolCall{Args: args}})
			if err != nil || !slices.Equal(gotArgv, argv) || string(gotStdin) != stdin {
				t.Errorf("Command(%s) = %q, %q, %v; the page says %q, %q", args, gotArgv, gotStdin, err, argv, stdin)
			}
		default:
			refused++
			_, err := (&runner.Runner{Agent: &agent.Agent{}}).Call(t.Context(), schema.Checked(tool), args)
			if err == nil || !matches([]string{strings.ReplaceAll(err.Error(), "\n", " ")}, spans(row[1])) {
				t.Errorf("Call(%s): %v; the page says %s", args, err, row[1])
			}
		}
	}
	if translated < 5 || refused < 5 {
		t.Errorf("the page has %d and %d examples, want 5 of each at least", translated, refused)
	}
}

func unquote(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// TestManualNamesTestsThatExist looks for the tests of the guarantees. The table of
// platforms has none.
func TestManualNamesTestsThatExist(t *testing.T) {
	shown, sources := 0, map[string]string{}
	page := strings.Replace(readPage(t, "docs/promises.md"), section(t, "docs/promises.md", "## Platforms"), "", 1)
	for _, row := range rows(page) {
		from := ""
		for _, span := range spans(row[len(row)-1]) {
			switch {
			case strings.HasSuffix(span, ".txtar"):
				readPage(t, span)
				shown++
			case strings.Contains(span, "/"):
				from = span
			default:
				shown++
				if sources[from] == "" {
					sources[from] = testSources(t, from)
				}
				if !strings.Contains(sources[from], "\nfunc "+span+"(") {
					t.Errorf("docs/promises.md: %s has no test %s", from, span)
				}
			}
		}
		if from == "" && !strings.Contains(row[len(row)-1], ".txtar") {
			t.Errorf("docs/promises.md: no test shows %q", row[0])
		}
	}
	if shown < 40 {
		t.Errorf("docs/promises.md names %d tests, want 40 at least", shown)
	}
}

// testSources are the tests of a package.
func testSources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
