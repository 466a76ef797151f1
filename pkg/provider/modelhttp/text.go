package modelhttp

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Text is assembled from the JSON strings of many chunks. Servers cut
// characters in two, as bytes and as halves of a surrogate pair, so what a
// chunk holds may be invalid by itself.
type Text struct {
	Buf  []byte // everything that was added
	done int    // Buf[:done] is valid UTF-8 and was returned
}

// Add appends the content of a JSON string, with its quotes, and nothing for any other
// value. Bytes stay as they are; half of a surrogate pair becomes three bytes that are not
// valid UTF-8, unless it follows the other half.
func (t *Text) Add(quoted []byte) {
	if FirstByte(quoted) != '"' {
		return
	}
	s := quoted[1 : len(quoted)-1]
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			t.Buf = append(t.Buf, s...)
			return
		}
		t.Buf = append(t.Buf, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			t.Buf = append(t.Buf, '\b')
		case 'f':
			t.Buf = append(t.Buf, '\f')
		case 'n':
			t.Buf = append(t.Buf, '\n')
		case 'r':
			t.Buf = append(t.Buf, '\r')
		case 't':
			t.Buf = append(t.Buf, '\t')
		case 'u':
			if len(s) >= 4 {
				n, _ := strconv.ParseUint(string(s[:4]), 16, 32)
				t.addRune(rune(n))
				s = s[4:]
			}
		default:
			t.Buf = append(t.Buf, c)
		}
	}
}

func (t *Text) addRune(r rune) {
	if !utf16.IsSurrogate(r) {
		t.Buf = utf8.AppendRune(t.Buf, r)
		return
	}
	if high, ok := t.lastHalf(); ok && r >= 0xDC00 {
		t.Buf = utf8.AppendRune(t.Buf[:len(t.Buf)-3], utf16.DecodeRune(high, r))
		return
	}
	t.Buf = append(t.Buf, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
}

// lastHalf is the first half of a surrogate pair that Buf ends in.
func (t *Text) lastHalf() (rune, bool) {
	tail := t.Buf[t.done:]
	if len(tail) < 3 {
		return 0, false
	}
	tail = tail[len(tail)-3:]
	if tail[0] != 0xED || tail[1]&0xF0 != 0xA0 || tail[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(tail[1]&0x3F)<<6 | rune(tail[2]&0x3F), true
}

// Fresh returns what was added since the last call, without an incomplete
// character at the end.
func (t *Text) Fresh() string {
	end := len(t.Buf)
	if _, ok := t.lastHalf(); ok {
		end -= 3
	} else {
		for i := 1; i <= min(utf8.UTFMax, end-t.done); i++ {
			if utf8.RuneStart(t.Buf[end-i]) {
				if !utf8.FullRune(t.Buf[end-i : end]) {
					end -= i
				}
				break
			}
		}
	}
	return t.give(end)
}

// Rest returns what Fresh left.
func (t *Text) Rest() string { return t.give(len(t.Buf)) }

// give makes Buf[done:end] valid and returns it.
func (t *Text) give(end int) string {
	if end == t.done {
		return ""
	}
	if piece := t.Buf[t.done:end]; !utf8.Valid(piece) {
		clean := bytes.ToValidUTF8(piece, []byte("\uFFFD"))
		tail := bytes.Clone(t.Buf[end:])
		t.Buf = append(append(t.Buf[:t.done], clean...), tail...)
		end = t.done + len(clean)
	}
	s := string(t.Buf[t.done:end])
	t.done = end
	return s
}

// String is all that was returned.
func (t *Text) String() string { return string(t.Buf[:t.done]) }

// Shorten makes s one line of at most n bytes, without control characters.
func Shorten(s string, n int) string {
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
