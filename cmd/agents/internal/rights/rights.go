// Package rights prints the rights of a tree.
package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/policy"
)

// Print prints what every agent of a tree may do with each of its tools, by which rule,
// and what enforces it. An agent with several callers is printed once for each.
func Print(p *program.Env, t *agentfile.Tree) error {
	var b strings.Builder
	var walk func(n *agentfile.Node, above []*agentfile.Node)
	walk = func(n *agentfile.Node, above []*agentfile.Node) {
		chain := append(slices.Clone(above), n)
		fmt.Fprintf(&b, "%s (%s)\n", strings.Join(slugs(chain), "/"), n.File.Path)
		for _, spec := range n.Tools {
			printTool(&b, chain, spec)
		}
		for _, h := range n.Helpers {
			if !slices.Contains(chain, h) {
				walk(h, chain)
			}
		}
	}
	if len(t.Nodes) > 0 {
		walk(t.Nodes[0], nil)
	}
	return p.PrintClean(b.String())
}

func slugs(chain []*agentfile.Node) []string {
	var list []string
	for _, n := range chain {
		list = append(list, n.Agent.Slug)
	}
	return list
}

// printTool prints what the last agent of a chain may do with a tool. The rules of all
// agents of the chain must permit a call.
func printTool(b *strings.Builder, chain []*agentfile.Node, spec agent.ToolSpec) {
	n := chain[len(chain)-1]
	inv := &agent.Invocation{Spec: spec, Agent: n.Agent.Slug, Path: slugs(chain)}
	effects := string(cmp.Or(spec.Effects, agent.EffectsOnce))
	if spec.IsAgent() {
		effects = "agent"
	}
	fmt.Fprintf(b, "  %s (%s)\n", spec.Name, effects)
	ruled := false
	for _, above := range slices.Backward(chain) {
		rights, ok := above.Agent.Rights.(*policy.Sets)
		if !ok {
			continue
		}
		ruled = true
		if rights.Hides(inv) {
			fmt.Fprintf(b, "    not shown to the model\n")
		}
		for _, line := range rights.Explain(inv) {
			fmt.Fprintf(b, "    %-5s  %s  [%s]\n", line.Decision, cmp.Or(line.Calls, "all calls"), line.Source)
		}
		for _, path := range above.Policies() {
			fmt.Fprintf(b, "    policy %s must agree\n", path)
		}
		for _, h := range above.Hooks() {
			if moment, path, _ := strings.Cut(h, " "); strings.HasSuffix(moment, "_call") {
				fmt.Fprintf(b, "    hook %s runs %s\n", path, map[bool]string{true: "before", false: "after"}[moment == agent.HookBeforeCall])
			}
		}
	}
	if !ruled {
		fmt.Fprintf(b, "    allow  all calls: no rule and no approval applies\n")
	}
	for _, line := range enforcement(n, spec) {
		fmt.Fprintf(b, "    enforced by %s\n", line)
	}
}

// enforcement lists what enforces the rights of n for a tool.
func enforcement(n *agentfile.Node, spec agent.ToolSpec) []string {
	list := []string{"the gate that each call passes"}
	if spec.Channel > 0 {
		list[0] = "the agent in its own process, and this one, which checks the calls that it reports"
	}
	for _, s := range n.Sandboxes() {
		of := func(name string) bool { return name == spec.Name || strings.HasSuffix(spec.Source, " of MCP "+name) }
		if s.Enforced != "" && slices.ContainsFunc(s.Of, of) {
			list = append(list, "a sandbox, which permits: "+s.Permits)
		}
	}
	return list
}
