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
// MCP. It is started, called, confined and ended as an MCP server of the file is.
type companionBox struct {
	// Toolbox is the argument of the program.
	toolbox string
	// Name begins the names of the tools, with an underscore behind it. It is unique among
	// the servers of the agent.
	name    string
	pointer string // in the agent file
	// Settings become JSON in the environment of the program. They may contain secrets.
	settings any
	// Identity is what the list of tools depends on beside the program, and not a secret: the
	// list is cached for it. The settings, if they are not secret.
	identity string
	// Uncached says that the list may change without notice, and is asked for in every run.
	uncached bool
	// Timeout limits a call; 0 means that of the agent file.
	timeout time.Duration
	// Start limits its start; 0 is the usual limit.
	start   time.Duration
	sandbox *sandbox.Config // of the entry
	// Activation is that of the entry.
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
	if slices.ContainsFunc(n.configured, func(s server) bool { return s.Name == b.name }) {
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
	s := server{pointer: b.pointer, settings: settings, uncached: b.uncached, group: l.toolgroup(n, b.pointer, b.activation)}
	s.Name, s.Sandbox = b.name, b.sandbox
	s.client = mcpclient.Server{
		Name: b.name, Called: "toolbox", Executable: program, Args: []string{b.toolbox}, Dir: n.workDir, Identity: b.identity, StartTimeout: b.start, Keys: true,
		CallTimeout: cmp.Or(b.timeout, seconds(n.File.Spec.ToolTimeoutSeconds)),
	}
	n.configured = append(n.configured, s)
}
