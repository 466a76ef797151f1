package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/mcpserver"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

// pollEvery is how often --expose tools looks for changed tools.
const pollEvery = 2 * time.Second

type serveFlags struct {
	expose string
	compat bool
	linger time.Duration
}

func (p *program) mcpServerCommand() *cli.Command {
	f := &serveFlags{}
	return &cli.Command{
		Name:  "mcp-server",
		Usage: "serve agents as tools of the Model Context Protocol, on standard input and output",
		Description: `Serves all agents that are found, or those of --agent-file, until the end of
standard input. Each is a tool that is named by its slug.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "expose", Value: "agents", Usage: "`WHAT` is served: agents, or the tools of the agent files (tools)", Destination: &f.expose, Validator: oneOf("agents", "tools")},
			&cli.BoolFlag{Name: "compat-names", Usage: "name the agents as agents-exe does: ask_SLUG_NNN, numbered in their order", Destination: &f.compat},
			&cli.DurationFlag{Name: "linger", Value: mcpserver.DefaultLinger, Usage: "end what still runs `DURATION` after the end of standard input", Destination: &f.linger},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if f.linger <= 0 {
				return usage("", "--linger %s: it must be positive", f.linger)
			}
			return p.serve(ctx, f)
		},
	}
}

// A service is an MCP server with the trees that it serves.
type service struct {
	p      *program
	flags  *serveFlags
	server *mcpserver.Server

	trees []*loaded

	mu   sync.Mutex
	said map[string]bool
}

// serve serves until the end of standard input or of ctx. Both are the ordinary
// end, and so is a client that went away.
func (p *program) serve(ctx context.Context, f *serveFlags) error {
	s := &service{p: p, flags: f, said: map[string]bool{}}
	trees, err := s.load(ctx)
	if err != nil {
		return err
	}
	s.trees = trees
	defer func() { s.close(s.trees) }()
	sinks := &sinks{p: p}
	for _, t := range trees {
		sinks.secrets = append(sinks.secrets, t.secrets...)
	}
	logs, err := sinks.logs(trees[0])
	if err != nil {
		return errors.Join(err, sinks.close())
	}
	var mu sync.Mutex // runs are observed one event at a time each, and there are many
	write := observe.Redact(sinks.secrets, observe.Tee(logs...))
	s.server = mcpserver.New(mcpserver.Options{
		Name: "agents", Version: version, Linger: f.linger, Hide: sinks.hide,
		Observe: func(e agent.Event) {
			mu.Lock()
			defer mu.Unlock()
			write(e)
		},
	})
	if _, err := s.offer(ctx); err != nil {
		return errors.Join(err, sinks.close())
	}
	s.server.SetPrompts(prompts(trees[0].config.File.Aliases))
	err = s.run(ctx)
	if closeErr := sinks.close(); closeErr != nil {
		p.warn([]string{closeErr.Error()})
	}
	if brokenPipe(err) {
		return nil
	}
	return err
}

// prompts are the prompt aliases.
func prompts(aliases map[string]config.Alias) []mcpserver.Prompt {
	all := maps.Clone(builtinAliases)
	maps.Copy(all, aliases)
	var list []mcpserver.Prompt
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args := []mcpserver.PromptArg{{Name: "content", Description: "the text", Required: true}}
		if all[name].Input == config.AliasFile {
			args = append(args, mcpserver.PromptArg{Name: "filename", Description: "the name of the file that the text is from"})
		}
		list = append(list, mcpserver.Prompt{Name: name, Description: all[name].Description, Args: args, Text: func(args map[string]string) (string, error) {
			file := promptScript{{kind: "file", text: cmp.Or(args["filename"], "-")}}
			return applyAlias(name, aliases, file, args["content"])
		}})
	}
	return list
}

// run serves, and meanwhile follows changes of the tools.
func (s *service) run(ctx context.Context) error {
	if s.flags.expose != "tools" {
		return s.server.Serve(ctx, s.p.in, s.p.out)
	}
	watch, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { s.follow(watch) })
	err := s.server.Serve(ctx, s.p.in, s.p.out)
	stop()
	done.Wait()
	return err
}

// load loads the trees of all agents. A file that was named must load; of those
// that were found one must.
func (s *service) load(ctx context.Context) ([]*loaded, error) {
	p := s.p
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	files := candidates(c)
	if p.global.agent != "" || len(files) == 0 {
		file, err := p.choose(c)
		if err != nil {
			return nil, err
		}
		files = []string{file}
	}
	var trees []*loaded
	var errs []error
	for _, file := range files {
		l, err := p.loadFile(ctx, c, file)
		if l != nil && l.Tree != nil {
			s.problems(l.Problems)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		trees = append(trees, l)
	}
	var fatal error
	if len(trees) == 0 || len(errs) > 0 && len(p.global.agentFiles) > 0 {
		fatal, errs = errs[0], errs[1:]
		s.close(trees)
		trees = nil
	}
	for _, err := range errs {
		s.say("left out: " + err.Error())
	}
	return trees, fatal
}

// say writes a line to stderr, once.
func (s *service) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p.global.quiet || s.said[text] {
		return
	}
	s.said[text] = true
	fmt.Fprintln(s.p.err, observe.Clean(text))
}

func (s *service) problems(list []agentfile.Problem) {
	for _, problem := range list {
		if problem.Severity > agentfile.Fatal && problem.Severity <= agentfile.Warning {
			s.say(fmt.Sprintf("%s: %s", problem.Severity, problem))
		}
	}
}

func (s *service) close(trees []*loaded) {
	for _, t := range trees {
		if err := t.Close(); err != nil {
			s.say("warning: " + err.Error())
		}
	}
}

// offer gives the server what the trees have.
func (s *service) offer(ctx context.Context) (idle <-chan struct{}, err error) {
	if s.flags.expose == "tools" {
		return s.server.SetTools(s.tools(ctx)), nil
	}
	agents, err := s.agents()
	if err != nil {
		return nil, err
	}
	return s.server.SetAgents(agents), nil
}

// agents are the trees' roots by their names. Of several with one name none is
// offered: its name would depend on the others.
func (s *service) agents() ([]mcpserver.Agent, error) {
	var list []mcpserver.Agent
	files := map[string][]string{}
	for i, t := range s.trees {
		name := exectool.Name("", t.Root.Slug)
		if s.flags.compat {
			name = exectool.Name("ask", fmt.Sprintf("%s_%03d", t.Root.Slug, i))
		}
		list = append(list, mcpserver.Agent{Name: name, Agent: t.Root})
		files[name] = append(files[name], t.Nodes[0].File.Path)
	}
	for name, same := range files {
		if len(same) > 1 {
			s.say(fmt.Sprintf("left out: the agents of several files are all named %s, and none of them is served: %s", name, strings.Join(same, ", ")))
		}
	}
	list = slices.DeleteFunc(list, func(a mcpserver.Agent) bool { return len(files[a.Name]) > 1 })
	if len(list) == 0 {
		return nil, nothingRan(errors.New("no agent can be served: all have one name"), problemHint(agentfile.CodeCollision))
	}
	return list, nil
}

// tools are those of the trees' roots, as the models of these see them.
func (s *service) tools(ctx context.Context) []agent.Tool {
	byName := map[string][]agent.Tool{}
	for _, t := range s.trees {
		for _, set := range t.Root.Toolsets {
			tools, err := set.Tools(ctx)
			if err != nil {
				s.say("warning: " + err.Error())
			}
			for _, tool := range tools {
				spec := tool.Spec()
				same := func(o agent.Tool) bool { return o.Spec().Source == spec.Source }
				if !slices.ContainsFunc(byName[spec.Name], same) {
					byName[spec.Name] = append(byName[spec.Name], tool)
				}
			}
		}
	}
	var list []agent.Tool
	for name, same := range byName {
		if len(same) > 1 {
			s.say(fmt.Sprintf("left out: several tools are named %s, and none of them is served: %s and %s", name, same[0].Spec().Source, same[1].Spec().Source))
			continue
		}
		list = append(list, same[0])
	}
	slices.SortFunc(list, func(a, b agent.Tool) int { return cmp.Compare(a.Spec().Name, b.Spec().Name) })
	return list
}

// follow loads the trees anew when a file of theirs has changed, until ctx ends. A
// change that does not load leaves what there was.
func (s *service) follow(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var closing sync.WaitGroup
	defer closing.Wait()
	last := s.fingerprint()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := s.fingerprint()
		if now == last {
			_, _ = s.offer(ctx) // MCP servers may have changed; tools are never an error
			continue
		}
		last = now
		trees, err := s.load(ctx)
		if ctx.Err() != nil {
			s.close(trees)
			return
		}
		if err != nil {
			s.say("warning: the changed agent files are not served: " + err.Error())
			continue
		}
		old := s.trees
		s.trees = trees
		idle, _ := s.offer(ctx) // tools are never an error
		last = s.fingerprint()
		closing.Go(func() {
			<-idle
			s.close(old)
		})
	}
}

// fingerprint changes when an agent file, a tool or a folder of tools does.
func (s *service) fingerprint() string {
	seen := map[string]bool{}
	var b strings.Builder
	note := func(path string) {
		info, err := os.Stat(path)
		if err != nil || seen[path] {
			return
		}
		seen[path] = true
		fmt.Fprintf(&b, "%s %d %d %s\n", path, info.ModTime().UnixNano(), info.Size(), info.Mode())
		if !info.IsDir() {
			return
		}
		entries, _ := os.ReadDir(path) // what cannot be read offers no tools either
		for _, e := range entries {
			if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil {
				fmt.Fprintf(&b, "  %s %d %d %s\n", e.Name(), info.ModTime().UnixNano(), info.Size(), info.Mode())
			}
		}
	}
	for _, t := range s.trees {
		for _, n := range t.Nodes {
			note(n.File.Path)
			for _, dir := range toolFolders(n.File) {
				note(dir)
			}
		}
	}
	return b.String()
}

// toolFolders are the folders and executables that an agent file names.
func toolFolders(f *agentfile.File) []string {
	var list []string
	paths := []string{f.Spec.ToolDirectory}
	for _, box := range f.Spec.BashToolboxes {
		paths = append(paths, box.Path)
	}
	for _, path := range paths {
		switch {
		case path == "":
		case filepath.IsAbs(path):
			list = append(list, path)
		default:
			list = append(list, filepath.Join(filepath.Dir(f.Path), path), filepath.Join(filepath.Dir(f.Real), path))
		}
	}
	return list
}
