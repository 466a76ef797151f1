package openai

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. It writes <, > and & as they are,
// which encoding/json does not, and needs no memory of its own: a request
// repeats the whole conversation in every turn.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = append(b, s[start:i]...)
		b = appendEscaped(b, c)
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscaped(b []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, '\\', 'n')
	case c == '\r':
		return append(b, '\\', 'r')
	case c == '\t':
		return append(b, '\\', 't')
	case c < ' ':
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	default: // no part of valid UTF-8
		return utf8.AppendRune(b, utf8.RuneError)
	}
}

// appendName appends the name of the next member of the object that b ends in.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = appendString(b, name)
	return append(b, ':')
}

// appendMember appends a member whose value is a string.
func appendMember(b []byte, name, value string) []byte {
	return appendString(appendName(b, name), value)
}

// appendRaw appends a member whose value is JSON already.
func appendRaw[T ~string | ~[]byte](b []byte, name string, value T) []byte {
	return append(appendName(b, name), value...)
}
