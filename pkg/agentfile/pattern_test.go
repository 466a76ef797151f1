package agentfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPatternThatIsNotComparedIsNoted(t *testing.T) {
	dir := t.TempDir()
	tool := "#!/bin/sh\ncat <<'END'\n" + `{"slug":"t","description":"d","args":[],"input-schema":{"type":"object","properties":{"a":{"pattern":"(x)\\1"},"b":{"pattern":"^(?=x)"}}}}` + "\nEND\n"
	agent := `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"s.json","toolDirectory":"tools"}}`
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tools/t": tool, "a.json": agent, "s.json": `{"rules":[{"answer":{"text":"x"}}]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Load(t.Context(), filepath.Join(dir, "a.json"), Options{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var notes []string
	for _, p := range tree.Problems {
		if p.Severity == Note && strings.Contains(p.Message, "pattern") {
			notes = append(notes, p.Message)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], `(x)\\1`) {
		t.Errorf("notes %q of %v", notes, tree.Problems)
	}
}
