package activate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/functool"
	"github.com/agents-exe/agents/pkg/source/toolbox/activate"
	"github.com/google/go-cmp/cmp"
)

// A changing toolset has as many tools as n says.
type changing struct {
	n            atomic.Int32
	instructions string
}

func (c *changing) Tools(context.Context) ([]agent.Tool, error) {
	var names []string
	for i := range c.n.Load() {
		names = append(names, fmt.Sprintf("mcp_far_%02d", i))
	}
	return named(names...), nil
}

func (c *changing) Instructions(context.Context) (string, error) { return c.instructions, nil }

// limited returns an agent with a tool "read", and with groups that have a limit, except for those
// of an agent file, which are named "deploy" or have a prefix.
func limited(l agent.Provider, most int, groups ...*activate.Group) *agent.Agent {
	limit := &activate.Limit{Tools: most, Tokens: 1 << 20, Others: []agent.ToolSpec{{Name: "read"}}}
	var meta agent.ToolList
	for _, g := range groups {
		if g.Name != "deploy" && g.Prefix == "" {
			g.Limit, limit.Groups = limit, append(limit.Groups, g)
		}
	}
	for _, t := range activate.Tools(groups) {
		meta = append(meta, schema.Checked(t))
	}
	a := &agent.Agent{Slug: "a", Provider: l, Toolsets: []agent.Toolset{named("read"), limit.Toolset(meta, nil)}}
	for _, g := range groups {
		a.Toolsets = append(a.Toolsets, g)
	}
	return a
}

func TestTooManyToolsAreHiddenUntilTheModelActivatesThem(t *testing.T) {
	far := &changing{instructions: "Look twice."}
	far.n.Store(3)
	l := &turns{list: [][]string{
		{`save {}`, `meta_activate_tool {"toolgroup":"save"}`},
		{`save {}`, `mcp_far_01 {}`, `meta_activate_tool {"toolgroup":"mcp_far_01"}`, `secret {}`},
		{`meta_deactivate_tool {"toolgroup":"save"}`, `meta_activate_tool {"toolgroup":"far"}`},
		{`meta_activate_tool {"toolgroup":"secret"}`, `meta_activate_tool {"toolgroup":"sav"}`},
	}}
	a := limited(l, 5,
		&activate.Group{Toolset: named("save", "drop", "kept", "secret"), Name: "write", Hides: func(s agent.ToolSpec) bool { return s.Name == "secret" }, Named: func(tool string) bool { return tool == "kept" }},
		&activate.Group{Toolset: far, Name: "far"})
	r := &runner.Runner{Agent: a}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"kept", "read"}, {"kept", "read", "save"}, {"kept", "mcp_far_01", "read", "save"}, {"kept", "mcp_far_00", "mcp_far_01", "mcp_far_02", "read"}, {"kept", "mcp_far_00", "mcp_far_01", "mcp_far_02", "read"}}
	if d := cmp.Diff(want, l.seen); d != "" {
		t.Error(d)
	}
	const inactive = `error: nothing ran: %s is not active: activate it with meta_activate_tool {"toolgroup": %q}, then call the tool in your next message`
	got := results(r.Session())
	for i, want := range []string{fmt.Sprintf(inactive, "save", "save"), "Toolgroup 'save' activated", "ran save", fmt.Sprintf(inactive, "mcp_far_01", "mcp_far_01"),
		"Toolgroup 'mcp_far_01' activated\n\nLook twice.", "error: there is no tool \"secret\"", "Toolgroup 'save' deactivated", "Toolgroup 'far' activated\n\nLook twice.",
		`error: there is no tool or toolgroup "secret"`, `error: there is no tool or toolgroup "sav"; did you mean "save"?`} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("result %d is %q, want %q", i, got[i], want)
		}
	}
}

// TestResultsSayWhatIsActive: beside a toolgroup of the agent file, which is activated as a whole.
func TestResultsSayWhatIsActive(t *testing.T) {
	l := &turns{list: [][]string{
		{`meta_activate_tool {"toolgroup":"ship"}`, `meta_activate_tool {"toolgroup":"mcp_late_x"}`, `meta_activate_tool {"toolgroup":"save"}`, `meta_activate_tool {"toolgroup":"mcp_far_01"}`},
		{`meta_deactivate_tool {"toolgroup":"write"}`},
		{`meta_activate_tool {"toolgroup":"write"}`},
		{`meta_deactivate_tool {"toolgroup":"save"}`, `meta_deactivate_tool {"toolgroup":"mcp_far_01"}`, `meta_discover_tools {"query":"` + strings.Repeat("é", 1001) + `"}`},
	}}
	far := &changing{}
	far.n.Store(3)
	a := limited(l, 2, &activate.Group{Toolset: named("save", "drop"), Name: "write"}, &activate.Group{Toolset: far, Name: "far"},
		&activate.Group{Toolset: named("ship"), Name: "deploy"}, &activate.Group{Toolset: &changing{}, Name: "late", Prefix: "mcp_late_"})
	r := &runner.Runner{Agent: a}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"read"}, {"mcp_far_01", "read", "save"}, {"mcp_far_01", "read"}, {"drop", "mcp_far_01", "read", "save"}, {"drop", "read", "save"}}
	if d := cmp.Diff(want, l.seen); d != "" {
		t.Error(d)
	}
	got := results(r.Session())
	for i, want := range []string{`error: ship belongs to the toolgroup "deploy", which is activated as a whole`, `error: mcp_late_x belongs to the toolgroup "late", which is`,
		"Toolgroup 'save' activated", "Toolgroup 'mcp_far_01' activated", "Toolgroup 'write' deactivated", "Toolgroup 'write' activated",
		`error: save belongs to the toolgroup "write", which is active: deactivate that`, "Toolgroup 'mcp_far_01' deactivated", "error: "} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("result %d is %q, want %q", i, got[i], want)
		}
	}
	if last := got[len(got)-1]; !strings.Contains(last, "1,000") && !strings.Contains(last, "1000") {
		t.Errorf("a query of 1,001 characters: %s", last)
	}
}

// TestTheLimitIsDecidedOnce: tools that a server adds later do not change whether others are hidden,
// and do not change the request while they are hidden.
func TestTheLimitIsDecidedOnce(t *testing.T) {
	for _, test := range []struct {
		first, later int32
		want         []string
	}{
		{3, 9, []string{"drop", "mcp_far_00", "mcp_far_01", "mcp_far_02", "mcp_far_03", "mcp_far_04", "mcp_far_05", "mcp_far_06", "mcp_far_07", "mcp_far_08", "read"}},
		{9, 3, []string{"read"}},
		{9, 12, []string{"read"}},
	} {
		far := &changing{instructions: "Look twice."}
		far.n.Store(test.first)
		l := &turns{list: [][]string{{"read {}"}}}
		a := limited(l, 5, &activate.Group{Toolset: named("drop"), Name: "write"}, &activate.Group{Toolset: far, Name: "far"})
		r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
			if e.Kind == agent.EventCallEnded {
				far.n.Store(test.later)
			}
		}}
		var system string
		a.Provider = systemOf{l, &system}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		hidden := test.first > 3
		if d := cmp.Diff(test.want, l.seen[1]); d != "" || hidden && !slices.Equal(l.seen[0], l.seen[1]) || strings.Contains(system, "Look twice.") == hidden {
			t.Errorf("first %d, then %d tools: %v, the system prompt is %q %s", test.first, test.later, l.seen, system, d)
		}
	}
}

type systemOf struct {
	agent.Provider
	system *string
}

func (s systemOf) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	*s.system = req.System
	return s.Provider.Generate(ctx, req, delta)
}

// TestDeniedToolsAreNotTooMany: what the model is not offered anyway hides no other tool.
func TestDeniedToolsAreNotTooMany(t *testing.T) {
	far := &changing{}
	far.n.Store(9)
	for _, test := range []struct {
		denied string
		hidden int
	}{{"mcp_far_0", 0}, {"mcp_far_00", 8}} {
		limit := &activate.Limit{Tools: 5, Tokens: 1 << 20}
		limit.Groups = []*activate.Group{{Toolset: far, Name: "far", Limit: limit, Hides: func(s agent.ToolSpec) bool { return strings.HasPrefix(s.Name, test.denied) }}}
		if hides := limit.Hides(t.Context()); hides != (test.hidden > 0) || limit.Hidden() != test.hidden {
			t.Errorf("9 tools, %s* denied: Hides() = %v, Hidden() = %d, want %d", test.denied, hides, limit.Hidden(), test.hidden)
		}
	}
}

func TestTheSizeOfToolsIsLimited(t *testing.T) {
	for tokens, hides := range map[int]bool{100: false, 99: true} {
		limit := &activate.Limit{Tools: 60, Tokens: tokens}
		if got := limit.Exceeds([]agent.ToolSpec{{Name: "long", Description: strings.Repeat("x", 395)}}); got != hides {
			t.Errorf("with a limit of %d tokens, Exceeds() = %v", tokens, got)
		}
	}
}

func TestSearchOfTools(t *testing.T) {
	var list agent.ToolList
	add := func(name, description string) {
		list = append(list, functool.New(name, description, func(context.Context, struct{}) (string, error) { return "", nil }))
	}
	add("mcp_tracker_create_issue", "Opens a ticket.")
	add("mcp_tracker_close_issue", "Closes a ticket.")
	add("mcp_mail_send", "Sends mail.\nCan create   drafts, too.")
	add("mcp_mail_secret", "Creates secrets.")
	for i := range 30 {
		add(fmt.Sprintf("number_%02d", i), "Counts.")
	}
	query := func(args string) map[string]json.RawMessage {
		l := &turns{list: [][]string{{"meta_discover_tools " + args}}}
		a := limited(l, 5, &activate.Group{Toolset: list, Name: "all", Hides: func(s agent.ToolSpec) bool { return s.Name == "mcp_mail_secret" }})
		r := &runner.Runner{Agent: a}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		result := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(results(r.Session())[0]), &result); err != nil {
			t.Fatalf("%s: %v", results(r.Session())[0], err)
		}
		return result
	}
	for words, want := range map[string][]string{
		"create issues":            {"mcp_tracker_create_issue", "mcp_tracker_close_issue", "mcp_mail_send"},
		"TICKET":                   {"mcp_tracker_close_issue", "mcp_tracker_create_issue"},
		"mcp_mail_send":            {"mcp_mail_send", "mcp_tracker_close_issue", "mcp_tracker_create_issue"},
		"secret":                   {},
		"nothing of this kind, xy": {},
	} {
		var found []struct{ Name, Description, Toolgroup string }
		if err := json.Unmarshal(query(`{"query":"` + words + `"}`)["found"], &found); err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, f := range found {
			names = append(names, f.Name)
			if f.Toolgroup != "all" || f.Name == "mcp_mail_send" && f.Description != "Sends mail. Can create drafts, too." {
				t.Errorf("found %+v", f)
			}
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("%q: %s", words, d)
		}
	}
	many := query(`{"query":"counts"}`)
	if got := string(many["left_off"]); got != "10" || strings.Count(string(many["found"]), `"name"`) != 20 {
		t.Errorf("30 tools fit, %s found, %s left off", many["found"], got)
	}
	if got := string(query("{}")["tools"]); strings.Contains(got, "secret") || strings.Count(got, "number_") != 30 {
		t.Errorf("without a query the tools are %s", got)
	}
}
