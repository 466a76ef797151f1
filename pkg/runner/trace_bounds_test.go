package runner

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestATraceIsPassedOnIfThereIsOne.
func TestATraceIsPassedOnIfThereIsOne(t *testing.T) {
	const outside = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tt := range []struct {
		set, parent string
		traced      bool
		trace       string // in the spans
	}{{"", "", false, ""}, {"x", "", false, ""}, {outside, outside, true, "0af7651916cd43dd8448eb211c80319c"}} {
		tr := newTree(agent.Lease{})
		tr.root = &run{node: node{tree: tr, session: &agent.Session{}}}
		tr.root.session.ID = "s"
		below := &run{node: node{tree: tr, up: &tr.root.node}}
		tr.trace(tt.set)
		if tr.traced != tt.traced || tr.root.traced(agent.Event{}).Traceparent != tt.parent || below.traced(agent.Event{}).Traceparent != "" {
			t.Errorf("%q: traced: %t, %q", tt.set, tr.traced, tr.root.traced(agent.Event{}).Traceparent)
		}
		call, request, summary := tr.callTrace("s", "s.1.1"), tr.requestTrace(&agent.Request{Session: "s", Turn: 1}), tr.requestTrace(&agent.Request{Session: "s", Turn: 1, Summary: true})
		for _, span := range []string{call, request, summary} {
			if (span != "") != tt.traced || !strings.Contains(span, tt.trace) {
				t.Errorf("%q: the span is %q", tt.set, span)
			}
		}
		if tt.traced && (call == request || request == summary) {
			t.Errorf("%q: the spans are %q, %q, %q", tt.set, call, request, summary)
		}
		if tr.traced = true; tt.set == "" && len(tr.callTrace("s", "s.1.1")) != len(outside) {
			t.Errorf("without a caller, the span is %q", tr.callTrace("s", "s.1.1"))
		}
	}
}
