package agentfile

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/mediatype"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
	"github.com/agents-exe/agents/pkg/source/toolbox/system"
)

// system opens a SystemToolbox; see developer for the keys.
func (l *loader) system(n *Node, box BuiltinToolbox) (agent.Toolset, error) {
	var c struct {
		Name, Description, EnvVarFilter, CommandFilter string
		Capabilities                                   []string
		FileSandbox                                    fileSandbox
		SessionIntrospectionMaxResults                 int
		SessionIntrospectionIncludeToolOutputs         *bool
	}
	if err := box.settings(&c); err != nil {
		return nil, err
	}
	known, err := l.capabilities(n, box, c.Name, c.Capabilities, system.Capabilities)
	if err != nil {
		return nil, err
	}
	opts := system.Options{Name: c.Name, Description: c.Description, Capabilities: known, Dir: absolute("", n.workDir), Environ: l.environ(n.File.Spec.ToolEnv), EnvFilter: c.EnvVarFilter,
		MaxResults: c.SessionIntrospectionMaxResults, ToolOutputs: c.SessionIntrospectionIncludeToolOutputs == nil || *c.SessionIntrospectionIncludeToolOutputs}
	if len(l.opts.Folders.Sessions) > 0 {
		opts.Sessions = sessionFolders(l.opts.Folders.Sessions)
	}
	tool := "system_" + c.Name + "_system_info"
	if slices.Contains(known, "list-directory") || slices.Contains(known, "attach-file") {
		f := l.fileOptions(n, tool, c.FileSandbox)
		f.MaxFileSize = cmp.Or(f.MaxFileSize, maxAttached)
		files := developer.OpenFiles(f)
		opts.List = func(inv *agent.Invocation, name string, recursive, hidden bool) (any, error) {
			return files.For(inv).List(name, recursive, hidden, nil)
		}
		opts.Attach = func(inv *agent.Invocation, name string) (agent.Part, error) {
			data, err := files.For(inv).Read(name)
			// Only texts are redacted later.
			return agent.Part{Kind: agent.PartMedia, MIME: mediatype.Of(name, data), Data: l.redact.Bytes(data), Name: filepath.Base(name)}, err
		}
	}
	if slices.Contains(known, "execute-command") {
		shell := l.shell(n, tool, bashSettings{})
		n.protected = append(n.protected, shell)
		tools, _ := shell.Tools(context.Background()) // the list never changes
		opts.Shell = tools[0]
	}
	if c.CommandFilter != "" {
		env := toolenv.Environ(l.environ(n.File.Spec.ToolEnv), n.File.Spec.ToolEnv)
		opts.Accept = func(ctx context.Context, command string) error {
			return system.Accept(ctx, c.CommandFilter, command, n.workDir, env)
		}
	}
	return system.Open(opts), nil
}

// maxAttached is the size of the largest attachment that a result can have.
const maxAttached = 20_000_000

// A commandFilter is a line for the shell that decides about the commands of a SystemToolbox.
type commandFilter struct {
	passive
	words    []string
	programs func() []string // those of the line
}

// commandFilter reads the key commandFilter of a SystemToolbox.
func (l *loader) commandFilter(n *Node, box BuiltinToolbox) {
	var c struct{ CommandFilter string }
	if box.settings(&c) != nil || c.CommandFilter == "" {
		return
	}
	f := &commandFilter{words: strings.Fields(c.CommandFilter)}
	f.programs = sync.OnceValue(func() []string {
		allow := n.File.Spec.ToolEnv
		return process.Programs(f.words, toolenv.Environ(l.environ(allow), allow), n.workDir)
	})
	n.sources = slices.Insert(n.sources, 0, source(f)) // what decides is surveyed before tools
}

func (f *commandFilter) survey(s *surveyor, n *Node) {
	s.command(f.words, s.environ(n.File.Spec.ToolEnv), n.workDir)
}

func (f *commandFilter) files() []string { return f.programs() }
