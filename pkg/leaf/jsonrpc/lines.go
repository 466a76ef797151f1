package jsonrpc

import (
	"bufio"
	"encoding/json"
)

// A Line is a line of a stream, without its newline if it is the last one; of a line
// that is longer than the limit only the ID of the message is kept, nil if none was
// found.
type Line struct {
	Text    []byte
	TooLong bool
	ID      json.RawMessage
}

// ReadLine reads a line and keeps no more than max bytes of it. Beside an error, which
// is io.EOF at the end, it returns what there was of a line.
func ReadLine(from *bufio.Reader, max int) (Line, error) {
	var l Line
	var find IDFinder
	for {
		piece, err := from.ReadSlice('\n')
		if !l.TooLong && len(l.Text)+len(piece) > max {
			find.Write(l.Text)
			l.Text, l.TooLong = nil, true
		}
		if l.TooLong {
			find.Write(piece)
		} else {
			l.Text = append(l.Text, piece...)
		}
		if err != bufio.ErrBufferFull {
			l.ID = find.ID()
			return l, err
		}
	}
}

// maxID is the length of the longest id that an IDFinder finds.
const maxID = 256

// An IDFinder finds the id of a message that passes by in pieces: the value of the key
// "id" in the outermost object. It need not be valid JSON.
type IDFinder struct {
	depth  int
	text   bool // within a string
	escape bool
	key    string
	token  []byte // string, number or word of the outermost object
	found  []byte
}

// Write implements io.Writer. It never fails.
func (f *IDFinder) Write(p []byte) (int, error) {
	for _, c := range p {
		if f.text {
			f.take(c)
			f.text = f.escape || c != '"'
			f.escape = !f.escape && c == '\\'
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n':
		case '"':
			f.text = true
			f.take(c)
		case '{', '[':
			f.depth++
		case '}', ']':
			f.end()
			f.depth--
		case ':':
			if f.depth == 1 {
				f.key, f.token = string(f.token), nil
			}
		case ',':
			f.end()
		default:
			f.take(c)
		}
	}
	return len(p), nil
}

func (f *IDFinder) take(c byte) {
	if f.depth == 1 && len(f.token) <= maxID {
		f.token = append(f.token, c)
	}
}

func (f *IDFinder) end() {
	if f.depth != 1 {
		return
	}
	if f.key == `"id"` {
		f.found = f.token
	}
	f.key, f.token = "", nil
}

// ID is the id that was found, nil if there was none.
func (f *IDFinder) ID() json.RawMessage {
	if _, ok := Key(f.found); !ok {
		return nil
	}
	return f.found
}
