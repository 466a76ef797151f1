package agentfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/exectool"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/toolbox/skills"
)

// survey returns what the tree consists of, as far as it can be determined without
// executing anything. Paths are relative to dir.
func (l *loader) survey(dir string) *Lock {
	s := &surveyor{loader: l, dir: dir, pinned: l.skillCache(), lock: &Lock{
		Files: map[string]LockedFile{}, Programs: map[string]string{}, Runners: map[string]LockedRunner{}, Servers: map[string]LockedServer{},
	}}
	for path, f := range l.taken {
		s.lock.Files[relative(dir, path)] = f
	}
	for _, n := range l.tree.Nodes {
		s.files(n)
		s.runners(n)
		s.servers(n)
	}
	return s.lock
}

// A surveyor fills in a Lock.
type surveyor struct {
	*loader
	dir    string
	pinned string // the folder of skills whose commit is in the agent file
	lock   *Lock
}

// file adds the file at path.
func (s *surveyor) file(kind, path string) {
	abs, err := filepath.Abs(path)
	if skills.Inside(s.pinned, abs) {
		return
	}
	if _, known := s.lock.Files[relative(s.dir, abs)]; !known && err == nil {
		s.lock.Files[relative(s.dir, abs)] = LockedFile{Kind: kind, Digest: exectool.Digest(abs)}
	}
}

// named adds the first file that a name in the file of n can mean.
func (s *surveyor) named(n *Node, kind, name string) {
	for _, path := range s.places(n, name) {
		if _, err := os.Stat(path); err == nil {
			s.file(kind, path)
			return
		}
	}
}

// command adds the programs of a command line.
func (s *surveyor) command(line, env []string, from string) {
	if len(line) == 0 {
		return
	}
	program, _ := process.LookPath(line[0], env)
	for _, path := range process.Programs(line, env, from) {
		if path == program && !strings.Contains(line[0], "/") {
			s.lock.Programs[line[0]] = exectool.Digest(path)
		} else {
			s.file(KindProgram, path)
		}
	}
}

// files adds the files of n: those that its file names, its tools and its skills.
func (s *surveyor) files(n *Node) {
	if script := n.File.Spec.Script; script != "" {
		s.named(n, KindScript, script)
	}
	if step := n.File.Spec.Step; step != "" {
		s.named(n, KindProgram, step)
	}
	for _, name := range n.File.Spec.Policy {
		s.named(n, KindPolicy, name)
	}
	for _, p := range n.policies {
		s.file(KindProgram, p.path)
	}
	for _, path := range exectool.Executables(n.sources()) {
		s.file(KindTool, path)
	}
	for _, f := range n.skillDirs {
		if f.foreign {
			continue
		}
		for _, skill := range f.list {
			for _, name := range skill.Files() {
				s.file(KindSkill, filepath.Join(skill.Dir, name))
			}
		}
	}
}

// runners adds the runners of the tools of n.
func (s *surveyor) runners(n *Node) {
	for i, src := range n.sources() {
		if src.Runner == nil {
			continue
		}
		env := s.environ(n.File.Spec.ToolEnv)
		s.command(append(slices.Clone(src.Runner.Command), src.Path), env, src.Dir)
		s.command(src.Runner.ID, env, src.Dir)
		s.lock.Runners[n.lockKey(s.dir, src.Path)] = LockedRunner{Command: n.programs[i].words}
	}
}

// servers adds the remote agents and the MCP servers of n.
func (s *surveyor) servers(n *Node) {
	for _, r := range n.remotes {
		s.lock.Servers[n.lockKey(s.dir, "agent "+r.Agent)] = LockedServer{URL: r.URL}
	}
	servers := slices.Clone(n.configured)
	for _, a := range n.acpAgents {
		server := a.program(n)
		server.client.Executable, server.client.Dir = server.Executable, server.dir
		servers = append(servers, server)
	}
	for _, server := range servers {
		if server.settings != nil || server.given {
			continue // the settings are in the agent file, and what it serves is compared later
		}
		locked := LockedServer{URL: server.client.URL}
		if server.Executable != "" {
			s.command(append([]string{server.client.Executable}, server.Args...), s.serverEnviron(n, server), server.client.Dir)
			locked.Command = append([]string{server.Executable}, server.Args...)
		}
		s.lock.Servers[n.lockKey(s.dir, server.Name)] = locked
	}
}
