package attach

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
)

// A message is what a holder may send after its start message.
type message struct {
	Kind, Session, Text, Question, Reason string
	Media                                 []agent.Part
	Answer                                json.RawMessage
}

// Lines reads the messages of a holder.
func Lines(in io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 64<<10), channel.MaxLine)
	return s
}

// Serve writes the events that follow number after to out, as lines of the channel, and applies
// the messages from in. The end of in cancels the run, as that of ctx does; a second message
// that cancels makes Serve return. note gets what could not be done. The last line is an end event.
func (r *Run) Serve(ctx context.Context, in *bufio.Scanner, out io.Writer, after int64, note func(error)) (end agent.Event, err error) {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := func() {
		if err := r.Cancel(life); err != nil && !errors.Is(err, ErrEnded) && life.Err() == nil {
			note(err)
		}
	}
	defer context.AfterFunc(ctx, ended)()
	queue := make(chan message, 1000)
	go r.apply(life, queue, note)
	go func() {
		cancelled := false
		for in.Scan() {
			var m message
			switch err := json.Unmarshal(in.Bytes(), &m); {
			case err != nil:
				note(err)
			case m.Kind == "cancel" && m.Session == "" && cancelled:
				stop()
				return
			case m.Kind == "cancel" && m.Session == "":
				cancelled = true
				ended()
			default:
				select {
				case queue <- m:
				default:
					note(errors.New("too many messages are waiting: one was dropped"))
				}
			}
		}
		ended()
	}()
	for e, err := range r.Events(life, after) {
		if err != nil {
			e = End(after+1, err)
		}
		line, lineErr := channel.EncodeEvent(e)
		if lineErr == nil {
			_, lineErr = out.Write(line)
		}
		if err := errors.Join(err, lineErr); err != nil {
			return e, err
		}
		after, end = e.Seq, e
	}
	return end, nil
}

// End is the end event of a run without one in its record.
func End(seq int64, err error) agent.Event {
	return agent.Event{Kind: agent.EventEnd, Time: time.Now(), Seq: seq, Status: agent.StatusOf(err), Error: err.Error(), Total: &agent.TotalUsage{}}
}

// apply applies messages in their order. It does not return before ctx ends.
func (r *Run) apply(ctx context.Context, queue <-chan message, note func(error)) {
	for {
		var m message
		select {
		case m = <-queue:
		case <-ctx.Done():
			return
		}
		var err error
		switch m.Kind {
		case "reply":
			err = r.Reply(ctx, m.Question, m.Answer)
		case "input":
			var parts []agent.Part
			if m.Text != "" {
				parts = append(parts, agent.Text(m.Text))
			}
			if parts = append(parts, m.Media...); len(parts) > 0 {
				err = r.Input(ctx, m.Session, agent.Message{Role: agent.RoleUser, Parts: parts})
			}
		case "cancel":
			err = r.Stop(ctx, m.Session, m.Reason)
		}
		if err != nil && !errors.Is(err, ErrEnded) && ctx.Err() == nil {
			note(err)
		}
	}
}
