package agentfile_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/google/go-cmp/cmp"
)

// models are those of a node: NAME MODEL FLAVOR and the URL and key, if that is known.
func models(t *testing.T, n *agentfile.Node) (list []string) {
	t.Helper()
	f, ok := n.Agent.Provider.(*provider.Fallback)
	if !ok {
		return []string{model(t, n)}
	}
	for _, m := range f.Models {
		one := &agentfile.Node{File: n.File, Agent: &agent.Agent{Provider: m.Provider, Model: m.Model}}
		list = append(list, fmt.Sprintf("%s (%s, %s): %s", m.Name, m.Model, m.Flavor, model(t, one)))
	}
	return list
}

func TestModelsOfAnAgent(t *testing.T) {
	const entries = `"models":{
 "smart":{"flavor":"openai-compatible","modelUrl":"https://a.example.org/v1","modelName":"m1","apiKeyEnv":"KEY_A","contextTokens":200000},
 "fast":{"flavor":"vllm","modelUrl":"http://127.0.0.1:1/v1","modelName":"m2","contextTokens":100000},
 "far":{"flavor":"mistral","modelName":"m3","apiKeyId":"bound"}}`
	const smart, fast = "smart (m1, openai-compatible): openai-compatible https://a.example.org/v1 m1 key-of-a", "fast (m2, vllm): vllm http://127.0.0.1:1/v1 m2 without a key"
	for _, tt := range []struct {
		name, keys string
		choice     agentfile.ModelChoice
		want       []string // the models, or the problems
		context    int
	}{
		{name: "a list", keys: `,"fallback":["smart","fast"],`, want: []string{smart, fast}, context: 100_000},
		{name: "after the model of the file", keys: `,"flavor":"ollama","modelName":"m","contextTokens":60000,"fallback":["fast","smart"],`,
			want: []string{"m (m, ollama): ollama http://localhost:11434/v1 m without a key", fast, smart}, context: 60_000},
		{name: "the size that a model has by default", keys: `,"flavor":"ollama","modelName":"m","fallback":["smart"],`,
			want: []string{"m (m, ollama): ollama http://localhost:11434/v1 m without a key", smart}, context: agent.DefaultContextTokens},
		{name: "one that is named", keys: `,"fallback":["fast"],`, want: []string{fast[len("fast (m2, vllm): "):]}, context: 100_000},
		{name: "none that is named", keys: `,"flavor":"ollama","modelName":"m",`, want: []string{"ollama http://localhost:11434/v1 m without a key"}},
		{name: "a flag that names one", keys: `,"fallback":["smart","fast"],`, choice: agentfile.ModelChoice{Name: "fast"}, want: []string{fast[len("fast (m2, vllm): "):]}, context: 100_000},
		{name: "a flag that names another", keys: `,"fallback":["smart","fast"],`, choice: agentfile.ModelChoice{Name: "m9"}, want: []string{"openai-compatible https://a.example.org/v1 m9 key-of-a"}, context: 200_000},
		{name: "a flag that names a server", keys: `,"fallback":["fast","smart"],`, choice: agentfile.ModelChoice{URL: "http://127.0.0.1:2/v1"}, want: []string{"vllm http://127.0.0.1:2/v1 m2 without a key"}, context: 100_000},

		{name: "a key for another host", keys: `,"fallback":["fast","far"],`, want: []string{`error [host]: agent.json:4:56: contents.models.far.apiKeyId: the key "bound" is bound to api.example.org by its hosts and is not sent to api.mistral.ai`}},
		{name: "a key for the server of a flag", keys: `,"fallback":["smart"],`, choice: agentfile.ModelChoice{URL: "https://b.example.org/v1"},
			want: []string{`error [host]: agent.json: modelUrl: models/smart/apiKeyEnv: the key "$KEY_A" is bound to a.example.org:443 by modelUrl and is not sent to b.example.org`}},
		{name: "names that are not there", keys: `,"fallback":["fats","x"],`, want: []string{
			`error [schema]: agent.json:1:71: contents.fallback[0]: models has no "fats"; did you mean "fast"?`,
			`error [schema]: agent.json:1:78: contents.fallback[1]: models has no "x"; it has far, fast, smart`}},
		{name: "no fallback", keys: `,`, want: []string{`error [schema]: agent.json:1:44: contents.fallback: missing, want array`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, `
-- keys.json --
{"keys":[{"id":"bound","value":"0123456789","hosts":["api.example.org"]}]}
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root"`+tt.keys+entries+`}}
`)
			if err := os.Chmod("keys.json", 0o600); err != nil {
				t.Fatal(err)
			}
			keys, _, err := config.ReadKeys("keys.json")
			if err != nil {
				t.Fatal(err)
			}
			tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Keys: keys, KeysFile: "keys.json", Environ: []string{"KEY_A=key-of-a"},
				Models: map[string]agentfile.ModelChoice{"": tt.choice}})
			var got []string
			if err != nil {
				got = lines(tree)
			} else {
				got = models(t, tree.Nodes[0])
				if tree.Root.ContextTokens != tt.context {
					t.Errorf("context %d tokens, want %d", tree.Root.ContextTokens, tt.context)
				}
				if tree.Root.Model == "m1" && !slices.Contains(tree.Secrets(), "key-of-a") {
					t.Errorf("secrets = %v", tree.Secrets())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPricesOfSeveralModels(t *testing.T) {
	write(t, `
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","fallback":["a","b"],"models":{
 "a":{"flavor":"ollama","modelName":"m1","price":{"input":3,"output":3}},"b":{"flavor":"ollama","modelName":"m2"}}}}
`)
	tree, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	var known []bool
	for _, m := range tree.Root.Provider.(*provider.Fallback).Models {
		priced, _ := agent.As[*prices.Provider](m.Provider)
		known = append(known, priced.Price() != nil)
	}
	if !slices.Equal(known, []bool{true, false}) {
		t.Errorf("prices are known: %v", known)
	}
}

// The scripts of all models decide what runs.
func TestScriptsOfSeveralModelsAreSurveyed(t *testing.T) {
	write(t, script+`
-- other.json --
{"rules":[]}
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","fallback":["a","b"],"models":{
 "a":{"flavor":"scripted","script":"script.json"},"b":{"flavor":"scripted","script":"other.json"}}}}
`)
	_, lock := agentfile.Survey("agent.json", agentfile.Options{NoModels: true})
	var scripts []string
	for path, f := range lock.Files {
		if f.Kind == agentfile.KindScript {
			scripts = append(scripts, path)
		}
	}
	slices.Sort(scripts)
	if !slices.Equal(scripts, []string{"other.json", "script.json"}) {
		t.Errorf("scripts %v of %v", scripts, lock.Files)
	}
}
