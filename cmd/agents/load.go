package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/mcpclient"
	"github.com/agents-exe/agents/pkg/observe"
)

// A loaded is an agent tree with what was found around it.
type loaded struct {
	*agentfile.Tree
	config *config.Config
	keys   config.KeysChoice
	logs   logPaths
	log    *serverLog // what its MCP servers write
}

// loadOptions say what a tree is loaded for.
type loadOptions struct {
	file      string            // the agent file of the session that continues
	suggested string            // one that a session from elsewhere names, which is not used
	set       map[string]string // placeholders of the agent's prompts
	check     bool              // problems are what is asked for
	noModels  bool              // no agent of the tree is to run, so none needs its model
	elicit    func(context.Context, mcpclient.Elicitation) (mcpclient.Answer, error)
	log       *serverLog // of trees that share one; nil makes one
	record    string     // the folder of --record
}

// logPaths are the log sinks of the configuration.
type logPaths struct{ JSONPath, TextPath, URL string }

// env is the world around the program, as config wants it.
func (p *program) env() (config.Env, error) {
	env, err := config.SystemEnv()
	if err != nil {
		return env, nothingRan(err, "")
	}
	env.Getenv = p.getenv
	return env, nil
}

// config finds the configuration. files replace those of --agent-file.
func (p *program) config(files ...string) (*config.Config, error) {
	env, err := p.env()
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		files = p.global.agentFiles
	}
	c, err := config.Load(env, config.Flags{AgentFiles: files, Keys: p.global.apiKeys})
	if err != nil {
		return nil, nothingRan(err, "")
	}
	return c, nil
}

// load finds, chooses and loads the agent, and says on stderr what is missing
// from its tree.
func (p *program) load(ctx context.Context, o loadOptions) (*loaded, error) {
	var named []string
	if o.file != "" {
		named = []string{o.file}
	}
	c, err := p.config(named...)
	if err != nil {
		return nil, err
	}
	if !p.global.quiet {
		p.warn(c.Warnings) // they may be why there is no agent
	}
	file, err := p.choose(c, o.suggested)
	if err != nil {
		return nil, err
	}
	l, err := p.loadFile(ctx, c, file, o)
	if err != nil {
		if l != nil {
			p.showProblems(l.Problems, agentfile.LeftOut)
		}
		return nil, err
	}
	if !p.global.quiet {
		p.showProblems(l.Problems, agentfile.Warning)
	}
	return l, nil
}

// loadFile loads the tree of one agent file. After an error the tree may be
// there, for its problems.
func (p *program) loadFile(ctx context.Context, c *config.Config, file string, o loadOptions) (*loaded, error) {
	l := &loaded{config: c, keys: c.KeysFile(file), logs: logPaths{c.File.LogJSON, c.File.LogText, c.File.LogHTTP}, log: o.log}
	if l.log == nil {
		l.log = &serverLog{}
	}
	opts := agentfile.Options{Environ: p.toolEnviron(o.record), CacheDir: p.cacheDir(), LockDir: p.lockDir(), OutputDir: p.outputDir(), KeysFile: l.keys.Path, Protected: []string{c.File.Path}, Set: o.set,
		Version: p.version, NoModels: o.noModels, Check: o.check, DescribeTimeout: p.describing, Log: l.log.line, Elicit: o.elicit}
	if l.keys.Path != "" {
		keys, warnings, err := config.ReadKeys(l.keys.Path)
		if err != nil {
			return nil, nothingRan(fmt.Errorf("read keys (%s): %w", l.keys.Why, err), keysHint(err))
		}
		if !p.global.quiet {
			p.warn(warnings)
		}
		opts.Keys = keys
	}
	tree, err := agentfile.Load(ctx, file, opts)
	l.Tree = tree
	var broken *agentfile.LoadError
	if errors.As(err, &broken) {
		return l, nothingRan(loadError(file, broken), problemHint(broken.Problems[0].Code))
	}
	return l, err
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

func keysHint(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "agents-exe.keys.example shows the form of a keys file"
	}
	return ""
}

// usualFile is what init calls an agent file. A folder may come from elsewhere, so
// the one in it is not run unless it is named.
const usualFile = "agent.json"

// choose picks the agent file to run. suggested is for the hint where there is none.
func (p *program) choose(c *config.Config, suggested string) (string, error) {
	files := candidates(c)
	switch {
	case len(files) == 0:
		hint := "name one with --agent-file; `agents paths` shows where one was looked for"
		if suggested != "" {
			hint = "the session is of " + suggested + "; name it with --agent-file if you trust it"
		} else if info, err := os.Stat(usualFile); err == nil && info.Mode().IsRegular() {
			hint = "the one in this folder is not used by itself; --agent-file " + usualFile + " names it"
		}
		return "", nothingRan(errors.New("no agent file found"), hint)
	case len(files) == 1 && p.global.agent == "":
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
		if f.Spec.Slug == p.global.agent {
			return file, nil
		}
		slugs = append(slugs, fmt.Sprintf("%s (%s)", f.Spec.Slug, file))
	}
	list := strings.Join(slugs, ", ")
	if p.global.agent == "" {
		return "", usage("choose one with --agent SLUG", "several agents are loaded: %s", list)
	}
	if firstErr != nil {
		list += fmt.Sprintf("; and one could not be read: %s", firstErr)
	}
	return "", usage("", "--agent: there is no agent %q; there are %s", p.global.agent, list)
}

// candidates are the files that may be run: those that were named, and of the
// folders those that are agent files.
func candidates(c *config.Config) []string {
	var files []string
	for _, f := range c.AgentFiles {
		if f.Named || agentfile.IsAgentFile(f.Path) {
			files = append(files, shown(f.Path))
		}
	}
	return files
}

// shown is a path as messages name it: relative where it lies below the working
// directory, or beside it.
func shown(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(dir, path)
	up := ".." + string(filepath.Separator)
	if err != nil || strings.HasPrefix(rel, up+up) {
		return path
	}
	return rel
}

// cacheDir is where descriptions of tools are kept; without one none are.
func (p *program) cacheDir() string {
	dir := p.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "agents")
}

// lockDir is where calls take turns that share a lock. All programs of this user
// must find the same one.
func (p *program) lockDir() string {
	if dir := p.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agents", "locks")
	}
	if dir := p.cacheDir(); dir != "" {
		return filepath.Join(dir, "locks")
	}
	return ""
}

func (p *program) warn(list []string) {
	for _, w := range list {
		fmt.Fprintf(p.err, "warning: %s\n", observe.Clean(w))
	}
}

// showProblems writes the problems down to a severity, except fatal ones, which
// the error names.
func (p *program) showProblems(list []agentfile.Problem, down agentfile.Severity) {
	for _, problem := range list {
		if problem.Severity > agentfile.Fatal && problem.Severity <= down {
			fmt.Fprintf(p.err, "%s: %s\n", problem.Severity, observe.Clean(problem.String()))
		}
	}
}

// problemHint is the next step for a kind of problem.
func problemHint(code agentfile.Code) string {
	switch code {
	case agentfile.CodeKey:
		return "add the key to the keys file, or name another file with --api-keys; `agents paths` shows which one is used"
	case agentfile.CodeHost:
		return "correct modelUrl, or hosts in the keys file"
	case agentfile.CodeWritable:
		return "take the right to write away from others: chmod o-w"
	case agentfile.CodeSchema, agentfile.CodeUnknown, agentfile.CodeFlavor, agentfile.CodeURL:
		return "schemas/agent.schema.json documents every key"
	case agentfile.CodeScript:
		return "docs/scripted-model.md documents scripts"
	case agentfile.CodeNotAgent:
		return "move the file out of the tool directory, or give it the tag " + agentfile.Tag
	case agentfile.CodeCycle:
		return "name the agent in extraAgents instead, which may be a cycle"
	case agentfile.CodeCollision:
		return "give one of them another slug"
	case agentfile.CodeTool:
		return "run the tool by hand with the one argument describe"
	case agentfile.CodePath:
		return "paths are relative to the folder of the agent file"
	case agentfile.CodeServer:
		return "start the server by hand to see what it says"
	case agentfile.CodeSet:
		return "give values with --set NAME=VALUE"
	case agentfile.CodeSlug:
		return "write the target's own slug"
	}
	return ""
}
