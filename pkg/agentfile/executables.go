package agentfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/lend"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// A Toolbox is a folder of executables or one of them.
type Toolbox struct {
	Tag            string `json:"tag"` // FileSystemDirectory or SingleTool
	Path           string `json:"path"`
	BasenameFilter string `json:"basenameFilter"`
	AllowDash      bool   `json:"allowDash"`

	Sandbox    *sandbox.Config `json:"sandbox"`
	Activation json.RawMessage `json:"activation"`

	// Runner is a command prefix that runs the tools elsewhere, where Path is.
	Runner      []string `json:"runner"`
	RunnerID    []string `json:"runnerId"`
	RunnerShell *bool    `json:"runnerShell"`
}

// A program is an executable, or a folder of them, of an agent file. Its Name is that of a script
// of a skill.
type program struct {
	exectool.Source
	words   []string        // of the runner, as in the file
	sandbox *sandbox.Config // of the entry
	refused bool            // it must not be executed
}

// executables are the source of all programs of an agent: those of its tool directory and of
// bashToolboxes, the scripts of its skills, and the agents behind runners.
type executables struct {
	programs []program
	stamp    string            // of programs, if they are watched
	found    *exectool.Toolset // what describe found
	set      *exectool.Toolset // found, once all sources are described; nil if there are no programs
}

// executables reads the programs of n.
func (l *loader) executables(n *Node) {
	n.add(n.executables)
	l.toolDirectory(n)
	l.toolboxes(n)
}

// survey adds the tools and the runners.
func (e *executables) survey(s *surveyor, n *Node) {
	env := s.environ(n.File.Spec.ToolEnv)
	for _, p := range e.programs {
		for _, path := range exectool.Executables([]exectool.Source{p.Source}) {
			s.executed(KindTool, path, env, n.workDir)
		}
		if p.Runner != nil {
			s.later(func() {
				s.command(append(slices.Clone(p.Runner.Command), p.Path), env, n.workDir)
				s.command(p.Runner.ID, env, n.workDir)
			})
			s.lock.Runners[n.lockKey(s.dir, p.Path)] = LockedRunner{Command: p.words}
		}
	}
}

func (e *executables) files() (files []string) {
	if e.set != nil {
		return append(e.set.Programs(), e.set.Files()...)
	}
	for _, p := range e.programs {
		if p.Runner == nil {
			files = append(files, p.Path)
		}
	}
	return files
}

// list returns the programs that described themselves.
func (e *executables) list() []*exectool.Tool {
	if e.set == nil {
		return nil
	}
	return e.set.List()
}

func (e *executables) far() bool {
	return slices.ContainsFunc(e.programs, func(p program) bool { return p.Runner != nil })
}

func (e *executables) describe(ctx context.Context, l *loader, n *Node) {
	if n.File.Spec.Watch {
		e.stamp = exectool.Stamp(n.permitted()) // before it may change
	}
	e.found = l.openPrograms(ctx, n)
}

// open returns the tools of the executables. Watched ones are live.
func (e *executables) open(l *loader, n *Node) (tools []agent.Tool) {
	e.set = e.found
	l.checkLend(n, e.list())
	if e.set == nil {
		return nil
	}
	n.protected = append(n.protected, e.set)
	l.executableProblems(n)
	watch := n.File.Spec.Watch
	for _, t := range e.set.List() {
		for _, note := range t.Notes() {
			l.report(Problem{Severity: Note, Code: CodeToolHint, File: t.Spec().Source, Message: note})
		}
		for _, pattern := range schema.NotCompared(t.Spec().Schema) {
			l.report(Problem{Severity: Note, Code: CodeToolHint, File: t.Spec().Source, Message: fmt.Sprintf("the pattern %.100q in its schema cannot be compared here: every text passes", pattern)})
		}
		switch {
		case t.Agent() != "":
			tools = append(tools, expertOf(t, t.Agent(), t.Expects()))
		case watch:
			n.Tools = append(n.Tools, t.Spec())
		default:
			tools = append(tools, l.locked(t))
		}
	}
	return tools
}

// toolDirectory reads which executables and agent files are in a folder.
func (l *loader) toolDirectory(n *Node) {
	name := n.File.Spec.ToolDirectory
	if name == "" {
		return
	}
	pointer := n.File.at("toolDirectory")
	dir, ok := l.resolve(n, pointer, name, LeftOut)
	if !ok {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s", named(dir), plain(err)))
		return
	}
	n.executables.programs = append(n.executables.programs, program{Source: exectool.Source{Path: dir, Kind: exectool.Folder, AllowDash: n.File.Spec.AllowDash}})
	for _, e := range entries {
		if jsondoc.HasName(e.Name()) && !e.IsDir() && !strings.HasSuffix(e.Name(), TestSuffix) && !isProjectFile(e.Name()) {
			l.helperFile(n, filepath.Join(dir, e.Name()))
		}
	}
}

// isProjectFile reports whether a .json or .yaml in a tool directory belongs to a package
// manager, compiler or containers, which tools written in JavaScript and PHP have beside them.
func isProjectFile(name string) bool {
	switch name {
	case "package.json", "package-lock.json", "npm-shrinkwrap.json", "tsconfig.json", "jsconfig.json", "deno.json", "composer.json",
		"pnpm-lock.yaml", "pnpm-workspace.yaml", "compose.yaml", "docker-compose.yaml", "docker-compose.yml":
		return true
	}
	return false
}

// toolboxes reads bashToolboxes.
func (l *loader) toolboxes(n *Node) {
	for i, box := range n.File.Spec.BashToolboxes {
		pointer := fmt.Sprintf("%s/%d", n.File.at("bashToolboxes"), i)
		folder := box.Tag == "FileSystemDirectory"
		p := program{sandbox: box.Sandbox, words: box.Runner, Source: exectool.Source{Path: box.Path, Filter: box.BasenameFilter,
			AllowDash: box.AllowDash || n.File.Spec.AllowDash, Toolgroup: l.toolgroup(n, pointer, box.Activation)}}
		if folder {
			p.Kind = exectool.Folder
		}
		if len(box.Runner) > 0 {
			p.Runner = n.runner(box.Runner, box.RunnerID, box.RunnerShell)
		} else {
			var ok bool
			if p.Path, ok = l.resolve(n, pointer, box.Path, LeftOut); !ok {
				continue
			}
			if info, err := os.Stat(p.Path); err == nil && info.IsDir() != folder {
				want := map[bool]string{true: "a folder", false: "an executable file"}[folder]
				l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s needs %s", p.Path, box.Tag, want))
				continue
			}
		}
		n.executables.programs = append(n.executables.programs, p)
	}
}

// runner is a runner of n's file: a program with a slash is relative to the file's
// folder, as that of an MCP server. ssh is known to need quoted arguments.
func (n *Node) runner(command, id []string, shell *bool) *exectool.Prefix {
	r := &exectool.Prefix{Command: slices.Clone(command), ID: slices.Clone(id), Shell: filepath.Base(command[0]) == "ssh"}
	for _, words := range [][]string{r.Command, r.ID} {
		if len(words) > 0 && process.IsPath(words[0]) {
			words[0] = absolute(filepath.Dir(n.File.Path), words[0])
		}
	}
	if shell != nil {
		r.Shell = *shell
	}
	return r
}

// openPrograms reads the descriptions of n's programs. The set is nil where
// there are none, or where ctx ended.
func (l *loader) openPrograms(ctx context.Context, n *Node) *exectool.Toolset {
	if len(n.executables.programs) == 0 {
		return nil
	}
	s := n.File.Spec
	opts := exectool.Options{Environ: l.environ(s.ToolEnv), SpoolDir: l.opts.Folders.Outputs, LockDir: l.opts.Folders.Locks,
		DescribeTimeout: l.opts.Describe.Timeout, Slow: l.opts.Describe.Slow, Redact: l.redact, Pinned: l.opts.Same.Pinned || l.lock != nil,
		SessionJSON: sessionJSON}
	if len(s.Lend.tools()) > 0 {
		opts.Lend = l.endpoint
	}
	if l.opts.Folders.Cache != "" {
		opts.CacheDir = toolCache(l.opts.Folders.Cache)
	}
	set, err := exectool.Open(ctx, n.permitted(), opts)
	if err != nil {
		return nil // ctx has ended, which Load says
	}
	return set
}

// endpoint opens one for the models that are lent to a call.
func (l *loader) endpoint(ctx context.Context, inv *agent.Invocation, names []string) (exectool.Endpoint, error) {
	e, err := lend.Open(ctx, inv, names, l.redact)
	if e == nil {
		return nil, err // an interface without a value
	}
	return e, nil
}

// sessionJSON is the session of a call in agents-exe's form.
func sessionJSON(inv *agent.Invocation) ([]byte, error) {
	var b bytes.Buffer
	err := transcript.ToAgentsExe(&b, transcript.OfState(inv.SessionState()))
	return b.Bytes(), err
}

// permitted says where the programs of n are that may be executed.
func (n *Node) permitted() (sources []exectool.Source) {
	s := n.File.Spec
	for _, p := range n.executables.programs {
		if p.refused {
			continue
		}
		source := p.Source
		source.Env, source.Timeout, source.Dir, source.Sandbox = s.ToolEnv, seconds(s.ToolTimeoutSeconds), n.workDir, n.confined(p)
		sources = append(sources, source)
	}
	return sources
}

func (l *loader) executableProblems(n *Node) {
	for _, p := range n.executables.set.Problems() {
		severity, code := LeftOut, CodeFile // it was not even executed
		switch {
		case errors.Is(p.Err, exectool.ErrNotExecutable):
			severity, code = Note, CodeExec
		case p.Offered:
			severity, code = Warning, CodeTool
		case p.Describe && slices.ContainsFunc(n.executables.programs, func(q program) bool { return q.Path == p.Path && q.Name != "" }): // a script of a skill, for the shell
			severity, code = Note, CodeSkill
		case p.Describe:
			code = CodeTool
		case errors.Is(p.Err, exectool.ErrCollision):
			code = CodeCollision
		case errors.Is(p.Err, exectool.ErrWritable):
			code = CodeWritable
		}
		l.report(Problem{Severity: severity, Code: code, File: p.Path, Message: p.Text()})
	}
}
