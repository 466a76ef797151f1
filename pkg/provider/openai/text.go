package openai

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A text is assembled from the JSON strings of many chunks. Servers cut
// characters in two, as bytes and as halves of a surrogate pair, so what a
// chunk holds may be invalid by itself.
type text struct {
	buf  []byte
	done int // buf[:done] is valid UTF-8 and was returned
}

// add appends the content of a JSON string, with its quotes. Bytes stay as they
// are; half of a surrogate pair becomes three bytes that are no valid UTF-8,
// unless it follows the other half.
func (t *text) add(quoted []byte) {
	if len(quoted) < 2 {
		return
	}
	s := quoted[1 : len(quoted)-1]
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			t.buf = append(t.buf, s...)
			return
		}
		t.buf = append(t.buf, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			t.buf = append(t.buf, '\b')
		case 'f':
			t.buf = append(t.buf, '\f')
		case 'n':
			t.buf = append(t.buf, '\n')
		case 'r':
			t.buf = append(t.buf, '\r')
		case 't':
			t.buf = append(t.buf, '\t')
		case 'u':
			if len(s) >= 4 {
				n, _ := strconv.ParseUint(string(s[:4]), 16, 32)
				t.addRune(rune(n))
				s = s[4:]
			}
		default:
			t.buf = append(t.buf, c)
		}
	}
}

func (t *text) addRune(r rune) {
	if !utf16.IsSurrogate(r) {
		t.buf = utf8.AppendRune(t.buf, r)
		return
	}
	if high, ok := t.lastHalf(); ok && r >= 0xDC00 {
		t.buf = utf8.AppendRune(t.buf[:len(t.buf)-3], utf16.DecodeRune(high, r))
		return
	}
	t.buf = append(t.buf, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
}

// lastHalf is the first half of a surrogate pair that buf ends in.
func (t *text) lastHalf() (rune, bool) {
	tail := t.buf[t.done:]
	if len(tail) < 3 {
		return 0, false
	}
	tail = tail[len(tail)-3:]
	if tail[0] != 0xED || tail[1]&0xF0 != 0xA0 || tail[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(tail[1]&0x3F)<<6 | rune(tail[2]&0x3F), true
}

// fresh returns what was added since the last call, without an incomplete
// character at the end.
func (t *text) fresh() string {
	end := len(t.buf)
	if _, ok := t.lastHalf(); ok {
		end -= 3
	} else {
		for i := 1; i <= min(utf8.UTFMax, end-t.done); i++ {
			if utf8.RuneStart(t.buf[end-i]) {
				if !utf8.FullRune(t.buf[end-i : end]) {
					end -= i
				}
				break
			}
		}
	}
	return t.give(end)
}

// rest returns what fresh left.
func (t *text) rest() string { return t.give(len(t.buf)) }

// give makes buf[done:end] valid and returns it.
func (t *text) give(end int) string {
	if end == t.done {
		return ""
	}
	if piece := t.buf[t.done:end]; !utf8.Valid(piece) {
		clean := bytes.ToValidUTF8(piece, []byte("\uFFFD"))
		tail := bytes.Clone(t.buf[end:])
		t.buf = append(append(t.buf[:t.done], clean...), tail...)
		end = t.done + len(clean)
	}
	s := string(t.buf[t.done:end])
	t.done = end
	return s
}

// String is all that was returned.
func (t *text) String() string { return string(t.buf[:t.done]) }

// shorten makes s one line of at most n bytes, without control characters.
func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7F && r < 0xA0 {
			return -1
		}
		return r
	}, s)
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
