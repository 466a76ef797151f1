package agentfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// title is the name of m among the models of an agent.
func (m *Model) title() string { return cmp.Or(m.name, m.ModelName, m.Flavor) }

// lend sets what the agent of n lends to those below it: what the key names, or else its own
// model. modelOf opens a model of the file. It reports whether n can be used.
func (l *loader) lend(n *Node, modelOf func(*Model) *provider.Model) bool {
	s := n.File.Spec
	own := s.Model.loan(n.Agent.Provider, n.Agent.ContextTokens)
	own.Implied = true
	if !s.Lend.models() {
		if s.Flavor != FlavorCaller {
			n.Agent.Lend = []agent.Loan{own}
		}
		return true
	}
	own.Implied = false
	n.Agent.Lend = []agent.Loan{}
	for i, entry := range *s.Lend {
		name := entry.Model
		if entry.Tool != "" {
			continue
		}
		m, named := s.Models[name]
		switch {
		case s.Flavor != FlavorCaller && (name == own.Name || name == own.Model):
			own.Name = name
			n.Agent.Lend = append(n.Agent.Lend, own)
		case named && m.Flavor == FlavorCaller:
			n.Agent.Lend = append(n.Agent.Lend, agent.Loan{Name: m.ModelName})
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

// Lend says which models an agent lends, and to which tools.
type Lend []LendEntry

// A LendEntry is the name of a model, or an object with that of a tool whose program may use the
// models too.
type LendEntry struct {
	Model string
	Tool  string
}

// UnmarshalJSON reads both forms.
func (e *LendEntry) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &e.Model) == nil {
		return nil
	}
	var tool struct {
		Tool string `json:"tool"`
	}
	err := json.Unmarshal(data, &tool)
	e.Tool = tool.Tool
	return err
}

// models reports whether l says which models are lent, be it none.
func (l *Lend) models() bool { return l != nil && len(l.tools()) < max(len(*l), 1) }

// tools are the names of the tools.
func (l *Lend) tools() (names []string) {
	if l == nil {
		return nil
	}
	for _, e := range *l {
		if e.Tool != "" {
			names = append(names, e.Tool)
		}
	}
	return names
}

// checkLend reports tools of the key that are not among tools, or ask for no models.
func (l *loader) checkLend(n *Node, tools []*exectool.Tool) {
	if n.File.Spec.Lend == nil {
		return
	}
	var names []string
	for _, t := range tools {
		if d, err := t.Description(); err == nil && d.Models {
			names = append(names, t.Spec().Name)
		}
	}
	for _, a := range sourcesOf[*ACPAgent](n) {
		if a.Models {
			names = append(names, toolname.Join("expert", a.Slug))
		}
	}
	for i, e := range *n.File.Spec.Lend {
		if e.Tool != "" && !slices.Contains(names, e.Tool) {
			l.modelProblem(n, Warning, CodeTool, fmt.Sprintf("lend/%d", i), `no executable of the agent is the tool %q and has "models" in its description, and no AcpAgent%s`, e.Tool, closest.Hint(e.Tool, names))
		}
	}
}

// loan returns the loan of m, which p is.
func (m *Model) loan(p agent.Provider, tokens int) agent.Loan {
	return agent.Loan{Name: m.title(), Model: cmp.Or(m.ModelName, m.Flavor), Flavor: m.Flavor, ContextTokens: tokens, Provider: p}
}
