package agentfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
)

// The command of a key runs once for a tree, only if an agent of it may use the key, and after
// the tree was compared with what is trusted. What it prints is a secret.
func TestAKeyFromACommand(t *testing.T) {
	for _, tt := range []struct {
		name, script, host, lock string
		runs                     int
		problem                  string
	}{
		{"two agents", "echo sk-from-a-command", "api.example.com", "", 1, ""},
		{"another host", "echo sk-from-a-command", "other.example.com", "", 0, "is bound to"},
		{"it fails", "echo 'vault is locked' >&2; exit 3", "api.example.com", "", 1, `the key "k" from the command sh: exit status 3: vault is locked`},
		{"it prints nothing", "true", "api.example.com", "", 1, `the key "k" from the command sh: it is empty`},
		{"it prints too much", "head -c 70000 /dev/zero | tr '\\0' x", "api.example.com", "", 1, "it has several lines"},
		{"the tree differs from its lock", "echo sk-from-a-command", "api.example.com", "differs", 0, "lock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			agent := `{"tag":"OpenAIAgentDescription","contents":{"slug":"%s","announce":"a","flavor":"openai-compatible","modelName":"m","modelUrl":"https://api.example.com/v1","apiKeyId":"k"%s}}`
			ran := filepath.Join(dir, "ran")
			files := map[string]string{
				"agent.json": fmt.Sprintf(agent, "a", `,"extraAgents":[{"slug":"b","path":"b.json"}]`),
				"b.json":     fmt.Sprintf(agent, "b", ""),
				"keys":       fmt.Sprintf(`{"keys":[{"id":"k","command":["sh","-c",%q],"hosts":[%q]}]}`, "echo >>"+ran+"; "+tt.script, tt.host),
			}
			if tt.lock != "" {
				files["agents.lock.json"] = `{"version":1,"agents":{"agent.json":{"files":{"agent.json":{"digest":"sha256:00"}}}}}`
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			keys, _, err := config.ReadKeys(filepath.Join(dir, "keys"))
			if err != nil {
				t.Fatal(err)
			}
			opts := agentfile.Options{Keys: keys, KeysFile: "K", WorkDir: dir, Environ: os.Environ()}
			opts.Same.Locked = tt.lock != ""
			tree, err := agentfile.Load(t.Context(), filepath.Join(dir, "agent.json"), opts)
			said := fmt.Sprint(err)
			for _, p := range tree.Problems {
				said += "\n" + p.Message
			}
			if (tt.problem == "") != (err == nil) || !strings.Contains(said, tt.problem) {
				t.Errorf("Load = %s, want %s", said, tt.problem)
			}
			times, _ := os.ReadFile(ran)
			if len(times) != tt.runs {
				t.Errorf("it ran %d times, want %d", len(times), tt.runs)
			}
			if known := slices.Contains(tree.Secrets(), "sk-from-a-command"); known != (tt.problem == "") {
				t.Errorf("a secret: %t", known)
			}
			_ = tree.Close()
		})
	}
}
