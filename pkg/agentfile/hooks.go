package agentfile

import (
	"context"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// A hook is an executable that runs at a moment of a run.
type hook struct {
	passive
	policy.Hook
	path string
}

// hooks reads the hooks of n. One that does not exist makes the agent unusable.
func (l *loader) hooks(n *Node) bool {
	var files map[string]Paths
	n.File.Part("hooks", &files)
	ok := true
	for _, moment := range agent.HookMoments() {
		for i, name := range files[moment] {
			pointer := n.File.at("hooks") + "/" + moment
			if len(files[moment]) > 1 {
				pointer = fmt.Sprintf("%s/%d", pointer, i)
			}
			path, found := l.resolve(n, pointer, name, n.unusable())
			if ok = ok && found; found {
				n.add(&hook{Hook: policy.Hook{Moment: moment, Name: named(path)}, path: path})
			}
		}
	}
	return ok
}

func (h *hook) survey(s *surveyor, n *Node) {
	s.executed(KindHook, h.path, s.environ(n.File.Spec.ToolEnv), n.workDir)
}

func (h *hook) files() []string { return []string{h.path} }

func (h *hook) far() bool { return false }

func (h *hook) describe(ctx context.Context, l *loader, n *Node) {
	s := n.File.Spec
	t, err := l.one(ctx, exectool.Source{Path: h.path, Env: s.ToolEnv, Timeout: policyTimeout, Dir: n.workDir, Sandbox: n.confined(program{})}, l.environ(s.ToolEnv))
	if h.Err = err; err == nil {
		h.SetTool(t)
	}
}

// Hooks returns the hooks of n, as "MOMENT PATH".
func (n *Node) Hooks() (list []string) {
	for _, h := range sourcesOf[*hook](n) {
		list = append(list, h.Moment+" "+h.path)
	}
	return list
}
