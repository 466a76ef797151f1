//go:build linux

package suites

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
)

// guards are rules for what the corpus of destructive_command_guard denies, as a person would write
// them. A rule matches words: `-f` does not match `-fd`, and `rm` is denied in temporary folders too.
var guards = []string{`["git","reset","--hard"]`, `["git","clean"]`, `["git","push","--force"]`, `["git","push","-f"]`,
	`["git","stash","drop"]`, `["git","stash","clear"]`, `["git","branch","-D"]`, `["rm"]`}

// TestCommandGuard judges the commands of the corpus by these rules.
func TestCommandGuard(t *testing.T) {
	dir := folder(t, "COMMAND_GUARD", "tests/corpus")
	set := policy.Set{Approval: policy.Never}
	for _, command := range guards {
		rule, err := policy.ParseRule([]byte(`{"verdict":"deny","command":`+command+`}`), policy.Place{})
		if err != nil {
			t.Fatal(err)
		}
		set.Rules = append(set.Rules, rule)
	}
	rights, err := policy.New(set)
	if err != nil {
		t.Fatal(err)
	}
	counts := tally{}
	for _, file := range files(t, dir, ".toml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		group := filepath.Base(filepath.Dir(file))
		command := ""
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
			switch key {
			case "command":
				if command, err = strconv.Unquote(value); err != nil {
					command = strings.Trim(value, "'")
				}
			case "expected", "expected_decision":
				args, _ := json.Marshal(map[string]string{"command": command}) // strings always encode
				got := rights.Decide(&agent.Invocation{Call: agent.ToolCall{Name: "bash_bash", Args: string(args)}, Spec: agent.ToolSpec{Name: "bash_bash"}, Dir: "/work", Agent: "a", Path: []string{"a"}}).Decision
				want := agent.Allow
				if strings.HasPrefix(value, `"deny"`) {
					want = agent.Deny
				}
				switch {
				case got == want:
					counts[group+": as the corpus"]++
				case want == agent.Deny:
					counts[group+": allowed"]++
					t.Logf("allowed: %q", command)
				default:
					counts[group+": denied"]++
					t.Logf("denied: %q", command)
				}
			}
		}
	}
	t.Log(counts)
}
