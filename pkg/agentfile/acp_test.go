package agentfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/host"
)

// What an agent of the Agent Client Protocol executes is protected, and each toolbox in a
// sandbox is listed.
func TestProgramsOfEveryKindAreProtectedAndListed(t *testing.T) {
	other := t.TempDir() // the tree's own folder is protected anyway
	for _, name := range []string{"far", "far.py"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := writeTree(t, map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools",
			"sandbox":{"write":["."]},"builtinToolboxes":[{"tag":"PythonToolbox"},{"tag":"BashToolbox"}],
			"extraAgents":[{"tag":"AcpAgent","contents":{"slug":"far","command":["` + other + `/far","` + other + `/far.py"]}}]}}`,
		"script.json":  `{"rules":[{"answer":{"text":"x"}}]}`,
		"tools/env.sh": "#!/bin/sh\n[ \"$1\" = run ] || { echo '{\"slug\":\"env\",\"description\":\"\",\"args\":[]}'; exit; }\nenv\n",
	})
	tree, err := agentfile.Load(t.Context(), filepath.Join(dir, "agent.json"), agentfile.Options{Environ: os.Environ(), WorkDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var of []string
	for _, b := range tree.Nodes[0].Sandboxes() {
		of = append(of, b.Of...)
	}
	for _, want := range []string{"python", "bash", "agent far"} {
		if !slices.Contains(of, want) {
			t.Errorf("the sandboxes of %q lack %s", of, want)
		}
	}
	tools, err := tree.Root.Toolsets[0].Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tools, func(tool agent.Tool) bool { return tool.Spec().Name == "bash_env" })
	result, err := host.New(tree).Runner(&agent.Agent{}).Call(t.Context(), tools[i], "{}")
	if err != nil || !strings.Contains(result.Text(), other+"/far\n") || !strings.Contains(result.Text(), other+"/far.py\n") {
		t.Errorf("AGENTS_TREE = %q, %v, want the programs of the agent in it", result.Text(), err)
	}
}
