// Package termtext prepares text for a terminal: [Clean] and [Cleaner] remove what
// controls the terminal, [Visible] shows it escaped, [EightBit] writes for terminals whose
// characters are single bytes, and [Width] and [Cut] count in cells.
package termtext

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The maximum length of a control sequence. The rest is text, so that a sequence
// without an end cannot hide the rest of an output.
const (
	maxCSI    = 256
	maxString = 4096
)

// Clean removes everything from s that controls a terminal: escape sequences (CSI,
// OSC, DCS and the others of ECMA-48, in their 7-bit and 8-bit form), control
// characters except newline and tab, DEL. A carriage return, with a newline that
// follows it, becomes a newline. Characters that are invisible or reorder the text
// (bidirectional overrides, zero-width and tag characters) are escaped, as \u202e;
// joiners and variation selectors stay where scripts and emoji need them. Bytes that
// are not UTF-8 become U+FFFD.
// Clean(Clean(s)) is Clean(s).
func Clean(s string) string {
	if plain(s) {
		return s
	}
	var c Cleaner
	return c.Clean(s) + c.Flush()
}

// plain reports whether s consists of printable ASCII, newlines and tabs.
func plain(s string) bool {
	for i := range len(s) {
		if b := s[i]; (b < ' ' && b != '\n' && b != '\t') || b >= 0x7f {
			return false
		}
	}
	return true
}

// A Cleaner is Clean for a text that arrives in chunks, which can split sequences and
// characters. The zero value is ready to use. It is not safe for concurrent
// use.
type Cleaner struct {
	state cleanState
	size  int    // runes of the sequence so far
	prev  rune   // the last rune of the output
	cr    bool   // prev replaces a carriage return
	held  string // beginning of a rune
}

// A cleanState is the position of a Cleaner in a control sequence.
type cleanState int

const (
	inText         cleanState = iota
	inEscape                  // after ESC
	inIntermediate            // after ESC and an intermediate byte
	inCSI
	inString // OSC, DCS, SOS, PM, APC
)

// Clean adds a chunk and returns the cleaned text so far. It holds back at most the
// beginning of one character.
func (c *Cleaner) Clean(piece string) string {
	s := piece
	if c.held != "" {
		s, c.held = c.held+piece, ""
	}
	var b strings.Builder
	b.Grow(len(s))
	for s != "" {
		if !utf8.FullRuneInString(s) {
			c.held = s
			break
		}
		r, n := utf8.DecodeRuneInString(s)
		c.add(&b, r)
		s = s[n:]
	}
	return b.String()
}

// Flush ends the text and returns what Clean held back. The Cleaner can then be used
// for another text.
func (c *Cleaner) Flush() string {
	var b strings.Builder
	for range len(c.held) {
		c.add(&b, utf8.RuneError)
	}
	*c = Cleaner{}
	return b.String()
}

// add processes a rune. A rune that is not valid in a sequence ends it and is text.
func (c *Cleaner) add(b *strings.Builder, r rune) {
	if c.state == inText || !c.sequence(r) {
		c.text(b, r)
	}
}

// sequence processes a rune within a control sequence and reports whether it belongs
// to it.
func (c *Cleaner) sequence(r rune) bool {
	c.size++
	switch c.state {
	case inEscape, inIntermediate:
		switch {
		case c.state == inEscape && introduces(r) != inText:
			c.enter(introduces(r))
			return true
		case r >= 0x20 && r <= 0x2f && c.size < maxCSI:
			c.state = inIntermediate
			return true
		}
		c.state = inText
		return r >= 0x20 && r <= 0x7e
	case inCSI:
		if r >= 0x20 && r <= 0x3f && c.size < maxCSI {
			return true
		}
		c.state = inText
		return r >= 0x20 && r <= 0x7e
	default:
		switch {
		case r == '\a', r == 0x9c:
			c.state = inText
			return true
		case control(r) && r != '\t', c.size >= maxString:
			c.state = inText
			return false
		}
		return true
	}
}

func (c *Cleaner) enter(s cleanState) { c.state, c.size = s, 0 }

// introduces returns the kind of sequence that starts with ESC and r, or with r+0x40
// in the 8-bit form.
func introduces(r rune) cleanState {
	switch r {
	case '[':
		return inCSI
	case ']', 'P', 'X', '^', '_':
		return inString
	}
	return inText
}

// text processes a rune outside of sequences.
func (c *Cleaner) text(b *strings.Builder, r rune) {
	switch {
	case r == '\x1b':
		c.enter(inEscape)
	case r >= 0x80 && r <= 0x9f:
		c.enter(introduces(r - 0x40))
	case r == '\r':
		if !c.cr {
			c.put(b, '\n')
		}
		c.cr = true
	case r == '\n' && c.cr:
		c.cr = false
	case control(r) && r != '\n' && r != '\t':
	case hidden(r, c.prev):
		b.WriteString(escaped(r))
		c.prev, c.cr = 'x', false
	default:
		c.put(b, r)
	}
}

func (c *Cleaner) put(b *strings.Builder, r rune) {
	b.WriteRune(r)
	c.prev, c.cr = r, false
}

// control reports whether r is a C0 or C1 control character or DEL.
func control(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f }

// hidden reports whether r, after prev, is invisible or changes how its neighbors
// look. Joiners and variation selectors are part of some scripts and emoji, after a
// character that can take them.
func hidden(r, prev rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = 0x200c, 0x200d
	switch {
	case r < 0xad:
		return false
	case r == 0x2028 || r == 0x2029: // line and paragraph separator
		return true
	case r == zeroWidthJoiner || r == zeroWidthNonJoiner:
		return prev < 0x80 || !unicode.In(prev, unicode.L, unicode.M, unicode.So, unicode.Sk)
	case unicode.Is(unicode.Variation_Selector, r):
		if r > 0xffff {
			return !unicode.Is(unicode.Han, prev)
		}
		keycap := prev == '#' || prev == '*' || prev >= '0' && prev <= '9'
		return !keycap && (prev < 0x80 || unicode.Is(unicode.Variation_Selector, prev) || unicode.IsSpace(prev))
	case unicode.Is(unicode.Cf, r):
		return !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// Hidden reports whether Clean removes or escapes r at the beginning of a text.
func Hidden(r rune) bool { return control(r) || hidden(r, 0) }

// escaped returns r as a Go escape sequence in ASCII.
func escaped(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// EightBit returns a writer to w, a terminal whose characters are single bytes, as
// in a locale of ISO 8859. Such a terminal interprets the bytes 0x80 to 0x9f as
// control characters, but the UTF-8 of many letters contains them: these letters are
// written escaped (\u011b). Errors of w are returned.
func EightBit(w io.Writer) io.Writer { return &eightBit{w} }

type eightBit struct{ w io.Writer }

func (e *eightBit) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch char := rest[:n]; {
		case !slices.ContainsFunc(char, func(b byte) bool { return 0x80 <= b && b <= 0x9f }):
			out = append(out, char...)
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, char[0])
		default:
			out = append(out, escaped(r)...)
		}
		rest = rest[n:]
	}
	if _, err := e.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Visible returns s as one line without hidden characters: every character that Clean would
// remove or escape, newlines and tabs, and bytes that are not UTF-8 are escaped (\n,
// \x1b, \u202e, \xff). It is for text that a person must be able to check: arguments,
// names, commands.
func Visible(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	prev := rune(0)
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
			prev = 'x'
		case control(r), hidden(r, prev):
			b.WriteString(escaped(r))
			prev = 'x'
		default:
			b.WriteRune(r)
			prev = r
		}
	}
	return b.String()
}
