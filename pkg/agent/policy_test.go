package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVerdictsAreCombinedStrictly for every pair.
func TestVerdictsAreCombinedStrictly(t *testing.T) {
	list := []Verdict{{Decision: Allow}, {Decision: Allow, Rule: "a"}, {Decision: AskPerson, Rule: "b", Approval: "effects"}, {Decision: AskPerson, Rule: "c", Reviewer: "human", Approval: "always"}, {Decision: Deny, Rule: "d"}, {Decision: "odd", Rule: "e"}}
	for i, v := range list {
		for j, w := range list {
			got := v.And(w)
			if strictness(got.Decision) != max(strictness(v.Decision), strictness(w.Decision)) {
				t.Errorf("%+v and %+v are %+v", v, w, got)
			}
			if strictness(v.Decision) == strictness(w.Decision) && v.Rule != "" && got.Rule != v.Rule || i == 0 && got.Rule != w.Rule {
				t.Errorf("%+v and %+v: the rule is %q", v, w, got.Rule)
			}
			if asks := v.Decision == AskPerson && w.Decision == AskPerson; asks && (max(i, j) == 3) != (got.Reviewer == "human" && got.Approval == "always") {
				t.Errorf("%+v and %+v are %+v", v, w, got)
			}
		}
	}
	if got := (Verdict{Decision: Allow, External: true, Args: "x"}).And(Verdict{Decision: Deny, Rule: "d"}); !cmp.Equal(got, Verdict{Decision: Deny, Rule: "d", External: true, Args: "x"}) {
		t.Errorf("And = %+v", got)
	}
	for _, tt := range [][3]string{{"", "effects", "effects"}, {"required", "always", "required"}, {"odd", "effects", "effects"}, {"odd", "odd", ""}} {
		if got := stricterApproval(tt[0], tt[1]); got != tt[2] {
			t.Errorf("stricterApproval(%q, %q) = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}
