// Package glob matches texts with patterns: * stands for any text without a slash, ** for any
// text, ? for one character except a slash. Everything else stands for itself.
package glob

import "strings"

// A Pattern is one of these patterns. See New.
type Pattern struct {
	pattern string
	prefix  string // before the first * or ?
	plain   bool   // there is no * or ?
}

// New returns the Pattern of a text. Every text is one.
func New(pattern string) Pattern {
	if i := strings.IndexAny(pattern, "*?"); i >= 0 {
		return Pattern{pattern, pattern[:i], false}
	}
	return Pattern{pattern, pattern, true}
}

// Match reports whether g matches the whole of s. It takes at most len(pattern) * len(s) steps
// for each of the two kinds of stars.
func (g Pattern) Match(s string) bool {
	if g.plain || !strings.HasPrefix(s, g.prefix) {
		return g.plain && g.pattern == s
	}
	p, s := g.pattern[len(g.prefix):], s[len(g.prefix):]
	i, j := 0, 0
	star, starAt, deep, deepAt := -1, 0, -1, 0 // behind the last * and **, and what they stand for so far
	for {
		switch {
		case strings.HasPrefix(p[i:], "**"):
			i += 2
			deep, deepAt, star = i, j, -1
			continue
		case i < len(p) && p[i] == '*':
			i++
			star, starAt = i, j
			continue
		case i == len(p) && j == len(s):
			return true
		case i < len(p) && j < len(s) && (p[i] == s[j] && p[i] != '?' || p[i] == '?' && s[j] != '/'):
			i, j = i+1, j+width(p[i], s[j:])
			continue
		}
		switch {
		case star >= 0 && starAt < len(s) && s[starAt] != '/':
			starAt++
			i, j = star, starAt
		case deep >= 0 && deepAt < len(s):
			deepAt++
			i, j, star = deep, deepAt, -1
		default:
			return false
		}
	}
}

// width is how many bytes of s one character of a pattern stands for.
func width(pattern byte, s string) int {
	n := 1
	for pattern == '?' && n < len(s) && s[n]&0xC0 == 0x80 { // the rest of a character
		n++
	}
	return n
}
