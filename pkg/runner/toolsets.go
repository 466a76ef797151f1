package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"golang.org/x/sync/errgroup"
)

// A toolbox is what a run asks its model with.
type toolbox struct {
	system *string               // with what the toolsets say; nil before the first turn
	specs  []agent.ToolSpec      // of this turn
	byName map[string]agent.Tool // of this turn; nil before the first
	turn   int                   // for which the toolsets were asked
	asked  []agent.ToolSpec      // the tools of the last setup; nil before the first
	known  []agent.ToolSpec      // the tools of the last request, or of the notice about them
	groups agent.Toolgroups      // of the session then
}

// prepare asks the toolsets what the next request needs, once for each turn. Only
// ctx's end is an error.
func (r *run) prepare(ctx context.Context) error {
	if turn := r.session.Turn + 1; r.tools.turn != turn {
		if err := r.refreshTools(ctx); err != nil {
			return err
		}
		r.tools.turn = turn
	}
	return r.instruct(ctx)
}

// refreshTools asks the toolsets for the tools of this turn. The order is by
// name, so that it is the same in every turn and every run. Two tools of one name
// are both left out: the model could not tell which it calls. Only ctx's end is
// an error.
func (r *run) refreshTools(ctx context.Context) error {
	tools, err := r.askToolsets(ctx)
	if err != nil {
		return err
	}
	r.tools.byName = make(map[string]agent.Tool, len(tools))
	r.tools.specs = make([]agent.ToolSpec, 0, len(tools))
	duplicates := map[string]bool{}
	for _, tool := range tools {
		spec := tool.Spec()
		if other, ok := r.tools.byName[spec.Name]; ok {
			duplicates[spec.Name] = true
			r.warn(fmt.Sprintf("two tools are named %s and both are left out: %s and %s", spec.Name, other.Spec().Source, spec.Source))
			continue
		}
		r.tools.byName[spec.Name] = tool
		r.tools.specs = append(r.tools.specs, spec)
	}
	r.tools.specs = slices.DeleteFunc(r.tools.specs, func(s agent.ToolSpec) bool { return duplicates[s.Name] || r.hides(s) })
	if fitter, ok := agent.As[agent.ToolFitter](r.agent.Provider); ok {
		r.tools.specs = slices.DeleteFunc(r.tools.specs, func(s agent.ToolSpec) bool {
			_, _, err := fitter.FitTool(s)
			if err != nil {
				r.warn(fmt.Sprintf("the tool %s of %s is left out, because the server of the model %s would refuse it: %v", s.Name, s.Source, r.agent.Model, err))
			}
			return err != nil
		})
	}
	for name := range duplicates {
		delete(r.tools.byName, name)
	}
	slices.SortStableFunc(r.tools.specs, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// ToolsChanged is the beginning of the message about that, behind a bracket.
const ToolsChanged = "the tools have changed during this run"

// changedTools says how the tools differ from those of the request before; it is empty
// for the first request of a run, and where the model itself has activated tools.
func (r *run) changedTools(step agent.Step) string {
	before, now := r.tools.known, r.tools.specs
	if step.Kind != agent.StepModel {
		return ""
	}
	asked := !maps.Equal(r.tools.groups, r.session.Toolgroups) // the model did
	r.tools.known, r.tools.groups = now, r.session.Toolgroups
	if before == nil || asked || slices.EqualFunc(before, now, sameSpec) {
		return ""
	}
	was := map[string]agent.ToolSpec{}
	for _, t := range before {
		was[t.Name] = t
	}
	var added, changed []string
	for _, t := range now {
		if old, known := was[t.Name]; !known {
			added = append(added, t.Name)
		} else if !sameSpec(old, t) {
			changed = append(changed, t.Name)
		}
		delete(was, t.Name)
	}
	text := ToolsChanged
	for _, part := range []struct {
		what  string
		names []string
	}{{"new", added}, {"described differently", changed}, {"removed", slices.Sorted(maps.Keys(was))}} {
		if len(part.names) > 0 {
			text += "; " + part.what + ": " + strings.Join(part.names, ", ")
		}
	}
	return text
}

// askToolsets asks all toolsets at the same time, so that a slow server delays
// no other, and reports what is wrong with them.
func (r *run) askToolsets(ctx context.Context) ([]agent.Tool, error) {
	sets := r.agent.Toolsets
	answers := make([][]agent.Tool, len(sets))
	errs := make([]error, len(sets))
	var g errgroup.Group
	for i, set := range sets {
		if list, ok := set.(agent.ToolList); ok { // nothing to wait for
			answers[i] = list
			continue
		}
		g.Go(func() error {
			return r.tree.guard(func() error {
				answers[i], errs[i] = agent.ToolsOf(ctx, set, &r.session.State)
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, agent.ContextError(ctx)
	}
	for _, err := range errs {
		if err != nil {
			r.warn(err.Error())
		}
	}
	return slices.Concat(answers...), nil
}

// hidden says how the model gets a tool that it called and is not offered; nil if no
// toolset knows it.
func (r *run) hidden(ctx context.Context, name string) error {
	for _, set := range r.agent.Toolsets {
		if h, ok := agent.As[agent.Hider](set); ok {
			if err := h.Hidden(ctx, &r.session.State, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// instruct completes the system prompt with what the toolsets say. It is done
// once, so that the beginning of the requests stays the same.
func (r *run) instruct(ctx context.Context) error {
	if r.tools.system != nil {
		return nil
	}
	texts := []string{r.agent.System}
	if out := r.agent.OutputSchema; out != nil {
		texts = append(texts, out.Instructions)
	}
	for _, set := range r.agent.Toolsets {
		in, ok := agent.As[agent.Instructor](set)
		if !ok {
			continue
		}
		text, err := in.Instructions(ctx)
		if ctx.Err() != nil {
			return agent.ContextError(ctx)
		}
		if err != nil || strings.TrimSpace(text) == "" {
			continue // Tools reports what is wrong with the toolset
		}
		texts = append(texts, strings.TrimSpace(text))
	}
	system := strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "\n\n")
	r.tools.system = &system
	return nil
}

// missingTools is an error if a tool is not there without which the agent does not
// begin. The tools of a run that is going on may change.
func (r *run) missingTools(ctx context.Context) error {
	if len(r.agent.RequiredTools) == 0 || r.tools.asked != nil {
		return nil
	}
	var missing []string
	for _, name := range r.agent.RequiredTools {
		if agent.ToolIndex(r.tools.specs, name) < 0 && r.hidden(ctx, name) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sources := map[string]bool{}
	for _, s := range r.tools.specs {
		sources[s.Source] = true
	}
	list := "it has no tools"
	if len(sources) > 0 {
		list = "its tools are from " + strings.Join(slices.Sorted(maps.Keys(sources)), ", ")
	}
	return fmt.Errorf("%w: agent %s requires %s, which no source offers; %s", agent.ErrTools, r.agent.Slug, strings.Join(missing, " and "), list)
}
