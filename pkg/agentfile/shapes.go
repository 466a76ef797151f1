package agentfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
)

// raw is the JSON text of a key of the contents, nil without one. The members of
// objects are in the order of the file.
func (f *File) raw(key string) json.RawMessage {
	node := f.doc.Root.Member("contents").Member(strings.TrimPrefix(f.at(key), "/contents/"))
	if node == nil || node.Value == nil {
		return nil
	}
	var text bytes.Buffer
	_ = json.Compact(&text, f.doc.Raw(node)) // it was parsed
	return text.Bytes()
}

// shapes compiles the schemas in n's file for its agent.
func (l *loader) shapes(n *Node) bool {
	s, a, ok := n.File.Spec, n.Agent, true
	a.Context, a.RequiredTools = s.Context, s.RequiredTools
	report := func(key string, err error) {
		if err != nil {
			l.report(n.File.problem(unusable(n.stack[1:]), CodeSchema, n.File.at(key), "%s", err))
			ok = false
		}
	}
	var err error
	if s.InputSchema != nil {
		a.InputSchema, err = schema.CompileShape("inputSchema", s.InputSchema)
		report("inputSchema", err)
	}
	if s.ContextSchema != nil {
		a.ContextSchema, err = schema.CompileShape("contextSchema", s.ContextSchema)
		report("contextSchema", err)
		if err == nil && s.Context != nil {
			if misfit := a.ContextSchema.Check(context.Background(), s.Context); misfit != nil {
				report("context", fmt.Errorf("it does not fit contextSchema:%w", misfit))
			}
		}
	}
	if s.OutputSchema != nil {
		answer, err := schema.CompileAnswer("outputSchema", s.OutputSchema)
		if err == nil {
			a.OutputSchema = answer.Output()
		}
		report("outputSchema", err)
	}
	return ok
}

// required notes required tools that no source of n offers, so that a caller must.
// What MCP servers offer is not known yet.
func (l *loader) required(n *Node) {
	for i, name := range n.File.Spec.RequiredTools {
		offered := slices.ContainsFunc(n.Tools, func(t agent.ToolSpec) bool { return t.Name == name || t.IsAgent() && t.Name == agent.OtherName(name) })
		if !offered && len(n.servers()) == 0 {
			pointer := fmt.Sprintf("%s/%d", n.File.at("requiredTools"), i)
			l.report(n.File.problem(Note, CodeToolHint, pointer, "no source here offers %s: only programs that bring it with them can run the agent", name))
		}
	}
}
