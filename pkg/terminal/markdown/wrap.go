package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A style is how a character looks.
type style uint8

const (
	bold style = 1 << iota
	italic
	under
	strike
	mono
	dim
)

// codes are the SGR parameters of the styles, from the lowest bit.
var codes = [...]string{"1", "3", "4", "9", "36", "2"}

// A cell is a character with what combines with it.
type cell struct {
	text  string
	width int
	style style
	url   string
}

// cells are the characters of s. A newline is a cell of its own.
func cells(s string, st style, url string) []cell {
	var list []cell
	for i, r := range s {
		width := termtext.Cell(r)
		_, size := utf8.DecodeRuneInString(s[i:])
		text := s[i : i+size]
		if n := len(list); width == 0 && n > 0 && list[n-1].text != "\n" {
			list[n-1].text = s[i-len(list[n-1].text) : i+len(text)]
			continue
		}
		list = append(list, cell{text, width, st, url})
	}
	return list
}

func (c cell) space() bool { return c.text == " " }

// wrap breaks text into lines of at most width cells: at newlines, between words and at wide
// characters, and within words only where a word is longer than a line.
func wrap(text []cell, width int) [][]cell {
	var lines [][]cell
	var line []cell
	used, breakAt := 0, 0
	end := func(n int) {
		lines = append(lines, line[:n:n])
		line = line[n:]
		for len(line) > 0 && line[0].space() {
			line = line[1:]
		}
		used, breakAt = 0, 0
		for _, c := range line {
			used += c.width
		}
	}
	for _, c := range text {
		if c.text == "\n" {
			end(len(line))
			continue
		}
		if c.space() && len(line) == 0 {
			continue
		}
		if c.space() || c.width > 1 {
			breakAt = len(line)
		}
		for used+c.width > width && len(line) > 0 {
			if c.space() {
				break // blanks at the end of a line are removed
			}
			if breakAt == 0 {
				breakAt = len(line)
			}
			end(breakAt)
		}
		line = append(line, c)
		used += c.width
		if c.width > 1 {
			breakAt = len(line)
		}
	}
	lines = append(lines, line)
	for i, l := range lines {
		for len(l) > 0 && l[len(l)-1].space() {
			l = l[:len(l)-1]
		}
		lines[i] = l
	}
	return lines
}

func (f Format) render(text []cell) string {
	var b strings.Builder
	var now style
	url := ""
	for _, c := range text {
		if f.Color && c.url != url {
			b.WriteString(hyperlink(c.url))
			url = c.url
		}
		if f.Color && c.style != now {
			b.WriteString(sgr(c.style, now))
			now = c.style
		}
		b.WriteString(c.text)
	}
	if now != 0 {
		b.WriteString("\x1b[0m")
	}
	if url != "" {
		b.WriteString(hyperlink(""))
	}
	return b.String()
}

// sgr is the sequence that changes the style.
func sgr(to, from style) string {
	if to == 0 {
		return "\x1b[0m"
	}
	var list []string
	if from != 0 {
		list = append(list, "0")
	}
	for i, code := range codes {
		if to&(1<<i) != 0 {
			list = append(list, code)
		}
	}
	return "\x1b[" + strings.Join(list, ";") + "m"
}

// hyperlink is the sequence (OSC 8) that begins a link to url; "" ends it.
func hyperlink(url string) string { return "\x1b]8;;" + url + "\x1b\\" }

func (f Format) paint(text string, s style) string { return f.render(cells(text, s, "")) }
