package agentfile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/mediatype"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/spool"
	"github.com/agents-exe/agents/pkg/toolbox/developer"
	"github.com/agents-exe/agents/pkg/toolbox/system"
	"github.com/agents-exe/agents/pkg/toolenv"
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
			return accept(ctx, c.CommandFilter, command, n.workDir, env)
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

// accept runs the filter, a line for the shell, with a command on standard input, as
// agents-exe does, and returns an error unless it prints {"acceptance": "allowed"}.
func accept(ctx context.Context, filter, command, dir string, env []string) error {
	ctx, stop := context.WithTimeoutCause(ctx, policyTimeout, fmt.Errorf("it gave no answer within %s", policyTimeout))
	defer stop()
	shell, err := process.LookPath("sh", env)
	if err != nil {
		return fmt.Errorf("commandFilter: %w", err)
	}
	out, stderr := spool.Output{MemoryOnly: true}, spool.Output{MemoryOnly: true}
	exit, err := process.Run(ctx, &process.Command{Path: shell, Args: []string{"-c", filter}, Dir: dir, Env: env, Stdin: strings.NewReader(command), Stdout: &out, Stderr: &stderr})
	if failure := exit.Failure(ctx, err); failure != nil {
		return fmt.Errorf("commandFilter: %w: %s", failure, strings.TrimSpace(stderr.Tail(1000)))
	}
	var answer struct{ Acceptance, Note string }
	text := bytes.TrimSpace(out.Head())
	switch err := json.Unmarshal(text, &answer); {
	case err != nil:
		return fmt.Errorf("commandFilter: it printed %.200q: want an object with acceptance and note", text)
	case answer.Acceptance == "allowed":
		return nil
	case answer.Acceptance != "refused":
		return fmt.Errorf("commandFilter: its acceptance is %q: want allowed or refused", answer.Acceptance)
	}
	return errors.New("the command was refused: " + cmp.Or(answer.Note, "commandFilter gave no reason"))
}
