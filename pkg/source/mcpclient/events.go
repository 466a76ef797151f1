package mcpclient

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

type events struct {
	from *bufio.Reader
	max  int // length of the longest data

	id    string        // of the last event
	retry time.Duration // that the server asks for, 0 if it does not
}

func (w *web) newEvents(body io.Reader) *events {
	return &events{from: bufio.NewReaderSize(body, 64<<10), max: w.conn.opts.lineLimit()}
}

// maxField limits the fields of an event besides its data.
const maxField = 4096

// next reads an event, and returns its data, whose lines are joined by a space: they are
// JSON. Beside an error, the end of the stream, there may be a last event; of one that
// broke off there is nothing.
func (e *events) next() (data jsonrpc.Line, err error) {
	var find jsonrpc.IDFinder
	var field, value []byte
	id := e.id
	for first := true; ; {
		piece, err := e.from.ReadSlice('\n')
		if first {
			field, value, _ = bytes.Cut(piece, []byte(":"))
			field, value = bytes.Clone(field), bytes.TrimRight(value, "\r\n")
		} else {
			value = bytes.TrimRight(piece, "\r\n")
		}
		switch {
		case string(field) == "data" && !data.TooLong && len(data.Text)+len(value) >= e.max:
			data.TooLong = true
			_, _ = find.Write(data.Text) // never fails, nor below
			data.Text = nil
			fallthrough
		case string(field) == "data" && data.TooLong:
			_, _ = find.Write(value)
		case string(field) == "data":
			if first {
				data.Text = append(data.Text, ' ')
			}
			data.Text = append(data.Text, value...)
		case string(field) == "id" && first && len(value) < maxField && bytes.IndexByte(value, 0) < 0:
			id = string(bytes.TrimPrefix(value, []byte(" ")))
		case string(field) == "retry" && first:
			if ms, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 31); err == nil {
				e.retry = max(time.Duration(ms)*time.Millisecond, 1)
			}
		}
		whole := err == nil && first && len(bytes.TrimRight(piece, "\r\n")) == 0
		first = err != bufio.ErrBufferFull
		if !whole && (err == nil || err == bufio.ErrBufferFull) {
			continue
		}
		if err != nil && err != io.EOF {
			return jsonrpc.Line{}, err
		}
		data.Text, data.ID = bytes.TrimSpace(data.Text), find.ID()
		if whole {
			e.id = id
		}
		return data, err
	}
}
