package runner

import (
	"context"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// sameSpec reports whether two tools look the same to a model.
func sameSpec(a, b agent.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && string(a.Schema) == string(b.Schema) && a.Effects == b.Effects
}

// difference says how an agent differs from that of the setup s.
func difference(s agent.Setup, system string, tools []agent.ToolSpec) string {
	if s.System == "" && s.Tools == nil {
		return "its system prompt or its tools differ"
	}
	var list []string
	if system != s.System {
		list = append(list, "another system prompt")
	}
	var added, removed []string
	for _, t := range tools {
		if !slices.Contains(s.Tools, t.Name) {
			added = append(added, t.Name)
		}
	}
	for _, name := range s.Tools {
		if !slices.ContainsFunc(tools, func(t agent.ToolSpec) bool { return t.Name == name }) {
			removed = append(removed, name)
		}
	}
	if len(added) > 0 {
		list = append(list, "new tools: "+strings.Join(added, ", "))
	}
	if len(removed) > 0 {
		list = append(list, "without the tools: "+strings.Join(removed, ", "))
	}
	if len(list) == 0 {
		list = append(list, "its tools are described differently")
	}
	return strings.Join(list, "; ")
}

// setUp records the setup with which the model is asked, if it is new. For a session that an
// earlier process began, it reports what has changed since.
func (r *run) setUp(ctx context.Context, step agent.Step) error {
	t := &r.tools
	if step.Kind != agent.StepModel || t.asked != nil && slices.EqualFunc(t.asked, t.specs, sameSpec) && r.session.Setup.Digest != "" {
		return nil
	}
	first, before := t.asked == nil, r.session.Setup
	t.asked = t.specs
	digest := agent.SetupDigest(*t.system, t.specs)
	if digest == before.Digest {
		return nil
	}
	if err := r.emitSetup(ctx, digest); err != nil {
		return err
	}
	if first && before.Digest != "" {
		r.warn("the agent has changed since the session was last used: " + difference(before, *t.system, t.specs))
	}
	return nil
}

//go:noinline
func (r *run) emitSetup(ctx context.Context, digest string) error { // see insert
	e := r.session.SetUp(r.agent.Model, *r.tools.system, r.tools.specs, digest)
	if r.tree.knownSetup(digest) {
		e.System, e.Specs = "", nil
	}
	return r.emit(ctx, e)
}

// knownSetup reports whether the setup was recorded in full before.
func (t *tree) knownSetup(digest string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.setups[digest]
	if t.setups == nil {
		t.setups = map[string]bool{}
	}
	t.setups[digest] = true
	return known
}
