package agentfile_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes the files of a txtar archive in a new folder, which becomes the
// working directory. What begins with #! is executable.
func write(t *testing.T, archive string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, f := range txtar.Parse([]byte(archive)).Files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(string(f.Data), "#!") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Name, f.Data, mode); err != nil {
			t.Fatal(err)
		}
	}
}

func load(t *testing.T, path string) (*agentfile.Tree, error) {
	t.Helper()
	tree, err := agentfile.Load(t.Context(), path, agentfile.Options{Environ: os.Environ()})
	t.Cleanup(func() { tree.Close() })
	return tree, err
}

// lines are the problems as a person sees them.
func lines(tree *agentfile.Tree) []string {
	list := []string{}
	for _, p := range tree.Problems {
		list = append(list, fmt.Sprintf("%s [%s]: %s", p.Severity, p.Code, p))
	}
	return list
}

func toolNames(n *agentfile.Node) string {
	var names []string
	for _, s := range n.Tools {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// script is the answer of every scripted agent in these tests.
const script = `
-- script.json --
{"rules":[{"when":{},"answer":{"text":"hello from ${agent}"}}]}
`

// ping is a tool in the style of agents-exe.
const ping = `#!/bin/sh
if [ "$1" = describe ]; then
cat <<'J'
{"slug":"ping","description":"pings a host","args":[{"name":"host","description":"the host","type":"hostname|ip4","backing_type":"string","arity":"single","mode":"positional"}]}
J
exit 0
fi
echo "pong $2"
`

const tree = script + `
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","apiKeyId":"none","flavor":"scripted","script":"script.json",
 "announce":"the boss","systemPrompt":["You are the boss.","Be kind."],"toolDirectory":"tools"}}
-- tools/ping.sh --
` + ping + `
-- tools/expert-1.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"expert-1","flavor":"scripted","script":"../script.json",
 "announce":"knows everything","system-prompt":"You know.","tool-directory":"expert-1-tools"}}
-- tools/expert-1-tools/pong.sh --
` + ping + `
-- tools/README.md --
not a tool
`

func TestLoadsATree(t *testing.T) {
	write(t, tree)
	got, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{}, lines(got)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(got.Nodes) != 2 || toolNames(got.Nodes[0]) != "bash_ping expert_expert-1" || toolNames(got.Nodes[1]) != "bash_ping" {
		t.Fatalf("nodes = %v", got.Nodes)
	}
	want := "You are the boss.\nBe kind.\n\nYou can ask these agents for help. Each call is a new conversation: they know nothing but your prompt.\n- expert-1 (tool expert_expert-1): knows everything"
	if got.Root.System != want {
		t.Errorf("system prompt = %q, want %q", got.Root.System, want)
	}
	agenttest.Toolset(t, got.Root.Toolsets[0])
	out, err := (&runner.Runner{Agent: got.Root}).Run(t.Context(), agent.UserText("hi"))
	if err != nil || out.Answer != "hello from root" {
		t.Errorf("Run = %+v, %v", out, err)
	}
}

func TestOneBrokenPartNeverTakesTheAgentDown(t *testing.T) {
	write(t, tree+`
-- tools/package.json --
{"name":"a tool in JavaScript has this beside it"}
-- tools/stray.json --
{"name":"stray"}
-- tools/list.json --
[1,2]
-- tools/cut.json --
{"tag":
-- tools/broken-agent.json --
{"tag":"OpenAIAgentDescription","contents":{"flavor":"scripted","script":7}}
-- tools/fails.sh --
#!/bin/sh
echo "no such program" >&2
exit 3
-- tools/garbage.sh --
#!/bin/sh
echo hello
-- tools/twice-a.sh --
#!/bin/sh
echo '{"slug":"twice","description":"d","args":[]}'
-- tools/twice-b.sh --
#!/bin/sh
echo '{"slug":"twice","description":"d","args":[]}'
-- tools/other-1.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"other","flavor":"scripted","script":"../script.json"}}
-- tools/other-2.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"other","flavor":"scripted","script":"../script.json"}}
-- tools/no-model.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"no-model","flavor":"nope","modelUrl":"http://localhost:1","modelName":"m","apiKeyId":"k","announce":"a","systemPrompt":[]}}
`)
	if err := os.Symlink("nowhere", "tools/dangling.sh"); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfifo", "tools/pipe.json").Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("tools/open.sh", []byte(ping), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod("tools/open.sh", 0o777); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	if toolNames(got.Nodes[0]) != "bash_ping expert_expert-1" {
		t.Errorf("tools = %s", toolNames(got.Nodes[0]))
	}
	want, err := os.ReadFile(golden(t, "left-out.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(lines(got), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden(t, "left-out.txt"), []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
		want = []byte(all)
	}
	if diff := cmp.Diff(string(want), all); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if _, err := (&runner.Runner{Agent: got.Root}).Run(t.Context(), agent.UserText("hi")); err != nil {
		t.Error(err)
	}
}

var testdata, _ = filepath.Abs("testdata")

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testdata, name)
}

func TestBadRootFile(t *testing.T) {
	const head = `{"tag":"OpenAIAgentDescription","contents":{`
	const rest = `"modelUrl":"http://localhost:1/v1","modelName":"m","flavor":"openai-v1","apiKeyId":"k","announce":"a","systemPrompt":"s"`
	tests := []struct {
		name, file string
		want       []string
	}{
		{"no JSON", "{\n  \"tag\": \"x\",\n}", []string{"error [syntax]: agent.json:3:1: there is a comma before the closing }"}},
		{"empty", "", []string{"error [syntax]: agent.json:1:1: there is nothing in it; want a JSON value"}},
		{"unknown flavor", head + `"slug":"a","modelUrl":"http://localhost:1/v1","modelName":"m","flavor":"gpt","apiKeyId":"k","announce":"a","systemPrompt":"s"}}`,
			[]string{`error [flavor]: agent.json:1:116: contents.flavor: there is no flavor "gpt"; the known ones are `}},
		{"unusable URL", head + `"slug":"a","modelUrl":"ftp://x","modelName":"m","flavor":"openai-v1","apiKeyId":"k","announce":"a","systemPrompt":"s"}}`,
			[]string{`error [url]: agent.json:1:67: contents.modelUrl: "ftp://x" is not a usable URL; want http:// or https:// and a host`}},
		{"unusable URL with a password", head + `"slug":"a","modelUrl":"https://me:secret%zz@x@example.org/v1","modelName":"m","flavor":"openai-v1","apiKeyId":"k"}}`,
			[]string{`error [url]: agent.json:1:67: contents.modelUrl: "https://…@example.org/v1" is not a usable URL; want http:// or https:// and a host`}},
		{"password without a scheme", head + `"slug":"a","modelUrl":"me:secret@example.org","modelName":"m","flavor":"openai-v1","apiKeyId":"k"}}`,
			[]string{`error [url]: agent.json:1:67: contents.modelUrl: "…@example.org" is not a usable URL; want http:// or https:// and a host`}},
		{"no key", head + `"slug":"a","modelUrl":"https://api.example.org/v1","modelName":"m","flavor":"openai-v1","apiKeyId":"k","announce":"a","systemPrompt":"s"}}`,
			[]string{`error [key]: agent.json:1:144: contents.apiKeyId: there is no key "k": no keys file was found`}},
		{"no URL", head + `"slug":"a","modelName":"m","flavor":"openai-compatible"}}`,
			[]string{"error [url]: agent.json:1:44: contents.modelUrl: it is missing, and the flavor openai-compatible has no server of its own"}},
		{"extraBody", head + `"slug":"a","modelName":"m","flavor":"vllm","extraBody":{"seed":1,"model":"x"}}}`,
			[]string{"error [schema]: agent.json:1:100: contents.extraBody: it cannot replace model"}},
		{"no script", head + `"slug":"a","flavor":"scripted","script":"nowhere.json"}}`,
			[]string{"error [path]: agent.json:1:85: contents.script: nowhere.json: no such file or directory"}},
		{"bad script", head + `"slug":"a","flavor":"scripted","script":"bad.json"}}`,
			[]string{"error [script]: bad.json:1:1: the key rules is missing"}},
		{"unknown flavor and more", head + `"slug":"a","modelName":"m","flavor":"gpt","maxTurns":-1}}`,
			[]string{`error [flavor]: agent.json:1:81: contents.flavor: there is no flavor "gpt"; the known ones are `,
				"error [schema]: agent.json:1:98: contents.maxTurns: "}},
		{"several at once", head + `"slug":7,"maxTurns":-1,` + rest + `}}`,
			[]string{"error [schema]: agent.json:1:52: contents.slug: ", "error [schema]: agent.json:1:65: contents.maxTurns: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, "-- bad.json --\n{}\n")
			if err := os.WriteFile("agent.json", []byte(tt.file), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := load(t, "agent.json")
			var broken *agentfile.LoadError
			if !errors.As(err, &broken) || len(broken.Problems) != len(tt.want) || got.Root != nil {
				t.Fatalf("Load = %v, problems %q", err, lines(got))
			}
			for i, want := range tt.want {
				if line := lines(got)[i]; !strings.HasPrefix(line, want) {
					t.Errorf("problem %d = %s\nwant       %s", i, line, want)
				}
			}
		})
	}
}

func TestWhatIsNoFileIsNotOpened(t *testing.T) {
	write(t, "-- x --\n")
	if err := exec.Command("mkfifo", "pipe").Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("big", make([]byte, agentfile.MaxBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("open", []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod("open", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("circle", "circle"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"circle":         "circle: too many levels of symbolic links",
		"a\nerror: fake": `"a\nerror: fake": no such file or directory`,
		"pipe":           "pipe: not a regular file but a named pipe",
		".":              ".: not a regular file but a folder",
		"/dev/zero":      "/dev/zero: not a regular file but a device",
		"big":            "big: it is longer than 1048576 bytes",
		"open":           "open: it is world-writable (mode 0666)",
		"nowhere":        "nowhere: no such file or directory",
	} {
		if _, err := load(t, path); err == nil || err.Error() != want {
			t.Errorf("Load(%q) = %v, want %s", path, err, want)
		}
	}
}

func TestCycles(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools",
 "extraAgents":[{"slug":"root","path":"agent.json"},{"slug":"wrong","path":"extra.json"},{"slug":"x","path":"nowhere.json"}]}}
-- extra.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"extra","flavor":"scripted","script":"script.json","extraAgents":[{"slug":"root","path":"agent.json"}]}}
-- tools/sub.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"sub","flavor":"scripted","script":"../script.json","toolDirectory":".."}}
`)
	got, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`left out [slug]: agent.json:2:61: contents.extraAgents[1].slug: the agent in extra.json has the slug "extra", not "wrong"`,
		`left out [path]: agent.json:2:90: contents.extraAgents[2]: nowhere.json: no such file or directory`,
		`left out [cycle]: agent.json: a cycle of tool directories: agent.json → tools/sub.json → agent.json`,
		`left out [not-agent]: script.json: this is not an agent file: it has no tag "OpenAIAgentDescription"`,
	}
	gotLines := lines(got)
	slices.Sort(gotLines)
	slices.Sort(want)
	if diff := cmp.Diff(want, gotLines); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if toolNames(got.Nodes[0]) != "expert_root expert_sub" {
		t.Errorf("tools = %s", toolNames(got.Nodes[0]))
	}
}

func TestPathsAreLookedForBesideTheFileThenInTheWorkingDirectory(t *testing.T) {
	write(t, `
-- sub/agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"here",
 "bashToolboxes":[{"tag":"SingleTool","contents":{"Path":"one.sh"}},{"tag":"FileSystemDirectory","contents":{"path":"many","basenameFilter":"good"}},
  {"tag":"SingleTool","contents":{"Path":"many"}}]}}
-- sub/script.json --
{"rules":[{"when":{},"answer":{"text":"hello"}}]}
-- here/ping.sh --
`+ping+`
-- sub/one.sh --
#!/bin/sh
echo '{"slug":"one","description":"d","args":[]}'
-- sub/many/good.sh --
#!/bin/sh
echo '{"slug":"good","description":"d","args":[]}'
-- sub/many/bad.sh --
#!/bin/sh
touch executed
`)
	got, err := load(t, "sub/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"left out [path]: sub/agent.json:3:3: contents.bashToolboxes[2]: sub/many: SingleTool needs an executable file",
		"warning [path]: sub/agent.json:1:118: contents.toolDirectory: here does not exist beside this file; the one in the working directory is used",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if toolNames(got.Nodes[0]) != "bash_good bash_one bash_ping" {
		t.Errorf("tools = %s", toolNames(got.Nodes[0]))
	}
	if _, err := os.Stat("executed"); err == nil {
		t.Error("a file that the filter leaves out was executed")
	}
}

func TestALinkedAgentFileFindsItsOwnNeighbours(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}
-- tools/README.md --
-- shared/expert.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"expert","flavor":"scripted","script":"expert-script.json","toolDirectory":"expert-tools"}}
-- shared/expert-script.json --
{"rules":[{"when":{},"answer":{"text":"hello"}}]}
-- shared/expert-tools/ping.sh --
`+ping)
	if err := os.Symlink("../shared/expert.json", "tools/expert.json"); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{}, lines(got)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(got.Nodes) != 2 || toolNames(got.Nodes[1]) != "bash_ping" {
		t.Errorf("nodes = %v", got.Nodes)
	}
}

func TestKeysOfTheWholeTreeAreCheckedBeforeAnythingRuns(t *testing.T) {
	write(t, script+`
-- keys.json --
{"keys":[{"id":"bound","value":"0123456789","hosts":["api.example.org"]}]}
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}
-- tools/a.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"OpenAIv1","modelUrl":"https://api.example.org/v1","modelName":"m","apiKeyId":"bound","announce":"a","systemPrompt":[]}}
-- tools/b.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"b","flavor":"OpenAIv1","modelUrl":"https://evil.example.org/v1","modelName":"m","apiKeyId":"bound","announce":"a","systemPrompt":[]}}
-- tools/c.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"c","flavor":"OpenAIv1","modelUrl":"https://api.example.org/v1","modelName":"m","apiKeyId":"mine","announce":"a","systemPrompt":[]}}
-- tools/d.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"d","flavor":"OpenAIv1","modelUrl":"http://127.0.0.1:11434/v1","modelName":"m","apiKeyId":"ollama","announce":"a","systemPrompt":[]}}
`)
	if err := os.Chmod("keys.json", 0o600); err != nil {
		t.Fatal(err)
	}
	keys, _, err := config.ReadKeys("keys.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Keys: keys, KeysFile: "keys.json"})
	if err == nil {
		t.Fatal("Load succeeded without a key")
	}
	want := []string{
		`error [host]: tools/b.json:1:144: contents.apiKeyId: the key "bound" is bound to api.example.org by its hosts and is not sent to evil.example.org`,
		`error [key]: tools/c.json:1:143: contents.apiKeyId: there is no key "mine" in keys.json; there are bound`,
		`note [key]: tools/d.json:1:142: contents.apiKeyId: there is no key "ollama"; requests to this machine (127.0.0.1:11434) go without one`,
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if text := fmt.Sprintf("%+v %v", got, err); strings.Contains(text, "0123456789") {
		t.Error("the key's value can be seen in the tree or the error")
	}
}

func TestModelsOfTheCallerNeedNoKey(t *testing.T) {
	write(t, `
-- agent.json --
{"tag": "OpenAIAgentDescription", "contents": {"slug": "a", "flavor": "OpenAIv1", "modelName": "m", "apiKeyId": "k", "toolDirectory": "tools"}}
-- tools/b.json --
{"tag": "OpenAIAgentDescription", "contents": {"slug": "b", "flavor": "OpenAIv1", "modelName": "m", "apiKeyId": "k", "announce": "b"}}
-- tools/b.agenttest.json --
{"prompt": "a test is no agent file, and no problem"}
`)
	given := &scripted.Provider{}
	var asked []string
	model := func(f *agentfile.File) agent.Provider {
		asked = append(asked, f.Spec.Slug)
		return given
	}
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Model: model})
	if err != nil || len(tree.Problems) > 0 {
		t.Fatalf("Load = %v, %v", err, tree.Problems)
	}
	for _, n := range tree.Nodes {
		if n.Agent.Provider != given {
			t.Errorf("%s has the model %v, want that of the caller", n.Agent.Slug, n.Agent.Provider)
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, asked); diff != "" {
		t.Errorf("asked for models of (-want +got):\n%s", diff)
	}
	// Where the caller has none, the file decides.
	if _, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Model: func(*agentfile.File) agent.Provider { return nil }}); err == nil {
		t.Error("Load without a key succeeded")
	}
}

func TestDescriptionsAreCached(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}
-- tools/counted.sh --
#!/bin/sh
echo x >> count
echo '{"slug":"counted","description":"d","args":[]}'
`)
	opts := agentfile.Options{Folders: agentfile.Folders{Cache: t.TempDir()}, Environ: os.Environ()}
	for range 3 {
		if _, err := agentfile.Load(t.Context(), "agent.json", opts); err != nil {
			t.Fatal(err)
		}
	}
	count, err := os.ReadFile("count")
	if err != nil || len(count) != 2 {
		t.Errorf("describe was run %d times, %v, want once", len(count)/2, err)
	}
}

func TestKeysOfAgentsExeAreNamedAndLeftOut(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json",
 "builtinToolboxes":[{"tag":"SomeToolbox"}], "skillSources":[], "openApiToolboxes":null, "modelname":"typo",
 "maxTurns":3, "max-turns":4, "executionMode":"x"}}
`)
	got, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"warning [unsupported]: agent.json:2:22: contents.builtinToolboxes[0]: this is left out: there is no toolbox \"SomeToolbox\"; there are BashToolbox, DeveloperToolbox, FinishToolbox, LuaToolbox, PlanToolbox, PythonToolbox, SqliteToolbox, SystemToolbox and ThinkToolbox",
		`warning [unknown]: agent.json:2:90: contents.modelname: unknown key "modelname"; did you mean "modelName"?`,
		`warning [schema]: agent.json:3:28: contents.max-turns: this is another spelling of maxTurns, which takes precedence`,
		"warning [unsupported]: agent.json:3:47: contents.executionMode: this is left out: it is not supported yet",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if got.Root.MaxTurns != 3 {
		t.Errorf("maxTurns = %d, want 3", got.Root.MaxTurns)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(`{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json"}}`)
	f.Add(`{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"OpenAIv1","model-url":"localhost","model-name":"m","bashToolboxes":[{"tag":"SingleTool","contents":{"Path":"x"}}],"systemPrompt":["a",1]}}`)
	f.Add(`{"tag":"OpenAIAgentDescription","contents":{"slug":"r","flavor":"scripted","script":"script.json","extraAgents":[{"slug":"r","path":"agent.json"}],"toolDirectory":"."}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, `/\`) {
			return // it could name what lies outside the folder
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "script.json"), []byte(`{"rules":[{"when":{},"answer":{"text":"x"}}]}`), 0o644); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "agent.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tree, err := agentfile.Load(t.Context(), path, agentfile.Options{WorkDir: dir})
		if (err == nil) != (tree.Root != nil) {
			var broken *agentfile.LoadError
			if !errors.As(err, &broken) {
				t.Fatalf("Load(%s) = %v, %v", text, tree.Root, err)
			}
		}
		for _, p := range tree.Problems {
			if p.File == "" || p.Message == "" {
				t.Fatalf("Load(%s) reports %+v", text, p)
			}
		}
	})
}
