package agentfile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/source/signin"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	"golang.org/x/sync/errgroup"
)

// tagHTTP is the tag of servers that are reached over HTTP.
const tagHTTP = "McpHttp"

// An MCPServer is a source of tools: a program that speaks MCP on its standard
// input and output, or an address.
type MCPServer struct {
	Tag                 string            `json:"tag"` // McpSimpleBinary or McpHttp
	Name                string            `json:"name"`
	Executable          string            `json:"executable"`
	Args                []string          `json:"args"`
	Env                 map[string]string `json:"env"`
	Cwd                 string            `json:"cwd"`
	ToolEnv             []string          `json:"toolEnv"`
	URL                 string            `json:"url"`
	Headers             map[string]string `json:"headers"`
	OAuth               *OAuth            `json:"oauth"`
	TimeoutSeconds      float64           `json:"timeoutSeconds"`
	StartTimeoutSeconds float64           `json:"startTimeoutSeconds"`
	PollSeconds         float64           `json:"pollSeconds"`
	Protocol            string            `json:"protocol"`
	Tools               []string          `json:"tools"`
	Roots               []string          `json:"roots"`
	Sampling            bool              `json:"sampling"`
	ShareContext        bool              `json:"shareContext"`
	Disabled            bool              `json:"disabled"`
	Sandbox             *sandbox.Config   `json:"sandbox"`
	Activation          json.RawMessage   `json:"activation"`

	// Of an entry of a mcpServers object as other MCP clients write it: its key,
	// what of it is not read, and why it cannot be used at all.
	key     string
	unread  []string
	invalid error
}

// pastedServers reads mcpServers as other MCP clients write it. Sampling is allowed
// here, since this is an agent file.
func pastedServers(entries map[string]any) []MCPServer {
	raw := map[string]json.RawMessage{}
	for name, entry := range entries {
		raw[name], _ = json.Marshal(entry) // it came from JSON
	}
	servers := clientServers(raw)
	for i := range servers {
		entry, _ := entries[servers[i].key].(map[string]any)
		servers[i].Sampling = entry["sampling"] == true
	}
	return servers
}

// A server is an MCP server of an agent file, or a toolbox that agents-toolbox serves.
type server struct {
	MCPServer
	pointer string // in the agent file
	dir     string // what its paths are relative to
	client  mcpclient.Server
	file    string // begins messages: the file of mcpConfigFiles that names it, or ""
	group   string // the toolgroup; "" if it is in none
	// settings are those of a toolbox that agents-toolbox serves; nil for an MCP server.
	settings json.RawMessage
	uncached bool // its list of tools is not cached
	given    bool // it is one of Options.Client.Servers
	service  bool // its tools are the operations of a web service
	signIn   *signin.Server
	set      *mcpclient.Toolset // nil until it is opened
}

// prefix begins the names of the server's tools.
func (s *server) prefix() string {
	if s.settings != nil {
		return s.Name + "_"
	}
	return toolname.Join("mcp", s.Name) + "_"
}

// servers are those of n that are open.
func (n *Node) servers() []*server {
	return slices.DeleteFunc(sourcesOf[*server](n), func(s *server) bool { return s.set == nil })
}

func (s *server) survey(sv *surveyor, n *Node) {
	if s.settings != nil || s.given {
		return // the settings are in the agent file, and what it serves is compared later
	}
	locked := LockedServer{URL: s.client.URL}
	if s.Executable != "" {
		sv.later(func() {
			sv.command(append([]string{s.client.Executable}, s.Args...), sv.serverEnviron(n, s), s.client.Dir)
		})
		locked.Command = append([]string{s.Executable}, s.Args...)
	}
	sv.lock.Servers[n.lockKey(sv.dir, s.Name)] = locked
}

func (s *server) files() []string { return s.client.Programs() }

// open makes the toolset of the server, which starts it when its tools are first asked for.
func (s *server) open(l *loader, n *Node) []agent.Tool {
	s.client.Env = l.serverEnviron(n, s)
	if box := n.confinement.box("", s.Sandbox, false); box != nil {
		s.client.Sandbox = box
	}
	s.set = mcpclient.Open(s.client, l.clientOptions(n, s))
	live := liveSet{Toolset: l.checked(n, s), toolgroup: s.group, prefix: s.prefix(), name: s.Name, many: s.settings == nil || s.service}
	for _, name := range s.Tools {
		live.named = append(live.named, toolname.Join("mcp", s.Name+"_"+name))
	}
	n.live = append(n.live, live)
	return nil
}

func (s *server) close() error {
	if s.set == nil {
		return nil
	}
	return s.set.Close(context.Background())
}

// mcpServers reads the MCP servers of n.
func (l *loader) mcpServers(n *Node) {
	var list []*server
	for i, s := range n.File.Spec.MCPServers {
		at := cmp.Or(strings.NewReplacer("~", "~0", "/", "~1").Replace(s.key), strconv.Itoa(i))
		list = append(list, &server{MCPServer: s, pointer: n.File.at("mcpServers") + "/" + at, dir: filepath.Dir(n.File.Path)})
	}
	for i, path := range n.File.Spec.MCPConfigs {
		list = append(list, l.mcpConfig(n, fmt.Sprintf("%s/%d", n.File.at("mcpConfigFiles"), i), path)...)
	}
	if len(n.stack) == 1 {
		for _, s := range clientServers(l.opts.Client.Servers) {
			list = append(list, &server{MCPServer: s, given: true, dir: l.opts.WorkDir})
		}
	}
	seen := map[string]bool{}
	for _, s := range list {
		switch {
		case s.invalid != nil:
			l.report(n.File.problem(LeftOut, CodeServer, s.pointer, "%sserver %s%s", s.file, s.Name, s.invalid))
			continue
		case s.Disabled:
			continue
		case len(s.unread) > 0:
			l.report(n.File.problem(Warning, CodeServer, s.pointer, "%sserver %s: %s", s.file, s.Name, strings.Join(s.unread, "; ")))
		}
		if seen[s.Name] {
			l.report(n.File.problem(LeftOut, CodeCollision, s.pointer, "another MCP server of this agent has the name %q", s.Name))
			continue
		}
		seen[s.Name] = true
		var err error
		if s.client, err = l.client(s); err != nil {
			l.report(n.File.problem(LeftOut, CodeServer, s.pointer, "server %s: %s", s.Name, err))
			continue
		}
		s.group = l.toolgroup(n, s.pointer, s.Activation)
		n.add(s)
	}
}

// companion adds s to the servers of n: a toolbox of the agent file that the program
// agents-toolbox serves over MCP, with the given settings, which may contain secrets. It is
// started, called, sandboxed and stopped like an MCP server of the file. Its name, followed by
// an underscore, begins the names of the tools. If there is no program that serves it, the
// toolbox is left out with a problem.
//
// The list of tools is cached under s.client.Identity, which is usually the settings that are not
// secret, unless s.uncached is set because the list may change at any time.
func (l *loader) companion(n *Node, s *server, toolbox string, settings any) {
	leaveOut := func(code Code, format string, args ...any) {
		l.report(n.File.problem(LeftOut, code, s.pointer, "this is left out: "+format, args...))
	}
	text, err := json.Marshal(settings)
	if err == nil {
		s.settings, err = json.Marshal(companion.Request{Version: companion.Version, Settings: text})
	}
	if err != nil {
		leaveOut(CodeSchema, "%s", err)
		return
	}
	if slices.ContainsFunc(sourcesOf[*server](n), func(other *server) bool { return other.Name == s.Name }) {
		leaveOut(CodeCollision, "another toolbox or MCP server of this agent is also named %q", s.Name)
		return
	}
	if l.opts.Companion == nil {
		return // nothing is started
	}
	c := &s.client
	if c.Executable, err = l.opts.Companion(companion.Program); err != nil {
		leaveOut(CodeProgram, "%s", err)
		return
	}
	s.group = l.toolgroup(n, s.pointer, s.Activation)
	c.Name, c.Called, c.Args, c.Dir, c.Keys = s.Name, "toolbox", []string{toolbox}, n.workDir, true
	c.CallTimeout = cmp.Or(c.CallTimeout, seconds(n.File.Spec.ToolTimeoutSeconds))
	n.add(s)
}

// clientOptions says what the client of s may do.
func (l *loader) clientOptions(n *Node, s *server) mcpclient.Options {
	opts := mcpclient.Options{
		Name: toolname.Join, ClientVersion: l.opts.Client.Version, SpoolDir: l.opts.Folders.Outputs,
		Elicit: l.opts.Client.Elicit, Redact: l.redact, Pinned: l.opts.Same.Pinned || l.lock != nil,
	}
	if l.opts.Folders.Cache != "" && l.lock == nil && !s.uncached { // a lock is compared with what the server says now
		opts.CacheDir = filepath.Join(l.opts.Folders.Cache, "mcp")
	}
	if l.opts.Client.Log != nil {
		opts.Log = func(line string) { l.opts.Client.Log(s.Name, line) }
	}
	if s.settings != nil {
		opts.Name = func(_, slug string) string { return slug }
	}
	if s.Sampling && !l.opts.NoModels {
		opts.Sample = n.sample
	}
	for _, root := range s.Roots {
		opts.Roots = append(opts.Roots, absolute(s.dir, root))
	}
	return opts
}

// client describes s for the MCP client.
func (l *loader) client(s *server) (mcpclient.Server, error) {
	c := mcpclient.Server{
		Name: s.Name, Args: s.Args, Tools: s.Tools, Protocol: s.Protocol, Context: s.ShareContext,
		StartTimeout: seconds(s.StartTimeoutSeconds), CallTimeout: seconds(s.TimeoutSeconds), PollInterval: seconds(s.PollSeconds),
	}
	for _, glob := range s.Tools {
		if _, err := filepath.Match(glob, ""); err != nil {
			return c, fmt.Errorf("tools: %q is not a valid pattern", glob)
		}
	}
	if s.Tag == tagHTTP {
		return c, l.httpServer(&c, s)
	}
	c.Executable = s.Executable
	if process.IsPath(s.Executable) {
		c.Executable = absolute(s.dir, s.Executable)
	}
	c.Dir = l.opts.WorkDir
	if s.Cwd != "" {
		c.Dir = absolute(s.dir, s.Cwd)
	}
	return c, nil
}

// serverEnviron is the environment of a server that is a program.
func (l *loader) serverEnviron(n *Node, s *server) []string {
	if s.Tag == tagHTTP {
		return nil
	}
	allow := append(slices.Clone(n.File.Spec.ToolEnv), s.ToolEnv...)
	env := toolenv.Environ(l.environ(allow), allow)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value := variable().ReplaceAllStringFunc(s.Env[name], func(match string) string {
			return toolenv.Lookup(l.opts.Environ, match[2:len(match)-1])
		})
		env = append(slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }), name+"="+value)
	}
	if s.settings != nil {
		env = append(env, companion.Variable+"="+string(s.settings))
	}
	return env
}

// httpServer sets what a server over HTTP needs. A key is sent only to the hosts that
// its entry allows.
func (l *loader) httpServer(c *mcpclient.Server, s *server) error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("url: %q is not a usable URL; want http:// or https:// and a host", withoutUser(s.URL))
	}
	c.URL, c.Headers = s.URL, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		c.Headers[name] = keyReference().ReplaceAllStringFunc(s.Headers[name], func(match string) string {
			id := keyReference().FindStringSubmatch(match)[1]
			key, problem := l.keyFor(id, u)
			if problem != nil {
				err = fmt.Errorf("header %s: %w", name, problem)
			}
			return key
		})
	}
	if err != nil {
		return err
	}
	return l.signIn(c, s)
}

var (
	variable     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`) })
	keyReference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{key:([^}]*)\}`) })
)

func absolute(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// checked is a server's toolset whose tools check their arguments. Each tool is
// wrapped once, so that its schema is compiled once.
type checked struct {
	serverTools
	check func(agent.Tool) agent.Tool
	mu    sync.Mutex
	tools map[agent.Tool]agent.Tool
}

// serverTools are the tools of an MCP server, as it lists them or as far as a lock has
// them.
type serverTools interface {
	agent.Toolset
	agent.Instructor
}

// Tools returns the server's tools, each behind a check.
func (c *checked) Tools(ctx context.Context) ([]agent.Tool, error) {
	tools, err := c.serverTools.Tools(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := make(map[agent.Tool]agent.Tool, len(tools))
	list := make([]agent.Tool, len(tools))
	for i, t := range tools {
		list[i] = c.tools[t]
		if list[i] == nil {
			list[i] = c.check(t)
		}
		now[t] = list[i]
	}
	c.tools = now
	return list, err
}

// Connect starts every MCP server of the tree and asks it for its tools, whatever the
// cache has. The tools are added to the nodes; a server that fails is a problem.
func (t *Tree) Connect(ctx context.Context) {
	var mu sync.Mutex
	var g errgroup.Group
	for _, n := range t.Nodes {
		for _, s := range n.servers() {
			g.Go(func() error {
				s.set.Start()
				tools, err := s.set.Tools(ctx)
				mu.Lock()
				defer mu.Unlock()
				for _, tool := range tools {
					n.Tools = append(n.Tools, tool.Spec())
				}
				if err != nil {
					t.Problems = append(t.Problems, n.File.problem(LeftOut, CodeStart, s.pointer, "%s", err))
				}
				return nil
			})
		}
	}
	g.Wait() // no function fails
	for _, n := range t.Nodes {
		n.settleTools(ctx)
		slices.SortStableFunc(n.Tools, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	}
	t.nameTools()
	t.FitTools()
}

// FitTools reports the known tools whose schemas the servers of their models refuse. Connect
// does so too.
func (t *Tree) FitTools() {
	defer func() { t.sortProblems() }()
	for _, n := range t.Nodes {
		fitter, ok := agent.As[agent.ToolFitter](n.Agent.Provider)
		if !ok {
			continue
		}
		for _, s := range n.Tools {
			_, changed, err := fitter.FitTool(s)
			switch {
			case err != nil:
				t.Problems = append(t.Problems, Problem{Severity: LeftOut, Code: CodeModel, File: n.File.Path, Message: fmt.Sprintf(
					"the tool %s of %s is not offered to the model of %s, because its server would refuse it: %s", s.Name, s.Source, n.Agent.Slug, err)})
			case len(changed) > 0:
				t.Problems = append(t.Problems, Problem{Severity: Note, Code: CodeModel, File: n.File.Path, Message: fmt.Sprintf(
					"the server of the model of %s would refuse the schema of the tool %s of %s; the model sees another one (%s), and calls are compared with the schema of the tool", n.Agent.Slug, s.Name, s.Source, strings.Join(changed, "; "))})
			}
		}
	}
}
