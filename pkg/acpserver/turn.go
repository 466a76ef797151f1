package acpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/jsonrpc"
)

// A session is one that the client has open.
type session struct {
	Session
	server  *Server
	updates *updates // used by the turn in progress

	mu     sync.Mutex
	stop   context.CancelCauseFunc // ends the turn in progress; nil if there is none
	done   chan struct{}           // closed when that has ended
	closed bool
}

// errCancelled is the cause of a turn that the client cancels.
var errCancelled = &agent.EndError{Status: agent.StatusInterrupted, Text: "the client cancelled the prompt"}

// cancel ends the turn in progress.
func (s *session) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop(errCancelled)
	}
}

// end ends the turn in progress and closes the session.
func (s *session) end() {
	s.mu.Lock()
	s.closed = true
	done := s.done
	s.mu.Unlock()
	s.cancel()
	if done != nil {
		<-done
	}
	s.Close()
}

// begin begins a turn. It is an error if one is in progress.
func (s *session) begin() (ctx context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, jsonrpc.Errorf(acp.NotFound, "the session is closed")
	case s.stop != nil:
		return nil, nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "a prompt of this session is in progress: session/cancel ends it")
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancelCause(context.Background())
	s.stop, s.done = stop, done
	return ctx, func() {
		s.mu.Lock()
		s.stop, s.done = nil, nil
		s.mu.Unlock()
		stop(nil)
		close(done)
	}, nil
}

// prompt answers session/prompt. The turn begins before the next message is read, so that
// session/cancel finds it.
func (s *Server) prompt(params json.RawMessage) acp.Answer {
	fail := func(err error) acp.Answer {
		return func(context.Context) (any, error) { return nil, err }
	}
	var p acp.PromptRequest
	if err := acp.Decode(params, &p); err != nil {
		return fail(err)
	}
	open, err := s.session(p.SessionID)
	if err != nil {
		return fail(err)
	}
	m, err := message(p.Prompt)
	if err != nil {
		return fail(err)
	}
	turn, end, err := open.begin()
	if err != nil {
		return fail(err)
	}
	return func(ctx context.Context) (any, error) {
		defer end()
		defer context.AfterFunc(ctx, open.cancel)()
		return open.answer(turn, m)
	}
}

// answer runs a prompt, or a slash command.
func (s *session) answer(ctx context.Context, m agent.Message) (any, error) {
	name, args, _ := strings.Cut(strings.TrimSpace(m.Text()), " ")
	name, isCommand := strings.CutPrefix(name, "/")
	if !isCommand || len(m.Parts) > 1 || !slices.ContainsFunc(s.Commands(), func(c acp.Command) bool { return c.Name == name }) {
		return s.run(ctx, m)
	}
	text, err := s.Command(ctx, name, strings.TrimSpace(args))
	switch {
	case ctx.Err() != nil:
		return acp.PromptResponse{StopReason: acp.Cancelled}, nil
	case err != nil:
		return nil, err
	}
	s.say(text)
	return acp.PromptResponse{StopReason: acp.EndTurn}, nil
}

// run runs a prompt and sends what happens.
func (s *session) run(ctx context.Context, m agent.Message) (acp.PromptResponse, error) {
	channel, finish, err := s.Start(ctx, m, s.updates.watch)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	questions, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	failed := agent.Guard(s.server.Panicked, func() error {
		for e := range channel.Events() {
			s.send(s.updates.of(&e, false)...)
			if e.Kind == agent.EventQuestion {
				asking.Go(func() { channel.Reply(e.Question, s.reply(questions, e)) })
			}
		}
		return nil
	})
	if failed != nil {
		channel.Cancel(failed.Error())
	}
	cancel()
	asking.Wait()
	out, err := finish()
	if failed != nil {
		return acp.PromptResponse{}, failed
	}
	if ctx.Err() != nil {
		return acp.PromptResponse{StopReason: acp.Cancelled}, nil
	}
	return s.stopped(out, err)
}

// reply returns the answer to a question; nil if nobody answers.
func (s *session) reply(ctx context.Context, q agent.Event) (answer json.RawMessage) {
	err := agent.Guard(s.server.Panicked, func() (err error) { answer, err = s.Answer(ctx, q); return err })
	if err != nil {
		return nil
	}
	return answer
}

// stopped returns why a run stopped, and sends the reason to the person as a message.
func (s *session) stopped(out *agent.Outcome, err error) (acp.PromptResponse, error) {
	r := acp.PromptResponse{StopReason: acp.EndTurn}
	status := agent.StatusOf(err)
	if err == nil {
		status = out.Status
	}
	switch status {
	case agent.StatusOK:
		return r, nil
	case agent.StatusPartial:
		s.say("\n\n[the answer is partial: " + out.Reason + "]")
		return r, nil
	case agent.StatusInterrupted:
		r.StopReason = acp.Cancelled
		return r, nil
	case agent.StatusRefused:
		r.StopReason = acp.Refusal
	case agent.StatusBudget:
		r.StopReason = acp.MaxTokens
	case agent.StatusLimit, agent.StatusDeadline:
		r.StopReason = acp.MaxTurnRequests
	default:
		return r, fmt.Errorf("%s: %w", status, err)
	}
	reason := out.Reason
	if err != nil {
		reason = err.Error()
	}
	s.say(fmt.Sprintf("\n\n[%s] %s", status, cmp.Or(reason, out.Answer)))
	return r, nil
}

// say sends a message of the agent.
func (s *session) say(text string) {
	s.send(chunk(acp.AgentChunk, s.Redact(text)))
}

func (s *session) send(list ...acp.Update) {
	for _, u := range list {
		_ = s.server.conn.Send(acp.MethodUpdate, acp.Notification{SessionID: s.ID(), Update: u}) // Serve ends with the client
	}
}

// history reads the conversation so far, and sends it if show is set.
func (s *session) history(show bool) error {
	for e, err := range s.Past() {
		if err != nil {
			return err
		}
		if list := s.updates.of(&e, true); show {
			s.send(list...)
		}
	}
	return nil
}
