package modelhttp

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. It writes <, > and & as they are,
// which encoding/json does not, and needs no memory of its own: a request
// repeats the whole conversation in every turn.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && r != utf8.RuneError {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch short := strings.IndexRune("\"\\\n\r\t", r); {
		case short >= 0:
			b = append(b, '\\', `"\nrt`[short])
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default: // U+FFFD, or a byte that is not part of valid UTF-8
			b = utf8.AppendRune(b, utf8.RuneError)
			_, size := utf8.DecodeRuneInString(s[i:])
			start = i + size
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// AppendName appends the name of the next member of the object that b ends in.
func AppendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = AppendString(b, name)
	return append(b, ':')
}

// AppendMember appends a member whose value is a string.
func AppendMember(b []byte, name, value string) []byte {
	return AppendString(AppendName(b, name), value)
}

// AppendRaw appends a member whose value is JSON already.
func AppendRaw[T ~string | ~[]byte](b []byte, name string, value T) []byte {
	return append(AppendName(b, name), value...)
}
