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
		pointer := fmt.Sprintf("%s/%d", n.File.at("builtinToolboxes"), i)
		set, err := l.builtin(n, box)
		switch {
		case err != nil:
			l.report(n.File.problem(LeftOut, CodeSchema, pointer, "this is left out: %s", err))
			continue
		case set == nil:
			l.report(n.File.problem(Warning, CodeLater, pointer, "this is left out: there is no toolbox %q; there are BashToolbox, DeveloperToolbox, FinishToolbox, PlanToolbox, PythonToolbox and ThinkToolbox", box.Tag))
			continue
		}
		if p, ok := set.(protectable); ok {
			n.protected = append(n.protected, p)
		}
		list, _ := set.Tools(context.Background()) // it is the same list always
		tools = append(tools, list...)
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
	case "PlanToolbox":
		return plan.Tasks(), nil
	case "PythonToolbox":
		return l.python(n, box)
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
	if c.Name == "" || !toolname.Valid(c.Name) {
		return nil, fmt.Errorf("name %q of a DeveloperToolbox: it must be letters, digits, _ and -", c.Name)
	}
	known := slices.DeleteFunc(slices.Clone(c.Capabilities), func(name string) bool { return !slices.Contains(developer.Capabilities, name) })
	for _, name := range c.Capabilities {
		if !slices.Contains(known, name) && name != "snapshot" { // snapshots are always taken
			l.report(n.File.problem(Warning, CodeLater, n.File.at("builtinToolboxes"), "the capability %q of the DeveloperToolbox %q is left out: there is no such capability", name, c.Name))
		}
	}
	if len(c.Capabilities) > 0 && len(known) == 0 {
		return nil, fmt.Errorf("none of the capabilities of the DeveloperToolbox %q is known", c.Name)
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
