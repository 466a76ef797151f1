package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

// progressTree is a tree whose calls come one after another. The tool wait runs until the file
// go exists.
func progressTree(t *testing.T) string {
	dir := t.TempDir()
	describe := `#!/bin/sh
if [ "$1" = describe ]; then echo '{"slug":"NAME","description":"d","args":[{"name":"path","description":"p","type":"string","backing_type":"string","arity":"single","mode":"dashdashequal"}],"effects":"none"}'; exit; fi
`
	call := func(tool, args string) string {
		return fmt.Sprintf(`{"calls":[{"tool":%q,"args":%s}]}`, tool, args)
	}
	for name, text := range map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"editor","flavor":"scripted","script":"script.json","price":{"input":1.25,"output":10},
			"toolDirectory":"tools","extraAgents":[{"slug":"facts","path":"facts/agent.json"},{"slug":"style","path":"style/agent.json"}]}}`,
		"script.json": `{"rules":[
			{"when":{"role":"user"},"answer":{"text":"I ask **both** experts.","calls":[{"tool":"bash_list","args":{"path":"."}}]}},
			{"when":{"tool":"bash_list"},"answer":` + call("expert_style", `{"prompt":"Can it be read easily?"}`) + `},
			{"when":{"tool":"expert_style"},"answer":` + call("expert_facts", `{"prompt":"Which facts does the letter state? Check each of them against the minutes."}`) + `},
			{"when":{"tool":"expert_facts"},"answer":{"text":"# The letter\n\nIt can be sent **after two changes**, see ` + "`minutes.md`" + `:\n\n| fact | letter | minutes |\n|---|--:|--:|\n| chairs | 40 | 38 |\n\n1. Correct the number of chairs.\n2. Split the *long* sentence, whose clauses repeat each other:\n   - it has 36 words\n\n` + "```sh\\nsed -i 's/40/38/' letter.txt\\n```" + `\n\n> Please send it before Friday.\n\nSee [the minutes](https://example.org/minutes).\n"}}]}`,
		"facts/agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"facts","receipt":"none","flavor":"scripted","script":"script.json","announce":"facts","toolDirectory":"tools"}}`,
		"facts/script.json": `{"rules":[{"when":{"role":"user"},"answer":` + call("bash_read", `{"path":"minutes.md"}`) + `},{"when":{"tool":"bash_read"},"answer":` + call("bash_wait", `{"path":"letter.txt"}`) + `},{"when":{"tool":"bash_wait"},"answer":{"text":"40 chairs"}}]}`,
		"style/agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"style","receipt":"none","flavor":"scripted","script":"script.json","announce":"style"}}`,
		"style/script.json": `{"rules":[{"when":{"role":"user"},"fault":{"status":400}}]}`,
		"tools/list":        strings.Replace(describe, "NAME", "list", 1) + "echo letter.txt\n",
		"facts/tools/read":  strings.Replace(describe, "NAME", "read", 1) + "echo 'minutes.md: line 12: the table of the last meeting cannot be read, and there is no other one' >&2; exit 3\n",
		"facts/tools/wait":  strings.Replace(describe, "NAME", "wait", 1) + "while [ ! -e " + dir + "/go ]; do sleep 0.02; done\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestProgressOnScreens records what a person sees of a run: while a call at depth two runs, and
// at the end.
func TestProgressOnScreens(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, columns := range map[string]int{"40": 40, "80": 80, "200": 200, "ascii": 80} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := progressTree(t)
			command, mark := `agents run --agent-file agent.json --no-session -p "Review letter.txt"; echo "code $?"`, "•"
			if name == "ascii" {
				command, mark = "export LC_ALL=POSIX; "+command, `\*`
			}
			s := tmuxtest.Open(t, tmuxtest.Options{Dir: dir, Columns: columns, Rows: 40, Command: command, Links: map[string]string{"agents": self}})
			s.Await(mark + ` bash_wait`)
			s.Golden("run-" + name + "-live")
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			s.Await(`^code 0$`)
			s.Golden("run-" + name)
		})
	}
}
