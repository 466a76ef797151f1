package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// TestOneNameOfAnArgumentIsJudged: the aliases of a tool are replaced, and two values are refused.
func TestOneNameOfAnArgumentIsJudged(t *testing.T) {
	spec := ToolSpec{Aliases: map[string]string{"cmd": "command", "script": "command"}}
	for args, want := range map[string]string{
		`{ "command" : "x" }`: `{ "command" : "x" }`, `{"cmd":"x"}`: `{"command":"x"}`, `{"a":1,"cmd":"x","b":{"cmd":2}}`: `{"a":1,"command":"x","b":{"cmd":2}}`, `{"cmd":"x","script":"x"}`: `{"command":"x"}`,
		`{"cmd":"x","command":"x"}`: `{"command":"x"}`, `{"cmd":"x","command":""}`: `{"command":"x"}`, `{"cmd":"","command":"x"}`: `{"command":"x"}`, `{"cmd":"x","command":null}`: `{"command":"x"}`, `{"cmd":null,"command":"x"}`: `{"command":"x"}`,
		`{"cmd":"x","command":"y"}`: "", `{"cmd":"x","script":"y"}`: "", `{"cmd":"x"`: "", ``: ``, `{}`: `{}`,
	} {
		inv := &Invocation{Call: ToolCall{Args: args}, Spec: spec}
		err := inv.ReplaceAliases()
		if (err == nil) != (want != "" || args == "") || err == nil && inv.Call.Args != want {
			t.Errorf("%s becomes %s, %v", args, inv.Call.Args, err)
		}
		if err == nil && strings.Contains(want, `"x"`) && inv.Values()["command"] != "x" {
			t.Errorf("the values of %s are %v", args, inv.Values())
		}
	}
}

// TestTheEnvironmentOfACall has what is known of it, and nothing that no process can be given.
func TestTheEnvironmentOfACall(t *testing.T) {
	inv := &Invocation{Session: "s", Key: "s.1.1", Agent: "a", Level: 2, Turn: 1}
	env := inv.Environ()
	if !slices.Contains(env, toolenv.Depth+"=3") || !slices.Contains(env, toolenv.Call+"=s.1.1") || len(env) != 9 {
		t.Errorf("the environment is %q", env)
	}
	inv.AgentSource, inv.NoLinks, inv.Trace = "/a.json", true, "00-1"
	if more := inv.Environ(); !slices.Equal(more, append(env, toolenv.File+"=/a.json", toolenv.NoLinks+"=1", toolenv.Trace+"=00-1")) {
		t.Errorf("the environment is %q", more)
	}
	inv.AgentSource, inv.Agent = "a\x00", strings.Repeat("a", toolenv.MaxEntry)
	if less := inv.Environ(); len(less) != 8 || slices.ContainsFunc(less, func(e string) bool { return !toolenv.Fits(e) }) {
		t.Errorf("the environment has %d entries", len(less))
	}
}

func TestSessionOfAKey(t *testing.T) {
	for key, want := range map[string]string{"S.1.2": "S", "20261122-083004-mdzy7xxbsm.12.3": "20261122-083004-mdzy7xxbsm", "a.b.1.2": "a.b", "": "", "x": "", "x.1": ""} {
		if got := CallSession(key); got != want {
			t.Errorf("CallSession(%q) = %q, want %q", key, got, want)
		}
	}
}
