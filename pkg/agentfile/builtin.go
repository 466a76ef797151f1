package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/exectool"
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
	case systemTag:
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

type bashSettings struct {
	TimeoutSeconds         float64         `json:"timeoutSeconds"`
	BackgroundAfterSeconds float64         `json:"backgroundAfterSeconds"`
	MaxOutputBytes         int             `json:"maxOutputBytes"`
	Sandbox                *sandbox.Config `json:"sandbox"`
}

func (l *loader) bash(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c bashSettings
	if err := box.read(&c); err != nil {
		return nil, err
	}
	return l.shell(n, "bash", c), nil
}

// shell opens the toolbox that runs the commands of a tool of n.
func (l *loader) shell(n *Node, tool string, c bashSettings) *bash.Toolset {
	s := n.File.Spec
	if c.TimeoutSeconds == 0 && c.BackgroundAfterSeconds == 0 {
		c.TimeoutSeconds = s.ToolTimeoutSeconds
	}
	opts := bash.Options{Timeout: seconds(c.TimeoutSeconds), BackgroundAfter: seconds(c.BackgroundAfterSeconds), MaxOutput: c.MaxOutputBytes,
		Environ: l.environ(s.ToolEnv), Env: s.ToolEnv, Dir: n.workDir, SpoolDir: l.opts.OutputDir, Redact: l.redact}
	confined := n.confinement.box(tool, c.Sandbox, false)
	n.builtBoxes = append(n.builtBoxes, builtinBox{tool, confined})
	if confined != nil {
		opts.Sandbox = confined
	}
	return bash.Open(opts)
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

// A fileSandbox says which files a toolbox may use; without a predicate, those below its
// working directory.
type fileSandbox struct {
	Predicate *developer.Predicate `json:"fsbPredicate"`
	MaxSize   int64                `json:"fsbMaxFileSize"`
}

// fileOptions returns the options that limit the files of a tool of n.
func (l *loader) fileOptions(n *Node, tool string, f fileSandbox) developer.Options {
	opts := developer.Options{Dir: n.workDir, Files: f.Predicate, MaxFileSize: f.MaxSize, Environ: l.environ(nil)}
	confined := n.confinement.box(tool, nil, false)
	n.builtBoxes = append(n.builtBoxes, builtinBox{tool, confined})
	if confined != nil {
		opts.Permits, opts.Sandbox = confined.Permits, confined.String()
	}
	return opts
}

// developer opens a DeveloperToolbox. encoding/json matches its keys in any case, as
// agents-exe writes them.
func (l *loader) developer(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c struct {
		Name, Description string
		Capabilities      []string
		FileSandbox       fileSandbox
	}
	if err := box.read(&c); err != nil {
		return nil, err
	}
	known, err := l.capabilities(n, box, c.Name, c.Capabilities, developer.Capabilities)
	if err != nil {
		return nil, err
	}
	opts := l.fileOptions(n, "developer_"+c.Name+"_developer_tools", c.FileSandbox)
	opts.Name, opts.Description, opts.Capabilities = c.Name, c.Description, known
	opts.Text, opts.Check = l.opts.Text, func(ctx context.Context, file string, isAgent bool) developer.Checked {
		if isAgent {
			return checkAgent(file)
		}
		return l.checkTool(ctx, n, file)
	}
	return developer.Open(opts), nil
}

// checkAgent reads an agent file, and nothing that it names.
func checkAgent(file string) (c developer.Checked) {
	f, problems, _ := Read(file)
	if f != nil {
		c.Slug = f.Spec.Slug
	}
	for _, p := range problems {
		if p.Severity <= LeftOut {
			c.Errors = append(c.Errors, p.String())
		} else {
			c.Warnings = append(c.Warnings, p.String())
		}
	}
	return c
}

// checkTool executes a program with "describe", confined as the tools of n are.
func (l *loader) checkTool(ctx context.Context, n *Node, file string) (c developer.Checked) {
	source := exectool.Source{Path: file, Env: n.File.Spec.ToolEnv, Dir: n.workDir, Sandbox: n.confined(program{path: file})}
	set, err := exectool.Open(ctx, []exectool.Source{source}, exectool.Options{Environ: l.environ(n.File.Spec.ToolEnv), DescribeTimeout: l.opts.DescribeTimeout, Redact: l.redact})
	if err != nil {
		return developer.Checked{Errors: []string{err.Error()}}
	}
	for _, p := range set.Problems() {
		c.Errors = append(c.Errors, p.Text())
	}
	for _, t := range set.List() {
		if d, err := t.Description(); err == nil {
			c.Slug = d.Slug
		}
	}
	if c.Slug == "" && c.Errors == nil {
		c.Errors = []string{"it is not an executable"}
	}
	return c
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
