package agentfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/provider"
)

// title is the name of m among the models of an agent.
func (m *Model) title() string { return cmp.Or(m.name, m.ModelName, m.Flavor) }

// lend sets what the agent of n lends to those below it: what the key names, or else its own
// model. modelOf opens a model of the file. It reports whether n can be used.
func (l *loader) lend(n *Node, modelOf func(*Model) *provider.Model) bool {
	s := n.File.Spec
	own := s.Model.loan(n.Agent.Provider, n.Agent.ContextTokens)
	own.Implied = true
	if s.Lend == nil {
		if s.Flavor != FlavorCaller {
			n.Agent.Lend = []agent.Loan{own}
		}
		return true
	}
	own.Implied = false
	n.Agent.Lend = []agent.Loan{}
	for i, name := range *s.Lend {
		m, named := s.Models[name]
		switch {
		case s.Flavor != FlavorCaller && (name == own.Name || name == own.Model):
			own.Name = name
			n.Agent.Lend = append(n.Agent.Lend, own)
		case named:
			m.name = name
			l.ownKey(&m)
			p := modelOf(&m)
			if p == nil {
				return false
			}
			n.Agent.Lend = append(n.Agent.Lend, m.loan(p.Provider, m.ContextTokens))
		case n.Agent.Borrows:
			n.Agent.Lend = append(n.Agent.Lend, agent.Loan{Name: name})
		default:
			names := append(slices.Sorted(maps.Keys(s.Models)), own.Name)
			l.broken(n, CodeSchema, fmt.Sprintf("lend/%d", i), "the agent has no model %q%s", name, closest.Hint(name, names))
			return false
		}
	}
	return true
}

// loan returns the loan of m, which p is.
func (m *Model) loan(p agent.Provider, tokens int) agent.Loan {
	return agent.Loan{Name: m.title(), Model: cmp.Or(m.ModelName, m.Flavor), Flavor: m.Flavor, ContextTokens: tokens, Provider: p}
}
