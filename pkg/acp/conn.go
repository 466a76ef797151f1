package acp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

const (
	maxLine     = 16 << 20
	maxRequests = 100 // from the other side, waiting for an answer
)

// ErrClosed means that the other side closed the connection.
var ErrClosed = errors.New("the connection is closed")

// An Answer handles a request. ctx ends with the connection, and when the other side cancels
// the request. A *jsonrpc.Error is sent as it is; any other error is sent as an internal
// error.
type Answer func(ctx context.Context) (result any, err error)

// A Conn is a connection. Its methods are safe for concurrent use; its fields must be set
// before Serve is called.
type Conn struct {
	// Request returns the Answer to a request, which runs in its own goroutine. Request
	// itself is called in the order of the messages and must return quickly. If Request is
	// nil, every method is unknown.
	Request func(method string, params json.RawMessage) Answer
	// Notify is called with notifications, in the order of the messages.
	Notify func(method string, params json.RawMessage)
	// Bad is called with the error of a line that is not a message. If Bad returns an error,
	// Serve returns it. If Bad is nil, the line is answered with its error.
	Bad func(err error) error
	// Seen is called with the length of each line. If it returns an error, Serve returns it.
	Seen func(bytes int) error

	in      *bufio.Reader
	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	last    int
	waiting map[string]chan *jsonrpc.Message // by the id of a request
	theirs  map[string]context.CancelFunc    // requests of the other side, by Message.Key
	ended   error
}

// NewConn returns a connection that reads from in and writes to out.
func NewConn(in io.Reader, out io.Writer) *Conn {
	return &Conn{in: bufio.NewReaderSize(in, 64<<10), out: out, waiting: map[string]chan *jsonrpc.Message{}, theirs: map[string]context.CancelFunc{}}
}

// Serve reads messages until the other side closes the connection, which is not an error. It
// then ends the ctx of the answers in progress and waits for them. The end of ctx does not
// interrupt a read: callers close the reader.
func (c *Conn) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var answering sync.WaitGroup
	defer answering.Wait()
	defer cancel()
	for {
		line, err := jsonrpc.ReadLine(c.in, maxLine)
		if bad := c.line(ctx, line, &answering); bad != nil {
			err = bad
		}
		if err == nil {
			continue
		}
		c.end(err)
		if err == io.EOF {
			err = nil
		}
		return err
	}
}

// end ends all requests that wait for an answer.
func (c *Conn) end(err error) {
	if err == io.EOF {
		err = ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = err
	for id, answer := range c.waiting {
		delete(c.waiting, id)
		close(answer)
	}
}

// line handles a line. An error ends the connection.
func (c *Conn) line(ctx context.Context, l jsonrpc.Line, answering *sync.WaitGroup) error {
	text := bytes.TrimSpace(l.Text)
	if c.Seen != nil && len(l.Text) > 0 {
		if err := c.Seen(len(l.Text)); err != nil {
			return err
		}
	}
	var m *jsonrpc.Message
	var wrong *jsonrpc.Error
	switch {
	case l.TooLong:
		m, wrong = &jsonrpc.Message{ID: l.ID}, jsonrpc.Errorf(jsonrpc.InvalidRequest, "a message is longer than %d bytes", maxLine)
	case len(text) == 0:
		return nil
	default:
		m, wrong = jsonrpc.Parse(text)
	}
	if wrong != nil {
		return c.bad(m, text, wrong)
	}
	switch {
	case m.Method == "":
		c.mu.Lock()
		answer := c.waiting[m.Key]
		delete(c.waiting, m.Key)
		c.mu.Unlock()
		if answer != nil { // otherwise its caller no longer waits
			answer <- m
		}
	case m.ID == nil && m.Method == methodCancelRequest:
		c.cancelled(m.Params)
	case m.ID == nil:
		if c.Notify != nil {
			c.Notify(m.Method, m.Params)
		}
	default:
		return c.request(ctx, m, answering)
	}
	return nil
}

// bad handles a line that is not a message.
func (c *Conn) bad(m *jsonrpc.Message, text []byte, wrong *jsonrpc.Error) error {
	if c.Bad != nil {
		return c.Bad(fmt.Errorf("%w: %.200q", wrong, text))
	}
	if m == nil {
		m = &jsonrpc.Message{}
	}
	return c.write(jsonrpc.Answer(m.ID, nil, wrong))
}

// request begins to answer a request.
func (c *Conn) request(ctx context.Context, m *jsonrpc.Message, answering *sync.WaitGroup) error {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	busy := len(c.theirs) >= maxRequests || c.theirs[m.Key] != nil
	if !busy {
		c.theirs[m.Key] = cancel
	}
	c.mu.Unlock()
	if busy {
		cancel()
		return c.write(jsonrpc.Answer(m.ID, nil, jsonrpc.Errorf(jsonrpc.InvalidRequest, "more than %d requests wait for an answer, or two have the same id", maxRequests)))
	}
	var answer Answer
	if c.Request != nil {
		answer = c.Request(m.Method, m.Params)
	}
	if answer == nil {
		answer = func(context.Context) (any, error) {
			return nil, jsonrpc.Errorf(MethodNotFound, "there is no method %.100q", m.Method)
		}
	}
	answering.Go(func() {
		defer cancel()
		result, err := answer(ctx)
		c.mu.Lock()
		delete(c.theirs, m.Key)
		c.mu.Unlock()
		var e *jsonrpc.Error
		if err != nil && !errors.As(err, &e) {
			e = jsonrpc.Errorf(jsonrpc.InternalError, "%v", err)
		}
		then, _ := result.(Then)
		if then.Do != nil {
			result = then.Result
		}
		_ = c.write(jsonrpc.Answer(m.ID, result, e)) // one that does not read it has ended
		if then.Do != nil && e == nil {
			then.Do()
		}
	})
	return nil
}

// cancelled ends a request that the other side cancels.
func (c *Conn) cancelled(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if jsonrpc.Unmarshal(params, &p) != nil {
		return
	}
	key, _ := jsonrpc.Key(p.RequestID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.theirs[key]; cancel != nil {
		cancel()
	}
}

// Call sends a request and decodes its result into result, unless result is nil. If ctx ends
// first, Call cancels the request. The error may be a *jsonrpc.Error; it wraps ErrClosed if
// the other side closes the connection.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	answer := make(chan *jsonrpc.Message, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	key := "n" + strconv.Itoa(id)
	ended := c.ended
	if ended == nil {
		c.waiting[key] = answer
	}
	c.mu.Unlock()
	if ended != nil {
		return ended
	}
	if err := c.send(jsonrpc.Request(id, params, method)); err != nil {
		return err
	}
	select {
	case m := <-answer:
		switch {
		case m == nil:
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.ended
		case m.Error != nil:
			return m.Error
		case result == nil || string(m.Result) == "null":
			return nil
		}
		if err := jsonrpc.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("%s: the answer is not valid: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, key)
		c.mu.Unlock()
		_ = c.Send(methodCancelRequest, map[string]int{"requestId": id}) // it may have ended too
		return context.Cause(ctx)
	}
}

// Send sends a notification.
func (c *Conn) Send(method string, params any) error {
	return c.send(jsonrpc.Request(nil, params, method))
}

func (c *Conn) send(message any) error {
	line, err := jsonrpc.Encode(message)
	if err != nil {
		return err
	}
	return c.write(line)
}

func (c *Conn) write(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(line)
	return err
}

// Decode decodes the parameters of a request into v. The error is a *jsonrpc.Error with the
// code InvalidParams.
func Decode(params json.RawMessage, v any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := jsonrpc.Unmarshal(params, v); err != nil {
		wrong := err.Error()
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			wrong = cmp.Or(kind.Field, "params") + ": wrong type: a JSON " + kind.Value
		}
		return jsonrpc.Errorf(InvalidParams, "%s", wrong)
	}
	return nil
}

// With returns the Answer that decodes the parameters of a request and calls answer.
func With[P any](params json.RawMessage, answer func(ctx context.Context, p *P) (any, error)) Answer {
	return func(ctx context.Context) (any, error) {
		p := new(P)
		if err := Decode(params, p); err != nil {
			return nil, err
		}
		return answer(ctx, p)
	}
}

// A Then is a result with a function to call after the result is sent.
type Then struct {
	Result any
	Do     func()
}
