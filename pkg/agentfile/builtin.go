package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/toolbox/bash"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
	"github.com/agents-exe/agents/pkg/source/toolbox/finish"
	"github.com/agents-exe/agents/pkg/source/toolbox/plan"
	"github.com/agents-exe/agents/pkg/source/toolbox/python"
)

// A BuiltinToolbox is a toolbox that is part of this program.
type BuiltinToolbox struct {
	Tag      string          `json:"tag"`
	Contents json.RawMessage `json:"contents"`
}

const bashTag = "BashToolbox"

// A builtinKind is a kind of toolboxes: one that is opened in this process, or one that the
// program agents-toolbox serves.
type builtinKind struct {
	tag   string
	open  func(*loader, *Node, BuiltinToolbox) (agent.Toolset, error)
	serve func(l *loader, n *Node, pointer string, box BuiltinToolbox) error // adds a server to n
	read  func(*loader, *Node, BuiltinToolbox)                               // adds other sources to n; may be nil
}

// builtinKinds are sorted by their tags.
var builtinKinds = [...]builtinKind{
	{tag: bashTag, open: (*loader).bash},
	{tag: "DeveloperToolbox", open: (*loader).developer},
	{tag: "FinishToolbox", open: func(*loader, *Node, BuiltinToolbox) (agent.Toolset, error) { return finish.Tools(), nil }},
	{tag: "LuaToolbox", open: (*loader).lua},
	{tag: "PlanToolbox", open: func(*loader, *Node, BuiltinToolbox) (agent.Toolset, error) { return plan.Tasks(), nil }},
	{tag: "PythonToolbox", open: (*loader).python},
	{tag: "SqliteToolbox", serve: (*loader).sqlite},
	{tag: "SystemToolbox", open: (*loader).system, read: (*loader).commandFilter},
	{tag: "ThinkToolbox", open: func(*loader, *Node, BuiltinToolbox) (agent.Toolset, error) { return plan.Think(), nil }},
}

// A builtin is an entry of builtinToolboxes that is opened in this process.
type builtin struct {
	passive
	builtinKind // the zero value if there is none with the tag
	box         BuiltinToolbox
	pointer     string // in the agent file
}

// toolboxes returns the builtin toolboxes of n with their pointers and kinds: those of the
// file, those that its steps need, and the shell of toolProtocol script.
func (n *Node) toolboxes() (list []*builtin) {
	var boxes []BuiltinToolbox
	n.File.Part("builtinToolboxes", &boxes)
	need := func(tag, contents string) {
		if !slices.ContainsFunc(boxes, func(b BuiltinToolbox) bool { return b.Tag == tag }) {
			boxes = append(boxes, BuiltinToolbox{tag, json.RawMessage(contents)})
		}
	}
	if n.File.Spec.Step != "" { // its actions add_task, modify_task, think, finish and reject are calls of these
		need("PlanToolbox", "")
		need("ThinkToolbox", "")
		need("FinishToolbox", "")
	}
	if n.File.Spec.ToolProtocol == protocolScript {
		need(bashTag, `{"backgroundAfterSeconds":60}`)
	}
	for i, box := range boxes {
		b := &builtin{box: box, pointer: fmt.Sprintf("%s/%d", n.File.at("builtinToolboxes"), i)}
		if known := slices.IndexFunc(builtinKinds[:], func(k builtinKind) bool { return k.tag == box.Tag }); known >= 0 {
			b.builtinKind = builtinKinds[known]
		}
		list = append(list, b)
	}
	return list
}

// builtins reads the toolboxes of n.
func (l *loader) builtins(n *Node) {
	for _, b := range n.toolboxes() {
		if b.read != nil {
			b.read(l, n, b.box)
		}
		if b.serve == nil {
			n.add(b)
		} else if err := b.serve(l, n, b.pointer, b.box); err != nil {
			l.report(n.File.problem(LeftOut, CodeSchema, b.pointer, "this is left out: %s", err))
		}
	}
}

// open opens the toolbox.
func (b *builtin) open(l *loader, n *Node) []agent.Tool {
	if b.builtinKind.open == nil {
		l.report(n.File.problem(Warning, CodeLater, b.pointer, "this is left out: there is no toolbox %q; there are %s", b.box.Tag, builtinTags()))
		return nil
	}
	set, err := b.builtinKind.open(l, n, b.box)
	if err != nil {
		l.report(n.File.problem(LeftOut, CodeSchema, b.pointer, "this is left out: %s", err))
		return nil
	}
	if p, ok := set.(protectable); ok {
		n.protected = append(n.protected, p)
	}
	tools, _ := set.Tools(context.Background()) // it is the same list always
	group := l.toolgroup(n, b.pointer, b.box.activation())
	for _, t := range tools {
		n.toolgroups[t.Spec().Name] = group
	}
	return tools
}

// builtinTags lists the tags of all kinds.
func builtinTags() string {
	var tags []string
	for _, k := range builtinKinds {
		tags = append(tags, k.tag)
	}
	last := len(tags) - 1
	return strings.Join(tags[:last], ", ") + " and " + tags[last]
}

// settings reads the settings of a toolbox, if there are any.
func (b *BuiltinToolbox) settings(to any) error {
	if len(b.Contents) == 0 {
		return nil
	}
	return json.Unmarshal(b.Contents, to)
}

// valid returns an error for a name of the toolbox that cannot be part of the name of a tool.
func (b *BuiltinToolbox) valid(name string) error {
	if toolname.Valid(name) {
		return nil
	}
	return fmt.Errorf("the name %q of a %s is not valid: use letters, digits, _ and -", name, b.Tag)
}

type bashSettings struct {
	TimeoutSeconds         float64         `json:"timeoutSeconds"`
	BackgroundAfterSeconds float64         `json:"backgroundAfterSeconds"`
	MaxOutputBytes         int             `json:"maxOutputBytes"`
	Sandbox                *sandbox.Config `json:"sandbox"`
}

func (l *loader) bash(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c bashSettings
	if err := box.settings(&c); err != nil {
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
		Environ: l.environ(s.ToolEnv), Env: s.ToolEnv, Dir: n.workDir, SpoolDir: l.opts.Folders.Outputs, Redact: l.redact}
	if confined := n.box(tool, c.Sandbox); confined != nil {
		opts.Sandbox = confined
	}
	return bash.Open(opts)
}

func (l *loader) python(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c bashSettings // the schema has no backgroundAfterSeconds here
	if err := box.settings(&c); err != nil {
		return nil, err
	}
	s := n.File.Spec
	opts := python.Options{Timeout: seconds(cmp.Or(c.TimeoutSeconds, s.ToolTimeoutSeconds)), MaxOutput: c.MaxOutputBytes,
		Environ: l.environ(s.ToolEnv), Env: s.ToolEnv, Dir: n.workDir, SpoolDir: l.opts.Folders.Outputs, Redact: l.redact}
	if box := n.box("python", c.Sandbox); box != nil {
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
	if confined := n.box(tool, nil); confined != nil {
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
	if err := box.settings(&c); err != nil {
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
	source := exectool.Source{Path: file, Env: n.File.Spec.ToolEnv, Dir: n.workDir, Sandbox: n.confined(program{})}
	set, err := exectool.Open(ctx, []exectool.Source{source}, exectool.Options{Environ: l.environ(n.File.Spec.ToolEnv), DescribeTimeout: l.opts.Describe.Timeout, Redact: l.redact})
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
	if err := box.valid(name); err != nil {
		return nil, err
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
