package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/exectool/runnertest"
)

const (
	// The arguments of the model are what shells and option parsers split, expand or
	// take for themselves.
	runnerScript = `{"rules":[
 {"when":{"role":"user"},"answer":{"calls":[
   {"tool":"bash_alone","args":{"a":"a  b\t'\"$(exit)` + "`x`" + `\\","b":"*\n;&|<>~!","c":"-ä="}},
   {"tool":"bash_first","args":{"a":"--help","b":"--","c":"--filter=x"}},
   {"tool":"bash_context","args":{}},
   {"tool":"expert_poet","args":{"prompt":"--a rose's \"smell\""}}]}},
 {"answer":{"text":"${result.0}${result.1}${result.2}${result.3}"}}
]}`
	runnerTool = `#!/bin/sh
[ "$1" = run ] || { cat <<'END'
{"slug":"SLUG","description":"shows its arguments","args":[
 {"name":"a","description":"","type":"word","backing_type":"string","arity":"single","mode":"positional","allow_dash":true},
 {"name":"b","description":"","type":"word","backing_type":"string","arity":"optional","mode":"positional","allow_dash":true},
 {"name":"c","description":"","type":"word","backing_type":"string","arity":"optional","mode":"dashdashequal"}]}
END
exit; }
shift
printf '<%s>' "$@"
`
	runnerAnswer = "<a  b\t'\"$(exit)`x`\\><*\n;&|<>~!><--c=-ä=><--help><--><--c=--filter=x>{\"n\":1}verse on --a rose's \"smell\"\n"
)

// TestRunners: a tool, a folder and an agent that are elsewhere work as if they were
// here, with a second `agents` on the other side.
func TestRunners(t *testing.T) {
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "agents")); err != nil { // see TestMain
		t.Fatal(err)
	}
	environ := []string{"env", "-i", "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=" + os.Getenv("GORACE")}
	for name, prefix := range map[string]func(*testing.T) []string{
		"env":     func(*testing.T) []string { return nil },
		"sandbox": func(t *testing.T) []string { return runnertest.Sandbox(t) },
		"ssh":     func(t *testing.T) []string { return runnertest.SSH(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRunner(t, append(prefix(t), environ...))
		})
	}
}

func testRunner(t *testing.T, prefix []string) {
	far := t.TempDir()
	for name, text := range map[string]string{
		"alone":            strings.ReplaceAll(runnerTool, "SLUG", "alone"),
		"a folder/one.sh":  strings.ReplaceAll(runnerTool, "SLUG", "first"),
		"a folder/two.sh":  strings.ReplaceAll(runnerTool, "SLUG", "second"),
		"a folder/context": "#!/bin/sh\n[ \"$1\" = run ] && exec cat \"$AGENTS_CONTEXT_FILE\"\n" + `echo '{"slug":"context","description":"shows the context","context":true,"args":[]}'` + "\n",
		"a folder/odd.sh":  "#!/bin/sh\necho odd >&2; exit 3\n",
		"it's/poet.json":   `{"tag":"OpenAIAgentDescription","contents":{"slug":"poet","flavor":"scripted","script":"script.json","announce":"writes verse"}}`,
		"it's/script.json": `{"rules":[{"answer":{"text":"verse on ${prompt}"}}]}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(far, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(far, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(path string) map[string]any {
		return map[string]any{"path": filepath.Join(far, path), "runner": prefix}
	}
	poet := entry("it's/poet.json")
	poet["slug"] = "poet"
	agentFile, err := json.Marshal(map[string]any{"tag": "OpenAIAgentDescription", "contents": map[string]any{
		"slug": "boss", "flavor": "scripted", "script": "script.json", "extraAgents": []any{poet},
		"bashToolboxes": []any{
			map[string]any{"tag": "SingleTool", "contents": entry("alone")},
			map[string]any{"tag": "FileSystemDirectory", "contents": entry("a folder")},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"agent.json": string(agentFile), "script.json": runnerScript}
	cmd := agentsCommand(t, files, "run", "--quiet", "--agent-file", "agent.json", "--context", `{"n":1}`, "-p", "go")
	out, err := cmd.Output()
	if err != nil || string(out) != runnerAnswer {
		t.Errorf("run = %q, %v\nwant  %q", out, err, runnerAnswer)
	}
	check, err := agentsCommand(t, files, "check", "--agent-file", "agent.json").CombinedOutput()
	for _, want := range []string{"boss (agent.json): 5 tools\n", "odd.sh'", ": describe: exit status 3: odd\n", "\n  expert_poet  "} {
		if err == nil || !strings.Contains(string(check), want) {
			t.Errorf("check = %q, %v, want %q in it", check, err, want)
		}
	}
}

func TestTheCommandLineOfAWrapperIsNotParsed(t *testing.T) {
	for line, want := range map[string]string{
		"--agent-file a.json run --channel":     "a.json",
		"run --channel --agent-file a,b.json":   "a,b.json",
		"run --channel --agent-file":            "",
		"run --channel --agent-file --quiet":    "",
		"--agent-file --quiet run --channel":    "",
		"--agent-file run --channel a.json":     "",
		"--agent-file a.json run --channel x":   "",
		"--agent-file a.json describe":          "",
		"--agent-file run run --channel":        "run",
		"--channel run --agent-file a.json":     "",
		"run --agent-file a.json --channel":     "",
		"--agent-file a.json --agent-file b.js": "",
	} {
		args := append([]string{"agents"}, strings.Fields(line)...)
		given := slices.Clone(args)
		if got, ok := nested(args); ok != (want != "") || ok && got != want || !slices.Equal(args, given) {
			t.Errorf("nested(%q) = %q, %t, want %q; the arguments are now %q", line, got, ok, want, args)
		}
	}
}
