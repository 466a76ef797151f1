// Package load finds, selects and loads agent files, and reports the problems of their
// trees.
package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

type Tree struct {
	*agentfile.Tree
	Config *config.Config
	Keys   config.KeysChoice
	Logs   logPaths
	Log    *ServerLog // what its MCP servers write
	ended  func()     // see NoteRun
}

// Close ends what the tree's toolsets started.
func (t *Tree) Close() error {
	err := t.Tree.Close()
	if t.ended != nil {
		t.ended()
	}
	return err
}

type Options struct {
	File      string            // the agent file of the session that continues
	Suggested string            // an agent file for the hint only: a session from elsewhere names it
	Set       map[string]string // placeholders of the agent's prompts
	Check     bool              // find all problems
	NoModels  bool              // no agent of the tree will run, so none needs its model
	Elicit    func(context.Context, mcpclient.Elicitation) (mcpclient.Answer, error)
	Log       *ServerLog // shared by several trees; nil makes one
	Record    string     // the folder of --record
	Pinned    bool       // MCP servers whose programs change are not started
	Models    Models
	Rights    RightsFlags
	Strict    bool   // refuse a tree from which something is missing
	Unlocked  bool   // ignore the lock file, because a new one will be written
	Agent     string // the agent of the session that continues
	Dir       string // the working folder of the tree; "" is that of the process
	// Servers are more MCP servers of the root agent: see agentfile.Client.
	Servers map[string]json.RawMessage
}

type logPaths struct{ JSONPath, TextPath, URL string }

// Config finds the configuration. files replace those of --agent-file, unless they are "". A cfg
// file must have been trusted.
func Config(p *program.Env, files ...string) (*config.Config, error) {
	c, err := configOf(p, func(path string, text []byte) error { return checkText(p, path, "cfg", text) }, files)
	if err != nil {
		return nil, err
	}
	return c, checkPolicies(p, c)
}

// Harmless is Config for commands that run nothing: a cfg file that is not trusted is ignored, with
// a note.
func Harmless(p *program.Env) (*config.Config, error) {
	c, err := Config(p)
	if _, ok := errors.AsType[distrust](err); !ok {
		return c, err
	}
	return configOf(p, func(path string, _ []byte) error {
		p.Note("%s is not trusted, so it has no effect here; `agents trust` shows what it decides", program.Shown(path))
		return config.ErrIgnore
	}, nil)
}

// AnyConfig is Config with a cfg file that need not be trusted. check gets its text.
func AnyConfig(p *program.Env, check func(path string, text []byte) error) (*config.Config, error) {
	return configOf(p, check, nil)
}

func configOf(p *program.Env, check func(path string, text []byte) error, files []string) (*config.Config, error) {
	env, err := p.ConfigEnv()
	if err != nil {
		return nil, err
	}
	if strings.Join(files, "") == "" {
		files = p.Global.AgentFiles
	}
	c, err := config.Load(env, config.Flags{AgentFiles: files, Keys: p.Global.APIKeys, Check: check})
	if f, ok := errors.AsType[*failure.Error](err); ok {
		return nil, f
	}
	if err != nil {
		return nil, failure.NothingRan(err, "")
	}
	addOwn(p, c)
	return c, nil
}

// Load finds, selects and loads the agent, and prints the problems of its tree to
// stderr. At a terminal, it asks the person about what is not trusted.
func Load(ctx context.Context, p *program.Env, o Options) (*Tree, error) {
	l, err := chosen(ctx, p, o)
	if err != nil && asked(ctx, p, err) {
		return chosen(ctx, p, o)
	}
	return l, err
}

func chosen(ctx context.Context, p *program.Env, o Options) (*Tree, error) {
	c, err := Config(p, o.File)
	if err != nil {
		return nil, err
	}
	p.Mention(c.Warnings...) // they may be why there is no agent
	file, err := Choose(p, c, o.Suggested)
	if err != nil {
		return nil, err
	}
	l, err := File(ctx, p, c, file, o)
	if err != nil {
		if l != nil {
			showProblems(p, l.Problems, agentfile.LeftOut)
		}
		return nil, err
	}
	if err := l.Complete(o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if !p.Global.Quiet {
		showProblems(p, l.Problems, agentfile.Warning)
		warnNotExecutable(p, l.Problems)
	}
	collectOften(p)
	return l, nil
}

// collectOften makes the garbage collector keep the heap small from its first collection on: a run
// mostly waits, and many may run at the same time. A run of a few calls ends without a collection.
// The cleanup of an object that nothing refers to runs after the next collection.
func collectOften(p *program.Env) {
	if p.Getenv("GOGC") == "" {
		runtime.AddCleanup(new([64]byte), func(int) { debug.SetGCPercent(50) }, 0)
	}
}

// File loads the tree of one agent file. After an error it may still
// return the tree, for its problems.
func File(ctx context.Context, p *program.Env, c *config.Config, file string, o Options) (*Tree, error) {
	l := &Tree{Config: c, Keys: c.KeysFile(file), Logs: logPaths{c.File.LogJSON, c.File.LogText, c.File.LogHTTP}, Log: o.Log}
	if l.Log == nil {
		l.Log = &ServerLog{}
	}
	opts := agentfile.Options{
		Environ: p.ToolEnviron(o.Record), KeysFile: l.Keys.Path, WorkDir: o.Dir, Protected: []string{c.File.Path, TrustDir(p)},
		Set: o.Set, Models: o.Models, NoModels: o.NoModels, Check: o.Check, CompatNames: p.Global.CompatNames,
		Companion: process.Companion, Text: p.Text, Folders: Folders(p),
		Same:     agentfile.Same{Pinned: o.Pinned, Locked: p.Global.Locked && !o.Unlocked, Unlocked: o.Unlocked},
		Describe: agentfile.Describe{Timeout: p.Describing, Slow: describing(p)},
		Client:   agentfile.Client{Version: p.Version, Log: l.Log.line, Elicit: o.Elicit, Servers: o.Servers},
		Sandbox:  agentfile.Sandboxing{Ladder: Ladder(p), Note: func(line string) { p.Warn(line) }},
		SignIn: agentfile.SignIn{Dir: p.SignInDir(), Keyring: p.Keyring(), Command: func(server string) string {
			return "agents mcp login " + program.ShellQuote(server) + " --agent-file " + program.ShellQuote(file)
		}},
	}
	opts.Folders.Sessions = Paths(SessionDirs(p, c, ""))
	if agent := cmp.Or(p.Global.Agent, o.Agent); agentfile.Sibling(file, agent) {
		opts.Agent = agent
	}
	var err error
	if opts.Same.Trusted, err = trusted(p, c, file, o); err != nil {
		return nil, err
	}
	if opts.Same.Trusted != nil {
		if err := checkKeys(p, file, l.Keys); err != nil {
			return nil, err
		}
	}
	if opts.Prices, err = Prices(c); err != nil {
		return nil, err
	}
	if opts.Rights, err = o.Rights.of(p, c, o.Dir); err != nil {
		return nil, err
	}
	if l.Keys.Path != "" {
		keys, warnings, err := config.ReadKeys(l.Keys.Path)
		if err != nil {
			return nil, failure.NothingRan(fmt.Errorf("read keys (%s): %w", l.Keys.Why, err), KeysHint(err))
		}
		if id := keys.Elsewhere(); id != "" && strings.HasPrefix(l.Keys.Why, "in agentsConfigDir") {
			return nil, failure.NothingRan(fmt.Errorf("read keys (%s): the value of the key %q is elsewhere, and the folder of a cfg file can belong to a project", l.Keys.Why, id), "put the key into your own keys file, or name the file with --api-keys")
		}
		p.Mention(warnings...)
		opts.Keys = keys
	}
	if l.ended, err = NoteRun(ctx, p); err != nil {
		return nil, failure.NothingRan(err, "")
	}
	tree, err := agentfile.Load(ctx, file, opts)
	if err != nil {
		l.ended()
	}
	l.Tree = tree
	nameFlags(tree.Problems)
	if broken, ok := errors.AsType[*agentfile.LoadError](err); ok {
		nameFlags(broken.Problems)
		return l, failure.NothingRan(loadError(file, broken), ProblemHint(broken.Problems[0]))
	}
	if drift, ok := errors.AsType[*agentfile.DriftError](err); ok {
		if drift.Against == agentfile.LockName {
			return l, failure.NothingRan(drift, "`agents lock` accepts the current state")
		}
		return l, failure.NothingRan(distrust{drift}, trustHint(p))
	}
	return l, err
}

// Folders returns those of this machine.
func Folders(p *program.Env) agentfile.Folders {
	return agentfile.Folders{Cache: p.CacheDir(), Locks: p.LockDir(), Outputs: p.OutputDir()}
}

// Ladder returns the sandboxes that this machine has. The helper is this program; on Linux
// /proc/self/exe is the running file even if it was replaced on disk.
func Ladder(p *program.Env) *sandbox.Ladder {
	return &sandbox.Ladder{Helper: []string{"/proc/self/exe", SandboxFlag}, CacheDir: program.In(p.CacheDir(), "sandbox")}
}

// SandboxFlag, before a command line, makes this program enter a sandbox and execute that
// command line. It is internal and not documented.
const SandboxFlag = "--sandbox"

// Prices reads the file of prices in the configuration folder, if there is one.
func Prices(c *config.Config) (prices.Table, error) {
	file := c.PricesFile()
	if !file.Found {
		return nil, nil
	}
	text, _, err := config.ReadRegular(file.Path, prices.MaxBytes)
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("read prices: %w", err), "")
	}
	t, err := prices.Parse(file.Path, text)
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("read prices: %w", err), "`agents schema prices` documents every key")
	}
	return t, nil
}

// describing names tools that are slow to describe themselves, on stderr.
func describing(p *program.Env) func(path string) {
	var mu sync.Mutex
	return func(path string) {
		if p.Global.Quiet || !p.NameSlow {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(p.Err, "describing %s …\n", termtext.Clean(path))
	}
}

// loadError puts every fatal problem into one error.
func loadError(file string, e *agentfile.LoadError) error {
	if len(e.Problems) == 1 {
		return fmt.Errorf("load agent: %s", e.Problems[0])
	}
	var b strings.Builder
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return fmt.Errorf("load agent %s: %d problems:%s", file, len(e.Problems), b.String())
}

// UsualFile is the name that init gives an agent file.
const UsualFile = "agent.json"

// Here returns the agent file of the working directory, found or not. It is only used if it
// is named or trusted, because a stranger may have written it.
func Here() config.AgentFile {
	dir, _ := os.Getwd() // without one nothing is found
	f := config.AgentIn(dir, "trusted in the working directory")
	f.Discovered = true
	return f
}

// ambiguous returns an error if a folder has two agent files.
func ambiguous(f config.AgentFile) error {
	if f.Other == "" {
		return nil
	}
	return failure.NothingRan(fmt.Errorf("two agent files in one folder: %s and %s", program.Shown(f.Path), program.Shown(f.Other)), "name one of them with --agent-file, or remove one")
}

// ErrNoAgent is that no agent file was named or found.
var ErrNoAgent = errors.New("no agent file found")

// Choose picks the agent file to run. suggested is for the hint if there is none.
func Choose(p *program.Env, c *config.Config, suggested string) (string, error) {
	files, err := Candidates(p, c)
	switch {
	case err != nil:
		return "", err
	case len(files) == 0:
		hint := "`agents init` writes one, --agent-file names one, `agents paths` shows where one was looked for"
		if suggested != "" {
			hint = "the session is of " + suggested + "; name it with --agent-file if you trust it"
		} else if here := Here(); here.Other != "" {
			return "", ambiguous(here)
		} else if here.Found {
			name := program.Shown(here.Path)
			hint = name + " in this folder is used only if it is named (--agent-file " + name + ") or trusted: " + trustHint(p)
		}
		return "", failure.NothingRan(ErrNoAgent, hint)
	case len(files) == 1 && p.Global.Agent == "":
		return files[0], nil
	}
	var slugs []string
	var firstErr error
	for _, file := range files {
		f, _, err := agentfile.Read(file)
		if err != nil {
			if firstErr == nil {
				firstErr = err
			}
			continue
		}
		if slices.Contains(f.Slugs, p.Global.Agent) {
			return file, nil
		}
		slugs = append(slugs, fmt.Sprintf("%s (%s)", strings.Join(f.Slugs, ", "), file))
	}
	list := strings.Join(slugs, ", ")
	if p.Global.Agent == "" {
		return "", failure.Usage("choose one with --agent SLUG", "several agents are loaded: %s", list)
	}
	if firstErr != nil {
		list += fmt.Sprintf("; and one could not be read: %s", firstErr)
	}
	return "", failure.Usage("", "--agent: there is no agent %q; there are %s", p.Global.Agent, list)
}

// Candidates returns the files that may be run: those that were named, and the agent files
// in folders. A file that needs trust and does not have it is an error.
func Candidates(p *program.Env, c *config.Config) ([]string, error) {
	var files []string
	for _, f := range c.AgentFiles {
		if err := CheckRoot(p, f); err != nil {
			return nil, err
		}
		if f.Named || agentfile.IsAgentFile(f.Path) {
			files = append(files, program.Shown(f.Path))
		}
	}
	return files, nil
}

// showProblems prints the problems down to a severity, except fatal ones, which are in
// the error.
func showProblems(p *program.Env, list []agentfile.Problem, down agentfile.Severity) {
	for _, problem := range list {
		if problem.Severity > agentfile.Fatal && problem.Severity <= down {
			fmt.Fprintf(p.Err, "%s: %s\n", problem.Severity, termtext.Clean(problem.String()))
		}
	}
}

// warnNotExecutable prints one line about the programs in tool folders that are not
// executable.
func warnNotExecutable(p *program.Env, problems []agentfile.Problem) {
	const most = 5
	var files []string
	for _, problem := range problems {
		if problem.Code == agentfile.CodeExec {
			files = append(files, program.ShellQuote(problem.File))
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	more := ""
	if n := len(files) - most; n > 0 {
		files, more = files[:most], fmt.Sprintf(" (and %d more: `agents check` names them)", n)
	}
	if len(files) > 0 {
		p.Warn("not executable, so not offered as tools: chmod +x " + strings.Join(files, " ") + more)
	}
}

// Complete returns an error if something of the tree was left out and o.Strict is set.
func (l *Tree) Complete(o Options) error {
	if !o.Strict {
		return nil
	}
	var left []string
	for _, p := range l.Problems {
		if p.Incomplete() {
			left = append(left, p.String())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return failure.NothingRan(fmt.Errorf("--strict: the tree is not complete:\n  %s", strings.Join(left, "\n  ")), "`agents check` shows every problem")
}
