//go:build linux

package suites

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/yamldoc"
)

// An attribute is defined in the registry, or refers to one that is.
type attribute struct {
	Key   string
	Type  any // a name, or an object with members
	Ref   string
	Group string `json:"ref_group"`
	Level any    `json:"requirement_level"`
}

// A spanType is a kind of span, or a group of attributes that spans share.
type spanType struct {
	ID, Type, Kind string
	Attributes     []attribute
}

// conventions holds OpenTelemetry's conventions for generative AI.
type conventions struct {
	Attributes []attribute
	Groups     []spanType `json:"attribute_groups"`
	Spans      []spanType
}

func readConventions(t *testing.T, dir string) (all conventions) {
	t.Helper()
	for _, file := range files(t, dir, ".yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := yamldoc.Parse(text, jsondoc.Options{})
		if err != nil || len(docs) != 1 {
			t.Fatalf("%s: %v", file, err)
		}
		var one conventions
		if err := json.Unmarshal(docs[0].Raw(docs[0].Root), &one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all.Attributes = append(all.Attributes, one.Attributes...)
		all.Groups = append(all.Groups, one.Groups...)
		all.Spans = append(all.Spans, one.Spans...)
	}
	// Attributes that all conventions share are not in this repository.
	all.Attributes = append(all.Attributes, attribute{Key: "error.type", Type: "string"})
	return all
}

// uses collects the attributes of a span with their levels; later ones replace earlier ones if
// they have a level.
func (c conventions) uses(list []attribute, into map[string]any) {
	for _, a := range list {
		if a.Group != "" {
			if i := slices.IndexFunc(c.Groups, func(g spanType) bool { return g.ID == a.Group }); i >= 0 {
				c.uses(c.Groups[i].Attributes, into)
			}
		} else if _, there := into[a.Ref]; !there || a.Level != nil {
			into[a.Ref] = a.Level
		}
	}
}

// typeOf returns the type of an attribute in the registry, and the values that it knows.
func (c conventions) typeOf(key string) (kind string, values []string) {
	i := slices.IndexFunc(c.Attributes, func(a attribute) bool { return a.Key == key })
	if i < 0 {
		return "", nil
	}
	switch v := c.Attributes[i].Type.(type) {
	case string:
		return v, nil
	case map[string]any:
		members, _ := v["members"].([]any)
		for _, m := range members {
			value, _ := m.(map[string]any)["value"].(string)
			values = append(values, value)
		}
	}
	return "string", values
}

// A traced is a span in OTLP's JSON.
type traced struct {
	Name       string
	Kind       int
	Attributes []struct {
		Key   string
		Value map[string]any
	}
}

// spanTypes maps our operations to span types of the conventions. As far as a span can tell, its
// agent runs in the same process: an agent elsewhere exports a span of its own.
var spanTypes = map[string]string{"invoke_agent": "gen_ai.invoke_agent.internal", "chat": "gen_ai.inference.client", "execute_tool": "gen_ai.execute_tool.internal"}

// spanTitles maps operations to the attribute that follows them in the name of a span.
var spanTitles = map[string]string{"invoke_agent": "gen_ai.agent.name", "chat": "gen_ai.request.model", "execute_tool": "gen_ai.tool.name"}

// TestTelemetry compares exported spans, and the names in pkg/observe/semconv.go, with the
// conventions of OpenTelemetry for generative AI.
func TestTelemetry(t *testing.T) {
	c := readConventions(t, folder(t, "SEMCONV_GENAI", "model"))
	source, err := os.ReadFile("../../observe/semconv.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`attr\w+\s*= "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		if kind, _ := c.typeOf(m[1]); kind == "" && !strings.HasPrefix(m[1], "agents.") {
			t.Errorf("%s is not in the registry", m[1])
		}
	}
	_, providers := c.typeOf("gen_ai.provider.name")
	for _, m := range regexp.MustCompile(`return "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		if !slices.Contains(providers, m[1]) {
			t.Logf("a provider of our own: %s", m[1])
		}
	}
	counts, seen := tally{}, map[string]bool{}
	for _, s := range spansOfRuns(t) {
		counts["spans"]++
		c.check(t, s, counts)
		op, _, _ := strings.Cut(s.Name, " ")
		seen[op] = true
	}
	if len(seen) != len(spanTypes) {
		t.Errorf("only spans of %v", seen)
	}
	t.Log(counts)
}

// check compares one span.
func (c conventions) check(t *testing.T, s traced, counts tally) {
	t.Helper()
	values := map[string]any{}
	for _, a := range s.Attributes {
		if strings.HasPrefix(a.Key, "agents.") {
			counts["attributes of our own"]++
			continue
		}
		counts["attributes"]++
		kind, known := c.typeOf(a.Key)
		wire := map[string]string{"string": "stringValue", "int": "intValue", "double": "doubleValue", "boolean": "boolValue", "string[]": "arrayValue"}[kind]
		if wire == "" || a.Value[wire] == nil {
			t.Errorf("%s: %s is %v, want the type %q", s.Name, a.Key, a.Value, kind)
			continue
		}
		values[a.Key] = a.Value[wire]
		if text, ok := a.Value[wire].(string); ok && known != nil && !slices.Contains(known, text) {
			counts[a.Key+" with a value of our own"]++
			if a.Key != "gen_ai.provider.name" {
				t.Errorf("%s: %s is %q, want one of %v", s.Name, a.Key, text, known)
			}
		}
	}
	op, _ := values["gen_ai.operation.name"].(string)
	title, _ := values[spanTitles[op]].(string)
	i := slices.IndexFunc(c.Spans, func(t spanType) bool { return t.Type == spanTypes[op] })
	if i < 0 || s.Name != op+" "+title {
		t.Errorf("%s: the operation is %q, the span's title %q", s.Name, op, title)
		return
	}
	if want := map[string]int{"internal": 1, "client": 3}[c.Spans[i].Kind]; s.Kind != want {
		t.Errorf("%s: the kind is %d, want %d", s.Name, s.Kind, want)
	}
	uses := map[string]any{}
	c.uses(c.Spans[i].Attributes, uses)
	for key, level := range uses {
		if values[key] == nil && level == "required" {
			t.Errorf("%s: %s is required", s.Name, key)
		}
	}
	for key := range values {
		if _, listed := uses[key]; !listed {
			counts["not listed for "+op+": "+key]++
		}
	}
}

// spansOfRuns runs an agent with a sub-agent, tools that work and fail, and a model that fails.
func spansOfRuns(t *testing.T) (spans []traced) {
	t.Helper()
	dir, binary := t.TempDir(), program(t)
	const tool = "#!/bin/sh\n[ \"$1\" = describe ] && exec echo '{\"slug\":\"%\",\"description\":\"d\",\"args\":[]}'\n"
	for name, text := range map[string]string{
		"agent.json":     `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`,
		"tools/sub.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"sub","announce":"helps","flavor":"scripted","script":"../script.json"}}`,
		"tools/good":     strings.ReplaceAll(tool, "%", "good") + "echo ok\n",
		"tools/bad":      strings.ReplaceAll(tool, "%", "bad") + "exit 3\n",
		"script.json": `{"rules":[
			{"when":{"agent":"root","role":"user","prompt":"broken"},"fault":{"status":400}},
			{"when":{"agent":"root","role":"user"},"answer":{"text":"a","reasoning":"b","usage":{"inputTokens":9,"cachedTokens":5,"outputTokens":4,"reasoningTokens":2,"cost":0.5},
				"calls":[{"tool":"bash_good","args":{}},{"tool":"bash_bad","args":{}},{"tool":"bash_none","args":{}},{"tool":"expert_sub","args":{"prompt":"go"}}]}},
			{"when":{"agent":"sub"},"answer":{"text":"helped"}},
			{"answer":{"text":"done"}}]}`,
	} {
		file := filepath.Join(dir, name)
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "spans.jsonl")
	for prompt, fails := range map[string]bool{"go": false, "broken": true} {
		cmd := exec.Command(binary, "run", "--no-session", "--quiet", "-p", prompt, "--agent-file", filepath.Join(dir, "agent.json"), "--trace-file", out)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
		if text, err := cmd.CombinedOutput(); (err != nil) != fails {
			t.Fatalf("%s: %v\n%s", prompt, err, text)
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var batch struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []traced } }
		}
		if err := json.Unmarshal(line, &batch); err != nil {
			t.Fatal(err)
		}
		for _, r := range batch.ResourceSpans {
			for _, s := range r.ScopeSpans {
				spans = append(spans, s.Spans...)
			}
		}
	}
	return spans
}
