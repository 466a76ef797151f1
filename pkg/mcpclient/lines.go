package mcpclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// A lineFilter reads the lines of a program's standard output and lets only
// those through that are messages. The others go to log. A message that is too
// long becomes an error that answers the same request.
type lineFilter struct {
	from *bufio.Reader
	log  func(line string)
	max  int           // length of the longest message
	end  chan struct{} // closed when the output is at its end

	line []byte // the current message
	rest []byte // what of it was not read yet
	err  error

	mu      sync.Mutex
	dropped string // the first line that is no message
}

func newLineFilter(from io.Reader, max int, log func(string)) *lineFilter {
	return &lineFilter{from: bufio.NewReaderSize(from, 64<<10), log: log, max: max, end: make(chan struct{})}
}

// Read implements io.Reader. Its only error is io.EOF.
func (f *lineFilter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err != nil {
			return 0, io.EOF
		}
		f.next()
		if f.err != nil {
			close(f.end)
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// next reads one line; rest stays empty if it is no message.
func (f *lineFilter) next() {
	line, id, tooLong := f.readLine()
	switch {
	case tooLong:
		f.rest = f.refuse(id, fmt.Sprintf("the server's message is longer than %d bytes", f.max))
	case isMessage(line) && json.Valid(line):
		f.rest = line
	case isMessage(line): // the library would drop it, and its call would wait
		f.drop(clip(string(bytes.TrimSpace(line)), maxLogLine))
		var scan idScanner
		scan.write(line)
		f.rest = f.refuse(scan.id(), "the server's message is no JSON, or nested too deep")
	case len(bytes.TrimSpace(line)) > 0:
		f.drop(clip(string(bytes.TrimSpace(line)), maxLogLine))
	}
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
func (f *lineFilter) refuse(id json.RawMessage, text string) []byte {
	if id == nil {
		f.drop(text)
		return nil
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": codeUnusable, "message": text}})
	if err != nil {
		f.drop(text)
		return nil
	}
	return append(answer, '\n')
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
