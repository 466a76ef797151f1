package runner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Agents implements agent.CallingRun.
func (r *run) Agents(inv *agent.Invocation) agent.Background { return agents{r, inv} }

// agents gives a call access to the agents that work in the background for its run.
type agents struct {
	r   *run
	inv *agent.Invocation
}

// List implements agent.Background.
func (s agents) List() []agent.BackgroundAgent {
	b := &s.r.background
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []agent.BackgroundAgent
	for _, a := range b.agents {
		if a.left {
			list = append(list, agent.BackgroundAgent{Handle: a.Handle, Tool: a.Call.Name, Ended: a.ended})
		}
	}
	return list
}

// find returns the agent with a handle.
func (s agents) find(handle string) (*leftAgent, error) {
	b := &s.r.background
	b.mu.Lock()
	defer b.mu.Unlock()
	var known []string
	for _, a := range b.agents {
		if a.left && a.Handle == handle {
			return a, nil
		}
		if a.left {
			known = append(known, a.Handle)
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("there is no agent %.100q: none works in the background, and of those that have ended you have been told", handle)
	}
	return nil, fmt.Errorf("there is no agent %.100q; there are: %s", handle, strings.Join(known, ", "))
}

// Await implements agent.Background.
func (s agents) Await(ctx context.Context, handles []string, most time.Duration) (ended []string, err error) {
	if !s.r.tree.holds {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	var list []*leftAgent
	if len(handles) == 0 {
		for _, a := range s.List() {
			handles = append(handles, a.Handle)
		}
	}
	for _, h := range handles {
		a, err := s.find(h)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	for {
		b := &s.r.background
		b.mu.Lock()
		for _, a := range list {
			if a.ended {
				ended = append(ended, a.Handle)
			}
		}
		if len(ended) == 0 && len(list) > 0 {
			list[0].release()
		}
		next := b.next()
		b.mu.Unlock()
		if len(ended) > 0 || len(list) == 0 || s.later(list, most) {
			return ended, nil
		}
		if list[0].elsewhere { // the time is over
			return nil, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// Send implements agent.Background.
func (s agents) Send(ctx context.Context, handle, text string) error {
	a, err := s.find(handle)
	if err != nil {
		return err
	}
	t := s.r.tree
	t.mu.Lock()
	session := a.session
	t.mu.Unlock()
	m := agent.UserText(text)
	if a.elsewhere {
		return t.elsewhere.Send(ctx, session, s.inv.Key, m)
	}
	if session == "" || !t.inboxes.send(agent.Directive{Session: session, Message: &m}) {
		return fmt.Errorf("agent %s has ended, or cannot read messages", handle)
	}
	return nil
}

// Stop implements agent.Background.
func (s agents) Stop(ctx context.Context, handle, reason string) error {
	a, err := s.find(handle)
	if err != nil {
		return err
	}
	text := "its caller stopped it"
	if reason != "" {
		text = fmt.Sprintf("%s: %.500s", text, reason)
	}
	if a.elsewhere {
		return s.stopElsewhere(ctx, a, text)
	}
	a.stop(&agent.EndError{Status: agent.StatusInterrupted, Text: text})
	select {
	case <-a.over:
		return nil
	case <-a.done:
		return nil
	case <-ctx.Done():
		return agent.ContextError(ctx)
	}
}
