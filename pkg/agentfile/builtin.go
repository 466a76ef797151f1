package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/toolbox/bash"
	"github.com/agents-exe/agents/pkg/toolbox/developer"
	"github.com/agents-exe/agents/pkg/toolbox/finish"
	"github.com/agents-exe/agents/pkg/toolbox/plan"
	"github.com/agents-exe/agents/pkg/toolbox/python"
	"github.com/agents-exe/agents/pkg/toolname"
)

// A BuiltinToolbox is a toolbox that is part of this program.
type BuiltinToolbox struct {
	Tag      string          `json:"tag"`
	Contents json.RawMessage `json:"contents"`
}

const bashTag = "BashToolbox"

// builtins opens the builtin toolboxes of n.
func (l *loader) builtins(n *Node) []agent.Tool {
	var tools []agent.Tool
	boxes := n.toolboxesOf()
	if n.File.Spec.ToolProtocol == protocolScript && !slices.ContainsFunc(boxes, func(b BuiltinToolbox) bool { return b.Tag == bashTag }) {
		boxes = append(boxes, BuiltinToolbox{Tag: bashTag, Contents: json.RawMessage(`{"backgroundAfterSeconds":60}`)})
	}
	for i, box := range boxes {
		if box.Tag == sqliteTag {
			continue // it is a server
		}
		pointer := fmt.Sprintf("%s/%d", n.File.at("builtinToolboxes"), i)
		set, err := l.builtin(n, box)
		switch {
		case err != nil:
			l.report(n.File.problem(LeftOut, CodeSchema, pointer, "this is left out: %s", err))
			continue
		case set == nil:
			l.report(n.File.problem(Warning, CodeLater, pointer, "this is left out: there is no toolbox %q; there are BashToolbox, DeveloperToolbox, FinishToolbox, LuaToolbox, PlanToolbox, PythonToolbox, SqliteToolbox, SystemToolbox and ThinkToolbox", box.Tag))
			continue
		}
		if p, ok := set.(protectable); ok {
			n.protected = append(n.protected, p)
		}
		list, _ := set.Tools(context.Background()) // it is the same list always
		tools = append(tools, list...)
		group := l.toolgroup(n, pointer, box.activation())
		for _, t := range list {
			n.toolgroups[t.Spec().Name] = group
		}
	}
	return tools
}

// builtin opens a builtin toolbox; nil if there is none with its tag.
func (l *loader) builtin(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	switch box.Tag {
	case bashTag:
		return l.bash(n, box)
	case "DeveloperToolbox":
		return l.developer(n, box)
	case "FinishToolbox":
		return finish.Tools(), nil
	case "LuaToolbox":
		return l.lua(n, box)
	case "PlanToolbox":
		return plan.Tasks(), nil
	case "PythonToolbox":
		return l.python(n, box)
	case "SystemToolbox":
		return l.system(n, box)
	case "ThinkToolbox":
		return plan.Think(), nil
	}
	return nil, nil
}

// read reads the settings of a toolbox, if there are any.
func (b *BuiltinToolbox) read(to any) error {
	if len(b.Contents) == 0 {
		return nil
	}
	return json.Unmarshal(b.Contents, to)
}

func (l *loader) bash(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c struct {
		TimeoutSeconds         float64         `json:"timeoutSeconds"`
		BackgroundAfterSeconds float64         `json:"backgroundAfterSeconds"`
		MaxOutputBytes         int             `json:"maxOutputBytes"`
		Sandbox                *sandbox.Config `json:"sandbox"`
	}
	if err := box.read(&c); err != nil {
		return nil, err
	}
	s := n.File.Spec
	if c.TimeoutSeconds == 0 && c.BackgroundAfterSeconds == 0 {
		c.TimeoutSeconds = s.ToolTimeoutSeconds
	}
	opts := bash.Options{Timeout: seconds(c.TimeoutSeconds), BackgroundAfter: seconds(c.BackgroundAfterSeconds), MaxOutput: c.MaxOutputBytes,
		Environ: l.environ(s.ToolEnv), Env: s.ToolEnv, Dir: n.workDir, SpoolDir: l.opts.OutputDir, Redact: l.redact}
	confined := n.confinement.box("bash", c.Sandbox, false)
	n.builtBoxes = append(n.builtBoxes, builtinBox{"bash", confined})
	if confined != nil {
		opts.Sandbox = confined
	}
	return bash.Open(opts), nil
}

func (l *loader) python(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c struct {
		TimeoutSeconds float64         `json:"timeoutSeconds"`
		MaxOutputBytes int             `json:"maxOutputBytes"`
		Sandbox        *sandbox.Config `json:"sandbox"`
	}
	if err := box.read(&c); err != nil {
		return nil, err
	}
	s := n.File.Spec
	opts := python.Options{Timeout: seconds(cmp.Or(c.TimeoutSeconds, s.ToolTimeoutSeconds)), MaxOutput: c.MaxOutputBytes,
		Environ: l.environ(s.ToolEnv), Env: s.ToolEnv, Dir: n.workDir, SpoolDir: l.opts.OutputDir, Redact: l.redact}
	if box := n.confinement.box("python", c.Sandbox, false); box != nil {
		opts.Sandbox = box
	}
	return python.Open(opts), nil
}

// developer opens a DeveloperToolbox. encoding/json matches its keys in any case, as
// agents-exe writes them.
func (l *loader) developer(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c struct {
		Name, Description string
		Capabilities      []string
		FileSandbox       struct {
			Predicate *developer.Predicate `json:"fsbPredicate"`
			MaxSize   int64                `json:"fsbMaxFileSize"`
		}
	}
	if err := box.read(&c); err != nil {
		return nil, err
	}
	known, err := l.capabilities(n, box, c.Name, c.Capabilities, developer.Capabilities)
	if err != nil {
		return nil, err
	}
	opts := developer.Options{Name: c.Name, Description: c.Description, Capabilities: known, Dir: n.workDir,
		Files: c.FileSandbox.Predicate, MaxFileSize: c.FileSandbox.MaxSize, Environ: l.environ(nil)}
	confined := n.confinement.box("developer", nil, false)
	n.builtBoxes = append(n.builtBoxes, builtinBox{"developer_" + c.Name + "_developer_tools", confined})
	if confined != nil {
		opts.Permits, opts.Sandbox = confined.Permits, confined.String()
	}
	return developer.Open(opts), nil
}

// capabilities are those of a toolbox that exist here. The name of the toolbox, which
// is part of the name of its tool, is checked too.
func (l *loader) capabilities(n *Node, box BuiltinToolbox, name string, wanted, all []string) ([]string, error) {
	if !toolname.Valid(name) {
		return nil, fmt.Errorf("the name %q of a %s is not valid: use letters, digits, _ and -", name, box.Tag)
	}
	var known []string
	for _, c := range wanted {
		switch {
		case slices.Contains(all, c):
			known = append(known, c)
		case c != "snapshot": // a DeveloperToolbox always takes snapshots
			l.report(n.File.problem(Warning, CodeLater, n.File.at("builtinToolboxes"), "the capability %q of the %s %q is left out: there is no such capability", c, box.Tag, name))
		}
	}
	if len(wanted) > 0 && len(known) == 0 {
		return nil, fmt.Errorf("none of the capabilities of the %s %q is known", box.Tag, name)
	}
	return known, nil
}
