package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestChangedToolsAreNoted: those of the last request, unless the model changed them.
func TestChangedToolsAreNoted(t *testing.T) {
	specs := func(names string) (list []agent.ToolSpec) {
		for _, name := range strings.Fields(names) {
			name, description, _ := strings.Cut(name, ":")
			list = append(list, agent.ToolSpec{Name: name, Description: description})
		}
		return list
	}
	for _, tt := range []struct {
		step        agent.StepKind
		before, now string
		groups      agent.Toolgroups
		want        string
	}{
		{agent.StepModel, "", "a", nil, ""}, {agent.StepModel, "a b", "a b", nil, ""}, {agent.StepModel, "a b", "a c", nil, "; new: c; removed: b"}, {agent.StepModel, "a b", "a:x b", nil, "; described differently: a"}, {agent.StepModel, "a", "a b", nil, "; new: b"}, {agent.StepModel, "b a", "", nil, "; removed: a, b"},
		{agent.StepModel, "a", "a b", agent.Toolgroups{"g": true}, ""}, {agent.StepSummary, "a", "b", nil, ""},
	} {
		r := &run{node: node{session: &agent.Session{}}}
		r.session.Toolgroups = tt.groups
		r.tools.known, r.tools.specs = specs(tt.before), specs(tt.now)
		got := r.changedTools(agent.Step{Kind: tt.step})
		if want := tt.want; want != "" && got != ToolsChanged+want || want == "" && got != "" {
			t.Errorf("%+v: %q", tt, got)
		}
		if known := slices.EqualFunc(r.tools.known, specs(tt.now), sameSpec); known != (tt.step == agent.StepModel) {
			t.Errorf("%+v: they are known: %t", tt, known)
		}
	}
}

// telling is a toolset with a text for the system prompt.
type telling struct {
	text string
	err  error
}

func (telling) Tools(context.Context) ([]agent.Tool, error)                 { return nil, nil }
func (t telling) Instructions(context.Context) (string, error)              { return t.text, t.err }
func (telling) Hidden(_ context.Context, _ *agent.State, name string) error { return nil }

// TestToolsetsCompleteTheSystemPrompt, if they have something to say.
func TestToolsetsCompleteTheSystemPrompt(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		system string
		list   []agent.Toolset
		want   string
	}{
		{"s", nil, "s"}, {"s", []agent.Toolset{telling{" a ", nil}, agent.ToolList{}, telling{"b", nil}}, "s\n\na\n\nb"}, {"", []agent.Toolset{telling{"a", nil}}, "a"}, {"s", []agent.Toolset{telling{"a", broken}, telling{" ", nil}, telling{"", broken}}, "s"},
	} {
		r := &run{node: node{agent: &agent.Agent{System: tt.system, Toolsets: tt.list}}}
		if err := r.instruct(t.Context()); err != nil || *r.tools.system != tt.want {
			t.Errorf("the system prompt is %q, %v, want %q", *r.tools.system, err, tt.want)
		}
	}
}

// TestRequiredToolsAreThereWhenARunBegins, or known to a toolset.
func TestRequiredToolsAreThereWhenARunBegins(t *testing.T) {
	from := func(names ...string) (list []agent.ToolSpec) {
		for _, name := range names {
			list = append(list, agent.ToolSpec{Name: name, Source: "src-" + name})
		}
		return list
	}
	for name, tt := range map[string]struct {
		required     []string
		specs, asked []agent.ToolSpec
		want         string
	}{
		"none":          {},
		"there":         {required: []string{"a"}, specs: from("a")},
		"no tools":      {required: []string{"a"}, want: "requires a, which no source offers; it has no tools"},
		"others":        {required: []string{"a", "b", "c"}, specs: from("b", "d"), want: "requires a and c, which no source offers; its tools are from src-b, src-d"},
		"hidden":        {required: []string{"h"}},
		"in a long run": {required: []string{"a"}, asked: from("a")},
	} {
		r := &run{node: node{agent: &agent.Agent{RequiredTools: tt.required, Toolsets: []agent.Toolset{hiding{}}}, session: &agent.Session{}}}
		r.tools.specs, r.tools.asked = tt.specs, tt.asked
		if err := r.missingTools(t.Context()); (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, agent.ErrTools) || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
