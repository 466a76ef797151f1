package exectool

import (
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// callEnviron is env, which came from toolenv.Environ, with the variables of one call,
// the value of toolenv.Tree and the ids of the locks that it holds.
func callEnviron(env []string, inv *agent.Invocation, tree string, locks []string) []string {
	out := slices.Concat(env, inv.Environ())
	if tree != "" {
		out = append(out, toolenv.Tree+"="+tree)
	}
	if len(locks) > 0 {
		out = append(out, toolenv.Locks+"="+strings.Join(locks, " "))
	}
	return out
}
