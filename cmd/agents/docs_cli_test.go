package main

import (
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
)

// help is what `agents … --help` prints.
func help(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	p := &program.Env{In: strings.NewReader(""), Out: &out, Err: io.Discard, Getenv: func(string) string { return "" }, Version: "dev"}
	if err := root(p).Run(t.Context(), append(append([]string{"agents"}, args...), "--help")); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var flagName = regexp.MustCompile(`(?:^|[ ,])(--?[a-zA-Z0-9][a-z0-9-]*)`)

// helpFlags are the flags in a part of a help text, sorted.
func helpFlags(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		flags, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !strings.HasPrefix(flags, "-") {
			continue
		}
		for _, m := range flagName.FindAllStringSubmatch(flags, -1) {
			list = append(list, m[1])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// pageFlags are the flags in the first column of tables, sorted.
func pageFlags(text string) []string {
	var list []string
	for _, span := range firstCells(text) {
		if strings.HasPrefix(span, "-") {
			list = append(list, strings.Fields(span)[0])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestManualNamesEveryFlag(t *testing.T) {
	const page = "docs/cli.md"
	top := help(t)
	_, commands, _ := strings.Cut(top, "COMMANDS:\n")
	commands, global, _ := strings.Cut(commands, "GLOBAL OPTIONS:\n")
	same(t, "agents --help", pageFlags(section(t, page, "## Flags of all commands")), helpFlags(global))

	var named []string
	for _, m := range regexp.MustCompile(`(?m)^## agents (.+)$`).FindAllStringSubmatch(readPage(t, page), -1) {
		named = append(named, m[1])
	}
	texts := map[string]string{}
	commandTexts(t, commands, nil, texts)
	slices.Sort(named)
	same(t, "commands", named, slices.Collect(maps.Keys(texts)))
	for name, text := range texts {
		_, options, _ := strings.Cut(text, "OPTIONS:\n")
		options, _, _ = strings.Cut(options, "GLOBAL OPTIONS:")
		flags := slices.DeleteFunc(helpFlags(options), func(s string) bool { return s == "--help" || s == "-h" })
		documented := section(t, page, "## agents "+name)
		if strings.Contains(documented, "](#the-prompt-script)") {
			documented += section(t, page, "## The prompt script")
		}
		same(t, "agents "+name+" --help", pageFlags(documented), flags)
	}
}

// commandTexts adds the help of the commands in a list of a help text; a command that only
// holds others stands for these.
func commandTexts(t *testing.T, list string, above []string, texts map[string]string) {
	t.Helper()
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			break
		}
		name := append(slices.Clone(above), fields[0])
		text := help(t, name...)
		if _, inner, ok := strings.Cut(text, "COMMANDS:\n"); ok {
			commandTexts(t, inner, name, texts)
		} else {
			texts[strings.Join(name, " ")] = text
		}
	}
}

func TestManualNamesEveryExitCode(t *testing.T) {
	var there []string
	for _, n := range []int{failure.ExitOK, failure.ExitFailed, failure.ExitNothingRan, failure.ExitLimit, failure.ExitRefused, failure.ExitDeadline, failure.ExitAnswer, failure.ExitInterrupted, failure.ExitTerminated} {
		there = append(there, strconv.Itoa(n))
	}
	same(t, "exit codes", firstCells(section(t, "docs/cli.md", "## Exit codes")), there)
}

// members are the names of a struct's fields in JSON.
func members(v any) []string {
	var list []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			list = append(list, name)
		}
	}
	return list
}

func TestManualNamesEveryField(t *testing.T) {
	const page = "docs/cli.md"
	same(t, "--output json", firstCells(section(t, page, "### json")), members(sinks.Result{}))
	var kinds, fields []string
	objects := map[string]any{
		"message": agent.Message{}, "part": agent.Part{}, "call": agent.ToolCall{}, "result": agent.ToolResult{},
		"usage": agent.Usage{}, "tool usage": agent.ToolUsage{}, "spent": agent.TotalUsage{}, "limits": agent.Limits{}, "task": agent.Task{},
	}
	known := 0
	for _, row := range rows(section(t, page, "## Events")) {
		object, ok := objects[row[0]]
		switch {
		case ok:
			known++
			// What stands in brackets are values, not names.
			names := spans(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(row[1], ""))
			slices.Sort(names)
			same(t, row[0], names, members(object))
		case slices.Contains([]string{"string", "number", "boolean", "limits", "message", "usage", "result", "spent", "strings", "tools", "messages", "object", "tasks", "value"}, row[1]):
			fields = append(fields, spans(row[0])...)
		default:
			kinds = append(kinds, spans(row[0])...)
		}
	}
	if known != len(objects) {
		t.Errorf("%s describes %d objects, want %d", page, known, len(objects))
	}
	slices.Sort(fields)
	slices.Sort(kinds)
	same(t, "fields of events", fields, members(agent.Event{}))
	same(t, "kinds of events", kinds, constants(t, "event.go", "EventKind"))
	outcomes := spans(rows(section(t, page, "### json"))[1][2])
	slices.Sort(outcomes)
	same(t, "outcomes", outcomes, constants(t, "errors.go", "Status"))
}

// constants are the values of the string constants of a type of package agent.
func constants(t *testing.T, file, kind string) []string {
	t.Helper()
	source := readPage(t, "pkg/agent/"+file)
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^\s+\w+\s+`+kind+` = "(\w+)"`).FindAllStringSubmatch(source, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestManualNamesTheFieldsOfEachEvent looks at the events of a run: none has a
// field that the page does not name for its kind.
func TestManualNamesTheFieldsOfEachEvent(t *testing.T) {
	named := map[string][]string{}
	kinds := constants(t, "event.go", "EventKind")
	for _, row := range rows(section(t, "docs/cli.md", "## Events"))[:len(kinds)] {
		named[strings.Trim(row[0], "`")] = append(spans(row[2]), "time", "kind", "session", "agent", "parent", "depth")
	}
	cmd := agentsCommand(t, nil, "run", "--quiet", "--output", "jsonl", "--prompt", "What is in examples/quickstart/?",
		"--agent-file", "examples/quickstart/agent.json")
	cmd.Dir = repository
	cmd.Env = append(cmd.Env, withoutSleep)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var event map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		kind := strings.Trim(string(event["kind"]), `"`)
		for field := range event {
			if !slices.Contains(named[kind], field) {
				t.Errorf("an event of kind %s has the field %s, which the page does not name", kind, field)
				named[kind] = append(named[kind], field) // once is enough
			}
		}
	}
}
