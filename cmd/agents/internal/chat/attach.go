package chat

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// listTime limits the question to a server for its runs.
const listTime = 5 * time.Second

// A place is a run of a server.
type place struct {
	remote.Run
	server *remote.Server
}

// An attached run is one of a server. Without its holder it continues.
type attached struct {
	*remote.Held
	own *show // of the conversation before
	err error // of the connection, when there are no more events
}

func (a *attached) Input(m agent.Message) { _ = a.Direct(agent.Directive{Message: &m}) } // Events has the error
func (a *attached) Cancel(reason string)  { _ = a.Held.Cancel(reason) }                  // so here

// attach lists the runs of servers, or holds one of them.
func (t *terminal) attach(ctx context.Context, args string) error {
	where, tokens, _ := strings.Cut(args, " ")
	isURL := strings.Contains(where, "://") || strings.HasPrefix(where, wsconn.Socket)
	if where == "" || isURL || len(t.places) == 0 {
		servers := t.servers()
		if isURL {
			servers = []*remote.Server{{URL: where, Token: tokenOf(ctx, strings.TrimSpace(tokens))}}
		}
		t.look(ctx, servers)
	}
	if where == "" || isURL {
		if len(t.places) == 0 {
			t.say("  there is no run to attach to on the servers that can be reached")
		}
		for _, p := range t.places {
			t.list(entry(1, p.Session, p.Agent+", "+p.State, p.Prompt))
		}
		return nil
	}
	for _, p := range t.places {
		if strings.HasPrefix(p.Session, where) {
			t.follow(ctx, p)
			return nil
		}
	}
	t.places = nil
	return fmt.Errorf("there is no run %s; /attach lists them", where)
}

// servers are those of this machine.
func (t *terminal) servers() (list []*remote.Server) {
	dir := t.p.StateDir()
	if dir == "" {
		return nil
	}
	for _, l := range remote.Locals(filepath.Join(dir, "servers")) {
		list = append(list, &remote.Server{URL: l.Address, Token: tokenOf(context.Background(), l.TokenFile)})
	}
	return list
}

// tokenOf returns the first token of a file.
func tokenOf(ctx context.Context, file string) func() string {
	return func() string {
		if file == "" {
			return ""
		}
		list, _, err := config.ReadTokens(file)
		if err != nil || len(list) == 0 || ctx.Err() != nil {
			return "" // the server says that one is missing
		}
		return list[0].Secret.Reveal()
	}
}

// look asks servers for their runs.
func (t *terminal) look(ctx context.Context, servers []*remote.Server) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	t.places = nil
	for _, s := range servers {
		runs, err := s.Runs(ctx)
		if err != nil {
			t.say("  %s: %v", s.URL, err)
		}
		for _, r := range runs {
			t.places = append(t.places, place{r, s})
		}
	}
}

// attachable are the sessions of the runs that were listed.
func (t *terminal) attachable() (list []string) {
	for _, p := range t.places {
		list = append(list, p.Session)
	}
	return list
}

// follow holds a run of a server.
func (t *terminal) follow(ctx context.Context, p place) {
	notice := func(text string) { t.say("  %s", text) }
	a := &attached{own: t.show, Held: p.server.Hold(ctx, p.Agent, agent.Start{Session: p.Session}, notice)}
	t.show = &show{w: t.screen, color: a.own.color, ascii: a.own.ascii, all: true}
	events := make(chan agent.Event)
	t.run, t.attached, t.events, t.display = a, a, events, observe.GuardedTee(t.undrawn, t.show.event)
	t.editor.Prompt = termtext.Clean(p.Agent) + "> "
	t.say("  attached to %s; Ctrl-D detaches, Ctrl-C stops the run", p.Session)
	go func() {
		defer close(events)
		for e, err := range a.Events() {
			if err != nil {
				a.err = cmp.Or(a.Cause(), err)
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// detach returns to the conversation before. The run of the server continues, if it has
// not ended. err is why there are no more events, nil if the person wants none.
func (t *terminal) detach(a *attached, err error) {
	if t.asked != nil {
		t.answer(lineReply{err: io.EOF})
	}
	a.Leave()
	for range t.events { // until the reader has ended
	}
	t.show.endText()
	t.withdraw(agent.Event{Kind: agent.EventEnd})
	t.run, t.attached, t.events, t.show = nil, nil, nil, a.own
	t.queued, t.sent, t.stopping = nil, nil, false
	t.editor.Prompt = "> "
	if err != nil {
		t.say("error: %v", err)
	}
	t.say("  detached; what you type goes to %s again", t.tree.Root.Slug)
}

// reply answers a question of the run.
func (a *attached) reply(ctx context.Context, approver *ask.Approver, q agent.Event) {
	answer, err := approver.Answer(ctx, q)
	if err != nil {
		answer = nil // nobody answers
	}
	_ = a.Reply(q.Question, answer) // Events has the error
}
