// Package markdown shows Markdown, as models write it, on a terminal: headings, emphasis,
// nested lists, block quotes, code, tables that fit the width, links with their addresses.
//
// It reads CommonMark's usual subset and the tables, task lists and strikethrough of GitHub's,
// line by line, so that what is finished is written while the rest still arrives. What it does
// not know (HTML, footnotes, definitions of links) stays text. Everything is cleaned
// (see package termtext), and colors are the 16 of the terminal's own palette, which works
// on light and dark ones.
//
// A library was measured instead: goldmark costs 3,500 allocations and two milliseconds at
// every start of the program, whether or not anything is rendered.
//
//	w := &markdown.Writer{W: os.Stdout, Format: func() markdown.Format { return markdown.Format{Width: 80} }}
//	io.Copy(w, answer)
//	w.Close()
package markdown

import (
	"io"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Format says how text is written. The zero value is 80 columns of Unicode without
// colors.
type Format struct {
	// Width is the number of cells of a line. 0 means 80, and less than 10 means 10.
	Width int
	// Color permits colors, bold and the like, and links that a terminal can open. Without
	// it, headings and code keep their marks.
	Color bool
	// ASCII draws lines and marks in ASCII. The text itself does not change.
	ASCII bool
}

func (f Format) width() int {
	if f.Width == 0 {
		return 80
	}
	return max(f.Width, 10)
}

// Render returns text as lines for a terminal, each with a newline.
func Render(text string, f Format) string {
	var b strings.Builder
	w := Writer{W: &b, Format: func() Format { return f }}
	_, _ = io.WriteString(&w, text) // a Builder does not fail
	_ = w.Close()
	return b.String()
}

// A Writer renders a text that arrives in pieces. The chunks make no difference for what is
// written. Its methods must not be called concurrently.
type Writer struct {
	// W gets the lines of finished blocks, once and in order: a paragraph or a table when
	// it ends, a line of code when the line ends. It is required.
	W io.Writer
	// Format is asked for each piece; nil means the zero Format.
	Format func() Format
	// Open, unless it is nil, gets the lines of the block that is not finished, as far
	// as it has arrived, after each Write and Close. There may be none.
	Open func(lines []string)

	clean termtext.Cleaner
	line  []byte // that has no newline yet
	block blocks
	shown int // size of the block that is not finished, when Open got it
	err   error
}

// maxOpen is the size up to which an unfinished block is shown. It is rendered again when it
// has grown by one part in openGrowth, so that a long one takes linear time.
const (
	maxOpen    = 32 << 10
	openGrowth = 16
)

// Write adds a piece of the text. It returns the first error of W.
func (w *Writer) Write(p []byte) (int, error) {
	w.put(w.clean.Clean(string(p)))
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close ends the text and returns the first error of W. The Writer can then be used for
// another text.
func (w *Writer) Close() error {
	w.put(w.clean.Flush())
	var out strings.Builder
	w.block.out = &out
	if len(w.line) > 0 {
		w.block.add(string(w.line))
	}
	w.block.closeTo(0)
	w.line, w.block, w.shown = nil, blocks{}, 0
	w.write(out.String())
	if w.Open != nil {
		w.Open(nil)
	}
	return w.err
}

func (w *Writer) put(text string) {
	var out strings.Builder
	w.block.out = &out
	if w.Format != nil {
		w.block.Format = w.Format()
	}
	rest := text
	for {
		line, after, found := strings.Cut(rest, "\n")
		w.line = append(w.line, line...)
		if !found {
			break
		}
		w.block.add(string(w.line))
		w.line, rest = w.line[:0], after
	}
	w.write(out.String())
	size := w.block.size() + len(w.line)
	if grown := size - w.shown; w.Open != nil && text != "" && (out.Len() > 0 || grown < 0 || grown >= w.shown/openGrowth) {
		w.shown = size
		w.Open(w.open(size))
	}
}

// open renders the block that is not finished as if it ended here.
func (w *Writer) open(size int) []string {
	if size > maxOpen {
		return nil
	}
	var out strings.Builder
	b := w.block
	b.out, b.containers, b.lines = &out, slices.Clone(b.containers), slices.Clone(b.lines)
	if len(w.line) > 0 {
		b.add(string(w.line))
	}
	b.closeTo(0)
	if out.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func (w *Writer) write(s string) {
	if s == "" || w.err != nil {
		return
	}
	_, w.err = io.WriteString(w.W, s)
}
