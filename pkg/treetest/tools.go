package treetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/toolname"
)

// A stage is where the tools of a tree play: which are real, and what the stubs
// answer. It counts the uses of stubs and keeps calls that nobody expected.
type stage struct {
	file *File
	gate *gate

	mu       sync.Mutex
	used     map[string][]int // uses of each stub, by the tool's name in the file
	failures []Failure
}

// key finds what the file says of a tool of an agent: AGENT/TOOL before TOOL,
// whole names before those with a * at their end, and of these the longest.
func (s *stage) key(slug, tool string) (string, bool) {
	best, rank := "", -1
	for name := range s.file.Spec.Tools {
		owner, pattern, owned := strings.Cut(name, "/")
		if !owned {
			pattern = name
		} else if owner != slug {
			continue
		}
		front, open := strings.CutSuffix(pattern, "*")
		if open && !strings.HasPrefix(tool, front) || !open && pattern != tool {
			continue
		}
		r := len(front) * 4
		if !open {
			r += 2
		}
		if owned {
			r += 1 << 20
		}
		if r > rank {
			best, rank = name, r
		}
	}
	return best, rank >= 0
}

// equip puts the tools of a node on the stage.
func (s *stage) equip(n *agentfile.Node) {
	slug := n.Agent.Slug
	servers := n.Servers()
	sets := n.Agent.Toolsets
	own := sets[:len(sets)-len(servers)]
	staged := make([]agent.Toolset, 0, len(sets)+1)
	for _, set := range own {
		list, ok := set.(agent.ToolList)
		if !ok {
			staged = append(staged, set)
			continue
		}
		var tools agent.ToolList
		for _, t := range list {
			tools = append(tools, s.tool(slug, t))
		}
		staged = append(staged, tools)
	}
	for i, name := range servers {
		if set := sets[len(own)+i]; s.wants(slug, toolname.Join("mcp", name)+"_") {
			staged = append(staged, &stagedServer{Toolset: set, stage: s, slug: slug})
		}
	}
	if extra := s.declared(n); len(extra) > 0 {
		staged = append(staged, extra)
	}
	n.Agent.Toolsets = staged
}

// wants reports whether a server whose tools have this prefix must be asked for
// them: where the file lets one be real, or answers for one without saying what
// the model is told of it.
func (s *stage) wants(slug, prefix string) bool {
	for name, stubs := range s.file.Spec.Tools {
		owner, pattern, owned := strings.Cut(name, "/")
		if !owned {
			pattern = name
		} else if owner != slug {
			continue
		}
		_, declared := s.file.Spec.Specs[pattern]
		front, open := strings.CutSuffix(pattern, "*")
		if open && stubs.Real && (strings.HasPrefix(prefix, front) || strings.HasPrefix(front, prefix)) ||
			!open && strings.HasPrefix(pattern, prefix) && (stubs.Real || !declared) {
			return true
		}
	}
	return false
}

// declared are the tools whose specs stand in the file: those of servers that are
// not asked. Only an agent that has the server has them.
func (s *stage) declared(n *agentfile.Node) agent.ToolList {
	var list agent.ToolList
	servers := n.Servers()
	for _, server := range n.File.Spec.MCPServers { // one without its key is not among them
		if !server.Disabled {
			servers = append(servers, server.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.file.Spec.Specs)) {
		from := slices.IndexFunc(servers, func(server string) bool {
			return strings.HasPrefix(name, toolname.Join("mcp", server)+"_")
		})
		if from < 0 || s.wants(n.Agent.Slug, toolname.Join("mcp", servers[from])+"_") {
			continue
		}
		spec := s.file.Spec.Specs[name]
		doc := spec.Schema
		if len(doc) == 0 {
			doc = json.RawMessage(`{"type":"object"}`)
		}
		source := "MCP server " + servers[from]
		list = append(list, s.tool(n.Agent.Slug, specOnly{agent.ToolSpec{Name: name, Description: spec.Description, Schema: doc, Source: source}}))
	}
	return list
}

// unneeded reports whether a problem is about an MCP server that is not asked: it
// may lack its key.
func (s *stage) unneeded(tree *agentfile.Tree, p agentfile.Problem) bool {
	if p.Code != agentfile.CodeServer {
		return false
	}
	for _, n := range tree.Nodes {
		for i, server := range n.File.Spec.MCPServers {
			at := strings.HasSuffix(p.Key, fmt.Sprintf("ervers[%d]", i)) || strings.HasSuffix(p.Key, "ervers."+server.Name)
			if n.File.Path == p.File && at {
				return !s.wants(n.Agent.Slug, toolname.Join("mcp", server.Name)+"_")
			}
		}
	}
	return false
}

// specOnly is a tool of which nothing but its spec is there.
type specOnly struct{ spec agent.ToolSpec }

func (t specOnly) Spec() agent.ToolSpec { return t.spec }

func (t specOnly) Call(context.Context, *agent.Invocation) (agent.Result, error) {
	return agent.Result{}, errNotAsked
}

var errNotAsked = errors.New("nothing of this tool is there but its spec")

// tool puts one tool on the stage.
func (s *stage) tool(slug string, t agent.Tool) agent.Tool {
	key, named := s.key(slug, t.Spec().Name)
	sub := t.Spec().Agent != ""
	switch {
	case sub && (!named || strings.HasSuffix(key, "*")), named && s.file.Spec.Tools[key].Real:
		return &gated{t, s.gate}
	default:
		return &gated{schema.Checked(&stub{Tool: t, stage: s, key: key}), s.gate}
	}
}

// A gated tool runs when the others of its answer have begun.
type gated struct {
	agent.Tool
	gate *gate
}

func (t *gated) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if err := t.gate.enter(ctx, inv); err != nil {
		return agent.Result{}, err
	}
	return t.Tool.Call(ctx, inv)
}

// Unwrap returns the tool: see agent.As.
func (t *gated) Unwrap() any { return t.Tool }

// A stub answers in the place of a tool. Where the file does not name the tool,
// its calls are failures.
type stub struct {
	agent.Tool
	stage *stage
	key   string // in the file; "" if it does not name the tool
}

// Command hides that of the tool: a stub executes nothing.
func (t *stub) Command(*agent.Invocation) (argv []string, digest string) { return nil, "" }

func (t *stub) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	s := t.stage
	what := fmt.Sprintf("%s: %s %s", inv.Agent, inv.Call.Name, argsText(inv.Call.Args))
	if t.key == "" {
		s.surprise("/tools", "the call %s was not expected: the test neither answers it nor says that the tool is real", what)
		return agent.Result{}, errors.New("the test does not say what this tool answers")
	}
	answer, ok := s.take(t.key, inv.Call.Args)
	if !ok {
		s.surprise(at("tools", t.key), "no stub fits the call %s, or those that fit are used up", what)
		return agent.Result{}, errors.New("the test does not say what this tool answers to these arguments")
	}
	return answer.result()
}

func (s *stage) surprise(pointer, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, s.file.fail(pointer, format, args...))
}

// unexpected are failures for calls that the file does not answer.
func (s *stage) unexpected() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Message, b.Message))
	})
	return s.failures
}

// take finds the stub that answers a call, and counts its use.
func (s *stage) take(key, args string) (*Stub, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.file.Spec.Tools[key].List
	if s.used == nil {
		s.used = map[string][]int{}
	}
	if s.used[key] == nil {
		s.used[key] = make([]int, len(list))
	}
	for i := range list {
		if list[i].Times > 0 && s.used[key][i] >= list[i].Times || !fitsArgs(list[i].Args, list[i].ArgsSubset, args) {
			continue
		}
		s.used[key][i]++
		return &list[i], true
	}
	return nil, false
}

// unused are failures for stubs that answered no call. Those of names with a *
// need not answer any.
func (s *stage) unused() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failures []Failure
	for _, key := range slices.Sorted(maps.Keys(s.file.Spec.Tools)) {
		if strings.HasSuffix(key, "*") {
			continue
		}
		for i := range s.file.Spec.Tools[key].List {
			if s.used[key] == nil || s.used[key][i] == 0 {
				failures = append(failures, s.file.fail(s.file.stubPointer(key, i), "this stub answered no call"))
			}
		}
	}
	return failures
}

// result is what the stub answers, as a tool would.
func (a *Stub) result() (agent.Result, error) {
	var res agent.Result
	if a.Text != nil {
		res.Parts = append(res.Parts, agent.Text(*a.Text))
	}
	for _, p := range a.Parts {
		part := agent.Part{Kind: agent.PartText, Text: p.Text}
		if p.MIME != "" {
			part = agent.Part{Kind: agent.PartMedia, MIME: p.MIME, Data: p.Data, Name: p.Name}
		}
		res.Parts = append(res.Parts, part)
	}
	switch {
	case a.Fault == faultCrash:
		return res, errors.New("the tool was killed by signal 11 (segmentation fault)")
	case a.Fault == faultTimeout:
		return res, fmt.Errorf("timed out after %.0f s (timeout-seconds)", exectool.DefaultTimeout.Seconds())
	case a.Error != nil:
		return res, errors.New(*a.Error)
	}
	return res, nil
}

// A stagedServer is the toolset of an MCP server with its tools on the stage.
type stagedServer struct {
	agent.Toolset
	stage *stage
	slug  string

	mu    sync.Mutex
	tools map[agent.Tool]agent.Tool
}

// Tools asks the server.
func (t *stagedServer) Tools(ctx context.Context) ([]agent.Tool, error) {
	tools, err := t.Toolset.Tools(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tools == nil {
		t.tools = map[agent.Tool]agent.Tool{}
	}
	list := make([]agent.Tool, len(tools))
	for i, tool := range tools {
		if t.tools[tool] == nil {
			t.tools[tool] = t.stage.tool(t.slug, tool)
		}
		list[i] = t.tools[tool]
	}
	return list, err
}

// Instructions are those of the server.
func (t *stagedServer) Instructions(ctx context.Context) (string, error) {
	if in, ok := t.Toolset.(agent.Instructor); ok {
		return in.Instructions(ctx)
	}
	return "", nil
}
