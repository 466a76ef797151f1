// Package recording draws what a terminal showed as an SVG file, for the README. Its test
// makes docs/recording.svg from a real run:
//
//	go test ./pkg/internal/recording -update
package recording

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels: those of a cell, of the line above the text, and the margin.
const (
	cellWidth, cellHeight = 8.4, 19
	titleHeight, margin   = 30, 16
)

// A style is how a part of a line looks: classes of the style sheet.
type style struct{ bold, dim, italic, underline, color string }

func (s style) class() string {
	return strings.Join(strings.Fields(strings.Join([]string{s.bold, s.dim, s.italic, s.underline, s.color}, " ")), " ")
}

// sheet has dark and light colors. A line appears after those above it, unless the
// reader does not want motion.
const sheet = `text{font:14px ui-monospace,"SF Mono","Cascadia Mono","DejaVu Sans Mono",monospace;fill:#d7dce2;white-space:pre}
.bg{fill:#14171b;stroke:#30363e}.dot{fill:#30363e}.title{fill:#929ca8}
.b{font-weight:700}.d{opacity:.6}.i{font-style:italic}.u{text-decoration:underline}
.c0{fill:#5d6772}.c1{fill:#ff7b72}.c2{fill:#7ee787}.c3{fill:#e3b341}.c4{fill:#79b4ff}.c5{fill:#d2a8ff}.c6{fill:#76e3ea}.c7{fill:#d7dce2}
@media(prefers-reduced-motion:no-preference){.l{animation:show .01s backwards}}
@keyframes show{from{opacity:0}}`

// SVG draws the lines of a terminal with their escape sequences. delays are the seconds
// after which each line appears.
func SVG(title string, columns int, lines []string, delays []float64) string {
	width := float64(columns)*cellWidth + 2*margin
	height := titleHeight + len(lines)*cellHeight + 2*margin
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" viewBox=\"0 0 %.0f %d\" role=\"img\" aria-label=\"%s\">\n", width, height, width, height, html.EscapeString(title))
	fmt.Fprintf(&b, "<style>%s</style>\n<rect class=\"bg\" x=\".5\" y=\".5\" width=\"%.0f\" height=\"%d\" rx=\"8\"/>\n", sheet, width-1, height-1)
	for i := range 3 {
		fmt.Fprintf(&b, "<circle class=\"dot\" cx=\"%d\" cy=\"18\" r=\"5\"/>", margin+5+i*17)
	}
	fmt.Fprintf(&b, "\n<text class=\"title\" x=\"%.0f\" y=\"22\" text-anchor=\"middle\">%s</text>\n", width/2, html.EscapeString(title))
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		y := titleHeight + margin + i*cellHeight + 10
		fmt.Fprintf(&b, "<text class=\"l\" y=\"%d\" style=\"animation-delay:%.1fs\">%s</text>\n", y, delays[i], spans(line))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b\\([A-Z0-9]|[\x0e\x0f]")

// spans are the parts of a line, each at its column: a font in which a sign is wider than
// a cell does not move what follows.
func spans(line string) string {
	var b strings.Builder
	var now style
	column := 0
	write := func(text string) {
		for part := range strings.SplitAfterSeq(text, "  ") {
			shown := strings.TrimRight(part, " ")
			if shown != "" {
				fmt.Fprintf(&b, `<tspan x="%.1f"`, margin+float64(column)*cellWidth)
				if c := now.class(); c != "" {
					fmt.Fprintf(&b, ` class="%s"`, c)
				}
				fmt.Fprintf(&b, `>%s</tspan>`, html.EscapeString(shown))
			}
			column += utf8.RuneCountInString(part)
		}
	}
	rest := line
	for {
		at := sgr.FindStringSubmatchIndex(rest)
		if at == nil {
			write(rest)
			return b.String()
		}
		write(rest[:at[0]])
		if at[2] >= 0 {
			now = now.apply(rest[at[2]:at[3]])
		}
		rest = rest[at[1]:]
	}
}

// apply is the style after an escape sequence.
func (s style) apply(codes string) style {
	for code := range strings.SplitSeq(codes, ";") {
		n, err := strconv.Atoi(code)
		switch {
		case err != nil, n == 0: // an empty code is 0
			s = style{}
		case n == 1:
			s.bold = "b"
		case n == 2:
			s.dim = "d"
		case n == 3:
			s.italic = "i"
		case n == 4:
			s.underline = "u"
		case n == 22:
			s.bold, s.dim = "", ""
		case n == 39:
			s.color = ""
		case n >= 30 && n <= 37:
			s.color = "c" + strconv.Itoa(n-30)
		case n >= 90 && n <= 97:
			s.color = "c" + strconv.Itoa(n-90)
		}
	}
	return s
}
