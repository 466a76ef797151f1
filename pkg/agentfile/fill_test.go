package agentfile_test

import (
	"os"
	"testing"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/google/go-cmp/cmp"
)

func TestPlaceholders(t *testing.T) {
	const contents = `{"tag":"OpenAIAgentDescription",
 "contents":{"slug":"a","flavor":"scripted","script":"script.json","systemPrompt":"Speak ${language:-English} to ${name}, $${name}, ${empty:-}."}}`
	const shebang = "#!/usr/bin/env -S agents run --agent-file\n"
	tests := []struct {
		name, file string
		set        map[string]string
		system     string
		problems   []string
	}{
		{"a plain file is text", contents, nil, "Speak ${language:-English} to ${name}, $${name}, ${empty:-}.", nil},
		{"a program", shebang + contents, map[string]string{"name": "${language}", "language": "French"}, "Speak French to ${language}, ${name}, .", nil},
		{"a plain file with a value", contents, map[string]string{"name": "Eve"}, "Speak English to Eve, ${name}, .", nil},
		{"no value", shebang + contents, nil, "", []string{"error [set]: agent.json:3:83: contents.systemPrompt: ${name} has neither a value nor a default"}},
		{"no placeholder", contents, map[string]string{"name": "x", "nome": "y"}, "", []string{"error [set]: agent.json: there is no ${nome} in its prompts"}},
		{"a mistake in a program", shebang + "{\n]", nil, "", []string{"error [syntax]: agent.json:3:1: want a key in double quotes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, script)
			if err := os.WriteFile("agent.json", []byte(tt.file), 0o755); err != nil {
				t.Fatal(err)
			}
			got, _ := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Set: tt.set})
			if diff := cmp.Diff(append([]string{}, tt.problems...), lines(got)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if got.Root == nil != (tt.problems != nil) {
				t.Fatalf("root = %v", got.Root)
			}
			if got.Root != nil && got.Root.System != tt.system {
				t.Errorf("system prompt = %q, want %q", got.Root.System, tt.system)
			}
		})
	}
}
