package agentfile_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
	"github.com/google/go-cmp/cmp"
)

func remote(slug, url, more string) string {
	return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"openai-compatible","modelUrl":%q,"modelName":"m"%s}}`, slug, url, more)
}

// model is what an agent of the tree asks: FLAVOR URL MODEL KEY.
func model(t *testing.T, n *agentfile.Node) string {
	t.Helper()
	outer := n.Agent.Provider
	if text, ok := outer.(*unparsed.Provider); ok {
		outer = text.Provider
	}
	p, ok := outer.(*provider.Retry).Provider.(*prices.Provider).Provider.(*openai.Provider)
	if !ok {
		return n.Agent.Model
	}
	key := "without a key"
	if p.Key != nil {
		key = p.Key()
	}
	return fmt.Sprintf("%s %s %s %s", p.Flavor, p.BaseURL, p.Model, key)
}

// The key of apiKeyEnv goes to the server of the file alone, and is a secret.
func TestKeysInTheEnvironment(t *testing.T) {
	const more = `,"apiKeyEnv":"MY_KEY"`
	tests := []struct {
		name, url, more, env string
		choice               agentfile.ModelChoice
		want                 string // of the model, or the problem
	}{
		{"set", "https://api.example.org/v1", more, "MY_KEY= key-0123456789 \n", agentfile.ModelChoice{}, "openai-compatible https://api.example.org/v1 m key-0123456789"},
		{"set in another spelling", "https://api.example.org/v1", `,"api-key-env":"MY_KEY"`, "MY_KEY=key-0123456789", agentfile.ModelChoice{}, "openai-compatible https://api.example.org/v1 m key-0123456789"},
		{"not set", "https://api.example.org/v1", more, "MY_KEY=", agentfile.ModelChoice{}, "error [key-env]: agent.json:1:156: contents.apiKeyEnv: the environment variable MY_KEY is not set, and requests to api.example.org need a key"},
		{"not set, on this machine", "http://127.0.0.1:1/v1", more, "", agentfile.ModelChoice{}, "openai-compatible http://127.0.0.1:1/v1 m without a key"},
		{"not a name", "https://api.example.org/v1", `,"apiKeyEnv":"sk-123"`, "", agentfile.ModelChoice{}, `error [schema]: agent.json:1:156: contents.apiKeyEnv: got "sk-123", want the name of an environment variable`},
		{"another server", "https://api.example.org/v1", more, "MY_KEY=key-0123456789", agentfile.ModelChoice{URL: "https://api.example.org:8443/v1"},
			`error [host]: agent.json: modelUrl: apiKeyEnv: the key "$MY_KEY" is bound to api.example.org:443 by modelUrl and is not sent to api.example.org:8443`},
		{"this machine in place of the server", "https://api.example.org/v1", more, "MY_KEY=key-0123456789", agentfile.ModelChoice{URL: "http://localhost:1/v1"}, "openai-compatible http://localhost:1/v1 m without a key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, "-- agent.json --\n"+remote("root", tt.url, tt.more))
			tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: []string{tt.env}, Models: map[string]agentfile.ModelChoice{"": tt.choice}})
			got := ""
			if err != nil {
				got = lines(tree)[0]
			} else {
				got = model(t, tree.Nodes[0])
			}
			if got != tt.want {
				t.Errorf("Load = %s\nwant   %s", got, tt.want)
			}
			if secret := slices.Contains(tree.Secrets(), "key-0123456789"); secret != strings.Contains(tt.env, "key-") {
				t.Errorf("secrets = %v", tree.Secrets())
			}
		})
	}
}

func TestPasswordsOfURLsAreSecrets(t *testing.T) {
	write(t, "-- agent.json --\n"+remote("root", "http://me:pass-word@localhost:1/v1", ""))
	tree, err := load(t, "agent.json")
	if err != nil || !slices.Contains(tree.Secrets(), "pass-word") {
		t.Errorf("Load = %v with secrets %v, want the password", err, tree.Secrets())
	}
}

// Models are chosen for the whole tree or for one agent.
func TestModelsAreChosen(t *testing.T) {
	files := "-- agent.json --\n" + remote("root", "http://localhost:1/v1", `,"toolDirectory":"tools"`) +
		"\n-- tools/sub.json --\n" + remote("sub", "http://localhost:2/v1", "")
	tests := []struct {
		name   string
		models map[string]agentfile.ModelChoice
		want   []string
	}{
		{"none", nil, []string{"openai-compatible http://localhost:1/v1 m without a key", "openai-compatible http://localhost:2/v1 m without a key"}},
		{"all", map[string]agentfile.ModelChoice{"": {Name: "n", URL: "http://localhost:3/v1", Flavor: "ollama"}},
			[]string{"ollama http://localhost:3/v1 n without a key", "ollama http://localhost:3/v1 n without a key"}},
		{"one", map[string]agentfile.ModelChoice{"": {Name: "n"}, "sub": {Name: "s"}},
			[]string{"openai-compatible http://localhost:1/v1 n without a key", "openai-compatible http://localhost:2/v1 s without a key"}},
		{"nobody", map[string]agentfile.ModelChoice{"sup": {Name: "n"}},
			[]string{`error [model]: agent.json: modelName: a model is chosen for "sup", and no agent of this tree has that slug; there are root, sub`}},
		{"a flavor that is not known", map[string]agentfile.ModelChoice{"sub": {Flavor: "gpt"}},
			[]string{`left out [flavor]: tools/sub.json: flavor: there is no flavor "gpt"`}},
		{"a flavor that needs a script", map[string]agentfile.ModelChoice{"sub": {Flavor: "scripted"}},
			[]string{`left out [script]: tools/sub.json: flavor: script: it is missing: the flavor scripted needs one`}},
		{"not a URL", map[string]agentfile.ModelChoice{"": {URL: "x"}},
			[]string{`error [url]: agent.json: modelUrl: "x" is not a usable URL; want http:// or https:// and a host`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, files)
			tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Models: tt.models})
			got := lines(tree)
			if err == nil && len(got) == 0 {
				for _, n := range tree.Nodes {
					got = append(got, model(t, n))
					if n.Agent.Model != n.File.Spec.ModelName {
						t.Errorf("%s has the model %q", n.Agent.Slug, n.Agent.Model)
					}
				}
			}
			for i, line := range got {
				got[i], _, _ = strings.Cut(line, "; the known ones are")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Load (-want +got):\n%s", diff)
			}
		})
	}
}

// What has no effect is said, and makes a tree incomplete.
func TestKeysWithoutEffectMakeATreeIncomplete(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","sistemPrompt":"x",
 "bashToolboxes":[{"tag":"FileSystemDirectory","contents":{"Path":"more","Root":"/x","Lifetime":null,"Activation":{"tag":"Always"},"filter":"x"}}],
 "extraAgents":[{"slug":"root","path":"agent.json","with":{"a":1},"narrowable":false}],
 "mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"a","executable":"b","Bindings":["x"],"comand":"c"}}]}}
-- more/README.md --
nothing
`)
	got, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`warning [unknown]: agent.json:1:102: contents.sistemPrompt: unknown key "sistemPrompt"; did you mean "systemPrompt"?`,
		`warning [unsupported]: agent.json:2:19: contents.bashToolboxes[0]: its activation {"tag":"Always"} is not valid, so it is ignored: it must be "always" or {"tag": "on-demand", "toolgroup": "NAME"}`,
		`warning [unsupported]: agent.json:2:81: contents.bashToolboxes[0].contents.Root: this is left out: it is not supported yet`,
		`warning [unknown]: agent.json:2:132: contents.bashToolboxes[0].contents.filter: unknown key "filter"`,
		`warning [unsupported]: agent.json:3:59: contents.extraAgents[0].with: this is left out: it is not supported yet`,
		`warning [unsupported]: agent.json:4:92: contents.mcpServers[0].contents.Bindings: this is left out: it is not supported yet`,
		`warning [unknown]: agent.json:4:98: contents.mcpServers[0].contents.comand: unknown key "comand"`,
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, p := range got.Problems {
		if !p.Incomplete() {
			t.Errorf("Incomplete is false for %s", p)
		}
	}
	if (agentfile.Problem{Severity: agentfile.Warning, Code: agentfile.CodePath}).Incomplete() {
		t.Error("a path elsewhere makes a tree incomplete")
	}
}

// What a tool writes cannot forge a line of check.
func TestAProblemIsOneLine(t *testing.T) {
	p := agentfile.Problem{File: "tools/x.sh", Message: "describe: exit status 1: no\nerror: agent.json: all is lost\x1b[2J\r\n"}
	if want := "tools/x.sh: describe: exit status 1: no error: agent.json: all is lost [2J"; p.String() != want {
		t.Errorf("String = %q, want %q", p.String(), want)
	}
}

func TestToolsDoNotGetTheVariableOfAKey(t *testing.T) {
	write(t, "-- agent.json --\n"+remote("root", "https://api.example.org/v1", `,"apiKeyEnv":"MY_ACCESS","toolDirectory":"tools"`)+`
-- tools/show.sh --
#!/bin/sh
if [ "$1" = describe ]; then echo '{"slug":"show","description":"d","args":[]}'; exit; fi
echo "it is <$MY_ACCESS>"
`)
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: append(os.Environ(), "MY_ACCESS=key-0123456789")})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tree.Root.Toolsets[0].Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("Tools = %v, %v", tools, err)
	}
	result, err := tools[0].Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{ID: "1", Name: "bash_show", Args: "{}"}})
	if err != nil || !strings.Contains(result.Parts[0].Text, "it is <>") {
		t.Errorf("Call = %v, %v, want an empty variable", result, err)
	}
}
