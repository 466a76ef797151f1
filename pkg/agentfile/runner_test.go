package agentfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
)

// A tree whose tools and sub-agents are behind a prefix that plays another machine: it
// knows /ping, the folder /tools and two agent files.
const farTree = `
-- home/agent.json --
{"tag": "OpenAIAgentDescription", "contents": {
  "slug": "boss", "flavor": "scripted", "script": "script.json", "systemPrompt": "You lead.",
  "bashToolboxes": [
    {"tag": "SingleTool", "contents": {"path": "/ping", "runner": ["./far", "x"]}},
    {"tag": "FileSystemDirectory", "contents": {"Path": "/tools", "BasenameFilter": "o", "Runner": ["./far", "x"], "RunnerId": ["./far", "id"]}},
    {"tag": "SingleTool", "contents": {"path": "/gone", "runner": ["./far", "x"]}}
  ],
  "extraAgents": [
    {"slug": "poet", "path": "/poet.json", "runner": ["./far", "x"]},
    {"slug": "twin", "path": "/twin.json", "runner": ["./far", "x"]},
    {"slug": "twin", "path": "twin.json"}
  ]
}}
-- home/twin.json --
{"tag": "OpenAIAgentDescription", "contents": {"slug": "twin", "flavor": "scripted", "script": "script.json"}}
-- home/script.json --
{"rules": [{"answer": {"text": "hi"}}]}
-- home/far --
#!/bin/sh
case "$*" in
id) echo 1 ;;
"x /ping describe") echo '{"slug":"ping","description":"pings","args":[]}' ;;
"x agents toolbox --filter o /tools describe") echo '{"tools":[{"file":"one.sh","description":{"slug":"one","description":"1","args":[]}}]}' ;;
"x agents --agent-file /poet.json describe") echo '{"slug":"poet","description":"writes verse","args":[]}' ;;
"x agents --agent-file /twin.json describe") echo '{"slug":"twin","description":"t","args":[]}' ;;
*) echo "not here: $*" >&2; exit 127 ;;
esac
`

// TestRunners: tools, folders and agents behind a prefix are tools of the agent, and
// those that are not there are left out.
func TestRunners(t *testing.T) {
	write(t, farTree)
	tree, err := load(t, "home/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	far, found := "", []string{}
	for _, spec := range tree.Nodes[0].Tools {
		prefix, path, _ := strings.Cut(spec.Source, " x ")
		far = prefix
		found = append(found, spec.Name+" "+path)
	}
	if diff := cmp.Diff([]string{"bash_one /tools/one.sh", "bash_ping /ping", "expert_poet /poet.json"}, found); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(far, "/home/far") || !strings.HasPrefix(far, "/") {
		t.Errorf("the prefix is executed as %q, want its absolute path", far)
	}
	if want := "- poet (tool expert_poet): writes verse"; !strings.HasSuffix(tree.Root.System, want) {
		t.Errorf("System = %q, want %q at its end", tree.Root.System, want)
	}
	got := lines(tree)
	for i, line := range got {
		got[i] = strings.ReplaceAll(line, far, "FAR")
	}
	want := []string{
		"left out [tool]: FAR x /gone: describe: exit status 127: not here: x /gone describe",
		"left out [collision]: FAR x /twin.json: two agents are both expert_twin and are left out: this one and home/twin.json",
		"left out [collision]: home/twin.json: two agents are both expert_twin and are left out: this one and FAR x /twin.json",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestRunnerIsProtected: tools get the prefix's program among the files that decide
// what is executed.
func TestRunnerIsProtected(t *testing.T) {
	data := strings.Replace(farTree, `"systemPrompt"`, `"toolDirectory": "tools", "systemPrompt"`, 1)
	write(t, data+`
-- home/tools/env --
#!/bin/sh
[ "$1" = run ] || { echo '{"slug":"env","description":"","args":[]}'; exit; }
echo "$AGENTS_TREE"
`)
	tree, err := load(t, "home/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tree.Root.Toolsets[0].Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Spec().Name == "bash_env" {
			result, err := host.New(tree).Runner(&agent.Agent{}).Call(t.Context(), tool, "{}")
			if err != nil || !strings.Contains(result.Text(), "/home/far\n") {
				t.Errorf("AGENTS_TREE = %q, %v, want the prefix's program in it", result.Text(), err)
			}
			return
		}
	}
	t.Error("there is no bash_env")
}
