package agentfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/mcpclient"
	"github.com/agents-exe/agents/pkg/redact"
	"github.com/agents-exe/agents/pkg/schema"
	"golang.org/x/sync/errgroup"
)

// MaxDepth limits how deep agent files lie in each other's tool directories.
const MaxDepth = 64

// TestSuffix is how the names of test files end (see package treetest). They may
// lie beside agent files anywhere, tool directories included.
const TestSuffix = ".agenttest.json"

// Options say what a tree is loaded with. The zero value loads a tree whose
// agents need no keys and whose tools get no environment.
type Options struct {
	// Keys are the API keys; nil means none. KeysFile names them in messages.
	Keys     *config.Keys
	KeysFile string
	// Environ is the environment that tools get, without what looks like a
	// secret and what holds one of the Keys.
	Environ []string
	// WorkDir is the working directory: where paths are looked for that do
	// not exist beside their agent file. "" means that of the process.
	WorkDir string
	// CacheDir keeps the descriptions of tools, what MCP servers offer, and
	// which agent files were valid; "" keeps nothing.
	CacheDir string
	// Set are the values of placeholders in the root file's prompts, see
	// docs/agent-files.md.
	Set map[string]string
	// Version is told to MCP servers.
	Version string
	// DescribeTimeout is how long a tool may take to describe itself; 0 means
	// exectool.DescribeTimeout.
	DescribeTimeout time.Duration
	// NoModels leaves the agents without a Provider: they cannot run, and need
	// neither keys nor scripts.
	NoModels bool
	// Check goes on where the root file cannot be run, so that problems of what
	// it names are found too.
	Check bool
	// Model, if it is not nil, gives agents their models instead of what the
	// files name, so that no key is needed. Where it returns nil, the file
	// decides.
	Model func(f *File) agent.Provider
	// Log is told what MCP servers write beside their messages, a line at a
	// time, by several goroutines; nil drops it.
	Log func(server, line string)
	// Elicit answers MCP servers that ask the person something (see
	// mcpclient.Options); nil declines.
	Elicit func(ctx context.Context, question mcpclient.Elicitation) (mcpclient.Answer, error)
	// LockDir is where calls of tools that declare locks take turns, with
	// every process that uses the same folder; "" means that they do not.
	LockDir string
	// Protected are further files that decide what is executed, such as the cfg
	// file: tools that write files refuse to write them, as they refuse the
	// tree's own files and the keys file.
	Protected []string
	// OutputDir takes the whole of tool outputs that were cut for the model;
	// "" means the system's folder for temporary files.
	OutputDir string
}

// A Tree is a loaded agent with everything below it. Close it after use.
type Tree struct {
	// Root is the agent to run.
	Root *agent.Agent
	// Nodes are all agents of the tree, Root's first, in the order in which
	// they were found. An agent that is reached twice is there once.
	Nodes []*Node
	// Problems are what was found wrong, worst first.
	Problems []Problem

	secrets []config.Secret // of a type that does not print them
}

// Secrets returns the values of all keys that the tree was loaded with, sorted:
// what must be kept out of everything that is shown or stored.
func (t *Tree) Secrets() []string {
	values := make([]string, len(t.secrets))
	for i, s := range t.secrets {
		values[i] = s.Reveal()
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// A Node is one agent of a tree.
type Node struct {
	File  *File
	Agent *agent.Agent
	// Tools are what its model sees, sorted by name.
	Tools []agent.ToolSpec
	// Helpers are its sub-agents, sorted by slug.
	Helpers []*Node

	depth    int
	stack    []*Node // the nodes above, and this one
	programs []program
	workDir  string // of its tools
	servers  []opened
}

// Servers are the names of n's MCP servers. Their toolsets stand in this order
// at the end of Agent.Toolsets, behind that of executables and sub-agents.
func (n *Node) Servers() []string {
	names := make([]string, len(n.servers))
	for i, s := range n.servers {
		names[i] = s.name
	}
	return names
}

// A program is an executable, or a folder of them, that an agent file names.
type program struct {
	path, filter string
	allowDash    bool
}

// Load reads the agent file at path and all that it names, describes its tools
// and returns the tree. A part that does not work is left out and reported; only
// a problem of the root file itself, or a key that is missing anywhere, is an
// error, a *LoadError. The tree is there in any case, with all problems.
func Load(ctx context.Context, path string, opts Options) (*Tree, error) {
	l := &loader{opts: opts, tree: &Tree{}, nodes: map[string]*Node{}}
	l.opts.Keys = cmp.Or(opts.Keys, &config.Keys{})
	for _, id := range l.opts.Keys.IDs() {
		key, _ := l.opts.Keys.Lookup(id)
		l.tree.secrets = append(l.tree.secrets, key.Value)
	}
	l.redact = redact.New(l.tree.Secrets())
	root := l.agent(path, nil)
	if root == nil {
		l.fatal()
	} else {
		if !l.unfit {
			l.tree.Root = root.Agent
		}
		l.connect(ctx)
	}
	sortProblems(l.tree.Problems)
	if ctx.Err() != nil {
		return l.tree, context.Cause(ctx)
	}
	if n := slices.IndexFunc(l.tree.Problems, func(p Problem) bool { return p.Severity != Fatal }); n != 0 && len(l.tree.Problems) > 0 {
		if n < 0 {
			n = len(l.tree.Problems)
		}
		return l.tree, &LoadError{slices.Clone(l.tree.Problems[:n])}
	}
	return l.tree, nil
}

// Close ends every process that the tree's toolsets started.
func (t *Tree) Close() error {
	var g errgroup.Group
	for _, n := range t.Nodes {
		for _, s := range n.servers {
			g.Go(func() error { return s.Close(context.Background()) })
		}
	}
	return g.Wait()
}

type loader struct {
	opts  Options
	tree  *Tree
	nodes map[string]*Node // by real path
	// unfit says that the root cannot run, and is looked at all the same.
	unfit   bool
	redact  *redact.Redactor // of the keys
	configs []string         // the files of MCP servers
}

func (l *loader) verdicts() verdicts {
	if l.opts.CacheDir == "" {
		return ""
	}
	return verdicts(filepath.Join(l.opts.CacheDir, "files"))
}

// fatal makes what was left out of the root the end of it.
func (l *loader) fatal() {
	for i := range l.tree.Problems {
		if l.tree.Problems[i].Severity == LeftOut {
			l.tree.Problems[i].Severity = Fatal
		}
	}
}

// goOn says whether an agent that cannot run is looked at all the same.
func (l *loader) goOn(stack []*Node) bool {
	if !l.opts.Check || len(stack) > 0 {
		return false
	}
	l.unfit = true
	l.fatal()
	return true
}

func (l *loader) report(p Problem) { l.tree.Problems = append(l.tree.Problems, p) }

// agent loads the agent file at path. stack holds the nodes above it. Without a
// node the problems say why.
func (l *loader) agent(path string, stack []*Node) *Node {
	if l.unfit {
		if n, ok := l.nodes[realPath(path)]; ok {
			return n // perhaps the root itself, of which all is said
		}
	}
	file, problems := readFile(path, l.verdicts())
	for _, p := range problems {
		if p.Severity == Fatal && len(stack) > 0 {
			p.Severity = LeftOut
		}
		l.report(p)
	}
	if file == nil && l.goOn(stack) {
		file = readRest(path)
	}
	if file == nil {
		return nil
	}
	if n, ok := l.nodes[file.Real]; ok {
		return n
	}
	if len(stack) == 0 && !l.fillPrompts(file) && !l.goOn(stack) {
		return nil
	}
	n := &Node{File: file, depth: len(stack), stack: append(slices.Clone(stack), nil)}
	n.stack[len(stack)] = n
	s := file.Spec
	n.Agent = &agent.Agent{
		Slug: s.Slug, Source: file.Real, Announce: s.Announce, System: string(s.SystemPrompt), Model: s.ModelName,
		MaxTurns: s.MaxTurns, MaxParallelTools: s.MaxParallelTools,
		ContextTokens: s.ContextTokens, NoCompaction: s.Compaction != nil && !*s.Compaction,
	}
	l.nodes[file.Real] = n // before what it names, which may name it
	dir, ok := l.workDir(n)
	n.workDir = dir
	// What a broken file says of its model is not the whole of it.
	if (!l.unfit && !l.provider(n) || !ok) && !l.goOn(stack) {
		delete(l.nodes, file.Real)
		return nil
	}
	l.tree.Nodes = append(l.tree.Nodes, n)
	l.later(n)
	l.toolDirectory(n)
	l.toolboxes(n)
	l.mcpServers(n)
	l.extraAgents(n)
	return n
}

// later reports what agents-exe gives a meaning to and this program does not
// yet.
func (l *loader) later(n *Node) {
	s := n.File.Spec
	for _, k := range []struct {
		key   string
		value []byte
	}{
		{"openApiToolboxes", s.OpenAPI}, {"postgrestToolboxes", s.PostgREST}, {"builtinToolboxes", s.Builtin},
		{"skillSources", s.Skills}, {"autoEnableSkills", s.AutoSkills},
	} {
		switch strings.TrimSpace(string(k.value)) {
		case "", "null", "[]", "{}", "false":
			continue
		}
		l.report(n.File.problem(Warning, CodeLater, n.File.at(k.key), "this is left out: it is not supported yet"))
	}
	contents, _ := n.File.doc.Value.(map[string]any)["contents"].(map[string]any)
	for _, key := range []string{"parameters", "bindings", "executionMode", "toolCallPolicyConfig"} {
		pointer := n.File.at(key)
		if contents[strings.TrimPrefix(pointer, "/contents/")] != nil {
			l.report(n.File.problem(Warning, CodeLater, pointer, "this is left out: it is not supported yet"))
		}
	}
}

// resolve finds the file or folder that a path of n's file means: beside the
// file, else beside what the file is a link to, else in the working directory,
// with a warning.
func (l *loader) resolve(n *Node, pointer, path string) (string, bool) {
	if filepath.IsAbs(path) {
		if _, err := os.Stat(path); err != nil {
			l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s", named(path), plain(err)))
			return "", false
		}
		return path, true
	}
	beside := filepath.Join(filepath.Dir(n.File.Path), path)
	_, err := os.Stat(beside)
	if err == nil {
		return beside, true
	}
	// The file may be a link to one elsewhere, which names its own neighbours.
	own := filepath.Join(filepath.Dir(n.File.Real), path)
	if _, ownErr := os.Stat(own); ownErr == nil {
		return own, true
	}
	here := filepath.Join(l.opts.WorkDir, path)
	if _, hereErr := os.Stat(here); hereErr == nil {
		l.report(n.File.problem(Warning, CodePath, pointer, "%s does not exist beside this file; the one in the working directory is used", named(path)))
		return here, true
	}
	l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s", named(beside), plain(err)))
	return "", false
}

// toolDirectory takes in the executables and the agent files of a folder.
func (l *loader) toolDirectory(n *Node) {
	name := n.File.Spec.ToolDirectory
	if name == "" {
		return
	}
	pointer := n.File.at("toolDirectory")
	dir, ok := l.resolve(n, pointer, name)
	if !ok {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s", named(dir), plain(err)))
		return
	}
	n.programs = append(n.programs, program{path: dir, allowDash: n.File.Spec.AllowDash})
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".json" && !e.IsDir() && !strings.HasSuffix(e.Name(), TestSuffix) {
			l.helperFile(n, filepath.Join(dir, e.Name()))
		}
	}
}

// helperFile takes in a .json of a tool directory if it is an agent file.
func (l *loader) helperFile(n *Node, path string) {
	data, err := readRegular(path, MaxBytes)
	if err != nil {
		code := CodeFile
		if errors.Is(err, errWritable) {
			code = CodeWritable
		}
		l.report(Problem{Severity: LeftOut, Code: code, File: path, Message: plain(err)})
		return
	}
	if !isAgentFile(data) {
		p := Problem{Severity: LeftOut, Code: CodeNotAgent, File: path, Message: fmt.Sprintf("this is no agent file: it has no tag %q", Tag)}
		var syntax *schema.SyntaxError
		if _, err := schema.Parse(data); errors.As(err, &syntax) {
			p.Line, p.Col, p.Message = syntax.Line, syntax.Col, "this is no agent file: "+syntax.Message
		}
		l.report(p)
		return
	}
	if cycle := l.cycle(n, path); cycle != "" {
		l.report(Problem{Severity: LeftOut, Code: CodeCycle, File: path,
			Message: "a cycle of tool directories: " + cycle})
		return
	}
	if len(n.stack) > MaxDepth {
		l.report(Problem{Severity: LeftOut, Code: CodeDepth, File: path,
			Message: fmt.Sprintf("agent files are nested more than %d deep", MaxDepth)})
		return
	}
	if sub := l.agent(path, n.stack); sub != nil {
		n.helper(sub)
	}
}

// cycle returns the way from the file at path back to itself, if n stands below
// it.
func (l *loader) cycle(n *Node, path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	for i, above := range n.stack {
		aboveInfo, err := os.Stat(above.File.Real)
		if err != nil || !os.SameFile(info, aboveInfo) {
			continue
		}
		var way []string
		for _, s := range n.stack[i:] {
			way = append(way, s.File.Path)
		}
		return strings.Join(append(way, path), " → ")
	}
	return ""
}

// toolboxes takes in bashToolboxes.
func (l *loader) toolboxes(n *Node) {
	for i, box := range n.File.Spec.BashToolboxes {
		pointer := fmt.Sprintf("%s/%d", n.File.at("bashToolboxes"), i)
		path, ok := l.resolve(n, pointer, box.Path)
		if !ok {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && info.IsDir() != (box.Tag == "FileSystemDirectory") {
			want := map[bool]string{true: "a folder", false: "an executable file"}[box.Tag == "FileSystemDirectory"]
			l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s needs %s", path, box.Tag, want))
			continue
		}
		n.programs = append(n.programs, program{path: path, filter: box.BasenameFilter, allowDash: box.AllowDash || n.File.Spec.AllowDash})
	}
}

// extraAgents takes in sub-agents that lie elsewhere; they may be cycles.
func (l *loader) extraAgents(n *Node) {
	for i, extra := range n.File.Spec.ExtraAgents {
		pointer := fmt.Sprintf("%s/%d", n.File.at("extraAgents"), i)
		path, ok := l.resolve(n, pointer, extra.Path)
		if !ok {
			continue
		}
		if len(n.stack) > MaxDepth {
			l.report(n.File.problem(LeftOut, CodeDepth, pointer, "agent files are nested more than %d deep", MaxDepth))
			continue
		}
		sub := l.agent(path, n.stack)
		if sub == nil {
			continue
		}
		if sub.File.Spec.Slug != extra.Slug {
			l.report(n.File.problem(LeftOut, CodeSlug, pointer+"/slug", "the agent in %s has the slug %q, not %q", path, sub.File.Spec.Slug, extra.Slug))
			continue
		}
		n.helper(sub)
	}
}

func (n *Node) helper(sub *Node) {
	if !slices.Contains(n.Helpers, sub) {
		n.Helpers = append(n.Helpers, sub)
	}
}

// connect describes the tools of all nodes at the same time and gives each agent
// its toolset.
func (l *loader) connect(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(8)
	found := make([]*exectool.Toolset, len(l.tree.Nodes))
	for i, n := range l.tree.Nodes {
		g.Go(func() error {
			found[i] = l.executables(ctx, n)
			return nil
		})
	}
	g.Wait() // no function fails
	l.protect(found)
	for i, n := range l.tree.Nodes {
		l.equip(n, found[i])
	}
}
