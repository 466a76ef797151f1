package observe

import (
	"strings"
	"unicode"
)

// wide are the blocks whose characters take two cells of a terminal: East Asian
// wide and full-width ones and emoji (Unicode TR 11). Where terminals differ the
// wider answer is taken: a line that is too short does no harm.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x231a, Hi: 0x231b, Stride: 1},
		{Lo: 0x2329, Hi: 0x232a, Stride: 1},
		{Lo: 0x23e9, Hi: 0x23f3, Stride: 1},
		{Lo: 0x25fd, Hi: 0x25fe, Stride: 1},
		{Lo: 0x2600, Hi: 0x2712, Stride: 1},
		{Lo: 0x2728, Hi: 0x27bf, Stride: 1},
		{Lo: 0x2b1b, Hi: 0x2b55, Stride: 1},
		{Lo: 0x2e80, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe10, Hi: 0xfe19, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe0, Hi: 0x18d08, Stride: 1},
		{Lo: 0x1aff0, Hi: 0x1b2fb, Stride: 1},
		{Lo: 0x1f004, Hi: 0x1f9ff, Stride: 1},
		{Lo: 0x1fa70, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// cell is the number of terminal cells that r takes.
func cell(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// cells is the width of s, a text without control characters.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += cell(r)
	}
	return n
}

// cut shortens s to at most n cells; what was cut is marked by more.
func cut(s string, n int, more string) string {
	n = max(n, 0)
	if len(s) <= n || cells(s) <= n {
		return s
	}
	room := n - cells(more)
	if room < 0 {
		return strings.Repeat(".", n)
	}
	used := 0
	for i, r := range s {
		if used += cell(r); used > room {
			return s[:i] + more
		}
	}
	return s
}
