package session

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
)

const (
	formatName = "agents-session"
	// Version is the version of the format that is written. Files of a newer
	// one are refused.
	Version = 1

	kindJournal agent.EventKind = "journal" // the first line
	kindClosed  agent.EventKind = "closed"  // the last line of what was closed

	headerStart = `{"kind":"journal","format":"agents-session"`
	sumStart    = `,"sum":"`
	syncedStart = `,"synced":`
	tailBytes   = len(sumStart) + 8 + len(`"}`)

	// maxLine is how long a line may be.
	maxLine = 1 << 30
)

// header is the first line of a journal, without what seal adds.
func header(id string) []byte {
	b := append([]byte(nil), headerStart...)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, Version, 10)
	b = append(b, `,"id":`...)
	return appendString(b, id)
}

// seal completes a line that lacks its closing brace: how much is synced, unless
// that is negative, and the checksum of everything up to here.
func seal(b []byte, start int, synced int64, sum uint32) ([]byte, uint32) {
	if synced >= 0 {
		b = append(b, syncedStart...)
		b = strconv.AppendInt(b, synced, 10)
	}
	sum = crc32.Update(sum, crc32.IEEETable, b[start:])
	b = append(b, sumStart...)
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[sum>>shift&15])
	}
	return append(b, "\"}\n"...), sum
}

// tail takes the checksum from the end of a line, which is without its newline.
func tail(line []byte) (body []byte, sum uint32, ok bool) {
	n := len(line) - tailBytes
	if n < 1 || string(line[n:n+len(sumStart)]) != sumStart || string(line[len(line)-2:]) != `"}` {
		return nil, 0, false
	}
	for _, c := range line[n+len(sumStart) : len(line)-2] {
		switch {
		case '0' <= c && c <= '9':
			sum = sum<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			sum = sum<<4 | uint32(c-'a'+10)
		default:
			return nil, 0, false
		}
	}
	return line[:n], sum, true
}

// syncedOf is the mark at the end of a line's body, or -1. It does not need the
// rest of the line to be whole.
func syncedOf(line []byte) int64 {
	body, _, ok := tail(line)
	if !ok {
		return -1
	}
	i := len(body)
	for i > 0 && '0' <= body[i-1] && body[i-1] <= '9' {
		i--
	}
	if i < len(syncedStart) || len(body)-i > 18 || string(body[i-len(syncedStart):i]) != syncedStart {
		return -1
	}
	n, err := strconv.ParseInt(string(body[i:]), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// A head is what tells lines apart. It refers to its line.
type head struct {
	kind, session []byte
}

func (h head) is(kind agent.EventKind) bool { return string(h.kind) == string(kind) }

// event reports whether the line is an event, and not about the file.
func (h head) event() bool { return !h.is(kindJournal) && !h.is(kindClosed) }

// headOf reads the head of a line. It is quick for lines as this package writes
// them and takes every JSON object.
func headOf(line []byte) (head, bool) {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"time":"`)); ok {
		if i := bytes.IndexByte(rest, '"'); i >= 0 {
			if kind, rest, ok := member(rest[i+1:], `,"kind":"`); ok {
				if id, _, ok := member(rest, `,"session":"`); ok {
					return head{kind, id}, true
				}
			}
		}
	}
	var h struct{ Kind, Session string }
	if json.Unmarshal(line, &h) != nil {
		return head{}, false
	}
	return head{[]byte(h.Kind), []byte(h.Session)}, true
}

// member takes a text without escapes that stands behind start.
func member(b []byte, start string) (value, rest []byte, ok bool) {
	if len(b) < len(start) || string(b[:len(start)]) != start {
		return nil, nil, false
	}
	b = b[len(start):]
	i := bytes.IndexByte(b, '"')
	if i < 0 || bytes.IndexByte(b[:i], '\\') >= 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}
