package agentfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agentfile"
)

// TestModelsAndToolsOfLend: an object names a tool, and says nothing of the models.
func TestModelsAndToolsOfLend(t *testing.T) {
	for _, tt := range []struct {
		lend, models, tools, problem string
	}{
		{`["fast"]`, "fast", "", ""},
		{`[{"tool":"bash_ask"}]`, "m (implied)", "bash_ask", ""},
		{`["fast",{"tool":"bash_ask"},"m"]`, "fast m", "bash_ask", ""},
		{`[]`, "", "", ""},
		{`[{"tool":"bash_aks"}]`, "m (implied)", "bash_aks", `contents.lend[0]: no executable of the agent is the tool "bash_aks" and has "models" in its description, and no AcpAgent; did you mean "bash_ask"?`},
		{`[{"tool":"bash_plain"}]`, "m (implied)", "bash_plain", `contents.lend[0]: no executable of the agent is the tool "bash_plain" and has "models" in its description`},
		{`[{"tool":""}]`, "", "", "contents.lend[0]"},
		{`[{"tool":"expert_borrower"}]`, "m (implied)", "expert_borrower", ""},
		{`[{"tool":"expert_stranger"}]`, "m (implied)", "expert_stranger", `contents.lend[0]: no executable of the agent is the tool "expert_stranger" and has "models" in its description, and no AcpAgent`},
		{`["up",{"tool":"bash_ask"}]`, "", "bash_ask", ""}, // all that is lent to it
		{`[{"tool":"bash_ask","models":["fast"]}]`, "m (implied)", "bash_ask", "contents.lend[0]"},
	} {
		dir := t.TempDir()
		for name, models := range map[string]string{"ask": "true", "plain": "false"} {
			text := "#!/bin/sh\necho '{\"slug\":\"" + name + "\",\"description\":\"d\",\"args\":[],\"models\":" + models + "}'\n"
			if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "tools", name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, "agent.json")
		text := `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"ollama","modelName":"m","models":{"fast":{"flavor":"ollama","modelName":"f"},"up":{"flavor":"caller"}},
			"extraAgents":[{"tag":"AcpAgent","contents":{"slug":"borrower","command":["sh"],"models":true}},{"tag":"AcpAgent","contents":{"slug":"stranger","command":["sh"]}}],"toolDirectory":"tools","lend":` + tt.lend + `}}`
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tree, err := agentfile.Load(t.Context(), path, agentfile.Options{Environ: os.Environ()})
		if err != nil && tree == nil {
			t.Fatal(err)
		}
		problems := ""
		for _, p := range tree.Problems {
			problems += p.String() + "\n"
		}
		if !strings.Contains(problems, tt.problem) || tt.problem == "" && problems != "" {
			t.Errorf("%s: the problems are %q, want %q", tt.lend, problems, tt.problem)
		}
		if tree.Root == nil {
			if tt.tools != "" {
				t.Errorf("%s: %s", tt.lend, problems)
			}
			continue
		}
		var models []string
		for _, l := range tree.Root.Lend {
			name := l.Name
			if l.Implied {
				name += " (implied)"
			}
			models = append(models, name)
		}
		if got := strings.Join(models, " "); got != tt.models {
			t.Errorf("%s lends %q, want %q", tt.lend, got, tt.models)
		}
		if got := tree.Root.LendTools; !slices.Equal(got, strings.Fields(tt.tools)) {
			t.Errorf("%s lends to %q, want %q", tt.lend, got, tt.tools)
		}
	}
}
