package runner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Lease implements agent.CallingRun.
func (r *run) Lease(ctx context.Context, inv *agent.Invocation) agent.Lease {
	r.tree.mu.Lock()
	left, _ := r.left(false)
	r.tree.mu.Unlock()
	from := &r.tree.lease
	lease := agent.Lease{Rights: r.leasedRights(), QuestionSeconds: from.QuestionSeconds, Traceparent: inv.Trace, Shared: r.budgeted()}
	setAmounts(&lease.Budget, left)
	lease.Processes = from.Processes
	for _, l := range r.lent(inv) {
		lease.Models = append(lease.Models, l.Described())
	}
	if end, ok := ctx.Deadline(); ok {
		seconds := max(time.Until(end).Seconds(), 0)
		lease.Seconds = &seconds
	}
	depth := max(r.levels()-1, 0) // reserver refuses a call without a level left
	lease.Depth = &depth
	lease.Path = slices.Clone(from.Path)
	at := len(lease.Path)
	for n := &r.node; n != nil; n = n.up {
		if !n.behalf {
			lease.Path = slices.Insert(lease.Path, at, n.agent.Slug)
		}
	}
	return lease
}

// levels is the number of levels of agents that r may have below it.
func (r *node) levels() int {
	levels, depth := math.MaxInt, 0 // below n, without runs on behalf of others
	for n := r; n != nil; n = n.up {
		if d := n.agent.Budget.Depth; d != nil {
			levels = min(levels, *d-depth)
		}
		if n.up != nil && !n.behalf {
			depth++
		}
	}
	if d := r.tree.lease.Depth; d != nil {
		levels = min(levels, *d-depth)
	}
	return min(levels, r.tree.maxDepth-r.tree.above-depth)
}

// errDepth is the error for an agent below r that is nested too deep.
func (r *node) errDepth() error {
	if r.tree.above+r.depth+1 > r.tree.maxDepth {
		return fmt.Errorf("%w: sub-agents are nested %d deep", agent.ErrDepth, r.tree.maxDepth)
	}
	return fmt.Errorf("%w: the depth budget allows no agent below %s", agent.ErrDepth, r.agent.Slug)
}
