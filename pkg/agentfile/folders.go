package agentfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/jsondoc"
)

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
	n.programs = append(n.programs, program{path: dir, allowDash: n.File.Spec.AllowDash})
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

// helperFile reads a .json of a tool directory if it is an agent file.
func (l *loader) helperFile(n *Node, path string) {
	data, err := readRegular(path, MaxBytes)
	if err != nil {
		l.report(unreadable(path, LeftOut, err))
		return
	}
	if !l.take(KindAgent, path, data) {
		return
	}
	left := Problem{Severity: LeftOut, File: path}
	real := realPath(path)
	cycle := slices.IndexFunc(n.stack, func(above *Node) bool { return above.File.Real == real })
	switch {
	case l.otherFile(n, path, data):
		return
	case !isAgentFile(path, data):
		left.Code, left.Message = CodeNotAgent, fmt.Sprintf("this is not an agent file: it has no tag %q", Tag)
		_, err := parse(path, data)
		if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
			left.Line, left.Col, left.Message = syntax.Line, syntax.Col, "this is not an agent file: "+syntax.Message
		}
	case cycle >= 0:
		var way []string
		for _, above := range n.stack[cycle:] {
			way = append(way, above.File.Path)
		}
		left.Code, left.Message = CodeCycle, "a cycle of tool directories: "+strings.Join(append(way, path), " → ")
	case len(n.stack) > MaxDepth:
		left.Code, left.Message = CodeDepth, fmt.Sprintf("agent files are nested more than %d deep", MaxDepth)
	default:
		if sub := l.read(path, n.stack); sub != nil {
			n.helper(sub)
		}
		return
	}
	l.report(left)
}

// toolboxes reads bashToolboxes.
func (l *loader) toolboxes(n *Node) {
	for i, box := range n.File.Spec.BashToolboxes {
		allowDash := box.AllowDash || n.File.Spec.AllowDash
		pointer := fmt.Sprintf("%s/%d", n.File.at("bashToolboxes"), i)
		group := l.toolgroup(n, pointer, box.Activation)
		if len(box.Runner) > 0 {
			p := program{path: box.Path, filter: box.BasenameFilter, allowDash: allowDash, toolgroup: group, runner: n.runner(box.Runner, box.RunnerID, box.RunnerShell), words: box.Runner, sandbox: box.Sandbox}
			if box.Tag == "FileSystemDirectory" {
				p.kind = exectool.Folder
			}
			n.programs = append(n.programs, p)
			continue
		}
		path, ok := l.resolve(n, pointer, box.Path, LeftOut)
		if !ok {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && info.IsDir() != (box.Tag == "FileSystemDirectory") {
			want := map[bool]string{true: "a folder", false: "an executable file"}[box.Tag == "FileSystemDirectory"]
			l.report(n.File.problem(LeftOut, CodePath, pointer, "%s: %s needs %s", path, box.Tag, want))
			continue
		}
		n.programs = append(n.programs, program{path: path, filter: box.BasenameFilter, allowDash: allowDash, toolgroup: group, sandbox: box.Sandbox})
	}
}

// extraAgents reads sub-agents that are elsewhere; they may form cycles.
func (l *loader) extraAgents(n *Node) {
	for i, extra := range n.File.Spec.ExtraAgents {
		if isOther(extra.Tag) {
			at := n.File.problem(LeftOut, CodeSchema, fmt.Sprintf("%s/%d", n.File.at("extraAgents"), i), "")
			l.other(n, extra.Tag, extra.Contents, false, at) // the schema knows the keys
			continue
		}
		if len(extra.Runner) > 0 && extra.Path == "" {
			l.report(n.File.problem(LeftOut, CodePath, fmt.Sprintf("%s/%d", n.File.at("extraAgents"), i), "an agent with a runner needs the key path: its agent file where the runner executes it"))
			continue
		}
		if len(extra.Runner) > 0 {
			n.programs = append(n.programs, program{path: extra.Path, kind: exectool.AgentFile, slug: extra.Slug, runner: n.runner(extra.Runner, extra.RunnerID, extra.RunnerShell), words: extra.Runner})
			continue
		}
		pointer := fmt.Sprintf("%s/%d", n.File.at("extraAgents"), i)
		path, ok := n.File.Path, true // without a path it is in the same file
		if extra.Path != "" {
			path, ok = l.resolve(n, pointer, extra.Path, LeftOut)
		}
		if !ok {
			continue
		}
		if len(n.stack) > MaxDepth {
			l.report(n.File.problem(LeftOut, CodeDepth, pointer, "agent files are nested more than %d deep", MaxDepth))
			continue
		}
		data, err := readRegular(path, MaxBytes)
		if err == nil && isOther(tagOf(asJSON(path, data))) {
			if l.take(KindAgent, path, data) {
				l.otherFile(n, path, data)
			}
			continue
		}
		sub := l.readAgent(path, extra.Slug, n.stack)
		if sub == nil {
			continue
		}
		if sub.File.Spec.Slug != extra.Slug {
			l.report(n.File.problem(LeftOut, CodeSlug, pointer+"/slug", "the agent in %s has the slug %q, not %q", path, sub.File.Spec.Slug, extra.Slug))
			continue
		}
		n.helper(sub)
	}
}

// runner is a runner of n's file: a program with a slash is relative to the file's
// folder, as that of an MCP server. ssh is known to need quoted arguments.
func (n *Node) runner(command, id []string, shell *bool) *exectool.Runner {
	r := &exectool.Runner{Command: slices.Clone(command), ID: slices.Clone(id), Shell: filepath.Base(command[0]) == "ssh"}
	for _, words := range [][]string{r.Command, r.ID} {
		if len(words) > 0 && strings.Contains(words[0], "/") {
			words[0] = absolute(filepath.Dir(n.File.Path), words[0])
		}
	}
	if shell != nil {
		r.Shell = *shell
	}
	return r
}

func (n *Node) helper(sub *Node) {
	if !slices.Contains(n.Helpers, sub) {
		n.Helpers = append(n.Helpers, sub)
	}
}
