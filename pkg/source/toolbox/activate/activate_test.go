package activate_test

import (
	"context"
	"encoding/json"
	"errors"
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

// turns is a model that makes the calls of one turn after the other, "TOOL ARGS" each, and
// keeps the names of the tools that it was asked with. A first call "sum" makes a summary.
type turns struct {
	list [][]string
	seen [][]string
	size int // of the tools of the last request, in bytes
}

func (l *turns) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if req.Summary {
		return &agent.Response{Message: m}, nil
	}
	var names []string
	l.size = 0
	for _, s := range req.Tools {
		l.size += len(s.Name) + len(s.Description) + len(s.Schema)
		if !strings.HasPrefix(s.Name, "meta_") {
			names = append(names, s.Name)
		}
	}
	l.seen = append(l.seen, names)
	if n := req.Turn - 1; n < len(l.list) {
		m.Parts = nil
		for _, c := range l.list[n] {
			name, args, _ := strings.Cut(c, " ")
			m.Calls = append(m.Calls, agent.ToolCall{Name: name, Args: args})
		}
	}
	return &agent.Response{Message: m}, nil
}

// named are tools that answer with their names.
func named(names ...string) agent.ToolList {
	var list agent.ToolList
	for _, name := range names {
		list = append(list, functool.New(name, "Does "+name+" to a file of the project and reports what it did.", func(context.Context, struct {
			Path string `json:"path,omitempty" jsonschema:"the file"`
		}) (string, error) {
			return "ran " + name, nil
		}))
	}
	return list
}

// A server is a toolset that counts how often it is asked.
type server struct {
	asked atomic.Int32
	err   error
}

func (s *server) Tools(context.Context) ([]agent.Tool, error) {
	s.asked.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	return named("mcp_far_look"), nil
}

func (s *server) Instructions(context.Context) (string, error) { return "Look twice.", nil }

func groups(far agent.Toolset) []*activate.Group {
	return []*activate.Group{
		{Toolset: named("save", "drop", "secret"), Name: "write", Hides: func(s agent.ToolSpec) bool { return s.Name == "secret" }},
		{Toolset: far, Name: "far", Prefix: "mcp_far_"},
	}
}

func agentOf(l agent.Provider, groups []*activate.Group) *agent.Agent {
	var meta agent.ToolList
	for _, t := range activate.Tools(groups) {
		meta = append(meta, schema.Checked(t))
	}
	a := &agent.Agent{Slug: "a", Provider: l, Toolsets: []agent.Toolset{append(named("read"), meta...)}}
	for _, g := range groups {
		a.Toolsets = append(a.Toolsets, g)
	}
	return a
}

func results(s *agent.Session) (texts []string) {
	for _, m := range s.Messages {
		for _, res := range m.Results {
			texts = append(texts, res.Text())
		}
	}
	return texts
}

func TestToolsAreThereWhileTheirGroupIsActive(t *testing.T) {
	far := &server{}
	l := &turns{list: [][]string{
		{`save {}`, `meta_activate_tool {"toolgroup":"write"}`},
		{`save {}`, `meta_discover_tools {}`},
		{`meta_deactivate_tool {"toolgroup":"write"}`},
		{`save {}`, `mcp_far_look {}`, `secret {}`},
		{`meta_activate_tool {"toolgroup":"other"}`},
	}}
	a := agentOf(l, groups(far))
	var warnings []string
	r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]string{{"read"}, {"drop", "read", "save", "secret"}, {"drop", "read", "save", "secret"}, {"read"}, {"read"}, {"read"}}, l.seen); d != "" {
		t.Error(d)
	}
	const inactive = "error: nothing ran: %s belongs to the toolgroup %q, which is not active: activate it with meta_activate_tool, then call the tool in your next message"
	got := results(r.Session())
	want := []string{fmt.Sprintf(inactive, "save", "write"), "Toolgroup 'write' activated",
		"ran save", `{"active":{"far":false,"write":true},"toolgroups":["far","write"],"tools":{"far":["mcp_far_*"],"write":["save","drop"]}}`,
		"Toolgroup 'write' deactivated",
		fmt.Sprintf(inactive, "save", "write"), fmt.Sprintf(inactive, "mcp_far_look", "far")}
	if d := cmp.Diff(want, got[:7]); d != "" {
		t.Error(d)
	}
	if !strings.HasPrefix(got[7], `error: there is no tool "secret"; there are: `) || !strings.Contains(got[8], "must be one of") && !strings.Contains(got[8], "far") {
		t.Errorf("other calls give %q", got[7:])
	}
	if n := far.asked.Load(); n != 0 {
		t.Errorf("the toolset of a group that is not active was asked %d times", n)
	}
	if len(warnings) > 0 {
		t.Errorf("what the model does itself is reported: %q", warnings)
	}
}

func TestAServerIsAskedWhenItsGroupIsActivated(t *testing.T) {
	far := &server{}
	l := &turns{list: [][]string{{`meta_activate_tool {"toolgroup":"far"}`}, {`mcp_far_look {}`}}}
	r := &runner.Runner{Agent: agentOf(l, groups(far))}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"Toolgroup 'far' activated\n\nLook twice.", "ran mcp_far_look"}, results(r.Session())); d != "" {
		t.Error(d)
	}

	far = &server{err: errors.New("MCP server far: start it: no such file")}
	l = &turns{list: [][]string{{`meta_activate_tool {"toolgroup":"far"}`}}}
	r = &runner.Runner{Agent: agentOf(l, groups(far))}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got := results(r.Session()); got[0] != `error: the toolgroup "far" is not active: MCP server far: start it: no such file` || len(r.Session().Toolgroups) > 0 {
		t.Errorf("a server that does not start gives %q, %v", got, r.Session().Toolgroups)
	}
}

// A session that another process continues has the same tools, also where it was shortened.
func TestActiveGroupsAreThoseOfTheSession(t *testing.T) {
	var events []agent.Event
	l := &turns{list: [][]string{{`meta_activate_tool {"toolgroup":"write"}`, `meta_deactivate_tool {"toolgroup":"early"}`}, {`long {}`}, {`long {}`}, {`long {}`}}}
	list := append(groups(&server{}), &activate.Group{Toolset: named("quick"), Name: "early"})
	a := agentOf(l, list)
	a.ContextTokens = 8000
	a.Toolsets = append(a.Toolsets, agent.ToolList{functool.New("long", "", func(context.Context, struct{}) (string, error) { return strings.Repeat("words ", 2000), nil })})
	r := &runner.Runner{Agent: a, Journal: journal{&events}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"long", "read"}, l.seen[0]); d != "" {
		t.Error(d)
	}
	at := slices.IndexFunc(events, func(e agent.Event) bool { return e.Kind == agent.EventCompaction })
	if at < 0 {
		t.Fatal("the conversation was not shortened")
	}
	want := agent.Toolgroups{"write": true, "early": false}
	for _, from := range []int{0, at} { // a journal can begin at a compaction
		s := &agent.Session{}
		for _, e := range events[from:] {
			if err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, s.Toolgroups); d != "" {
			t.Error(d)
		}
		data, err := json.Marshal(s)
		again := &agent.Session{}
		if err == nil {
			err = json.Unmarshal(data, again)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.seen = nil
		r := &runner.Runner{Agent: a, From: &runner.Resume{Session: again}}
		if _, err := r.Run(t.Context(), agent.UserText("more")); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([][]string{{"drop", "long", "read", "save", "secret"}}, l.seen); d != "" {
			t.Error(d)
		}
	}
	// The session before the calls has none.
	s := &agent.Session{}
	for _, e := range events[:3] {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if s.Toolgroups != nil {
		t.Errorf("at its beginning the session has %v", s.Toolgroups)
	}
}

type journal struct{ events *[]agent.Event }

func (j journal) Append(_ context.Context, e agent.Event) error {
	*j.events = append(*j.events, e)
	return nil
}
func (j journal) Sync(context.Context) error { return nil }

// Hidden tools cost nothing: the request has the three tools about groups, however many
// there are in them.
func TestHiddenToolsCostNothing(t *testing.T) {
	size := func(n int, calls ...[]string) int {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("tool_%03d", i))
		}
		l := &turns{list: calls}
		r := &runner.Runner{Agent: agentOf(l, []*activate.Group{{Toolset: named(names...), Name: "many"}})}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		return l.size / 4 // bytes for a token, about
	}
	none, hidden, shown := size(0), size(200), size(200, []string{`meta_activate_tool {"toolgroup":"many"}`})
	t.Logf("tokens of the tools in a request: 200 hidden %d, 200 active %d", hidden, shown)
	if hidden != none || shown < 20*hidden {
		t.Errorf("200 hidden tools cost %d tokens, none %d, active ones %d", hidden, none, shown)
	}
}
