package agentfile

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/lend"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/acpclient"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
)

// TagACP is the tag of an agent of the Agent Client Protocol, which is a program.
const TagACP = "AcpAgent"

// An ACPAgent says which program that is.
type ACPAgent struct {
	Slug     string            `json:"slug"`
	Announce string            `json:"announce"`
	Command  []string          `json:"command"`
	Env      map[string]string `json:"env"`
	ToolEnv  []string          `json:"toolEnv"`
	Cwd      string            `json:"cwd"`
	Mode     string            `json:"mode"`
	Models   bool              `json:"models"`
	Sandbox  *sandbox.Config   `json:"sandbox"`
	Budget   agent.Budget      `json:"budget"`

	DeadlineSeconds     float64 `json:"deadlineSeconds"`
	StartTimeoutSeconds float64 `json:"startTimeoutSeconds"`
	IdleTimeoutSeconds  float64 `json:"idleTimeoutSeconds"`
	Expected

	expect   agent.Expect
	at       Problem  // where it is named
	programs []string // the files that it executes
}

// acp adds an agent of the protocol to n. at is where it is named, and where problems are.
func (l *loader) acp(n *Node, a ACPAgent, at Problem) {
	switch {
	case !toolname.Valid(a.Slug):
		at.Message = fmt.Sprintf("slug: %q cannot be the slug of an agent", a.Slug)
	case len(a.Command) == 0 || a.Command[0] == "":
		at.Message = "command: it is missing; want the words of a command line"
	}
	if at.Message != "" {
		l.report(at)
		return
	}
	a.at = at
	if process.IsPath(a.Command[0]) {
		a.Command[0] = absolute(filepath.Dir(at.File), a.Command[0])
	}
	s := a.program(n)
	a.expect = l.expect(n, a.Expected, at)
	a.programs = process.Programs(a.Command, l.serverEnviron(n, s), s.dir)
	n.add(&a)
}

func (a *ACPAgent) files() []string { return a.programs }

// program is what a starts, as if it were an MCP server of n.
func (a *ACPAgent) program(n *Node) *server {
	dir := n.workDir
	if a.Cwd != "" {
		dir = absolute(filepath.Dir(a.at.File), a.Cwd)
	}
	return &server{MCPServer: MCPServer{Name: "agent " + a.Slug, Executable: a.Command[0], Args: a.Command[1:], Env: a.Env, ToolEnv: a.ToolEnv, Sandbox: a.Sandbox}, dir: absolute(dir, ".")}
}

func (a *ACPAgent) survey(s *surveyor, n *Node) {
	server := a.program(n)
	server.client.Executable, server.client.Dir = server.Executable, server.dir
	server.survey(s, n)
}

// open returns the agent as a tool, unless its program is missing.
func (a *ACPAgent) open(l *loader, n *Node) []agent.Tool {
	s := a.program(n)
	env := l.serverEnviron(n, s)
	if _, err := process.LookPath(s.Executable, env); err != nil && !l.opts.NoModels {
		a.at.Code, a.at.Message = CodePath, "command: "+err.Error()
		l.report(a.at)
		return nil
	}
	t := &acpclient.Agent{Name: toolname.Join("expert", a.Slug), Slug: a.Slug, Source: a.at.File, Version: l.opts.Client.Version, Mode: a.Mode,
		Description: cmp.Or(a.Announce, "the agent "+a.Slug), Budget: a.Budget, Deadline: seconds(a.DeadlineSeconds),
		StartTimeout: seconds(a.StartTimeoutSeconds), IdleTimeout: seconds(a.IdleTimeoutSeconds),
		Command: process.Command{Path: s.Executable, Args: s.Args, Env: env, Dir: s.dir}}
	if a.Models && slices.Contains(n.File.Spec.Lend.tools(), t.Name) {
		t.Lend = func(ctx context.Context, inv *agent.Invocation) (string, []string, func(), error) {
			e, err := lend.Open(ctx, inv, nil, l.redact)
			if e == nil {
				return "", nil, func() {}, err
			}
			return e.Address(), e.Environ(), e.Close, nil
		}
	}
	box := n.confinement.box("", s.Sandbox, false)
	n.boxes = append(n.boxes, namedBox{s.Name, box})
	files := developer.Options{Dir: s.dir, Files: developer.Everywhere(), Environ: l.environ(nil)}
	if box != nil {
		t.Command.Sandbox, files.Permits = box, box.Permits
	}
	kept := developer.OpenFiles(files)
	n.protected, t.Files = append(n.protected, kept), kept
	return []agent.Tool{expertOf(t, a.Slug, a.expect)}
}
