package agentfile

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agents-exe/agents/pkg/toolbox/companion"
)

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
