package mcpserver

import (
	"bufio"
	"encoding/json"
	"io"
)

// A line is what was read of the input: a message, or of one that is longer than
// MaxLine its id, nil if none was found.
type line struct {
	text    []byte
	tooLong bool
	id      json.RawMessage
}

// readLines sends the lines of in until its end or stop's. It keeps no more than
// MaxLine of a line. The last line may lack its newline.
func readLines(in io.Reader, lines chan<- line, stop <-chan struct{}) {
	defer close(lines)
	from := bufio.NewReaderSize(in, 64<<10)
	for {
		l, err := readLine(from, MaxLine)
		if len(l.text) > 0 || l.tooLong {
			select {
			case lines <- l:
			case <-stop:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func readLine(from *bufio.Reader, max int) (line, error) {
	var l line
	var find idFinder
	for {
		piece, err := from.ReadSlice('\n')
		if !l.tooLong && len(l.text)+len(piece) > max {
			find.write(l.text)
			l.text, l.tooLong = nil, true
		}
		if l.tooLong {
			find.write(piece)
		} else {
			l.text = append(l.text, piece...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if l.tooLong {
			l.id = find.id()
		}
		return l, err
	}
}

// maxID is the length of the longest id that is looked for in a message that is
// too long.
const maxID = 256

// An idFinder finds the id of a message that passes by in pieces: the value of the
// key "id" in the outermost object.
type idFinder struct {
	depth  int
	text   bool // within a string
	escape bool
	key    string
	token  []byte // string, number or word of the outermost object
	found  []byte
}

func (f *idFinder) write(p []byte) {
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
}

func (f *idFinder) take(c byte) {
	if f.depth == 1 && len(f.token) <= maxID {
		f.token = append(f.token, c)
	}
}

// end ends a member of the outermost object.
func (f *idFinder) end() {
	if f.depth != 1 {
		return
	}
	if f.key == `"id"` {
		f.found = f.token
	}
	f.key, f.token = "", nil
}

func (f *idFinder) id() json.RawMessage {
	if _, ok := idKey(f.found); !ok {
		return nil
	}
	return f.found
}
