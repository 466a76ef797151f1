package session

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

const (
	formatName = "agents-session"
	// Version is the version of the format that is written. Files of a newer
	// version are refused.
	Version = 1

	kindJournal agent.EventKind = "journal" // the first line
	kindOpened  agent.EventKind = "opened"  // the first line of a process that continues it
	kindClosed  agent.EventKind = "closed"  // the last line of a closed journal

	headerStart = `{"kind":"journal","format":"agents-session"`
	sumStart    = `,"sum":"`
	syncedStart = `,"synced":`
	tailBytes   = len(sumStart) + 8 + len(`"}`)
	// markBytes is an upper limit of what seal adds to a line.
	markBytes = len(syncedStart) + 20 + chainBytes + tailBytes

	// maxBytes limits a line, a blob and what a crash can leave unsynced at the
	// end of a file.
	maxBytes = 256 << 20
)

// A fileLine is a line about the file, as opposed to an event.
type fileLine struct {
	Kind    agent.EventKind `json:"kind"`
	Format  string          `json:"format,omitempty"`
	Version int             `json:"version,omitempty"`
	ID      string          `json:"id,omitempty"`
	Time    time.Time       `json:"time,omitzero"`
	Dir     string          `json:"dir,omitempty"` // the working folder
	Client  string          `json:"client,omitempty"`
	owner
}

// encode appends v as one JSON object without its closing brace; seal completes it.
func encode(b []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return b, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("}\n")), nil
}

// encoders makes the encoders of lines, which takes half a millisecond, while the agents are loaded.
var encoders = sync.OnceFunc(func() {
	_, _ = encode(nil, fileLine{})
	_, _ = encode(nil, &agent.Event{})
})

// appendSum appends a checksum as eight hexadecimal digits.
func appendSum(b []byte, sum uint32) []byte {
	return hex.AppendEncode(b, binary.BigEndian.AppendUint32(make([]byte, 0, 4), sum))
}

// tail splits the checksum off a line, which is without its newline.
func tail(line []byte) (body, sum []byte, ok bool) {
	n := max(0, len(line)-tailBytes)
	sum, ok = bytes.CutPrefix(line[n:], []byte(sumStart))
	sum, end := bytes.CutSuffix(sum, []byte(`"}`))
	return line[:n], sum, ok && end
}

// syncedOf returns the "synced" member at the end of a line, or -1. The rest of
// the line may be damaged.
func syncedOf(line []byte) int64 {
	body, _, ok := tail(line)
	body, _, _ = cutChain(body)
	body = body[max(0, len(body)-markBytes):]
	i := bytes.LastIndex(body, []byte(syncedStart))
	if !ok || i < 0 {
		return -1
	}
	n, err := strconv.ParseUint(string(body[i+len(syncedStart):]), 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}

// A head is the kind and the session of a line. It shares the line's memory.
type head struct {
	kind, session []byte
}

func (h head) is(kind agent.EventKind) bool { return string(h.kind) == string(kind) }

// event reports whether the line is an event, and not about the file.
func (h head) event() bool { return !h.is(kindJournal) && !h.is(kindOpened) && !h.is(kindClosed) }

var errNoObject = errors.New("the line is not a JSON object")

// headOf reads the head of a line. It does not decode lines in the form that this
// package writes: opening a long session reads the head of many lines and nothing else.
func headOf(line []byte) (head, error) {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"time":"`)); ok {
		_, rest, _ = bytes.Cut(rest, []byte(`"`))
		if kind, rest, ok := member(rest, `,"kind":"`); ok {
			if id, _, ok := member(rest, `,"session":"`); ok {
				return head{kind, id}, nil
			}
		}
	}
	var h struct{ Kind, Session string }
	if json.Unmarshal(line, &h) != nil {
		return head{}, errNoObject
	}
	return head{[]byte(h.Kind), []byte(h.Session)}, nil
}

// member returns the string without escapes that follows start.
func member(b []byte, start string) (value, rest []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(start))
	value, rest, found := bytes.Cut(b, []byte(`"`))
	return value, rest, ok && found && bytes.IndexByte(value, '\\') < 0
}
