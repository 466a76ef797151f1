package agentfile_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
)

// TestManyToolsAreHidden: tools that the file names one by one are still offered, in the same order.
func TestManyToolsAreHidden(t *testing.T) {
	cache := t.TempDir()
	write(t, "-- tools/README.md --\nnothing\n-- single/README.md --\nnothing\n")
	put := func(path string) {
		t.Helper()
		_, slug, _ := strings.Cut(path, "/")
		if err := os.WriteFile(path, []byte(toolScript(slug, "")), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("single/one")
	put("tools/needed")
	for i := range 57 {
		put(fmt.Sprintf("tools/t%02d", i))
	}
	single := `,"bashToolboxes":[{"tag":"SingleTool","contents":{"path":"single/one"}}]`
	load := func(keys string) (names []string, n *agentfile.Node) {
		t.Helper()
		text := `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools",
			"builtinToolboxes":[{"tag":"ThinkToolbox"}]` + single + keys + `}}`
		if err := os.WriteFile("agent.json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: os.Environ(), NoModels: true, Folders: agentfile.Folders{Cache: cache}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // of turns
			names = nil
			for _, set := range tree.Root.Toolsets {
				list, err := agent.ToolsOf(t.Context(), set, &agent.State{Toolgroups: agent.Toolgroups{"bash_t05": true}})
				if err != nil {
					t.Error(err)
				}
				for _, tool := range list {
					names = append(names, tool.Spec().Name)
				}
			}
		}
		slices.Sort(names)
		return names, tree.Nodes[0]
	}
	check := func(what, keys string, hidden int, want ...string) {
		t.Helper()
		names, n := load(keys)
		if hidden == 0 && (len(names) < 60 || slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "meta_") })) || hidden > 0 && !slices.Equal(names, want) || n.HiddenTools() != hidden {
			t.Errorf("%s: %d tools hidden, offered are %v; want %d, %v", what, n.HiddenTools(), names, hidden, want)
		}
		if meta := slices.ContainsFunc(n.Tools, func(s agent.ToolSpec) bool { return s.Name == "meta_discover_tools" }); meta != (hidden > 0) && !n.File.Spec.Watch {
			t.Errorf("%s: the known tools have meta_discover_tools: %v", what, meta)
		}
	}
	meta := []string{"meta_activate_tool", "meta_deactivate_tool", "meta_discover_tools"}
	check("60 tools", "", 0)
	check("a smaller context", `,"contextTokens":10000`, 58, append([]string{"bash_one", "bash_t05"}, append(meta, "think")...)...)
	put("tools/last")
	check("61 tools", "", 59, append([]string{"bash_one", "bash_t05"}, append(meta, "think")...)...)
	check("watched", `,"watch":true`, 59, append([]string{"bash_one", "bash_t05"}, append(meta, "think")...)...)
	check("a required one", `,"requiredTools":["bash_needed"]`, 58, append([]string{"bash_needed", "bash_one", "bash_t05"}, append(meta, "think")...)...)
	check("all", `,"activation":"all"`, 0)
	check("more are not too many", `,"activation":{"tools":61}`, 0)
	check("their size", `,"activation":{"tools":1000,"tokens":10}`, 59, append([]string{"bash_one", "bash_t05"}, append(meta, "think")...)...)
	const denied = `,"permissions":[{"verdict":"deny","tool":"bash_t1*"}]`
	check("denied ones, which are not offered anyway", denied, 0)
	check("watched, denied ones", denied+`,"watch":true`, 0)
	check("more than the denied ones", denied+`,"activation":{"tools":50}`, 49, append([]string{"bash_one", "bash_t05"}, append(meta, "think")...)...)
	sub := strings.Replace(toolScript("away", ""), `"slug"`, `"channel":1,"slug"`, 1)
	if err := os.WriteFile("tools/away", []byte(sub), 0o755); err != nil {
		t.Fatal(err)
	}
	single = ""
	for _, keys := range []string{"", `,"watch":true`} {
		check("a sub-agent that is an executable"+keys, keys, 59, append([]string{"bash_away", "bash_t05"}, append(meta, "think")...)...)
	}
}
