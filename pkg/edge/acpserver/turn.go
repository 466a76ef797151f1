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
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A session is one that the client has open.
type session struct {
	*Client
	*Session
	updates *updates // used by the turn in progress, as is begun
	begun   bool     // the session exists

	turn sync.Mutex // held during a turn

	mu     sync.Mutex
	stop   context.CancelCauseFunc // ends the last turn
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
	s.mu.Unlock()
	s.cancel()
	s.turn.Lock()
	s.Close()
}

// begin begins a turn. It is an error if one is in progress.
func (s *session) begin() (ctx context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, jsonrpc.Errorf(acp.NotFound, "the session is closed")
	case !s.turn.TryLock():
		return nil, nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "a prompt of this session is in progress: session/cancel ends it")
	}
	ctx, stop := context.WithCancelCause(context.Background())
	s.stop = stop
	return ctx, func() { stop(nil); s.turn.Unlock() }, nil
}

// prompt answers session/prompt. The turn begins before the next message is read, so that
// session/cancel finds it.
func (s *Server) prompt(params json.RawMessage) acp.Answer {
	var p acp.PromptRequest
	var open *session
	var m agent.Message
	var turn context.Context
	var end func()
	err := acp.Decode(params, &p)
	if err == nil {
		open, err = s.session(p.SessionID)
	}
	if err == nil {
		m, err = message(p.Prompt)
	}
	if err == nil {
		turn, end, err = open.begin()
	}
	return func(ctx context.Context) (any, error) {
		if err != nil {
			return nil, err
		}
		defer end()
		defer context.AfterFunc(ctx, open.cancel)()
		return open.answer(turn, m)
	}
}

// answer runs a prompt, or a slash command.
func (s *session) answer(ctx context.Context, m agent.Message) (any, error) {
	name, args, _ := strings.Cut(strings.TrimSpace(m.Text()), " ")
	name, isCommand := strings.CutPrefix(name, "/")
	if !isCommand || len(m.Parts) > 1 || !slices.ContainsFunc(s.Commands, func(c acp.Command) bool { return c.Name == name }) {
		return s.run(ctx, m)
	}
	text, err := s.Command(ctx, name, strings.TrimSpace(args))
	switch {
	case ctx.Err() != nil:
		return acp.PromptResponse{StopReason: acp.Cancelled}, nil
	case err != nil:
		return nil, err
	}
	s.say(fenced(termtext.Clean(text)) + "\n")
	return acp.PromptResponse{StopReason: acp.EndTurn}, nil
}

// run runs a prompt and sends what happens. If the last run of the session is unfinished, that
// is finished with the prompt.
func (s *session) run(ctx context.Context, m agent.Message) (r acp.PromptResponse, err error) {
	start := agent.Start{Message: &m, Finish: &m}
	if s.begun {
		start.Session = s.id
	}
	channel, err := s.Start(ctx, start, s.updates.watch)
	if err != nil {
		return r, err
	}
	questions, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	failed := guard.Run(s.server.Panicked, func() error {
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
	out, err := channel.Wait()
	s.begun = s.begun || channel.Session().ID != ""
	if closed := s.Wait(); err == nil {
		err = closed
	}
	switch {
	case failed != nil:
		return r, failed
	case ctx.Err() != nil:
		r.StopReason, err = acp.Cancelled, nil
	default:
		r.StopReason, err = s.stopped(out, err)
	}
	u := s.updates.usage
	r.Usage = &acp.Usage{Total: u.InputTokens + u.OutputTokens, Input: u.InputTokens, Output: u.OutputTokens, Thought: u.ReasoningTokens, CacheRead: u.CachedTokens}
	return r, err
}

// stopped returns why a run stopped, and sends the reason to the person as a message.
func (s *session) stopped(out *agent.Outcome, err error) (string, error) {
	status := agent.StatusOf(err)
	if err == nil {
		status = out.Status
	}
	stop := acp.EndTurn
	switch status {
	case agent.StatusOK:
		return stop, nil
	case agent.StatusPartial:
		s.say("\n\n[the answer is partial: " + out.Reason + "]")
		return stop, nil
	case agent.StatusInterrupted:
		return acp.Cancelled, nil
	case agent.StatusRefused:
		stop = acp.Refusal
	case agent.StatusBudget:
		stop = acp.MaxTokens
	case agent.StatusLimit, agent.StatusDeadline:
		stop = acp.MaxTurnRequests
	default:
		return stop, fmt.Errorf("%s: %w", status, err)
	}
	reason := out.Reason
	if err != nil {
		reason = err.Error()
	}
	s.say(fmt.Sprintf("\n\n[%s] %s", status, cmp.Or(reason, out.Answer)))
	return stop, nil
}

// say sends a message of the agent.
func (s *session) say(text string) {
	s.send(chunk(acp.AgentChunk, s.Hide(text)))
}

func (s *session) send(list ...acp.Update) {
	for _, u := range list {
		_ = s.server.conn.Send(acp.MethodUpdate, acp.Notification{SessionID: s.id, Update: u}) // Serve ends with the client
	}
}

// history reads the conversation so far, and sends it if show is set.
func (s *session) history(show bool) error {
	for e, err := range s.Past {
		if err != nil {
			return err
		}
		if list := s.updates.of(&e, true); show {
			s.send(list...)
		}
	}
	return nil
}
