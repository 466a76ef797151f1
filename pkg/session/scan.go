package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// readBytes is how much of a file is read at once.
const readBytes = 256 << 10

// lines reads the lines of a file through a buffer that grows to the longest line.
type lines struct {
	in *bufio.Scanner
	at int64 // offset of the next line
}

func newLines(r io.ReaderAt, start, end int64) *lines {
	in := bufio.NewScanner(io.NewSectionReader(r, start, end-start))
	in.Buffer(make([]byte, 0, min(readBytes, end-start+1)), maxBytes)
	in.Split(splitLine)
	return &lines{in, start}
}

var errTorn = errors.New("the line is not complete")

// splitLine is a bufio.SplitFunc. It stops at a zero byte, which no line contains: a
// file can end with a hole that is too large to read.
func splitLine(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if len(data) > 0 && (atEOF || bytes.IndexByte(data, 0) >= 0) {
		return 0, nil, errTorn
	}
	return 0, nil, nil
}

// next returns the next line without its newline, and its offset. The line is
// valid until the next call. The error is io.EOF at the end, and errTorn at a line
// without an end, which is the last one that is returned.
func (l *lines) next() (line []byte, at int64, err error) {
	at = l.at
	if l.in.Scan() {
		l.at += int64(len(l.in.Bytes())) + 1
		return l.in.Bytes(), at, nil
	}
	switch err := l.in.Err(); {
	case err == nil:
		return nil, at, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, at, errTorn
	default:
		return nil, at, err
	}
}

// A scanner reads the lines of a journal and checks them.
type scanner struct {
	*lines
	r     io.ReaderAt
	end   int64  // of the file
	path  string // for errors
	named bool   // the file has the name of a journal
	// verify is called with each line, if it is not nil.
	verify func(line []byte) error

	// What the lines so far say, which are all valid:
	good    int64 // offset of the next line
	line    int   // how many they are
	sum     uint32
	root    string // id of the first session
	answers int    // in the root session
	answer  int64  // offset of the last answer, -1 if there is none
	cut     int64  // bytes of a incomplete end
	dir     string // the working folder in which the session began
	owner   owner  // the last process that wrote it
}

// newScanner returns a scanner of the first size bytes of r.
func newScanner(r io.ReaderAt, size int64, path string, named bool) *scanner {
	return &scanner{lines: newLines(r, 0, size), r: r, end: size, path: path, named: named, answer: -1}
}

// next returns the next event's line, checked. The error is io.EOF at the end, and
// at a incomplete end.
func (s *scanner) next() (line []byte, at int64, h head, err error) {
	for {
		line, at, err := s.lines.next()
		if err != nil && !errors.Is(err, errTorn) {
			if err != io.EOF {
				err = fmt.Errorf("read session %s: %w", s.path, wholefile.Cause(err))
			}
			return nil, at, head{}, err
		}
		if err == nil {
			h, err = s.check(line)
		}
		if err != nil {
			return nil, at, head{}, s.bad(at, err)
		}
		if s.verify != nil {
			if err := s.verify(line); err != nil {
				return nil, at, head{}, s.damage(at, s.line+1, err)
			}
		}
		s.line++
		s.good = s.at
		if !h.event() || s.line == 1 {
			if err := s.fileLine(line, h); err != nil {
				return nil, at, head{}, err
			}
			continue
		}
		s.note(at, h)
		return line, at, h, nil
	}
}

// check returns the head of a line if its checksum matches.
func (s *scanner) check(line []byte) (head, error) {
	body, stated, ok := tail(line)
	if !ok {
		return head{}, errTorn
	}
	sum := crc32.Update(s.sum, crc32.IEEETable, body)
	if !bytes.Equal(appendSum(make([]byte, 0, 8), sum), stated) {
		return head{}, errors.New("checksum mismatch")
	}
	h, err := headOf(line)
	if err == nil {
		s.sum = sum
	}
	return h, err
}

// note counts the answers of the root session.
func (s *scanner) note(at int64, h head) {
	if s.root == "" {
		s.root = string(h.session)
	}
	if string(h.session) == s.root && h.is(agent.EventAnswer) {
		s.answer = at
		s.answers++
	}
}

// damage is the error for the line at an offset, with what is intact before it.
func (s *scanner) damage(at int64, line int, what error) error {
	return &DamageError{Path: s.path, Line: line, Offset: at, Turns: s.turns(at), What: what.Error()}
}

// turns counts the complete turns before an offset: all, except for the last one
// if results are missing there.
func (s *scanner) turns(end int64) int {
	switch s.answer {
	case -1:
		return 0
	case end: // the answer itself is damaged
		return s.answers - 1
	}
	open := 0
	for in := newLines(s.r, s.answer, end); ; {
		line, _, err := in.next()
		if err != nil {
			break
		}
		h, _ := headOf(line)
		if string(h.session) != s.root {
			continue
		}
		var e agent.Event
		switch {
		case h.is(agent.EventCallEnded):
			open--
		case h.is(agent.EventAnswer) && json.Unmarshal(line, &e) == nil && e.Message != nil:
			open += len(e.Message.Calls)
		}
	}
	if open > 0 {
		return s.answers - 1
	}
	return s.answers
}

// fileLine processes a line about the file. The first line must be one.
func (s *scanner) fileLine(line []byte, h head) error {
	var v fileLine
	err := json.Unmarshal(line, &v)
	switch {
	case s.line > 1 && err != nil:
		return s.damage(s.good-int64(len(line))-1, s.line, err)
	case s.line == 1 && (err != nil || !h.is(kindJournal) || v.Format != formatName):
		return fmt.Errorf("%s: %w: its first line is not a session header", s.path, ErrNotSession)
	case v.Version > Version:
		return fmt.Errorf("%s was written by a newer version of this program (format %d, known is %d)", s.path, v.Version, Version)
	case s.line == 1:
		s.dir = v.Dir
	}
	if !h.is(kindClosed) {
		s.owner = v.owner
	}
	return nil
}

// bad classifies an invalid line. It returns io.EOF if a crash can have caused this
// line and everything after it, and a DamageError if a later line proves that it had
// been synced, or if more data follows than a crash can leave. A file that is not a
// journal must not be mistaken for an incomplete one, which is truncated: a journal
// starts with the bytes of a header, and only zeros may follow an incomplete header.
func (s *scanner) bad(at int64, what error) error {
	var start [len(headerStart)]byte
	n, _ := s.r.ReadAt(start[:min(int64(len(start)), s.end)], 0)
	front, _, _ := bytes.Cut(start[:n], []byte{0})
	prefix := strings.HasPrefix(headerStart, string(front))
	ours := s.line > 0 || prefix && len(front) == len(headerStart)
	notOurs := fmt.Errorf("%s: %w: it does not start with a session header", s.path, ErrNotSession)
	s.cut = s.end - at
	switch {
	case !ours && (s.cut > maxBytes || !prefix && !s.named):
		return notOurs
	case s.cut > maxBytes:
		return s.damage(at, s.line+1, fmt.Errorf("%w, and more data follows than a crash can leave (%d bytes)", what, s.cut))
	}
	synced, data, err := s.rest(at)
	switch {
	case err != nil:
		return fmt.Errorf("read session %s: %w", s.path, wholefile.Cause(err))
	case synced && (ours || s.named):
		return s.damage(at, s.line+1, what)
	case ours || prefix && data <= int64(len(front)):
		return io.EOF
	}
	return notOurs
}

// rest reads the file from an offset. It reports whether a line records that the file
// was synced beyond the offset, and the end of the last non-zero byte.
func (s *scanner) rest(at int64) (synced bool, data int64, err error) {
	buf := make([]byte, markBytes+min(readBytes, int(s.end-at)))
	kept := 0
	for pos := at; pos < s.end; {
		n, err := s.r.ReadAt(buf[kept:min(int64(len(buf)), int64(kept)+s.end-pos)], pos)
		if n == 0 && err != io.EOF {
			return false, 0, err
		}
		chunk := buf[:kept+n]
		if n := len(bytes.TrimRight(chunk, "\x00")); n > 0 {
			data = pos - int64(kept) + int64(n)
		}
		for i, c := range chunk {
			if c == '\n' && syncedOf(chunk[max(0, i-markBytes):i]) > at {
				return true, data, nil
			}
		}
		if pos += int64(n); n == 0 {
			break // it was truncated while it was read
		}
		kept = copy(buf, chunk[max(0, len(chunk)-markBytes):])
	}
	return false, data, nil
}
