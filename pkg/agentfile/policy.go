package agentfile

import (
	"context"
	"errors"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// policyTimeout is how long an external policy may take, if it declares no limit.
const policyTimeout = 10 * time.Second

// An externalPolicy is an executable that decides about calls.
type externalPolicy struct {
	passive
	policy.External
	path string
	kind string // of the file in a lock
}

func newPolicy(path, kind string) *externalPolicy {
	return &externalPolicy{External: policy.External{Name: named(path)}, path: path, kind: kind}
}

func (p *externalPolicy) survey(s *surveyor, n *Node) {
	s.executed(p.kind, p.path, s.environ(n.File.Spec.ToolEnv), n.workDir)
}

func (p *externalPolicy) files() []string { return []string{p.path} }

func (p *externalPolicy) far() bool { return false }

func (p *externalPolicy) describe(ctx context.Context, l *loader, _ *Node) {
	t, err := l.one(ctx, exectool.Source{Path: p.path, Timeout: policyTimeout}, l.environ(nil))
	if p.Err = err; err == nil {
		p.SetTool(t)
	}
}

// one opens the one executable of a source.
func (l *loader) one(ctx context.Context, source exectool.Source, env []string) (agent.Tool, error) {
	opts := exectool.Options{Environ: env, SpoolDir: l.opts.Folders.Outputs, DescribeTimeout: l.opts.Describe.Timeout, Slow: l.opts.Describe.Slow, Redact: l.redact}
	if l.opts.Folders.Cache != "" {
		opts.CacheDir = toolCache(l.opts.Folders.Cache)
	}
	set, err := exectool.Open(ctx, []exectool.Source{source}, opts)
	switch {
	case err != nil:
		return nil, err
	case len(set.Problems()) > 0:
		return nil, errors.New(set.Problems()[0].Text())
	case len(set.List()) != 1:
		return nil, errors.New("it is not an executable")
	}
	return l.locked(set.List()[0]), nil
}
