// Package layers holds the rule of which package may import which, and the check
// that its test makes of the whole module.
//
// A package of layer 0 imports nothing of this module. A package of layer 1
// imports layer 0 and at most one library of its own field, and never another
// package of layer 1: so each can be read, tested and replaced alone. Layer 2 puts
// them together (a package of it that stands on another names it), and the command, layer 3, puts everything together. Nothing
// imports the command. Test support is for tests.
package layers

import (
	"fmt"
	"slices"
	"strings"
)

// module is the import path of this module.
const module = "github.com/agents-exe/agents"

// A rule says what one package, or every package below a folder when its path ends
// in "/...", may import besides the standard library.
type rule struct {
	path  string
	layer int
	// modules are the libraries from elsewhere that it may import itself, by module
	// path. What they import in turn is their own affair.
	modules []string
	// beside are the packages of its own layer that it may import.
	beside []string
	// support marks what only tests may import.
	support bool
}

// The packages of this module. Every package must be found here; a package that
// is listed and does not exist does no harm.
var rules = []rule{
	{path: "pkg/agent", layer: 0, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/process", layer: 0, modules: []string{"golang.org/x/sys"}},
	{path: "pkg/redact", layer: 0},
	{path: "schemas", layer: 0},

	{path: "pkg/config", layer: 1},
	{path: "pkg/exectool", layer: 1, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/mcpclient", layer: 1, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "pkg/observe", layer: 1, modules: []string{"golang.org/x/term"}},
	{path: "pkg/policy", layer: 1},
	{path: "pkg/provider", layer: 1},
	{path: "pkg/provider/openai", layer: 1, modules: []string{"github.com/openai/openai-go/v3"}},
	{path: "pkg/provider/scripted", layer: 1},
	{path: "pkg/replay", layer: 1, modules: []string{"github.com/aymanbagabas/go-udiff"}},
	{path: "pkg/sandbox", layer: 1, modules: []string{"github.com/landlock-lsm/go-landlock"}},
	{path: "pkg/schema", layer: 1, modules: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	{path: "pkg/session", layer: 1, modules: []string{"golang.org/x/sys"}},
	{path: "pkg/transcript", layer: 1},

	{path: "pkg/agentfile", layer: 2, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/mcpserver", layer: 2, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "pkg/treetest", layer: 2, modules: []string{"golang.org/x/sync", "github.com/aymanbagabas/go-udiff"}, beside: []string{"pkg/agentfile"}},
	{path: "pkg/sessionindex", layer: 2, modules: []string{"modernc.org/sqlite"}},
	{path: "pkg/tui", layer: 2, modules: []string{"charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "charm.land/bubbles/v2"}},

	{path: "cmd/agents", layer: 3, modules: []string{"github.com/urfave/cli/v3", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/term"}},
	{path: "cmd/agents-search", layer: 3},
	{path: "examples/...", layer: 3},
	{path: "tools/...", layer: 3},
	{path: "agents/...", layer: 3},

	{path: "pkg/agent/agenttest", layer: 1, support: true},
	{path: "pkg/internal/...", layer: 1, support: true},
	{path: "pkg/internal/bench/crowd", layer: 3, support: true}, // runs the library as a program would
	{path: "pkg/internal/bench/mcp", layer: 3, support: true},   // as does this
}

// A listed package is what `go list -json` tells about one that the module uses.
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Imports    []string
	Module     *struct{ Path string }
}

func (p *listed) ours() bool { return p.Module != nil && p.Module.Path == module }

// check returns what breaks the rules among the packages, which hold everything
// that a package of this module imports.
func check(packages []listed) []string {
	known := map[string]*listed{}
	for i := range packages {
		known[packages[i].ImportPath] = &packages[i]
	}
	var problems []string
	for _, p := range packages {
		if !p.ours() {
			continue
		}
		from := relative(p.ImportPath)
		r := find(from)
		if r == nil {
			problems = append(problems, fmt.Sprintf("%s is not listed: add it to rules in pkg/internal/layers/layers.go, with its layer and the libraries that it may import", from))
			continue
		}
		for _, imported := range p.Imports {
			to := known[imported]
			switch {
			case to == nil, to.Module == nil: // the standard library, or not to be found
			case to.ours():
				if why := r.forbids(relative(imported)); why != "" {
					problems = append(problems, fmt.Sprintf("%s imports %s: %s", from, relative(imported), why))
				}
			case !slices.Contains(r.modules, to.Module.Path):
				problems = append(problems, fmt.Sprintf("%s imports %s: %s is not among its libraries (%s)", from, imported, to.Module.Path, strings.Join(r.modules, ", ")))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// forbids tells why a package of rule r may not import the package to of this
// module, or "" when it may.
func (r *rule) forbids(to string) string {
	target := find(to)
	switch {
	case target == nil:
		return "" // an unlisted package is a problem of its own
	case strings.HasPrefix(to, "cmd/"), strings.HasSuffix(target.path, "/...") && target.layer == 3:
		return "nothing may import it"
	case target.support && r.support:
		return ""
	case target.support:
		return "only tests may import it"
	case r.layer == 0:
		return "layer 0 imports nothing of this module"
	case to == "schemas" && r.layer < 2:
		return "layer 1 imports only pkg/agent and pkg/process"
	case slices.Contains(r.beside, to):
		return ""
	case target.layer >= r.layer:
		return fmt.Sprintf("layer %d may not import layer %d", r.layer, target.layer)
	}
	return ""
}

// find returns the rule for a package relative to the module: its own before that
// of a folder around it.
func find(pkg string) *rule {
	var around *rule
	for i := range rules {
		folder, all := strings.CutSuffix(rules[i].path, "/...")
		if rules[i].path == pkg {
			return &rules[i]
		}
		if all && (pkg == folder || strings.HasPrefix(pkg, folder+"/")) {
			around = &rules[i]
		}
	}
	return around
}

func relative(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }
