package agentfile

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/mcpclient"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/toolbox/companion"
)

// A companionBox is a toolbox of an agent file that the program agents-toolbox serves over
// MCP. It is started, called, sandboxed and stopped like an MCP server of the file.
type companionBox struct {
	// toolbox is the argument of the program.
	toolbox string
	// name, followed by an underscore, begins the names of the tools. It is unique among the
	// servers of the agent.
	name    string
	pointer string // in the agent file
	// settings are passed as JSON in the environment of the program. They may contain secrets.
	settings any
	// identity is what the list of tools depends on besides the program, usually the settings
	// that are not secret. The list is cached under it.
	identity string
	// files decide what the toolbox executes and calls, besides the program.
	files []string
	// uncached says that the list may change at any time, and is requested in every run.
	uncached bool
	// timeout limits a call; 0 means the timeout of the agent file.
	timeout time.Duration
	// start limits how long the program may take to start; 0 means the usual limit.
	start   time.Duration
	sandbox *sandbox.Config // of the entry
	// activation is that of the entry.
	activation json.RawMessage
}

// companion adds a toolbox to the servers of n. If there is no program that serves it, the
// toolbox is left out with a problem.
func (l *loader) companion(n *Node, b companionBox) {
	leaveOut := func(code Code, format string, args ...any) {
		l.report(n.File.problem(LeftOut, code, b.pointer, "this is left out: "+format, args...))
	}
	settings, err := json.Marshal(b.settings)
	if err == nil {
		settings, err = json.Marshal(companion.Request{Version: companion.Version, Settings: settings})
	}
	if err != nil {
		leaveOut(CodeSchema, "%s", err)
		return
	}
	if slices.ContainsFunc(sourcesOf[*server](n), func(s *server) bool { return s.Name == b.name }) {
		leaveOut(CodeCollision, "another toolbox or MCP server of this agent is also named %q", b.name)
		return
	}
	if l.opts.Companion == nil {
		return // nothing is started
	}
	program, err := l.opts.Companion(companion.Program)
	if err != nil {
		leaveOut(CodeProgram, "%s", err)
		return
	}
	s := &server{pointer: b.pointer, settings: settings, uncached: b.uncached, group: l.toolgroup(n, b.pointer, b.activation)}
	s.Name, s.Sandbox = b.name, b.sandbox
	s.client = mcpclient.Server{
		Name: b.name, Called: "toolbox", Executable: program, Args: []string{b.toolbox}, Dir: n.workDir, Identity: b.identity, Files: b.files, StartTimeout: b.start, Keys: true,
		CallTimeout: cmp.Or(b.timeout, seconds(n.File.Spec.ToolTimeoutSeconds)),
	}
	n.add(s)
}
