// Package serve serves agents, tools and sessions over the Model Context Protocol.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/servers"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A service is an MCP server with the trees that it serves.
type service struct {
	p      *program.Env
	flags  *servers.MCP
	server *mcpserver.Server
	of     load.Options  // File and Agent of --agent-of
	web    *httpListener // nil: standard input and output
	began  time.Time     // to load the trees
	called chan struct{} // has a token when a call has ended
	dirs   []string      // of sessions

	log    load.ServerLog
	elicit func(context.Context, mcpclient.Elicitation) (mcpclient.Answer, error) // nil declines
	host   *host.Host

	mu    sync.Mutex
	trees []*load.Tree
	said  map[string]bool
	named string            // what of the agent files is presented
	write func(agent.Event) // the logs; called one event at a time
}

// newService returns a service whose trees are not loaded yet.
func newService(p *program.Env, f *servers.MCP) *service {
	s := &service{p: p, flags: f, said: map[string]bool{}, began: time.Now(), called: make(chan struct{}, 1)}
	s.host = &host.Host{Budget: f.Budget, Observe: s.observe, Panicked: s.panicked, Warn: func(text string) { s.say("warning: " + text) }, Caller: keep.Caller(p)}
	if f.Rights.Yes {
		s.host.Person = ask.NewApprover(p, nil, true, nil).Answer
	}
	return s
}

// Run serves until the end of standard input or of ctx. These, and a closed
// connection, are not errors.
func Run(ctx context.Context, p *program.Env, f *servers.MCP) error {
	s := newService(p, f)
	var err error
	if f.HTTP != "" {
		a := address{flag: "--http", value: f.HTTP, tokens: f.Tokens, noToken: f.NoToken, own: "mcp-server.token"}
		if s.web, err = listen(ctx, p, a); err != nil {
			return err
		}
		defer s.web.close()
		for _, t := range s.web.tokens {
			if t.Limited {
				return failure.NothingRan(fmt.Errorf("--token-file %s: the token %s is for some agents only, which `agents serve` can tell apart and mcp-server cannot", f.Tokens, t.Name), "")
			}
		}
		s.host.Learn(s.web.secrets())
	}
	out, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { s.close(s.trees) }()
	client := func(ctx context.Context) string {
		if s.web == nil {
			return ""
		}
		return s.web.owner(mcpserver.TokenOf(ctx))
	}
	if s.host.Sessions, err = s.keeper(client); err != nil {
		return errors.Join(err, out.Close())
	}
	if s.host.Sessions == nil {
		s.host.Sessions = (&host.Memory{Max: maxConversations, Owner: client}).Open
	}
	opts := mcpserver.Options{Name: "agents", Version: p.Version, Linger: f.Linger, TaskAfter: f.TaskAfter, Hide: s.host.Hide, Panicked: s.panicked, Start: s.host.Start,
		Call: func(ctx context.Context, tool agent.Tool, args, traceparent string, observe func(agent.Event)) (agent.Result, error) {
			return s.host.Call(ctx, tool, args, host.CallOptions{Client: "mcp-client", Traceparent: traceparent, Observe: observe})
		}}
	s.server = mcpserver.New(opts)
	if _, err := s.offer(ctx); err != nil {
		return errors.Join(err, out.Close())
	}
	s.present()
	s.server.RefreshResources(ctx)
	err = s.run(ctx)
	_ = s.host.Wait() // a session that could not be closed was a warning
	if closeErr := out.Close(); closeErr != nil {
		p.Warn(closeErr.Error())
	}
	if failure.BrokenPipe(err) {
		return nil
	}
	return err
}

// open loads the trees and opens the logs. The caller closes both.
func (s *service) open(ctx context.Context) (*sinks.Sinks, error) {
	trees, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	s.trees = trees
	out := &sinks.Sinks{P: s.p, Log: &s.log, Hide: s.host.Hide}
	logs, err := out.Logs(trees[0])
	var spans func(agent.Event)
	if err == nil {
		spans, err = out.Spans(s.flags.TraceFile)
	}
	if err != nil {
		s.close(trees)
		return nil, errors.Join(err, out.Close())
	}
	s.host.Traced = out.Traced
	s.write = observe.GuardedTee(s.panicked, append(logs, spans)...)
	if !s.flags.Watch {
		s.host.Policy = s.unchanged()
	}
	return out, nil
}

// observe logs an event, and lets follow look for changes after a call. It is called
// concurrently by several runs.
func (s *service) observe(e agent.Event) {
	if e.Kind == agent.EventCallEnded {
		select {
		case s.called <- struct{}{}:
		default:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(e)
}

// maxConversations is how many conversations are kept in memory with --no-session.
const maxConversations = 64

// placeholder matches what an alias is filled with.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{([A-Za-z0-9_]+)\}\}`) })

func prompts(aliases map[string]config.Alias) []mcpserver.Prompt {
	all := maps.Clone(prompt.BuiltinAliases)
	maps.Copy(all, aliases)
	var list []mcpserver.Prompt
	for _, name := range slices.Sorted(maps.Keys(all)) {
		alias := all[name]
		list = append(list, mcpserver.Prompt{Name: name, Description: alias.Description, Args: promptArgs(alias), Text: func(args map[string]string) (string, error) {
			return prompt.FillAlias(alias, args["filename"], args["content"], args), nil
		}})
	}
	return list
}

// promptArgs are the arguments of an alias: the placeholders of its template.
func promptArgs(alias config.Alias) []mcpserver.PromptArg {
	var args []mcpserver.PromptArg
	seen := map[string]bool{"filename": true, "language": true}
	for _, match := range placeholder().FindAllStringSubmatch(alias.Template, -1) {
		if name := match[1]; !seen[name] {
			seen[name] = true
			arg := mcpserver.PromptArg{Name: name, Required: true}
			if name == "content" {
				arg.Description = "the text"
			}
			args = append(args, arg)
		}
	}
	if alias.Input == config.AliasFile {
		args = append(args, mcpserver.PromptArg{Name: "filename", Description: "the name of the file that the text is from"})
	}
	return args
}

func (s *service) run(ctx context.Context) error {
	watch, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { s.follow(watch) })
	defer done.Wait()
	defer stop()
	if s.web != nil {
		return s.web.serve(ctx, s.server)
	}
	if s.p.InTerm {
		s.p.Note("an MCP client starts this program and speaks to it on standard input; Ctrl-D ends it")
	}
	return s.server.Serve(ctx, s.p.In, s.p.Out)
}

// config finds the configuration. With --watch, what changes after the start needs no new
// trust: that is what the person asked for.
func (s *service) config() (*config.Config, error) {
	s.mu.Lock()
	started := s.trees != nil
	s.mu.Unlock()
	if !started {
		return load.Config(s.p, s.of.File)
	}
	c, err := load.AnyConfig(s.p, nil)
	if err != nil {
		return nil, err
	}
	for i := range c.AgentFiles {
		c.AgentFiles[i].Discovered = false
	}
	return c, nil
}

// load loads the trees of all agents. Every file that was named must load, and
// one of those that were found.
func (s *service) load(ctx context.Context) ([]*load.Tree, error) {
	p := s.p
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	files, err := load.Candidates(p, c)
	if err != nil {
		return nil, err
	}
	if p.Global.Agent != "" || len(files) == 0 {
		file, err := load.Choose(p, c, "")
		if err != nil {
			return nil, err
		}
		files = []string{file}
	}
	var trees []*load.Tree
	var errs []error
	for _, file := range files {
		o := s.flags.Load(load.Options{File: s.of.File, Agent: s.of.Agent, Log: &s.log, Pinned: !s.flags.Watch, Elicit: s.elicit})
		l, err := load.File(ctx, p, c, file, o)
		if err == nil {
			if err = l.Complete(o); err != nil {
				s.close([]*load.Tree{l})
			}
		}
		if l != nil && l.Tree != nil {
			s.problems(l.Problems)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.host.Learn(l.Secrets())
		trees = append(trees, l)
	}
	var fatal error
	if len(trees) == 0 || len(errs) > 0 && len(p.Global.AgentFiles) > 0 {
		fatal, errs = errs[0], errs[1:]
		s.close(trees)
		trees = nil
	}
	for _, err := range errs {
		s.say("left out: " + err.Error())
	}
	return trees, fatal
}

// panicked reports a panic, which has ended a request or a run but not the server. It takes no
// lock, because the code that panicked may hold it.
func (s *service) panicked(text string) {
	fmt.Fprintln(s.p.Err, termtext.Clean("warning: "+text))
}

// say writes a line to stderr, once.
func (s *service) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p.Global.Quiet || s.said[text] {
		return
	}
	s.said[text] = true
	fmt.Fprintln(s.p.Err, termtext.Clean(text))
}

func (s *service) problems(list []agentfile.Problem) {
	for _, problem := range list {
		if problem.Severity > agentfile.Fatal && problem.Severity <= agentfile.Warning {
			s.say(fmt.Sprintf("%s: %s", problem.Severity, problem))
		}
	}
}

func (s *service) close(trees []*load.Tree) {
	for _, t := range trees {
		if err := t.Close(); err != nil {
			s.say("warning: " + err.Error())
		}
	}
}

// offer passes the agents or tools of the trees to the server.
func (s *service) offer(ctx context.Context) (idle <-chan struct{}, err error) {
	if s.flags.Expose == "tools" {
		return s.server.SetTools(s.tools(ctx)), nil
	}
	agents, err := s.agents()
	if err != nil {
		return nil, err
	}
	s.host.Offers = agents
	list := make([]mcpserver.Agent, len(agents))
	for i, a := range agents {
		list[i] = mcpserver.Agent(a)
	}
	return s.server.SetAgents(list), nil
}

// agents are the trees' roots by their names. If several have the same name none is
// offered, because the choice would be arbitrary.
func (s *service) agents() ([]host.Agent, error) {
	var list []host.Agent
	files := map[string][]string{}
	for i, t := range s.trees {
		name := toolname.Join("", t.Root.Slug)
		if s.flags.Compat {
			name = toolname.Join("ask", fmt.Sprintf("%s_%03d", t.Root.Slug, i))
		}
		list = append(list, host.Agent{Name: name, Agent: t.Root})
		files[name] = append(files[name], t.Nodes[0].File.Path)
	}
	for name, same := range files {
		if len(same) > 1 {
			s.say(fmt.Sprintf("left out: the agents of several files are all named %s, and none of them is served: %s", name, strings.Join(same, ", ")))
		}
	}
	list = slices.DeleteFunc(list, func(a host.Agent) bool { return len(files[a.Name]) > 1 })
	if len(list) == 0 {
		return nil, failure.NothingRan(errors.New("no agent can be served: all have one name"), load.ProblemHint(agentfile.Problem{Code: agentfile.CodeCollision}))
	}
	return list, nil
}

// tools are those of the trees' roots, as the models of these see them.
func (s *service) tools(ctx context.Context) []agent.Tool {
	byName := map[string][]agent.Tool{}
	for _, t := range s.trees {
		for _, tool := range s.host.Tools(ctx, t.Root) {
			if s.flags.Plain {
				tool = plainly(tool)
			}
			spec := tool.Spec()
			same := func(o agent.Tool) bool { return o.Spec().Source == spec.Source }
			if !slices.ContainsFunc(byName[spec.Name], same) {
				byName[spec.Name] = append(byName[spec.Name], tool)
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
	slices.SortStableFunc(list, func(a, b agent.Tool) int { return cmp.Compare(a.Spec().Name, b.Spec().Name) })
	return list
}

// A plain tool is one without the prefix of its name.
type plain struct {
	agent.Tool
	name string
}

// plainly returns a tool without the prefix of its name.
func plainly(tool agent.Tool) agent.Tool {
	name := tool.Spec().Name
	for _, prefix := range []string{"bash_", agent.ExpertPrefix + "_", agent.CompatPrefix + "_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return &plain{tool, rest}
		}
	}
	return tool
}

// Unwrap returns the tool: see agent.As.
func (p *plain) Unwrap() any { return p.Tool }

// Spec implements agent.Tool.
func (p *plain) Spec() agent.ToolSpec {
	spec := p.Tool.Spec()
	spec.Name = p.name
	return spec
}
