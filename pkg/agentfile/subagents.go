package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/workspace"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// An ExtraAgent is a sub-agent outside the tool directory: an agent file, or with a tag
// an agent of a server or of the Agent Client Protocol.
type ExtraAgent struct {
	Tag  string `json:"tag"`
	Slug string `json:"slug"`
	Path string `json:"path"`

	// These replace those of the agent's file.
	Workspace string   `json:"workspace"`
	Bring     []string `json:"bring"`

	// These are as in a Toolbox.
	Runner      []string `json:"runner"`
	RunnerID    []string `json:"runnerId"`
	RunnerShell *bool    `json:"runnerShell"`
	Expected

	// Background and Detach are those of agent.ToolSpec.
	Background bool `json:"background"`
	Detach     bool `json:"detach"`

	// Contents are those of an agent with a tag.
	Contents json.RawMessage `json:"contents"`
}

// extraAgents reads sub-agents that are elsewhere; they may form cycles.
func (l *loader) extraAgents(n *Node) {
	for i, extra := range n.File.Spec.ExtraAgents {
		if extra.Background {
			n.background = append(n.background, extra.name())
		}
		if extra.Detach {
			n.detach = append(n.detach, extra.name())
		}
		pointer := fmt.Sprintf("%s/%d", n.File.at("extraAgents"), i)
		at := n.File.problem(LeftOut, CodeSchema, pointer, "")
		switch {
		case isOther(extra.Tag):
			l.other(n, extra.Tag, extra.Contents, false, at) // the schema knows the keys
			continue
		case len(extra.Runner) == 0:
		case extra.Path == "":
			l.report(n.File.problem(LeftOut, CodePath, pointer, "an agent with a runner needs the key path: its agent file where the runner executes it"))
			continue
		case extra.Workspace != "":
			l.report(n.File.problem(LeftOut, CodePath, pointer+"/workspace", "an agent with a runner works where that runs it, and has no workspace"))
			continue
		default:
			n.executables.programs = append(n.executables.programs, program{words: extra.Runner, Source: exectool.Source{
				Path: extra.Path, Kind: exectool.AgentFile, Slug: extra.Slug, Expect: l.expect(n, extra.Expected, at), Runner: n.runner(extra.Runner, extra.RunnerID, extra.RunnerShell)}})
			continue
		}
		path, ok := n.File.Path, true // without a path it is in the same file
		if extra.Path != "" {
			path, ok = l.resolve(n, pointer, extra.Path, LeftOut)
		}
		if !ok {
			continue
		}
		if len(n.stack) > MaxDepth {
			l.report(n.File.problem(LeftOut, CodeDepth, pointer, "agent files are nested more than %d deep", MaxDepth))
			continue
		}
		data, err := readRegular(path, MaxBytes)
		if err == nil && isOther(tagOf(asJSON(path, data))) {
			if l.take(KindAgent, path, data) {
				l.otherFile(n, path, data)
			}
			continue
		}
		sub := l.readAgent(path, extra.Slug, n.stack)
		if sub == nil {
			continue
		}
		if sub.File.Spec.Slug != extra.Slug {
			l.report(n.File.problem(LeftOut, CodeSlug, pointer+"/slug", "the agent in %s has the slug %q, not %q", path, sub.File.Spec.Slug, extra.Slug))
			continue
		}
		n.helper(sub)
		if expect := l.expect(n, extra.Expected, at); expect.Receipt != "" || expect.Accept != nil {
			if n.expects == nil {
				n.expects = map[*Node]agent.Expect{}
			}
			n.expects[sub] = expect
		}
		if extra.Workspace != "" {
			if n.workspaces == nil {
				n.workspaces = map[*Node]workspace.Options{}
			}
			n.workspaces[sub] = workspace.Options{Kind: extra.Workspace, Bring: extra.Bring}
		}
	}
}

// name returns the slug of the agent that e is.
func (e *ExtraAgent) name() string {
	var contents struct{ Slug string }
	if e.Slug == "" && json.Unmarshal(e.Contents, &contents) == nil {
		return contents.Slug
	}
	return e.Slug
}

// A backgroundTool is an agent that may work in the background, and with detach outlive its caller.
type backgroundTool struct {
	agent.Tool
	detach bool
}

func (t backgroundTool) Spec() agent.ToolSpec {
	spec := t.Tool.Spec()
	spec.Background, spec.Detach = true, t.detach
	spec.Description = strings.TrimSpace(spec.Description) + "\nWhat takes longer than two seconds goes on in the background: you get a handle, and the answer later."
	if t.detach {
		spec.Description += " It goes on when you have ended; your caller then gets the answer."
	}
	return spec
}

// leaves reports whether n, or an agent below it, has agents that may outlive it.
func (n *Node) leaves(seen map[*Node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	return len(n.detach) > 0 || slices.ContainsFunc(n.Helpers, func(h *Node) bool { return h.File.Spec.Detach || h.leaves(seen) })
}

func (t backgroundTool) Unwrap() any { return t.Tool }

func (n *Node) helper(sub *Node) {
	if !slices.Contains(n.Helpers, sub) {
		n.Helpers = append(n.Helpers, sub)
	}
}

// helperFile reads a .json of a tool directory if it is an agent file.
func (l *loader) helperFile(n *Node, path string) {
	data, err := readRegular(path, MaxBytes)
	if err != nil {
		l.report(unreadable(path, LeftOut, err))
		return
	}
	if !l.take(KindAgent, path, data) {
		return
	}
	left := Problem{Severity: LeftOut, File: path}
	real := realPath(path)
	cycle := slices.IndexFunc(n.stack, func(above *Node) bool { return above.File.Real == real })
	switch {
	case l.otherFile(n, path, data):
		return
	case !isAgentFile(path, data):
		left.Code, left.Message = CodeNotAgent, fmt.Sprintf("this is not an agent file: it has no tag %q", Tag)
		_, err := parse(path, data)
		if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
			left.Line, left.Col, left.Message = syntax.Line, syntax.Col, "this is not an agent file: "+syntax.Message
		}
	case cycle >= 0:
		var way []string
		for _, above := range n.stack[cycle:] {
			way = append(way, above.File.Path)
		}
		left.Code, left.Message = CodeCycle, "a cycle of tool directories: "+strings.Join(append(way, path), " → ")
	case len(n.stack) > MaxDepth:
		left.Code, left.Message = CodeDepth, fmt.Sprintf("agent files are nested more than %d deep", MaxDepth)
	default:
		if sub := l.read(path, n.stack); sub != nil {
			n.helper(sub)
		}
		return
	}
	l.report(left)
}
