package modelhttp

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

// readers are reused: of a thousand sessions only a few read an answer at the
// same time.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// An Answer is assembled from what a server sends: the events of a stream, or the one
// JSON value of a server that does not stream.
type Answer interface {
	// Add reads one of these. It is valid JSON, and not a list.
	Add(data []byte) error
	// End says that the server has sent everything: the marker [DONE], or an answer
	// that is not a stream.
	End()
	// State says how far the answer is.
	State() State
	// Response is the answer, or why it is not one. It is called once all is read.
	Response() (*agent.Response, error)
	// Usage returns what the server has reported so far; zero if nothing.
	Usage() agent.Usage
}

// A State is how far an Answer is.
type State struct {
	// Begun: some of the content has arrived, and the rest follows without a pause. While
	// it does, the idle limit applies.
	Begun bool
	// Finished: the server said why the model stopped, and sends at most the usage.
	Finished bool
	// Ended: nothing else is expected.
	Ended bool
	// Complete: the answer counts, whatever becomes of the connection.
	Complete bool
	// Pieces counts the pieces of the answer, empty ones too. Without any, Response is
	// an error.
	Pieces int
}

// Read reads an answer into a: a stream of events, or the one JSON value of a server
// that does not stream. The first byte tells which, not the content type. tick is
// called after each event. A *agent.ModelError has the usage that the server reported.
func Read(r io.Reader, a Answer, tick func()) (*agent.Response, error) {
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
	s := stream{Answer: a}
	switch first {
	case 0:
		err = notAnAnswer("the server's answer is empty", nil)
	case '{', '[':
		err = s.readJSON(in, tick)
	case '<':
		page, _ := io.ReadAll(io.LimitReader(in, maxErrorBytes))
		err = notAnAnswer("the server answered with a page instead of an answer of the model", page)
	default:
		err = s.readEvents(in, tick)
	}
	var resp *agent.Response
	if err == nil {
		resp, err = a.Response()
	}
	if failed, ok := errors.AsType[*agent.ModelError](err); ok {
		failed.Usage = a.Usage()
	}
	return resp, err
}

// A stream fills an Answer.
type stream struct {
	Answer
	added int    // how many values
	stray []byte // the first line that is not part of an answer
}

// add reads the JSON of one event, or of the whole answer.
func (s *stream) add(data []byte) error {
	if err := CheckJSON(data); err != nil {
		if s.State().Complete {
			return nil // the connection broke in what follows the answer
		}
		return Broken(fmt.Sprintf("the server sent a piece that is not JSON (%v): %s", err, Shorten(string(data), 200)))
	}
	if list := Elements(data); len(list) > 0 {
		data = list[0] // Gemini sends its errors in a list
	}
	s.added++
	return s.Add(data)
}

// peekText skips white space and a byte order mark, and returns the next byte
// without reading it.
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

// notAnAnswer is the error for a response that is not an answer, with what it
// says.
func notAnAnswer(what string, body []byte) error {
	if message := explain(body[:min(len(body), maxErrorBytes)]).message; message != "" {
		what += ": " + Shorten(message, 300)
	}
	return &agent.ModelError{Status: 200, Message: what, Temporary: true}
}

func (s *stream) readJSON(in io.Reader, tick func()) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if bytes.IndexByte(data, '\n') >= 0 && !json.Valid(data) {
		return s.readEvents(bufio.NewReader(bytes.NewReader(data)), tick)
	}
	if err := s.add(data); err != nil {
		return err
	}
	s.End()
	if s.State().Pieces > 0 {
		return nil
	}
	_, err = s.Response()
	return notAnAnswer(err.Error(), data)
}

// readEvents reads events until [DONE] or the end of the stream. When the answer
// is complete, it does not matter how the stream ends.
func (s *stream) readEvents(in *bufio.Reader, tick func()) error {
	e := events{in: in, s: s}
	for !s.State().Ended {
		data, err := e.next()
		if errors.Is(err, io.EOF) || err != nil && s.State().Complete {
			break
		}
		if err != nil {
			return err
		}
		if err := s.event(bytes.TrimSpace(data)); err != nil {
			return err
		}
		tick()
	}
	switch {
	case s.added > 0:
		return nil
	case s.State().Ended:
		return notAnAnswer("the server's answer is empty", nil)
	}
	return notAnAnswer("the server's answer is not that of a model", s.stray)
}

// event reads the data of one event. Servers that leave out the empty line
// between events send several chunks as the lines of one.
func (s *stream) event(data []byte) error {
	lines := [][]byte{data}
	if bytes.IndexByte(data, '\n') >= 0 && !json.Valid(data) {
		lines = bytes.Split(data, []byte{'\n'})
	}
	for _, line := range lines {
		line = bytes.TrimSpace(line)
		first := FirstByte(line)
		switch {
		case bytes.HasPrefix(line, []byte("[DONE]")):
			s.End()
			return nil
		case first == '{' || first == '[':
			if err := s.add(line); err != nil {
				return err
			}
		default:
			s.keepStray(data)
		}
	}
	return nil
}

func (s *stream) keepStray(line []byte) {
	if s.stray == nil && len(line) > 0 {
		s.stray = bytes.Clone(line[:min(len(line), 1<<10)])
	}
}

// events reads server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) for their
// data. Two lines outside of the standard count as data too: JSON without a field
// name (Lemonade) and the field "error" (llama.cpp before 2025-09, GPUStack). An
// event that the end of the stream cuts short is returned as far as it got;
// its JSON shows whether it is complete.
type events struct {
	in   *bufio.Reader
	data []byte
	s    *stream // for lines that are not part of an event
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
		if len(line) == 0 && (start > 0 || err != nil) {
			return e.data[:start], nil
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch string(name) {
		case "data":
			value = bytes.TrimPrefix(value, []byte{' '})
		case "error":
			value = errorJSON(value)
		default:
			if FirstByte(line) == '{' {
				value = line
				break
			}
			if len(name) > 0 && string(name) != "event" && string(name) != "id" && string(name) != "retry" {
				e.s.keepStray(line)
			}
			e.data = e.data[:start]
			continue
		}
		// The line follows the data in memory; its value moves to the front of it.
		e.data = append(append(e.data[:start], value...), '\n')
	}
}

// errorJSON turns the value of a field "error" into the error of a chunk.
func errorJSON(value []byte) []byte {
	if !json.Valid(value) {
		value = AppendString(nil, string(bytes.TrimSpace(value)))
	}
	return fmt.Appendf(nil, `{"error":%s}`, value)
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
