package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/config"
)

func TestReadTokens(t *testing.T) {
	const good = "sixteen-letters1"
	tests := []struct {
		name, text string
		mode       os.FileMode
		want       int
		warning    string
		err        string
	}{
		{"tokens", "# of the editor\n" + good + "\r\n\n  another-long-token\n", 0o600, 2, "", ""},
		{"readable by others", good, 0o644, 1, "others can read this token file (mode 0644); better: chmod 600 ", ""},
		{"writable by its group", good, 0o660, 1, "its group can read and write this token file (mode 0660)", ""},
		{"writable by all", good, 0o602, 0, "", "it is world-writable (mode 0602), and is not used: chmod 600 "},
		{"too short", "\nfifteen-letters", 0o600, 0, "", ":2: the token has 15 characters and needs at least 16"},
		{"a space", "sixteen letters1", 0o600, 0, "", ":1: a token has only visible ASCII characters"},
		{"none", "# nothing\n", 0o600, 0, "", "it has no token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil { // the umask has no say
				t.Fatal(err)
			}
			tokens, warnings, err := config.ReadTokens(path)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if len(tokens) != tt.want || !strings.Contains(strings.Join(warnings, "\n"), tt.warning) || len(warnings) > 0 && tt.warning == "" ||
				!strings.Contains(text, tt.err) || (err != nil) != (tt.err != "") {
				t.Errorf("ReadTokens = %d tokens, %q, %v; want %d, %q, %q", len(tokens), warnings, err, tt.want, tt.warning, tt.err)
			}
			if strings.Contains(text+strings.Join(warnings, ""), "letters") {
				t.Errorf("a token is told: %q %q", text, warnings)
			}
		})
	}
	if _, _, err := config.ReadTokens(t.TempDir()); err == nil || !strings.Contains(err.Error(), "token file: ") {
		t.Errorf("ReadTokens of a folder: %v", err)
	}
}

// A file in JSON has tokens for certain agents.
func TestReadScopedTokens(t *testing.T) {
	for _, tt := range []struct{ name, text, err string }{
		{"scopes", `{"tokens": [{"name": "all", "token": "sixteen-letters1"}, {"name": "some", "token": "sixteen-letters2", "agents": ["a"], "runs": 3}, {"name": "none", "token": "sixteen-letters3", "agents": [], "metrics": true}]}`, ""},
		{"no name", `{"tokens": [{"token": "sixteen-letters1"}]}`, "token 1: it needs a name of its own"},
		{"one name twice", `{"tokens": [{"name": "a", "token": "sixteen-letters1"}, {"name": "a", "token": "sixteen-letters2"}]}`, "token 2: it needs a name of its own"},
		{"too short", `{"tokens": [{"name": "a", "token": "letters"}]}`, "token 1: the token has 7 characters"},
		{"negative", `{"tokens": [{"name": "a", "token": "sixteen-letters1", "runs": -1}]}`, "token 1: runs is negative"},
		{"a misspelt key", `{"tokens": [{"name": "a", "token": "sixteen-letters1", "agent": ["a"]}]}`, `unknown field "agent"`},
		{"none", `{"tokens": []}`, "it has no token"},
		{"no JSON", `{"tokens": [`, "unexpected EOF"},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, _, err := config.ReadTokens(path)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "letters") {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil || len(tokens) != 3 || tokens[0].Limited || !tokens[1].Limited || len(tokens[1].Agents) != 1 || tokens[1].Runs != 3 ||
			!tokens[2].Limited || len(tokens[2].Agents) != 0 || !tokens[2].Metrics || tokens[1].Secret.Reveal() != "sixteen-letters2" {
			t.Errorf("%s: %+v, %v", tt.name, tokens, err)
		}
	}
}
