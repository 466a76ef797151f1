package agentfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/source/step"
)

// stepModel gives the agent of n the program that takes its steps, or says why it cannot.
func (l *loader) stepModel(n *Node) bool {
	n.Agent.Model, n.Agent.Flavor = step.Model, step.Model
	if l.opts.NoModels {
		return true
	}
	p := l.step(n)
	if p != nil && l.opts.Model != nil {
		p = cmp.Or(l.opts.Model(n.File), p)
	}
	n.Agent.Provider = p
	return p != nil
}

// step makes the model of n of the program that the key step names.
func (l *loader) step(n *Node) agent.Provider {
	s := n.File.Spec
	path, ok := l.resolve(n, n.File.at("step"), s.Step, n.unusable())
	if !ok {
		return nil
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = checkExecutable(path)
	}
	if err != nil {
		l.broken(n, CodeExec, "step", "%s: %s", s.Step, plain(err))
		return nil
	}
	l.further = append(l.further, path)
	n.Agent.NoCompaction = true
	n.step = &step.Program{Path: path, Dir: n.workDir, Env: toolenv.Environ(l.environ(s.ToolEnv), s.ToolEnv), Timeout: seconds(s.RequestTimeoutSeconds), Verify: l.pin(path)}
	return step.Provider(n.step)
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a file")
	case filemode.Of(path, info)&0o111 == 0:
		return fmt.Errorf("it is not executable (mode %04o)", info.Mode().Perm())
	}
	return checkWritable(path, info)
}

// A stepProgram is the program of the key step. What runs it is the model.
type stepProgram struct{ passive }

// steps reads the key step.
func (l *loader) steps(n *Node) {
	if n.File.Spec.Step != "" {
		n.add(stepProgram{})
	}
}

func (stepProgram) survey(s *surveyor, n *Node) {
	if path := s.named(n, n.File.Spec.Step); path != "" {
		s.executed(KindProgram, path, s.environ(n.File.Spec.ToolEnv), n.workDir)
	}
}

func (stepProgram) open(_ *loader, n *Node) []agent.Tool {
	if n.step != nil {
		if box := n.confinement.box(n.step.Path, nil, false); box != nil {
			n.step.Sandbox = box
		}
	}
	return nil
}
