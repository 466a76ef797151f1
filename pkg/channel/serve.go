package channel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/runner"
)

// A Server runs one agent for the holder at the other end of In and Out.
type Server struct {
	In  io.Reader
	Out io.Writer
	// Start begins the run of a start message. ctx ends when the holder closes the channel or
	// cancels the run.
	Start func(ctx context.Context, start agent.Start) (*runner.Channel, error)
	// Kill ends the program at once. It is called when the holder cancels a second
	// time, and when a cancelled run has not ended within Grace; nil does nothing.
	Kill func()
	// Grace is how long a cancelled run may take to end; 0 means no limit.
	Grace time.Duration
}

// Serve reads the start message and runs the agent until it ends. The last line that
// it writes is always the end event of the run, unless Kill ends the program. When In
// ends, the run is cancelled. The error says why there is no answer. When Serve returns, a Read
// of In may still be in progress.
func (s *Server) Serve(ctx context.Context) (*agent.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.limit(ctx)()
	in := newLines(s.In)
	first, err := readStart(ctx, in)
	if err != nil {
		return s.fail(1, err)
	}
	r := &serving{server: s, in: in, cancel: cancel, ready: make(chan struct{})}
	go r.read()
	r.channel, err = s.Start(ctx, first)
	close(r.ready)
	if err != nil {
		return s.fail(1, cmp.Or(ended(ctx), err))
	}
	var last int64
	for e := range r.channel.Events() {
		if err == nil {
			err = s.write(EncodeEvent(e))
			last = e.Seq
		}
		if err != nil {
			cancel(&agent.EndError{Status: agent.StatusFailed, Text: "write to the holder: " + err.Error()})
		}
	}
	outcome, runErr := r.channel.Wait()
	if err != nil {
		_, _ = s.fail(last, err) // if an event was too long, the end event can still be written
		return outcome, errors.Join(err, runErr)
	}
	return outcome, runErr
}

// ended returns why ctx ended, nil if it has not.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return agent.ContextError(ctx)
}

// cancelled is the reason of a cancel that gives none.
const cancelled = "cancelled by the holder"

func interrupted(text string) error {
	return &agent.EndError{Status: agent.StatusInterrupted, Text: text}
}

// fail writes an end event with err.
func (s *Server) fail(seq int64, err error) (*agent.Outcome, error) {
	outcome := &agent.Outcome{Status: agent.StatusOf(err)}
	e := agent.Event{Kind: agent.EventEnd, Time: time.Now(), Seq: seq, Status: outcome.Status, Error: err.Error(), Total: &agent.TotalUsage{}}
	return outcome, errors.Join(err, s.write(encode(e)))
}

// write writes a line that was encoded.
func (s *Server) write(line []byte, err error) error {
	if err == nil {
		_, err = s.Out.Write(line)
	}
	return err
}

// readStart reads the start message, until ctx ends.
func readStart(ctx context.Context, in *lines) (agent.Start, error) {
	type result struct {
		start agent.Start
		err   error
	}
	read := make(chan result, 1)
	go func() {
		s, err := decodeStart(in)
		read <- result{s, err}
	}()
	select {
	case r := <-read:
		return r.start, r.err
	case <-ctx.Done():
		return agent.Start{}, ended(ctx)
	}
}

func decodeStart(in *lines) (agent.Start, error) {
	line, err := in.next()
	switch {
	case err == io.EOF:
		return agent.Start{}, interrupted("the holder closed the channel before it sent a start message")
	case err != nil:
		return agent.Start{}, fmt.Errorf("read the start message: %w", err)
	}
	return DecodeStart(line)
}

// DecodeStart reads a start message.
func DecodeStart(line []byte) (agent.Start, error) {
	var s start
	if err := jsondoc.Measure(line); err != nil {
		return s.Start, fmt.Errorf("the start message is not valid: %w", err)
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return s.Start, fmt.Errorf("the start message is not valid: %w", jsonError(line, err))
	}
	if s.Kind != kindStart {
		return s.Start, fmt.Errorf("the first message is of kind %.50q, not start", s.Kind)
	}
	if s.Channel == 0 {
		return s.Start, fmt.Errorf("the start message has no version: want \"channel\": %d", Version)
	}
	if s.Channel != Version {
		return s.Start, fmt.Errorf("version %d of the channel is not supported; %d is", s.Channel, Version)
	}
	return s.Start, nil
}

// A serving is a run of a Server.
type serving struct {
	server  *Server
	in      *lines
	cancel  context.CancelCauseFunc
	ready   chan struct{}   // closed when channel is set or will never be set
	channel *runner.Channel // nil if the run did not begin
	asked   bool            // the holder has cancelled the run
}

// limit kills the program if Serve has not returned within Grace after ctx ended.
// The function that it returns stops the timer.
func (s *Server) limit(ctx context.Context) (stop func()) {
	over := make(chan struct{})
	cancelled := context.AfterFunc(ctx, func() {
		if s.Kill == nil || s.Grace <= 0 {
			return
		}
		select {
		case <-time.After(s.Grace):
			s.Kill()
		case <-over:
		}
	})
	return func() {
		cancelled()
		close(over)
	}
}

// read takes messages until In ends.
func (r *serving) read() {
	for {
		line, err := r.in.next()
		if err != nil {
			r.end(err)
			return
		}
		if err := r.take(line); err != nil {
			r.cancel(&agent.EndError{Status: agent.StatusFailed, Text: "the holder of the channel broke the protocol: " + err.Error()})
			return
		}
	}
}

// end ends the run because no further message can be read.
func (r *serving) end(err error) {
	if err == io.EOF {
		r.cancel(interrupted("the holder closed the channel"))
		return
	}
	r.cancel(&agent.EndError{Status: agent.StatusFailed, Text: "read from the holder of the channel: " + err.Error()})
}

// stop cancels the run, even while it is being opened.
func (r *serving) stop(reason string) {
	if r.asked && r.server.Kill != nil {
		r.server.Kill()
	}
	r.asked = true
	r.cancel(interrupted(fmt.Sprintf("%.500s", cmp.Or(reason, cancelled))))
}

func (r *serving) take(line []byte) error {
	m, unknown, err := decode(line)
	if err != nil {
		return err
	}
	if m.Kind == kindCancel && m.Session == "" {
		r.stop(m.Reason)
	}
	<-r.ready
	if r.channel == nil {
		return nil
	}
	return deliver(r.channel, m, unknown)
}

// Deliver applies a message of a holder, in JSON, to its run. Unknown kinds and fields
// become warning events of the run. An error means that the holder broke the protocol.
func Deliver(c *runner.Channel, text []byte) error {
	m, unknown, err := decode(text)
	if err != nil {
		return err
	}
	if m.Kind == kindCancel && m.Session == "" {
		c.Cancel(cmp.Or(m.Reason, cancelled))
	}
	return deliver(c, m, unknown)
}

// decode reads a message that is not a start. unknown is an error about its fields.
func decode(line []byte) (m message, unknown, err error) {
	if err := jsondoc.Measure(line); err != nil {
		return m, nil, fmt.Errorf("a line is not a message: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	unknown = strict.Decode(&m)
	if unknown != nil {
		m = message{}
		if err := json.Unmarshal(line, &m); err != nil {
			return m, nil, fmt.Errorf("a line is not a message: %w", jsonError(line, err))
		}
	}
	return m, unknown, nil
}

// deliver applies a message that is not a cancel of the whole run.
func deliver(c *runner.Channel, m message, unknown error) error {
	switch m.Kind {
	case kindStart:
		return errors.New("a second start message")
	case kindInput:
		var parts []agent.Part
		if m.Text != "" {
			parts = append(parts, agent.Text(m.Text))
		}
		if parts = append(parts, m.Media...); len(parts) > 0 {
			c.Direct(agent.Directive{Session: m.Session, Message: &agent.Message{Role: agent.RoleUser, Parts: parts}})
		}
	case kindCompact:
		c.Direct(agent.Directive{Session: m.Session, Compact: true})
	case kindReply:
		c.Reply(m.Question, m.Answer)
	case kindDelta:
		if m.Delta != nil {
			c.Delta(m.Question, *m.Delta)
		}
	case kindResult:
		c.Result(m.Key, m.Parts, m.Failed)
	case kindAck:
		c.Ack(m.Seq)
	case kindCancel:
		if m.Session != "" {
			c.Direct(agent.Directive{Session: m.Session, Stop: true, Reason: m.Reason})
		}
	default:
		c.Warn(fmt.Sprintf("a message of the unknown kind %.50q is ignored", m.Kind))
		return nil
	}
	if unknown != nil {
		c.Warn(fmt.Sprintf("a field of a message of kind %s is ignored: %.100s", m.Kind, unknown))
	}
	return nil
}

// EncodeEvent returns e as one line, with its newline. If the line is longer than MaxLine,
// attachments are left out.
func EncodeEvent(e agent.Event) ([]byte, error) {
	line, err := encode(e)
	if !errors.Is(err, errLong) {
		return line, err
	}
	withoutAttachments(&e)
	if line, err = encode(e); err != nil {
		return nil, fmt.Errorf("a %s event: %w", e.Kind, err)
	}
	return line, nil
}

// encodeStart returns the line of a start message. If it is longer than MaxLine, the
// attachments in the oldest events of the history are left out.
func encodeStart(s agent.Start) ([]byte, error) {
	line, err := encode(start{kindStart, s})
	if !errors.Is(err, errLong) || len(s.History) == 0 {
		return line, err
	}
	whole, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	const spare = 1 << 10 // for the rest of the line
	excess := len(whole) + spare - MaxLine
	s.History = slices.Clone(s.History)
	for i := 0; i < len(s.History) && excess > 0; i++ {
		excess -= base64.StdEncoding.EncodedLen(withoutAttachments(&s.History[i]))
	}
	return encode(start{kindStart, s})
}

// withoutAttachments removes the attachments from e and returns their size. What e shares with
// other events stays unchanged.
func withoutAttachments(e *agent.Event) (size int) {
	if e.Result != nil {
		r := *e.Result
		r.Parts = withoutMedia(r.Parts, &size)
		e.Result = &r
	}
	without := func(m agent.Message) agent.Message {
		m.Parts, m.Results = withoutMedia(m.Parts, &size), slices.Clone(m.Results)
		for i := range m.Results {
			m.Results[i].Parts = withoutMedia(m.Results[i].Parts, &size)
		}
		return m
	}
	if e.Message != nil {
		m := without(*e.Message)
		e.Message = &m
	}
	if e.Request != nil {
		q := *e.Request
		q.Messages = slices.Clone(q.Messages)
		for i, m := range q.Messages {
			q.Messages[i] = without(m)
		}
		e.Request = &q
	}
	e.Messages = slices.Clone(e.Messages)
	for i, m := range e.Messages {
		e.Messages[i] = without(m)
	}
	return size
}

func withoutMedia(parts []agent.Part, size *int) []agent.Part {
	var list []agent.Part
	for _, p := range parts {
		if len(p.Data) > 0 {
			*size += len(p.Data)
			p = agent.Text(fmt.Sprintf("[an attachment of %d bytes (%s) is too long for the channel]", len(p.Data), p.MIME))
		}
		list = append(list, p)
	}
	return list
}
