package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/schemas"
	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"
)

var updateMigrating = flag.Bool("update-migrating", false, "write docs/migrating.md from its table")

// A migratingGroup is a table of docs/migrating.md. Here is a kind and a name: what the
// thing of agents-exe is in this program; "" if nothing is.
type migratingGroup struct {
	Title string
	Rows  []struct{ Name, Here, Note string }
}

func readMigrating(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/migrating", name))
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMigratingCoversBothSides compares the table with the names that agents-exe has, as
// they were extracted from its sources, and with what this program has.
func TestMigratingCoversBothSides(t *testing.T) {
	var groups []migratingGroup
	var theirs struct{ Names map[string][]string }
	readMigrating(t, "table.json", &groups)
	readMigrating(t, "agents-exe.json", &theirs)
	ours := newOurNames(t)
	for _, g := range groups {
		var named []string
		for _, row := range g.Rows {
			named = append(named, row.Name)
			if row.Here != "" && !ours.has(row.Here) {
				t.Errorf("%s: %s is %q here, which does not exist", g.Title, row.Name, row.Here)
			}
			if strings.Contains(row.Name, " --") && strings.HasPrefix(row.Here, "flag ") != strings.Contains(row.Here, " -") {
				t.Errorf("%s: %s: want a command with a flag", g.Title, row.Name)
			}
		}
		want := slices.Sorted(slices.Values(theirs.Names[g.Title]))
		slices.Sort(named)
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("%s: agents-exe has (-), the table has (+):\n%s", g.Title, diff)
		}
		delete(theirs.Names, g.Title)
	}
	for title := range theirs.Names {
		t.Errorf("the table has no %q", title)
	}
	// Every hidden command is one of agents-exe.
	for _, c := range ours.root.Commands {
		if c.Hidden && !slices.ContainsFunc(groups, func(g migratingGroup) bool {
			return g.Title == "Commands" && slices.ContainsFunc(g.Rows, func(r struct{ Name, Here, Note string }) bool { return strings.Fields(r.Name)[0] == c.Name })
		}) {
			t.Errorf("the command %s is hidden and not one of agents-exe", c.Name)
		}
	}
}

// TestMigratingPageIsItsTable compares the page with what the table makes.
func TestMigratingPageIsItsTable(t *testing.T) {
	var groups []migratingGroup
	readMigrating(t, "table.json", &groups)
	head, err := os.ReadFile("testdata/migrating/head.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(head)
	for _, g := range groups {
		page += fmt.Sprintf("\n## %s\n\n| agents-exe | here | notes |\n|---|---|---|\n", g.Title)
		for _, r := range g.Rows {
			page += fmt.Sprintf("| %s | %s | %s |\n", quotedNames(r.Name), shownHere(r.Name, r.Here), r.Note)
		}
	}
	path := filepath.Join(repository, "docs/migrating.md")
	if *updateMigrating {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(readPage(t, "docs/migrating.md"), page); diff != "" {
		t.Errorf("the page is (-), the table makes (+); `go test ./cmd/agents -run TestMigrating -update-migrating` writes it:\n%s", diff)
	}
}

func quotedNames(text string) string {
	return "`" + strings.Join(strings.Split(text, ", "), "`, `") + "`"
}

// shownHere is the cell of what something of agents-exe is here.
func shownHere(name, here string) string {
	kind, what, _ := strings.Cut(here, " ")
	last := what[strings.LastIndex(what, " ")+1:]
	command, flag, _ := strings.Cut(name, " -")
	switch {
	case kind == "":
		return "no"
	case kind == "file":
		return fmt.Sprintf("[%s](%s)", strings.TrimSuffix(strings.SplitN(what, "#", 2)[0], ".md"), what)
	case kind == "command" && what == name && (what == "spec" || what == "check-tool-call"): // they are hidden
		return "[the same](cli.md#commands-of-agents-exe)"
	case kind == "command" && what == name:
		return fmt.Sprintf("[the same](cli.md#agents-%s)", strings.ReplaceAll(what, " ", "-"))
	case kind == "command" && what == command: // one that is hidden
		return "the same"
	case kind == "command":
		return fmt.Sprintf("`agents %s`", what)
	case kind == "flag" && (last == name || flag != "" && last == "-"+flag):
		return "the same"
	case kind == "flag":
		return fmt.Sprintf("`%s`", last)
	case kind == "key" && what != name:
		return fmt.Sprintf("[`%s`](agent-files.md)", what)
	}
	return "the same"
}

// ourNames are the names of this program.
type ourNames struct {
	root       *cli.Command
	docs       string
	agent, cfg map[string]any
	agentText  string
}

func newOurNames(t *testing.T) *ourNames {
	t.Helper()
	o := &ourNames{root: root(&program.Env{Getenv: func(string) string { return "" }})}
	for _, page := range pages(t) {
		if !strings.HasSuffix(page, "migrating.md") && !strings.HasSuffix(page, "designs.md") {
			o.docs += readPage(t, page)
		}
	}
	for name, to := range map[string]*map[string]any{"agent": &o.agent, "cfg": &o.cfg} {
		text, err := schemas.Read(name + ".schema.json")
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == "agent" {
			o.agentText = string(text)
		}
	}
	return o
}

// has reports whether a kind and a name, as "flag run --prompt", exist.
func (o *ourNames) has(here string) bool {
	kind, what, _ := strings.Cut(here, " ")
	switch kind {
	case "key":
		return property(o.agent["$defs"].(map[string]any)["contents"], what)
	case "cfg":
		return property(o.cfg, strings.Split(what, ".")...)
	case "setting":
		upper := strings.ToUpper(what[:1]) + what[1:]
		return strings.Contains(o.agentText, `"`+what+`": {`) || strings.Contains(o.agentText, `"`+upper+`": {`) || strings.Contains(o.docs, "`"+what+"`")
	case "tag":
		return strings.Contains(o.agentText, `"`+what+`"`)
	case "doc":
		return strings.Contains(o.docs, what)
	case "file":
		page, _, _ := strings.Cut(what, "#")
		_, err := os.Stat(filepath.Join(repository, "docs", page))
		return err == nil
	case "command", "flag":
		c := o.root
		for _, word := range strings.Fields(what) {
			if name := strings.TrimLeft(word, "-"); name != word {
				return kind == "flag" && slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
			}
			if c = c.Command(word); c == nil {
				return false
			}
		}
		return kind == "command"
	}
	return false
}

// property reports whether a schema has a property, with those below it.
func property(schema any, path ...string) bool {
	for _, name := range path {
		object, _ := schema.(map[string]any)
		properties, ok := object["properties"].(map[string]any)
		if !ok { // of an object with names of any kind
			object, _ = object["additionalProperties"].(map[string]any)
			properties, _ = object["properties"].(map[string]any)
		}
		if schema, ok = properties[name]; !ok {
			return false
		}
	}
	return true
}
