package agentfile

import (
	"context"
	"errors"
	"time"

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
	opts := exectool.Options{Environ: l.environ(nil), DescribeTimeout: l.opts.Describe.Timeout, Slow: l.opts.Describe.Slow, Redact: l.redact}
	if l.opts.Folders.Cache != "" {
		opts.CacheDir = toolCache(l.opts.Folders.Cache)
	}
	set, err := exectool.Open(ctx, []exectool.Source{{Path: p.path, Timeout: policyTimeout}}, opts)
	switch {
	case err != nil:
		p.Err = err
	case len(set.Problems()) > 0:
		p.Err = errors.New(set.Problems()[0].Text())
	case len(set.List()) != 1:
		p.Err = errors.New("it is not an executable")
	default:
		p.SetTool(l.locked(set.List()[0]))
	}
}
