package mcpclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// A lineFilter reads the lines of a program's standard output and lets only
// those through that are messages. The others go to log. A message that is too
// long becomes an error that answers the same request.
type lineFilter struct {
	from *bufio.Reader
	log  func(line string)
	max  int           // length of the longest message
	end  chan struct{} // closed when the output is at its end, and all of it was taken

	ended func() // closes end

	line []byte // the current message
	rest []byte // what of it was not read yet
	err  error

	mu      sync.Mutex
	dropped string // the first line that is no message
}

func newLineFilter(from io.Reader, max int, log func(string)) *lineFilter {
	f := &lineFilter{from: bufio.NewReaderSize(from, 64<<10), log: log, max: max, end: make(chan struct{})}
	f.ended = sync.OnceFunc(func() { close(f.end) })
	return f
}

// Read implements io.Reader. Its only error is io.EOF.
func (f *lineFilter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err != nil {
			f.ended()
			return 0, io.EOF
		}
		f.next()
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// next reads one line; rest stays empty if it is no message.
func (f *lineFilter) next() {
	line, id, long := f.readLine()
	line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	switch {
	case long:
		f.rest = f.refuse(id, tooLong(f.max))
	case isMessage(line):
		f.rest = f.check(line)
	case isBatch(line):
		var messages []json.RawMessage
		_ = json.Unmarshal(line, &messages) // isBatch has seen to it
		f.rest = nil
		for _, m := range messages {
			if !isMessage(m) {
				f.drop(clip(string(m), maxLogLine))
				continue
			}
			f.rest = append(f.rest, f.check(append(m, '\n'))...)
		}
	case len(bytes.TrimSpace(line)) > 0:
		f.drop(clip(string(bytes.TrimSpace(line)), maxLogLine))
	}
}

// byteOrderMark is what some systems write first.
const byteOrderMark = "\uFEFF"

// isBatch reports whether line is an array of messages, which 2025-03-26 has.
func isBatch(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("[")) && bytes.Contains(line, []byte(`"jsonrpc"`)) && json.Valid(line)
}

// check is the message if it can be used, and otherwise what stands in for it:
// the library would drop it, and its call would wait.
func (f *lineFilter) check(message []byte) []byte {
	_, why := examine(message)
	if why == "" {
		return message
	}
	f.drop(clip(string(bytes.TrimSpace(message)), maxLogLine))
	var scan idScanner
	scan.write(message)
	return f.refuse(scan.id(), why)
}

func tooLong(max int) string {
	return fmt.Sprintf("the server's message is longer than %d bytes", max)
}

// examine reports whether a message is the answer to a request, or why it is of no
// use.
func examine(message []byte) (answer bool, why string) {
	has := func(key string) bool { return bytes.Contains(message, []byte(key)) }
	switch {
	case !json.Valid(message):
		return false, "the server's message is no JSON, or nested too deep"
	case has(`"result"`) && !has(`"method"`) && !has(`"error"`):
		return true, "" // nearly all are so
	}
	var m struct {
		ID     present         `json:"id"`
		Method string          `json:"method"`
		Result present         `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return false, misfit(err).Error()
	}
	failed := len(m.Error) > 0 && string(m.Error) != "null"
	if failed && json.Unmarshal(m.Error, &mcp.JSONRPCErrorDetails{}) != nil {
		return false, "the server's message is not as the protocol has it: its error is not of a code, a number, and a message, a text"
	}
	if m.Method == "" && bool(m.ID) && !bool(m.Result) && !failed {
		return false, "the server's answer has neither a result nor an error"
	}
	return m.Method == "" && (bool(m.Result) || failed), ""
}

// present tells that a member is there, whatever it is.
type present bool

// UnmarshalJSON implements json.Unmarshaler.
func (p *present) UnmarshalJSON([]byte) error {
	*p = true
	return nil
}

// drop takes note of a line that is no message.
func (f *lineFilter) drop(line string) {
	f.mu.Lock()
	if f.dropped == "" {
		f.dropped = line
	}
	f.mu.Unlock()
	f.log("stdout: " + line)
}

// firstDropped is the first line that was no message, or "".
func (f *lineFilter) firstDropped() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// readLine reads a line and ends it with a newline, which may be missing at the
// end of the output. Of a line that is too long it returns the id.
func (f *lineFilter) readLine() (line []byte, id json.RawMessage, tooLong bool) {
	f.line = f.line[:0]
	if cap(f.line) > 1<<20 {
		f.line = nil
	}
	var scan idScanner
	for {
		piece, err := f.from.ReadSlice('\n')
		if !tooLong && len(f.line)+len(piece) > f.max {
			tooLong = true
			scan.write(f.line)
			f.line = nil
		}
		if tooLong {
			scan.write(piece)
		} else {
			f.line = append(f.line, piece...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			f.err = err
			if len(f.line) > 0 {
				f.line = append(f.line, '\n')
			}
		}
		return f.line, scan.id(), tooLong
	}
}

// refuse is the answer in place of a message that cannot be used.
func (f *lineFilter) refuse(id json.RawMessage, why string) []byte {
	text := refusal(id, why)
	if text == nil {
		f.drop(why)
	}
	return text
}

// refusal is an answer that says why there is none, nil if nobody knows to what.
func refusal(id json.RawMessage, why string) []byte {
	if id == nil {
		return nil
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": codeUnusable, "message": why}})
	if err != nil {
		return nil
	}
	return append(text, '\n')
}

// codeUnusable is the JSON-RPC error code of an answer that cannot be used.
const codeUnusable = -32099

// isMessage reports whether line looks like a JSON-RPC message. Programs that
// print logs as JSON do not say "jsonrpc" in them, and would otherwise answer
// requests by accident.
func isMessage(line []byte) bool {
	trimmed := bytes.TrimLeft(line, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{' && bytes.Contains(trimmed, []byte(`"jsonrpc"`))
}

// An idScanner finds the value of the key "id" of a JSON object that is written
// piece by piece, without keeping it. What is in nested values is passed over.
type idScanner struct {
	depth   int
	inText  bool
	escaped bool
	value   bool   // behind a colon of the outermost object
	token   []byte // the current string or number of the outermost object
	key     string
	found   []byte
}

const maxID = 200

func (s *idScanner) write(p []byte) {
	for _, c := range p {
		switch {
		case s.inText:
			s.text(c)
		case c == '"':
			s.inText = true
			s.keep(c)
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			s.member()
			s.depth--
		case s.depth == 1 && c == ':':
			s.key, s.token, s.value = string(s.token), nil, true
		case s.depth == 1 && c == ',':
			s.member()
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			s.keep(c)
		}
	}
}

// text takes in a byte within a string.
func (s *idScanner) text(c byte) {
	s.keep(c)
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inText = false
	}
}

func (s *idScanner) keep(c byte) {
	if s.depth == 1 && len(s.token) < maxID {
		s.token = append(s.token, c)
	}
}

// member ends a member of the outermost object.
func (s *idScanner) member() {
	if s.depth != 1 {
		return
	}
	if s.value && s.key == `"id"` {
		s.found = s.token
	}
	s.key, s.token, s.value = "", nil, false
}

// id returns what was found, nil if it is no string and no number.
func (s *idScanner) id() json.RawMessage {
	if len(s.found) == 0 || !json.Valid(s.found) || string(s.found) == "null" {
		return nil
	}
	return s.found
}
