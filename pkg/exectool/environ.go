package exectool

import (
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/toolenv"
)

// callEnviron is env, which came from toolenv.Environ, with the variables of one call,
// the value of toolenv.Tree and the ids of the locks that it holds.
func callEnviron(env []string, inv *agent.Invocation, tree string, locks []string) []string {
	out := make([]string, len(env), len(env)+11)
	copy(out, env)
	for _, entry := range [...]string{
		toolenv.Session + "=" + inv.Session,
		toolenv.Call + "=" + inv.Key,
		toolenv.Agent + "=" + inv.Agent,
		toolenv.Depth + "=" + strconv.Itoa(inv.Level+1),
		toolenv.OldSession + "=" + inv.Session,
		toolenv.OldConversation + "=" + inv.Session,
		toolenv.OldTurn + "=" + inv.Session + "." + strconv.Itoa(inv.Turn),
	} {
		if toolenv.Fits(entry) {
			out = append(out, entry)
		}
	}
	if inv.Trace != "" {
		out = append(out, toolenv.Trace+"="+inv.Trace)
	}
	if tree != "" {
		out = append(out, toolenv.Tree+"="+tree)
	}
	if len(locks) > 0 {
		out = append(out, toolenv.Locks+"="+strings.Join(locks, " "))
	}
	return out
}
