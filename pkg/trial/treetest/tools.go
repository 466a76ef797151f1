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
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/toolbox/background"
	"github.com/agents-exe/agents/pkg/trial/standin"
)

// toolRules say which tools of a tree are real, and answer the calls of the others
// from the stubs of the file. They count the uses of stubs and keep a failure for
// each call that is not expected.
type toolRules struct {
	file    *File
	barrier *barrier

	mu       sync.Mutex
	used     map[string][]int // uses of each stub, by the tool's name in the file
	failures []Failure
}

// key finds the name in the file that matches a tool of an agent: AGENT/TOOL before
// TOOL, whole names before those that end with *, and of these the longest.
func (r *toolRules) key(slug, tool string) (string, bool) {
	best, rank := "", -1
	for name := range r.file.Spec.Tools {
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
		n := len(front) * 4
		if !open {
			n += 2
		}
		if owned {
			n += 1 << 20
		}
		if n > rank {
			best, rank = name, n
		}
	}
	return best, rank >= 0
}

// apply puts the rules around the tools of a node.
func (r *toolRules) apply(n *agentfile.Node) {
	slug := n.Agent.Slug
	n.HideTools(slices.ContainsFunc(slices.Collect(maps.Keys(r.file.Spec.Tools)), func(name string) bool { return strings.Contains(name, "meta_") }))
	servers := n.Servers()
	sets := n.Agent.Toolsets
	own := sets[:len(sets)-len(servers)]
	var ruled []agent.Toolset
	for _, set := range own {
		if list, ok := set.(agent.ToolList); ok {
			set = agent.ToolList(r.tools(slug, list))
		} else {
			set = agent.WrapToolset(set, func(_ context.Context, list []agent.Tool, err error) ([]agent.Tool, error) {
				return r.tools(slug, list), err
			})
		}
		ruled = append(ruled, set)
	}
	for i, server := range servers {
		if r.wants(slug, server.Prefix) {
			ruled = append(ruled, agent.WrapToolset(sets[len(own)+i], func(_ context.Context, list []agent.Tool, err error) ([]agent.Tool, error) {
				return r.tools(slug, list), err
			}))
		}
	}
	if extra := r.declared(n); len(extra) > 0 {
		ruled = append(ruled, extra)
	}
	n.Agent.Toolsets = ruled
}

// wants reports whether the server whose tools have this prefix must be started: a
// tool of it is real, or has a stub and no spec.
func (r *toolRules) wants(slug, prefix string) bool {
	for name, stubs := range r.file.Spec.Tools {
		owner, pattern, owned := strings.Cut(name, "/")
		if !owned {
			pattern = name
		} else if owner != slug {
			continue
		}
		_, declared := r.file.Spec.Specs[pattern]
		front, open := strings.CutSuffix(pattern, "*")
		if open && stubs.Real && (strings.HasPrefix(prefix, front) || strings.HasPrefix(front, prefix)) ||
			!open && strings.HasPrefix(pattern, prefix) && (stubs.Real || !declared) {
			return true
		}
	}
	return false
}

// declared are the tools with specs in the file, of the servers of a node that are
// not started.
func (r *toolRules) declared(n *agentfile.Node) agent.ToolList {
	var list agent.ToolList
	servers := n.Servers()
	for _, server := range n.File.Spec.MCPServers { // Servers has none without its key
		if !server.Disabled {
			servers = append(servers, agentfile.Source{Name: server.Name, Prefix: toolname.Join("mcp", server.Name) + "_"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.file.Spec.Specs)) {
		from := slices.IndexFunc(servers, func(server agentfile.Source) bool {
			return strings.HasPrefix(name, server.Prefix)
		})
		if from < 0 || r.wants(n.Agent.Slug, servers[from].Prefix) {
			continue
		}
		spec := r.file.Spec.Specs[name]
		doc := spec.Schema
		if len(doc) == 0 {
			doc = json.RawMessage(`{"type":"object"}`)
		}
		source := "MCP server " + servers[from].Name
		list = append(list, r.tool(n.Agent.Slug, specOnly{agent.ToolSpec{Name: name, Description: spec.Description, Schema: doc, Source: source}}))
	}
	return list
}

// unneeded reports whether a problem is about an MCP server that is not started: its
// key may be missing.
func (r *toolRules) unneeded(tree *agentfile.Tree, p agentfile.Problem) bool {
	if p.Code != agentfile.CodeServer {
		return false
	}
	for _, n := range tree.Nodes {
		for i, server := range n.File.Spec.MCPServers {
			at := strings.HasSuffix(p.Key, fmt.Sprintf("ervers[%d]", i)) || strings.HasSuffix(p.Key, "ervers."+server.Name)
			if n.File.Path == p.File && at {
				return !r.wants(n.Agent.Slug, toolname.Join("mcp", server.Name)+"_")
			}
		}
	}
	return false
}

type specOnly struct{ spec agent.ToolSpec }

func (t specOnly) Spec() agent.ToolSpec { return t.spec }

func (t specOnly) Call(context.Context, *agent.Invocation) (agent.Result, error) {
	return agent.Result{}, errNotAsked
}

var errNotAsked = errors.New("only the spec of this tool is known")

func (r *toolRules) tools(slug string, list []agent.Tool) []agent.Tool {
	ruled := make([]agent.Tool, len(list))
	for i, t := range list {
		ruled[i] = r.tool(slug, t)
	}
	return ruled
}

// tool is t, or what answers in its place. It runs when the other calls of its
// answer have begun.
func (r *toolRules) tool(slug string, t agent.Tool) agent.Tool {
	spec := t.Spec()
	key, named := r.key(slug, spec.Name)
	sub := (spec.Agent != "" || spec.Source == background.Source) && (!named || strings.HasSuffix(key, "*")) // agents, and the tools that control them
	if real := named && r.file.Spec.Tools[key].Real; !sub && !real {
		t = schema.Checked(&standin.Tool{Tool: t, Answer: func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			return r.answer(key, inv)
		}})
	}
	return agent.Wrap(t, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
		if err := r.barrier.wait(ctx, inv); err != nil {
			return agent.Result{}, err
		}
		return next.Call(ctx, inv)
	})
}

// answer answers a call by a stub. The key is the tool's name in the file, "" if the
// file does not name it: then its calls are failures.
func (r *toolRules) answer(key string, inv *agent.Invocation) (agent.Result, error) {
	what := fmt.Sprintf("%s: %s %s", inv.Agent, inv.Call.Name, argsText(inv.Call.Args))
	if key == "" {
		r.fail("/tools", "the call %s was not expected: the test neither answers it nor says that the tool is real", what)
		return agent.Result{}, errors.New("the test does not say what this tool answers")
	}
	stub, ok := r.take(key, inv.Call.Args)
	if !ok {
		r.fail(at("tools", key), "no stub fits the call %s, or those that fit are used up", what)
		return agent.Result{}, errors.New("the test does not say what this tool answers to these arguments")
	}
	return stub.result()
}

func (r *toolRules) fail(pointer, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, r.file.fail(pointer, format, args...))
}

// unexpected are failures for calls without an answer in the file.
func (r *toolRules) unexpected() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(r.failures)
}

// take returns the first stub that matches a call, and counts its use.
func (r *toolRules) take(key, args string) (*Stub, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.file.Spec.Tools[key].List
	if r.used == nil {
		r.used = map[string][]int{}
	}
	if r.used[key] == nil {
		r.used[key] = make([]int, len(list))
	}
	for i := range list {
		if list[i].Times > 0 && r.used[key][i] >= list[i].Times || !fitsArgs(list[i].Args, list[i].ArgsSubset, args) {
			continue
		}
		r.used[key][i]++
		return &list[i], true
	}
	return nil, false
}

// unused are failures for stubs that answered no call, but for those of names with
// a *.
func (r *toolRules) unused() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failures []Failure
	for _, key := range slices.Sorted(maps.Keys(r.file.Spec.Tools)) {
		if strings.HasSuffix(key, "*") {
			continue
		}
		for i := range r.file.Spec.Tools[key].List {
			if r.used[key] == nil || r.used[key][i] == 0 {
				failures = append(failures, r.file.fail(r.file.stubPointer(key, i), "this stub answered no call"))
			}
		}
	}
	return failures
}

// result is the result of a call that the stub answers.
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

// A barrier lets the calls of an answer begin together: each waits until all others
// that the agent's limit permits have begun. So which calls overlap depends on the
// agent and the answers, and not on how fast a call ends.
type barrier struct {
	limits map[string]int // of calls at the same time, by the agent's slug

	mu      sync.Mutex
	changed *sync.Cond
	batches map[turn]*batch
}

// A turn is an answer of a session.
type turn struct {
	session string
	n       int
}

// A batch is the calls of one answer.
type batch struct {
	calls, limit int
	begun, ended int
	started      map[string]bool // by call id
}

func newBarrier() *barrier {
	b := &barrier{limits: map[string]int{}, batches: map[turn]*batch{}}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *barrier) observe(e *agent.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := turn{e.Session, e.Turn}
	batched := b.batches[at]
	switch {
	case e.Kind == agent.EventAnswer && len(e.Message.Calls) > 0:
		limit := cmp.Or(b.limits[e.Agent], agent.DefaultMaxParallelTools)
		b.batches[at] = &batch{calls: len(e.Message.Calls), limit: limit, started: map[string]bool{}}
	case batched == nil:
	case e.Kind == agent.EventCallStarted:
		batched.started[e.CallID] = true
		batched.begun++
		b.changed.Broadcast()
	case e.Kind == agent.EventCallEnded:
		if !batched.started[e.CallID] { // it was answered without running
			batched.begun++
		}
		batched.ended++
		b.changed.Broadcast()
	}
}

// wait waits until the other calls of inv's answer have begun, or until ctx ends.
func (b *barrier) wait(ctx context.Context, inv *agent.Invocation) error {
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.changed.Broadcast()
	})
	defer stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.batches[turn{inv.Session, inv.Turn}]
	for batch != nil && batch.begun < min(batch.calls, batch.limit+batch.ended) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.changed.Wait()
	}
	return nil
}
