package agent

import (
	"slices"
	"strings"
	"testing"
)

// TestChangedToolsAreNoted: those of the last request, unless the model changed them.
func TestChangedToolsAreNoted(t *testing.T) {
	specs := func(names string) (list []ToolSpec) {
		for _, name := range strings.Fields(names) {
			name, description, _ := strings.Cut(name, ":")
			list = append(list, ToolSpec{Name: name, Description: description})
		}
		return list
	}
	for _, tt := range []struct {
		step        StepKind
		before, now string
		groups      Toolgroups
		want        string
	}{
		{StepModel, "", "a", nil, ""}, {StepModel, "a b", "a b", nil, ""}, {StepModel, "a b", "a c", nil, "; new: c; removed: b"}, {StepModel, "a b", "a:x b", nil, "; described differently: a"}, {StepModel, "a", "a b", nil, "; new: b"}, {StepModel, "b a", "", nil, "; removed: a, b"},
		{StepModel, "a", "a b", Toolgroups{"g": true}, ""}, {StepSummary, "a", "b", nil, ""},
	} {
		r := &run{session: &Session{}}
		r.session.Toolgroups = tt.groups
		r.tools.known, r.tools.specs = specs(tt.before), specs(tt.now)
		got := r.changedTools(Step{Kind: tt.step})
		if want := tt.want; want != "" && got != ToolsChanged+want || want == "" && got != "" {
			t.Errorf("%+v: %q", tt, got)
		}
		if known := slices.EqualFunc(r.tools.known, specs(tt.now), sameSpec); known != (tt.step == StepModel) {
			t.Errorf("%+v: they are known: %t", tt, known)
		}
	}
}
