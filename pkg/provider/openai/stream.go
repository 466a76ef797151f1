package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// readers are for one answer each, and for the next one then: of a thousand
// sessions at once only a few have something to read.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// read reads an answer: a stream of events, or the one JSON value of a server
// that does not stream. What it is shows in the first byte; what the server
// calls it does not count. tick is called after each piece.
func (a *answer) read(r io.Reader, tick func()) (*agent.Response, error) {
	in := readers.Get().(*bufio.Reader)
	in.Reset(r)
	defer func() {
		in.Reset(nil)
		readers.Put(in)
	}()
	first, err := peekText(in)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch first {
	case 0:
		return nil, notAnAnswer("the server's answer is empty", nil)
	case '{', '[':
		err = a.readJSON(in)
	case '<':
		return nil, notAnAnswer("the server answered with a page instead of an answer of the model", in)
	default:
		err = a.readEvents(in, tick)
	}
	var failed *agent.ModelError
	if errors.As(err, &failed) || err != nil && !a.complete() {
		return nil, err
	}
	return a.response()
}

// peekText skips white space and a byte order mark, and returns the byte behind
// them without reading it.
func peekText(in *bufio.Reader) (byte, error) {
	if mark, err := in.Peek(3); err == nil && string(mark) == "\uFEFF" {
		in.Discard(3)
	}
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b, in.UnreadByte()
		}
	}
}

// notAnAnswer is the error for a response that is none, with what it says.
func notAnAnswer(what string, in io.Reader) error {
	if in != nil {
		page, _ := io.ReadAll(io.LimitReader(in, maxErrorBytes))
		if said, _ := explain(page); said != "" {
			what += ": " + shorten(said, 300)
		}
	}
	return &agent.ModelError{Status: 200, Message: what, Temporary: true}
}

func (a *answer) readJSON(in io.Reader) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if err := a.add(data); err != nil {
		return err
	}
	if !a.begun() && a.finish == "" {
		return notAnAnswer("the server's answer has no choices", bytes.NewReader(data))
	}
	a.ended = true
	return nil
}

// readEvents reads events until the server says that it is done. Its error is
// that of reading; the end without a word is none.
func (a *answer) readEvents(in *bufio.Reader, tick func()) error {
	e := events{in: in}
	var stray []byte // what was sent and is no event
	for {
		data, err := e.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch data = bytes.TrimSpace(data); {
		case bytes.HasPrefix(data, []byte("[DONE]")):
			a.ended = true
			if a.chunks == 0 {
				return notAnAnswer("the server's answer is empty", nil)
			}
			return nil
		case firstByte(data) != '{' && firstByte(data) != '[':
			stray = bytes.Clone(data)
		default:
			if err := a.event(data); err != nil {
				return err
			}
		}
		tick()
	}
	if a.chunks == 0 {
		if stray == nil {
			stray = e.stray
		}
		return notAnAnswer("the server's answer is no answer of a model", bytes.NewReader(stray))
	}
	return nil
}

// event takes in the data of one event. Servers that leave out the empty line
// between events send several chunks as the lines of one.
func (a *answer) event(data []byte) error {
	if bytes.IndexByte(data, '\n') < 0 || json.Valid(data) {
		return a.add(data)
	}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("[DONE]")) {
			a.ended = true
			return nil
		}
		if len(line) == 0 {
			continue
		}
		if err := a.add(line); err != nil {
			return err
		}
	}
	return nil
}

// events reads server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) for their
// data alone. An event that the end of the stream cuts short is returned as far
// as it got; whether it is whole shows in its JSON.
type events struct {
	in    *bufio.Reader
	data  []byte
	stray []byte // the first line that is no event
}

// next returns the data of the next event; it stays valid until the next call.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	for {
		start := len(e.data)
		line, err := e.line()
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && start == 0) {
			return nil, err
		}
		atEnd := err != nil
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch {
		case len(line) == 0 && start > 0, atEnd && len(line) == 0:
			return e.data[:start], nil
		case string(name) == "data":
			value = bytes.TrimPrefix(value, []byte{' '})
			// The line lies behind the data; its value moves to the front.
			e.data = append(e.data[:start], value...)
			e.data = append(e.data, '\n')
		default:
			if e.stray == nil && len(name) > 0 && string(name) != "event" && string(name) != "id" && string(name) != "retry" {
				e.stray = bytes.Clone(line[:min(len(line), 1<<10)])
			}
			e.data = e.data[:start]
		}
	}
}

// line appends the next line to e.data and returns it without its end.
func (e *events) line() ([]byte, error) {
	start := len(e.data)
	for {
		piece, err := e.in.ReadSlice('\n')
		e.data = append(e.data, piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line := bytes.TrimSuffix(bytes.TrimSuffix(e.data[start:], []byte{'\n'}), []byte{'\r'})
		return line, err
	}
}

// A limited reader fails when more than left bytes come.
type limited struct {
	r     io.Reader
	left  int64
	limit int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, &agent.ModelError{Message: fmt.Sprintf("the answer is longer than %d bytes (the limit of one answer)", l.limit)}
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}
