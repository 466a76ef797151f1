package agentfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/closest"
)

// fallback finds the models that the key names. If the agent has no other model, the first of
// them is its own.
func (l *loader) fallback(n *Node) bool {
	s, ok := n.File.Spec, true
	names := slices.Sorted(maps.Keys(s.Models))
	for i, name := range s.Fallback {
		m, known := s.Models[name]
		if !known {
			l.broken(n, CodeSchema, fmt.Sprintf("fallback/%d", i), "models has no %q%s", name, cmp.Or(closest.Hint(name, names), "; it has "+cmp.Or(strings.Join(names, ", "), "none")))
			ok = false
		}
		m.name = name
		n.fallback = append(n.fallback, &m)
	}
	first := s.First()
	if !ok || first == &s.Model {
		return ok
	}
	for _, key := range keysOf(&Model{}) {
		if n.File.keys[key] != nil {
			l.modelProblem(n, Warning, CodeModel, key, "it has no effect: the agent has no modelName beside it, and its models are those of fallback")
		}
	}
	s.Model, n.fallback = *first, n.fallback[1:]
	return true
}

// First returns the model that is asked first.
func (s *Spec) First() *Model {
	if s.ModelName != "" || s.Flavor != "" || len(s.Fallback) == 0 {
		return &s.Model
	}
	m := s.Models[s.Fallback[0]]
	m.name = s.Fallback[0]
	return &m
}

// Models are the models of n's agent: the first one, and those that are asked when it fails.
func (n *Node) Models() []*Model { return append([]*Model{&n.File.Spec.Model}, n.fallback...) }

// at returns the key of the contents that has a key of m.
func (m *Model) at(key string) string {
	if m.name == "" {
		return key
	}
	return "models/" + m.name + "/" + key
}
