package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agentfile"
)

// No tool that writes changes what decides which programs are executed.
func TestWritingLeavesTheTreeAlone(t *testing.T) {
	needs(t, "python3")
	b := newBox(t)
	b.write("main/agent.json", `{"tag":"OpenAIAgentDescription","contents":{"slug":"main","flavor":"scripted","script":"none.json","toolDirectory":"tools","mcpConfigFiles":["../servers.json","later.json"],"mcpServers":{"s":{"command":"sh","args":["../server.sh"],"cwd":"src"}}}}`)
	b.write("main/tools/helper.json", `{"tag":"OpenAIAgentDescription","contents":{"slug":"helper","flavor":"scripted","script":"none.json","toolDirectory":"../../more"}}`)
	b.write("servers.json", `{"mcpServers":{}}`)
	b.write("secret", "old\n")
	b.write("my.json", "old\n")
	b.write("free", "old\n")
	b.write("more/tool", "#!/bin/sh\necho '{\"slug\":\"more\",\"description\":\"d\",\"args\":[]}'\n")
	b.write("src/linked", "#!/bin/sh\necho '{\"slug\":\"linked\",\"description\":\"d\",\"args\":[]}'\n")
	for _, name := range []string{"more/tool", "src/linked"} {
		if err := os.Chmod(b.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"main/tools/linked": "../../src/linked", "tree": "main", "hidden": "my.json"}
	for _, tool := range []string{"write-file", "edit-file", "patch", "remember"} {
		links["main/tools/"+tool] = filepath.Join(folder, tool)
	}
	for name, to := range links {
		if err := os.Symlink(to, b.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := agentfile.Load(t.Context(), b.path("tree/agent.json"), agentfile.Options{
		Environ: append(os.Environ(), "AGENTS_TREE="+b.path("above"), "AGENTS_NOTES_FILE=main/tools/notes"),
		WorkDir: b.dir, NoModels: true, KeysFile: b.path("secret"), Protected: []string{b.path("hidden"), ""}})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for name := range b.tools {
		delete(b.tools, name) // they protect nothing
	}
	for _, set := range tree.Root.Toolsets {
		list, _ := set.Tools(t.Context()) // an error is that of the server, which does not work
		for _, tool := range list {
			b.tools[strings.TrimPrefix(tool.Spec().Name, "bash_")] = tool
		}
	}
	const want = "belongs to the agents that run here"
	for _, path := range []string{
		"main/agent.json", "tree/agent.json", "main/tools/helper.json", "main/tools/new", "main/tools/deep/new", "more/tool", "more/new",
		"src/linked", "servers.json", "main/later.json", "tree/later.json", "later.json", "main/server.sh", "secret", "my.json", "hidden", "above", "above/x", "agents-exe.cfg.json", "sub/Agents-exe.cfg.json",
	} {
		b.fails("write_file", args{"path": path, "content": "x"}, 1, want)
		b.fails("patch", args{"patch": fmt.Sprintf("--- /dev/null\n+++ %s\n@@ -0,0 +1 @@\n+a\n", path)}, 1, want)
		b.fails("edit_file", args{"path": path, "old": "old", "new": "new"}, 1, want)
	}
	b.fails("remember", args{"note": "n"}, 1, want)
	for _, path := range []string{"free", "src/new", "main/notes.json"} {
		b.ok("write_file", args{"path": path, "content": "x"})
	}
}
