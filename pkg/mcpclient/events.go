package mcpclient

import (
	"bufio"
	"bytes"
	"io"
)

// An eventFilter reads the events of a stream over HTTP and hands each on when it
// is whole. The library keeps events of any length, drops what it cannot decode,
// so that a call waits for it, and leaves a goroutine behind for a request that is
// answered more than twice. Here a message that cannot be used becomes an error
// that answers the same request, and the stream of a call ends with its answer. A
// stream that breaks off looks like one that has ended, which the library resumes.
type eventFilter struct {
	body io.Closer
	from *bufio.Reader
	got  *caught // of the request whose stream it is; nil if its answers do not end it
	log  func(line string)
	max  int // length of the longest message

	rest []byte
	err  error

	// Of the current event:
	head    []byte // its fields but data
	data    []byte
	tooLong bool
	scan    idScanner // of data that is too long
}

// maxEventHead limits the fields of an event besides its data.
const maxEventHead = 4096

func newEventFilter(body io.ReadCloser, got *caught, max int, log func(string)) *eventFilter {
	return &eventFilter{body: body, from: bufio.NewReaderSize(body, 64<<10), got: got, max: max, log: log}
}

// Close implements io.Closer.
func (f *eventFilter) Close() error { return f.body.Close() }

// Read implements io.Reader. Its only error is io.EOF.
func (f *eventFilter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.next()
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// next reads a line.
func (f *eventFilter) next() {
	var field string
	for first := true; ; first = false {
		piece, err := f.from.ReadSlice('\n')
		if first {
			field = fieldOf(piece)
		}
		switch field {
		case "data":
			f.add(bytes.TrimRight(bytes.TrimPrefix(piece, []byte("data:")), "\r\n"))
		case "event", "id", "retry":
			if len(f.head)+len(piece) < maxEventHead {
				f.head = append(f.head, piece...)
			}
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		whole := err == nil && len(bytes.TrimRight(piece, "\r\n")) == 0 && first
		if whole || err == io.EOF {
			f.dispatch()
		}
		if err != nil && f.err == nil {
			f.err = io.EOF
			if f.got != nil {
				f.got.cut.Store(true)
			}
		}
		return
	}
}

// fieldOf is the name of the field of a line, "" of a comment or an empty line.
func fieldOf(line []byte) string {
	name, _, found := bytes.Cut(line, []byte(":"))
	if !found {
		return ""
	}
	return string(name)
}

// add adds a piece of data. Lines are joined by a space: data is JSON.
func (f *eventFilter) add(piece []byte) {
	switch {
	case f.tooLong:
		f.scan.write(piece)
	case len(f.data)+len(piece)+1 > f.max:
		f.tooLong = true
		f.scan.write(f.data)
		f.scan.write(piece)
		f.data = nil
	default:
		f.data = append(append(f.data, ' '), piece...)
	}
}

// dispatch hands the event on.
func (f *eventFilter) dispatch() {
	f.rest = append(f.rest[:0], f.head...)
	text, answer := f.message()
	if len(text) > 0 {
		f.rest = append(append(append(f.rest, "data: "...), bytes.TrimSpace(text)...), '\n')
	}
	if len(f.rest) > 0 {
		f.rest = append(f.rest, '\n')
	}
	f.head, f.data, f.tooLong, f.scan = f.head[:0], f.data[:0], false, idScanner{}
	if cap(f.data) > 1<<20 {
		f.data = nil
	}
	if answer && f.got != nil {
		f.err = io.EOF
	}
}

// message is what is handed on of the data, and whether it answers a request.
func (f *eventFilter) message() (text []byte, answer bool) {
	if f.tooLong {
		return f.refuse(f.scan.id(), tooLong(f.max))
	}
	data := bytes.TrimSpace(f.data)
	if len(data) == 0 {
		return nil, false
	}
	answer, why := examine(data)
	if why == "" {
		return data, answer
	}
	var scan idScanner
	scan.write(data)
	return f.refuse(scan.id(), why)
}

func (f *eventFilter) refuse(id []byte, why string) (text []byte, answer bool) {
	if text = refusal(id, why); text == nil {
		f.log("stream: " + why)
	}
	return text, text != nil
}
