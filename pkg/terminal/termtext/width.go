package termtext

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// wide are the first and last characters of the blocks whose characters take two
// cells of a terminal, in order: East Asian wide and full-width ones and emoji
// (Unicode TR 11). Where terminals differ it has the wider answer: a line that is
// too short does no harm.
var wide = [...][2]rune{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23f3}, {0x25fd, 0x25fe}, {0x2600, 0x2712},
	{0x2728, 0x27bf}, {0x2b1b, 0x2b55}, {0x2e80, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},
	{0xfe10, 0xfe19}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6},
	{0x16fe0, 0x18d08}, {0x1aff0, 0x1b2fb}, {0x1f004, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
}

// Cell is the number of terminal cells that r takes, a character that Clean keeps.
func Cell(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	for _, block := range wide {
		if block[0] <= r && r <= block[1] {
			return 2
		}
	}
	return 1
}

// Width is the number of cells of s, a text without control characters.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += Cell(r)
	}
	return n
}

// Cut shortens s to at most n cells; more replaces the end.
func Cut(s string, n int, more string) string {
	n = max(n, 0)
	if len(s) <= n || Width(s) <= n {
		return s
	}
	room := n - Width(more)
	if room < 0 {
		return strings.Repeat(".", n)
	}
	used := 0
	for i, r := range s {
		if used += Cell(r); used > room {
			return s[:i] + more
		}
	}
	return s
}

// Line is the beginning of s as Visible shows it, at most n cells wide; more replaces
// the end.
func Line(s string, n int, more string) string {
	// An escape has at most 10 bytes for a cell; more combining characters than
	// that are cut off.
	if most := 16 * n; len(s) > most {
		return Cut(Visible(strings.ToValidUTF8(s[:most], ""))+strings.Repeat(" ", n), n, more)
	}
	return Cut(Visible(s), n, more)
}

// Wrap breaks s into lines of at most n cells, between words where that is possible. It has no
// line for a text without words.
func Wrap(s string, n int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(s) {
		width := Width(word)
		if used > 0 && used+1+width <= n {
			line, used = line+" "+word, used+1+width
			continue
		}
		if used > 0 {
			lines = append(lines, line)
		}
		line, used = "", 0
		for _, r := range word {
			if used > 0 && used+Cell(r) > n {
				lines = append(lines, line)
				line, used = "", 0
			}
			line, used = line+string(r), used+Cell(r)
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Elapsed is a duration as a person reads it: "0.3 s", "12 s", "3 m 05 s".
func Elapsed(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case d < 0:
		return "0.0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%d s", s, int(d%time.Second)/int(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%d s", s)
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %02d m", s/3600, s/60%60)
}
