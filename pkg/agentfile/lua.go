package agentfile

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua"
)

// lua opens a LuaToolbox, whose scripts the program agents-toolbox runs. If programs are not
// looked for, as in a test of an agent, the tool exists but cannot be called.
func (l *loader) lua(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c struct {
		Name, Description       string
		MaxMemoryMB             int
		MaxExecutionTimeSeconds float64
		MaxInstructions         int64
		AllowedTools            []string
		AllowedHosts            []string
		FileSandbox             json.RawMessage
		Sandbox                 *sandbox.Config
	}
	if err := box.settings(&c); err != nil {
		return nil, err
	}
	if err := box.valid(c.Name); err != nil {
		return nil, err
	}
	const most = 1 << 20 // MB, and seconds
	switch {
	case c.MaxMemoryMB < 0, c.MaxMemoryMB > most, c.MaxExecutionTimeSeconds < 0, c.MaxExecutionTimeSeconds > most, c.MaxInstructions < 0:
		return nil, fmt.Errorf("a limit of the %s %q is out of range: it is negative or too large", box.Tag, c.Name)
	case len(c.AllowedHosts) > 0 || len(c.FileSandbox) > 0:
		l.report(n.File.problem(Note, CodeLater, n.File.at("builtinToolboxes"), "allowedHosts and fileSandbox of the %s %q are ignored: scripts do not have the libraries http and fs; they call tools instead", box.Tag, c.Name))
	}
	opts := lua.Options{Name: c.Name, Description: c.Description, Allowed: c.AllowedTools, Timeout: time.Duration(c.MaxExecutionTimeSeconds * float64(time.Second)),
		Limits: lua.Limits{MemoryMB: c.MaxMemoryMB, Instructions: c.MaxInstructions}.WithDefaults()}
	if l.opts.Companion == nil {
		return lua.Open(opts), nil
	}
	program, err := l.opts.Companion(companion.Program)
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(opts.Limits)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(companion.Request{Version: companion.Version, Settings: settings})
	opts.Command = process.Command{Path: program, Args: []string{"lua"}, Dir: n.workDir, Env: []string{companion.Variable + "=" + string(request)}}
	if confined := n.box("lua", c.Sandbox); confined != nil {
		opts.Command.Sandbox, opts.Permits = confined, confined.String()
	}
	return lua.Open(opts), err
}
