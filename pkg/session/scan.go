package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/agents-exe/agents/pkg/agent"
)

// readBytes is how much of a file is read at once.
const readBytes = 256 << 10

// lines reads the lines of a file through a buffer that is as large as the longest
// of them.
type lines struct {
	r        io.ReaderAt
	end      int64 // of what is to be read
	at       int64 // where buf[from] stands in the file
	buf      []byte
	from, to int
}

func newLines(r io.ReaderAt, start, end int64) *lines {
	return &lines{r: r, at: start, end: end, buf: make([]byte, min(readBytes, end-start))}
}

// next returns the next line without its newline, and where it begins. whole is
// false for what is left when no newline comes any more. The line is valid until
// the next call. At the end the error is io.EOF.
func (l *lines) next() (line []byte, at int64, whole bool, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(l.buf[l.from+searched:l.to], '\n'); i >= 0 {
			line, at = l.buf[l.from:l.from+searched+i], l.at
			l.from += len(line) + 1
			l.at += int64(len(line)) + 1
			return line, at, true, nil
		}
		searched = l.to - l.from
		if l.at+int64(searched) >= l.end || searched > maxLine {
			break
		}
		if err := l.more(); err != nil {
			return nil, l.at, false, err
		}
	}
	if searched == 0 {
		return nil, l.at, false, io.EOF
	}
	line, at = l.buf[l.from:l.to], l.at
	l.from = l.to
	l.at += int64(len(line))
	return line, at, false, nil
}

// more reads on behind what is in the buffer.
func (l *lines) more() error {
	copy(l.buf, l.buf[l.from:l.to])
	l.to -= l.from
	l.from = 0
	if l.to == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	pos := l.at + int64(l.to)
	want := min(int64(len(l.buf)-l.to), l.end-pos)
	n, err := l.r.ReadAt(l.buf[l.to:l.to+int(want)], pos)
	l.to += n
	if n == 0 && err == io.EOF {
		l.end = pos // it was cut while it was read
		return nil
	}
	if n > 0 {
		return nil
	}
	return err
}

// A scanner goes through the lines of a journal and checks them.
type scanner struct {
	*lines
	path string
	// Of the lines so far, which are all good:
	good  int64 // where the next begins
	line  int
	sum   uint32
	marks int64 // how much is known to be synced

	ours    bool   // the file's name is that of a journal
	root    string // the first session
	answers int    // in it
	answer  int64  // where the last of them stands, -1 if there is none
	cut     int64  // bytes of a torn end
}

// newScanner reads what is in r, up to size. path is for errors; ours says that r
// has the name of a journal, and is not whatever file somebody named.
func newScanner(r io.ReaderAt, size int64, path string, ours bool) *scanner {
	return &scanner{lines: newLines(r, 0, size), path: path, ours: ours, answer: -1}
}

// next returns the next event's line, checked. At the end, also in front of a torn
// one, the error is io.EOF.
func (s *scanner) next() (line []byte, at int64, h head, err error) {
	for {
		line, at, whole, err := s.lines.next()
		if err == io.EOF {
			return nil, at, head{}, err
		}
		if err != nil {
			return nil, at, head{}, fmt.Errorf("read session %s: %w", s.path, cause(err))
		}
		what := ""
		body, stated, ok := tail(line)
		if !whole || !ok {
			what = "the line is not complete"
		} else if sum := crc32.Update(s.sum, crc32.IEEETable, body); sum != stated {
			what = "the checksum does not fit"
		}
		h := head{}
		if what == "" {
			if h, ok = headOf(line); !ok {
				what = "the line is no JSON object"
			}
		}
		if what != "" {
			return nil, at, head{}, s.bad(line, at, whole, what)
		}
		s.line++
		s.good, s.sum = s.at, stated
		if bytes.Contains(line[max(0, len(line)-60):], []byte(syncedStart)) {
			s.marks = max(s.marks, syncedOf(line))
		}
		if s.line == 1 {
			if err := s.header(line, h); err != nil {
				return nil, at, head{}, err
			}
		}
		if !h.event() {
			continue
		}
		s.note(at, h)
		return line, at, h, nil
	}
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

// damage is the error for the line at an offset, with what is whole in front of it.
func (s *scanner) damage(at int64, line int, what string) error {
	return &DamageError{Path: s.path, Line: line, Offset: at, Turns: s.turns(at), What: what}
}

// turns is how many turns are whole in front of an offset: all, but for the last
// if it lacks results there.
func (s *scanner) turns(end int64) int {
	if s.answer < 0 {
		return 0
	}
	open := 0
	for in := newLines(s.r, s.answer, end); ; {
		line, _, _, err := in.next()
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
		case h.is(agent.EventAnswer) && decode(line, &e) == nil && e.Message != nil:
			open += len(e.Message.Calls)
		}
	}
	if open > 0 {
		return s.answers - 1
	}
	return s.answers
}

// header looks at the first line.
func (s *scanner) header(line []byte, h head) error {
	var v struct {
		Format  string
		Version int
	}
	if json.Unmarshal(line, &v) != nil || !h.is(kindJournal) || v.Format != formatName {
		return fmt.Errorf("%s: %w: its first line is another one", s.path, ErrNotSession)
	}
	if v.Version > Version {
		return fmt.Errorf("%s was written by a newer version of this program (format %d, known is %d)", s.path, v.Version, Version)
	}
	return nil
}

// bad decides what a line is that is not as it was written: io.EOF if it and all
// that follow may be what a crash left, a DamageError if something behind it
// proves that it had been synced.
func (s *scanner) bad(line []byte, at int64, whole bool, what string) error {
	strange := s.line == 0 && !tornHeader(line, whole)
	notOurs := fmt.Errorf("%s: %w: it does not begin as one", s.path, ErrNotSession)
	if strange && !s.ours {
		return notOurs
	}
	s.cut = s.end - at
	for {
		if syncedOf(line) > at {
			return s.damage(at, s.line+1, what)
		}
		var err error
		line, _, _, err = s.lines.next()
		if err == io.EOF && strange {
			return notOurs // another program's file can have this name too
		}
		if err == io.EOF {
			return io.EOF
		}
		if err != nil {
			return fmt.Errorf("read session %s: %w", s.path, cause(err))
		}
	}
}

// tornHeader reports whether the beginning of a file can be left of the first line
// of a journal: a part of it, and zeros. A file that is no journal must not be
// taken for a torn one, since that would be cut.
func tornHeader(line []byte, whole bool) bool {
	front, hole := line, []byte(nil)
	if i := bytes.IndexByte(line, 0); i >= 0 {
		front, hole = line[:i], line[i:]
	}
	n := min(len(front), len(headerStart))
	if string(front[:n]) != headerStart[:n] {
		return false
	}
	if len(front) >= len(headerStart) {
		return true
	}
	if !whole {
		return len(bytes.Trim(hole, "\x00")) == 0
	}
	_, _, ok := tail(line)
	return ok && len(hole) > 0
}

// A survey is what one pass over a journal finds. Offsets are those of lines of
// the root session, -1 if there is none.
type survey struct {
	scanner
	compaction int64 // the last one
	counted    int64 // the last event from which what a run consumed is known
}

// look makes a survey.
func look(r io.ReaderAt, size int64, path string, ours bool) (*survey, error) {
	s := &survey{scanner: *newScanner(r, size, path, ours), compaction: -1, counted: -1}
	for {
		_, at, h, err := s.next()
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if string(h.session) != s.root {
			continue
		}
		switch agent.EventKind(h.kind) {
		case agent.EventCompaction:
			s.compaction, s.counted = at, at
		case agent.EventMessage, agent.EventEnd:
			s.counted = at
		}
	}
}

// wants reports whether a line has to be decoded to know what the session is.
func (s *survey) wants(at int64, h head) bool {
	if string(h.session) != s.root {
		// Sub-agents that are at work answer calls of the last answer.
		return at > s.answer || at > s.counted
	}
	return !h.is(agent.EventCallStarted) || at > s.answer
}
