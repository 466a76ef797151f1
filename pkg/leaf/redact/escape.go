package redact

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxRounds limits nested encodings, such as JSON in JSON.
const maxRounds = 3

// An escape is an escape sequence at in of a text, which stands for the character at out of
// the decoded text.
type escape struct{ out, in span }

// decode replaces the escapes of JSON, URLs and C in s: \u0041, \x41, \/, %41. It also returns
// the length of the end of s that may be the beginning of an escape.
func decode(s string) (text string, escapes []escape, open int) {
	next := strings.IndexAny(s, `%\`)
	if next < 0 {
		return s, nil, 0
	}
	b := make([]byte, 0, len(s))
	for i := 0; next >= 0; {
		b = append(b, s[i:i+next]...)
		i += next
		char, n := unescape(s[i:])
		switch {
		case n < 0:
			open = len(s) - i
			return string(append(b, s[i:]...)), escapes, open
		case n == 0:
			b = append(b, s[i])
			n = 1
		default:
			escapes = append(escapes, escape{span{len(b), len(b) + len(char)}, span{i, i + n}})
			b = append(b, char...)
		}
		i += n
		if next = strings.IndexAny(s[i:], `%\`); next < 0 {
			b = append(b, s[i:]...)
		}
	}
	return string(b), escapes, 0
}

// unescape returns the character of the escape that s begins with, and its length: 0 if it
// is none, negative if s ends within it.
func unescape(s string) (char string, n int) {
	if s[0] == '%' {
		return hexByte(s, 1)
	}
	if len(s) == 1 {
		return "", -1
	}
	switch s[1] {
	case 'u':
		return unicodeEscape(s)
	case 'x':
		return hexByte(s, 2)
	}
	if i := strings.IndexByte(`"\/bfnrt'`, s[1]); i >= 0 {
		return "\"\\/\b\f\n\r\t'"[i : i+1], 2
	}
	return "", 0
}

// hexByte reads the two digits behind the first n bytes of s.
func hexByte(s string, n int) (string, int) {
	value, size := hexDigits(s[n:], 2)
	if size <= 0 {
		return "", size
	}
	return string([]byte{byte(value)}), n + size
}

func unicodeEscape(s string) (string, int) {
	value, size := hexDigits(s[2:], 4)
	if size <= 0 {
		return "", size
	}
	r := rune(value)
	if low, ok := strings.CutPrefix(s[6:], `\u`); ok && utf16.IsSurrogate(r) {
		if second, size := hexDigits(low, 4); size > 0 {
			if pair := utf16.DecodeRune(r, rune(second)); pair != utf8.RuneError {
				return string(pair), 12
			}
		}
	}
	return string(r), 6
}

// hexDigits reads n digits; the size is 0 if there are others, and negative if s ends before.
func hexDigits(s string, n int) (value uint64, size int) {
	end := min(len(s), n)
	if end == 0 {
		return 0, -1
	}
	value, err := strconv.ParseUint(s[:end], 16, 32)
	if err != nil || s[0] == '+' {
		return 0, 0
	}
	if end < n {
		return 0, -1
	}
	return value, n
}

// encoded converts spans of a decoded text to spans of the original text. They include the
// escape sequences as a whole.
func encoded(found []span, escapes []escape) []span {
	for i, f := range found {
		found[i] = span{before(escapes, f.start), after(escapes, f.end)}
	}
	return found
}

// before returns where the character at i of a decoded text begins.
func before(escapes []escape, i int) int {
	n := sort.Search(len(escapes), func(k int) bool { return escapes[k].out.start > i })
	if n == 0 {
		return i
	}
	if e := escapes[n-1]; i >= e.out.end {
		return e.in.end + i - e.out.end
	}
	return escapes[n-1].in.start
}

// after returns where the character ends that is before i in a decoded text.
func after(escapes []escape, i int) int {
	n := sort.Search(len(escapes), func(k int) bool { return escapes[k].out.start >= i })
	if n == 0 {
		return i
	}
	return escapes[n-1].in.end + max(0, i-escapes[n-1].out.end)
}

// findEncoded returns the spans of secrets that s spells with escapes.
func (r *Redactor) findEncoded(s string) (all []span) {
	var rounds [][]escape
	for len(rounds) < maxRounds {
		text, escapes, _ := decode(s)
		if len(escapes) == 0 {
			break
		}
		s, rounds = text, append(rounds, escapes)
		var found []span
		for _, f := range r.forms {
			found = f.find(s, found)
		}
		for _, escapes := range slices.Backward(rounds) {
			found = encoded(found, escapes)
		}
		all = append(all, found...)
	}
	return all
}

// pendingEncoded is pending for a suffix with escapes, of which the last may be incomplete.
func (r *Redactor) pendingEncoded(s string, rounds int) int {
	text, escapes, open := decode(s)
	if rounds == 0 || len(escapes) == 0 && open == 0 {
		return 0
	}
	text = text[:len(text)-open]
	n := max(r.pendingPlain(text), r.pendingEncoded(text, rounds-1))
	return len(s) - before(escapes, len(text)-n)
}
