package work_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host/hosttest"
)

func TestTheFleetPassesTheSuite(t *testing.T) {
	hosttest.Test(t, hosttest.Edge{Name: "fleet", Open: func(t *testing.T, files map[string]string) hosttest.Client {
		f := newFleet(t, files)
		dir := hosttest.Write(t, files)
		f.worker(func(o *work.Options) { o.Load.Keys = hosttest.Load(t, dir).Keys })
		return &holder{f}
	}})
}

// A holder submits runs and follows them.
type holder struct{ f *fleet }

func (*holder) Leave() {}

func (c *holder) Ask(ctx context.Context, q hosttest.Request) hosttest.Reply {
	run := c.f.submit(q.Prompt, func(s *agent.Start, _ *flow.Input) {
		person := q.Approve != nil
		s.Media, s.Context, s.OutputSchema, s.Person = q.Media, q.Context, q.Schema, &person
	})
	// The holder's own calls outlive ctx, whose end only cancels the run.
	life, end := context.WithCancel(context.Background())
	defer end()
	a := &attach.Run{Client: c.f.client, Store: c.f.store, ID: run.GetID()}
	check := func(err error) {
		if err != nil {
			c.f.t.Error(err)
		}
	}
	defer context.AfterFunc(ctx, func() { _ = a.Cancel(life) })()
	var all []byte
	r := hosttest.Follow(q, func(yield func(agent.Event, error) bool) {
		for e, err := range a.Events(life, 0) {
			if text, _ := json.Marshal(e); err == nil { // it was JSON
				all = append(all, text...)
			}
			if !yield(e, err) {
				return
			}
		}
	}, func(id string, answer json.RawMessage) { check(a.Reply(life, id, answer)) }, func(d agent.Directive) { check(a.Stop(life, d.Session, d.Reason)) })
	_ = run.Get(life, nil) // the record has the outcome
	r.All = string(all)
	return r
}
