package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/cachefile"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/workspace"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/source/step"
	"github.com/agents-exe/agents/pkg/source/toolbox/activate"
)

// MaxDepth limits how deep tool directories with agent files are nested.
const MaxDepth = 64

// TestSuffix ends the names of test files (see package treetest). They may be beside
// agent files anywhere, tool directories included.
const TestSuffix = ".agenttest.json"

// Options control how a tree is loaded. With the zero value, agents have no keys and
// tools have an empty environment.
type Options struct {
	// Keys are the API keys; nil means none. KeysFile names them in messages.
	Keys     *config.Keys
	KeysFile string
	// Environ is the environment of tools. Variables that look like a secret, or that
	// contain one of the Keys, are removed.
	Environ []string
	// WorkDir is the working directory, where paths are looked up that do not exist
	// beside their agent file. "" means that of the process.
	WorkDir string
	// Agent is the slug of the agent to load, if another one is the first in the file;
	// see Sibling.
	Agent string
	// Set are the values of placeholders in the root file's prompts, see
	// docs/agent-files.md.
	Set map[string]string
	// NoModels leaves the agents without a Provider: they cannot run, and need
	// neither keys nor scripts.
	NoModels bool
	// Check also reads what a root file names that cannot be run, so that all
	// problems are found. The Tree has no Root then.
	Check bool
	// Models replaces the models in agent files: for the agent with a slug, and
	// under "" for all agents of the tree. A slug that is not in the tree is an
	// error.
	Models map[string]ModelChoice
	// Model, if it is not nil, supplies the models of agents, so that no key is
	// needed. Where it returns nil, the file decides.
	Model func(f *File) agent.Provider
	// Prices take precedence over those in package prices; nil means none.
	Prices prices.Table
	// Rights are the rights of the root agent from outside its file.
	Rights RootRights
	// Protected are further files that decide what is executed, such as the cfg
	// file: tools that write files refuse to write them, as they refuse the
	// tree's own files and the keys file.
	Protected []string
	// Text returns the templates and the specification that a DeveloperToolbox needs for new
	// agents and tools: see developer.Options. Without it they are left out.
	Text func(kind, name string) string
	// Companion finds a program that is installed with this one, such as
	// companion.Program: process.Companion; with nil, toolboxes that need one are not opened.
	Companion func(name string) (string, error)
	// CompatNames names all sub-agents as agents-exe does; `"compatNames": true` in an agent
	// file does so for that agent and all agents below it.
	CompatNames bool

	Folders  Folders
	Same     Same
	Describe Describe
	Client   Client
	SignIn   SignIn
	Sandbox  Sandboxing

	inside bool // WorkDir is a workspace, which no agent leaves
}

// Folders are shared by all trees of a machine.
type Folders struct {
	Cache    string   // descriptions of tools, what MCP servers offer, which agent files were valid; "" keeps nothing
	Locks    string   // locks that tools declare, shared by all processes with the same folder; "" means no locking
	Outputs  string   // tool outputs that were cut for the model, in full; "" means the system's folder for temporary files
	Sessions []string // sessions that a SystemToolbox shows
}

// Same says what a tree must be the same as.
type Same struct {
	// Locked refuses a tree that differs from the lock file beside its root file, as
	// `"locked": true` in one of its agent files does: see Lock.
	// Unlocked ignores that key.
	Locked, Unlocked bool
	// Trusted, if it is not nil, is what the tree must consist of, as Survey returned
	// it. Programs that are found in PATH may change.
	Trusted *Lock
	// Pinned refuses to start an MCP server once its program has changed since Load.
	Pinned bool
}

// Describe is about tools that describe themselves.
type Describe struct {
	Timeout time.Duration     // 0 means exectool.DescribeTimeout
	Slow    func(path string) // called for each tool that takes longer than a second, also concurrently; may be nil
}

// A Client is that of MCP servers.
type Client struct {
	// Version is the client's version that servers see.
	Version string
	// Log is called with each line that servers write besides their messages, also
	// concurrently; nil drops them.
	Log func(server, line string)
	// Elicit answers servers that ask the person something (see mcpclient.Options);
	// nil declines.
	Elicit func(ctx context.Context, question mcpclient.Elicitation) (mcpclient.Answer, error)
	// Servers are more servers of the root agent, as in an mcpServers object. They are
	// those of the user, and in no lock.
	Servers map[string]json.RawMessage
}

// SignIn is how to sign in to MCP servers.
type SignIn struct {
	Dir     string                     // where sign-ins are kept; with "" there are none
	Keyring bool                       // encrypts them with keys in the system's keyring
	Command func(server string) string // returns the command to sign in to a server; may be nil
}

// Sandboxing is about the sandboxes of this machine.
type Sandboxing struct {
	Ladder *sandbox.Ladder   // those that there are; nil is one without a helper
	Note   func(line string) // called for each limit that they do not enforce, also concurrently; may be nil

	above []sandbox.Config // of the callers of the root
}

// A ModelChoice replaces keys of agent files: flavor, modelUrl and modelName. An empty
// field replaces nothing. The key of apiKeyEnv is still sent only to the host that the
// file names.
type ModelChoice struct{ Flavor, URL, Name string }

// A Tree is a loaded agent with everything below it. Close it after use.
type Tree struct {
	// Root is the agent to run.
	Root *agent.Agent
	// Nodes are all agents of the tree, Root's first, in the order in which
	// they were found. An agent that is reached twice appears once.
	Nodes []*Node
	// Problems are sorted, worst first, without repetitions.
	Problems []Problem
	// Unseen are folders of this program, absolute: what is in them is not what an agent did.
	Unseen []string

	secrets []config.Secret // of a type that does not print them
	survey  func(dir string) *Lock
	ladder  *sandbox.Ladder // may be nil
}

// Secrets returns the values of all keys that the tree was loaded with, sorted. They
// must not appear in anything that is shown or stored.
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

	stack       []*Node                     // the nodes above, and this one
	workspaces  map[*Node]workspace.Options // of the Helpers that get one because this file says so
	choice      ModelChoice
	fallback    []*Model               // see Models
	expects     map[*Node]agent.Expect // of sub-agents, by what their entries say; may be nil
	workDir     string                 // of its tools
	level       policy.Set
	confinement *confinement
	step        *step.Program // its model; nil if that is another one
	sources     []source
	executables *executables // one of sources
	background  []string     // slugs of sub-agents that its file says may work in the background
	detach      []string     // those of them that outlive it

	// Sources add to these when they are read,
	readable []string // folders that its processes may read in any sandbox of its own

	// and to these when they are opened.
	toolgroups map[string]string // of the tools that have one, by name
	live       []liveSet
	activation *activate.Limit // may be nil
	protected  []protectable
	boxes      []namedBox
}

// A liveSet is a toolset whose tools change.
type liveSet struct {
	agent.Toolset
	toolgroup string // "" if it is in none
	prefix    string // begins the names of the tools
	name      string
	many      bool     // its tools are hidden if there are too many: see Node.limit
	named     []string // those that the file names one by one
}

// A Source is an MCP server of an agent, or a toolbox of another program.
type Source struct {
	Name   string
	Prefix string // begins the names of its tools
}

// Servers are n's MCP servers and toolboxes of other programs. Their toolsets stand in
// this order at the end of Agent.Toolsets, behind that of executables and sub-agents.
func (n *Node) Servers() []Source {
	var list []Source
	for _, s := range n.servers() {
		list = append(list, Source{s.Name, s.prefix()})
	}
	return list
}

// Load reads the agent file at path and all that it names, describes its tools
// and returns the tree. A part that does not work is left out and reported; only a
// problem in the root file itself, or a missing key in any file, is an error, a
// *LoadError. Load always returns a tree, with all problems.
//
// First all files are read, then the sources in them are opened. A tree that
// differs from its lock or from what was trusted is a *DriftError. Differences in files
// are found before anything is executed.
func Load(ctx context.Context, path string, opts Options) (*Tree, error) {
	return newLoader(opts).load(ctx, path)
}

func (l *loader) load(ctx context.Context, path string) (*Tree, error) {
	opts := &l.opts
	if opts.Same.Trusted != nil {
		l.against = []baseline{{lock: opts.Same.Trusted, dir: folderOf(path), name: "what was trusted", more: isYAML(path)}}
	}
	locked := path
	if opts.Agent != "" {
		locked += "#" + opts.Agent
	}
	if opts.Same.Locked {
		l.readLock(locked)
	}
	l.readAgent(path, opts.Agent, nil)
	l.checkModels(path)
	if l.needLock && l.lock == nil && !opts.Same.Unlocked {
		l.readLock(locked)
	}
	if err := l.compare(path); err != nil {
		return l.tree, err
	}
	l.build(ctx)
	l.tree.sortProblems()
	if ctx.Err() != nil {
		return l.tree, context.Cause(ctx)
	}
	if err := l.compareTools(ctx, path); err != nil {
		return l.tree, errors.Join(err, l.tree.Close())
	}
	return l.tree, loadError(l.tree.Problems)
}

func newLoader(opts Options) *loader {
	l := &loader{opts: opts, kinds: kinds(), tree: &Tree{ladder: opts.Sandbox.Ladder}, nodes: map[string]*Node{}, taken: map[string]LockedFile{}}
	l.tree.survey = l.survey
	if opts.Folders.Cache != "" {
		l.valid = validFiles(filepath.Join(opts.Folders.Cache, "files"))
	}
	l.opts.Keys = cmp.Or(opts.Keys, &config.Keys{})
	for _, dir := range append([]string{opts.Folders.Cache, opts.Folders.Outputs, opts.Folders.Locks}, opts.Folders.Sessions...) {
		if dir != "" {
			l.tree.Unseen = append(l.tree.Unseen, absolute(dir, "."))
		}
	}
	for _, id := range l.opts.Keys.IDs() {
		key, _ := l.opts.Keys.Lookup(id)
		l.tree.secrets = append(l.tree.secrets, key.Value)
	}
	return l
}

type loader struct {
	opts       Options
	kinds      []kind
	tree       *Tree
	nodes      map[string]*Node         // by nodeKey; nil for a file that is left out
	valid      cachefile.Dir            // of agent files
	redact     *redact.Redactor         // of the tree's secrets
	paths      atomic.Pointer[[]string] // that tools must not write
	further    []string                 // files that decide what is executed, and are not agent files or tools
	workplaces []*workplace
	noted      sync.Map // lines about sandboxes that were already reported
	slugs      []string // of all agents, including those that are left out

	taken    map[string]LockedFile // what was interpreted, by absolute path
	against  []baseline
	refused  bool     // something was not interpreted because of them
	fetch    []string // ids of keys that the tree uses and whose values are elsewhere
	needLock bool     // an agent file says "locked"
	lock     *Lock    // nil: the tree may be any
}

func (l *loader) report(p ...Problem) { l.tree.Problems = append(l.tree.Problems, p...) }

// unusable returns the severity of a problem that makes an agent unusable, given the
// agents above it.
func unusable(above []*Node) Severity {
	if len(above) == 0 {
		return Fatal
	}
	return LeftOut
}

// read reads the agent file at path and what it names. above holds the nodes above
// it. It returns nil if the agent is left out, and the problems say why.
func (l *loader) read(path string, above []*Node) *Node {
	return l.readAgent(path, "", above)
}

// readAgent is read for the agent with a slug.
func (l *loader) readAgent(path, slug string, above []*Node) *Node {
	if n, ok := l.nodes[nodeKey(path, slug)]; ok {
		return n
	}
	file, problems := readFile(path, slug, unusable(above), l.valid, l.take)
	if file != nil && isYAML(file.Real) {
		if n, ok := l.nodes[file.Real+"#"+file.Slugs[file.index]]; ok { // the file has one agent, with another slug
			return n
		}
	}
	l.report(problems...)
	ok := !slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity <= LeftOut })
	if file == nil {
		return nil
	}
	n := &Node{File: file, toolgroups: map[string]string{}, executables: &executables{}, confinement: &confinement{boxes: map[string]*sandbox.Box{}}, stack: append(slices.Clone(above), nil)}
	n.stack[len(above)] = n
	isRoot := len(above) == 0
	ok = l.promptFile(n) && ok
	ok = (!isRoot || l.fillPrompts(file)) && ok
	ok = l.toolkit(n) && ok
	s := file.Spec
	l.needLock = l.needLock || s.Locked
	l.slugs = append(l.slugs, s.Slug)
	n.Agent = &agent.Agent{
		Slug: s.Slug, Source: file.Real, Announce: s.Announce, System: string(s.SystemPrompt),
		MaxTurns: s.MaxTurns, MaxParallelTools: s.MaxParallelTools,
		Budget: s.Budget, Deadline: seconds(s.DeadlineSeconds), LoopWarn: s.LoopLimit.Warn, LoopEnd: s.LoopLimit.End,
		ContextTokens: s.ContextTokens, NoCompaction: s.Compaction != nil && !*s.Compaction,
	}
	ok = l.findWorkDir(n) && ok
	if s.Checkpoints {
		n.Agent.Checkpoints = cmp.Or(n.workDir, ".")
	}
	ok = l.rights(n) && ok
	ok = l.shapes(n) && ok
	ok = ok && l.model(n) // the model settings of a broken file may be incomplete
	if ok && isRoot {
		l.tree.Root = n.Agent
	}
	if !ok && !(isRoot && l.opts.Check) {
		l.know(file, nil)
		return nil
	}
	l.know(file, n) // before what it names, which may name it
	l.tree.Nodes = append(l.tree.Nodes, n)
	for _, pointer := range file.unsupportedKeys() {
		l.report(file.problem(Warning, CodeLater, pointer, "this is left out: it is not supported yet"))
	}
	for _, read := range l.kinds {
		read(l, n)
	}
	return n
}

// places are where a path of n's file may lead.
func (l *loader) places(n *Node, path string) []string {
	if filepath.IsAbs(path) {
		return []string{path}
	}
	return []string{filepath.Join(filepath.Dir(n.File.Path), path), filepath.Join(filepath.Dir(n.File.Real), path), filepath.Join(l.opts.WorkDir, path)}
}

// resolve finds the file or folder that a path in n's file means: beside the file,
// else beside the target of the file if it is a link, else in the working directory,
// with a warning. If there is none, the problem has the severity missing.
func (l *loader) resolve(n *Node, pointer, path string, missing Severity) (string, bool) {
	places := l.places(n, path)
	for i, place := range places {
		if _, err := os.Stat(place); err != nil {
			continue
		}
		if i == 2 {
			l.report(n.File.problem(Warning, CodePath, pointer, "%s does not exist beside this file; the one in the working directory is used", named(path)))
		}
		return place, true
	}
	l.further = append(l.further, places...) // the next Load would use one that is created
	_, err := os.Stat(places[0])
	l.report(n.File.problem(missing, CodePath, pointer, "%s: %s", named(places[0]), plain(err)))
	return "", false
}
