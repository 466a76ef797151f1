package markdown

import (
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// blocks reads lines and writes the blocks that they make, as CommonMark defines them:
// containers (block quotes and items of lists) around one leaf.
type blocks struct {
	Format
	out        *strings.Builder
	containers []container
	closed     *container // by this line, where the next container would be
	leaf       leaf
	lines      []string // of a paragraph or table
	bytes      int      // of lines
	fence      string   // the opening fence of code, without what follows
	indent     int      // of the fence
	blank      bool     // a blank line came since the last block
	any        bool     // something was written
}

type leaf int

const (
	none leaf = iota
	paragraph
	code
	table
)

// A container is a block quote or an item of a list.
type container struct {
	quote  bool
	offset int    // where the content of an item begins
	kind   byte   // of an item: its bullet, or what follows its number
	number int    // of an ordered item
	marker string // as it is shown
	fresh  bool   // nothing of it was written
}

// size is about the size of the leaf that is not finished.
func (b *blocks) size() int {
	if len(b.lines) == 0 {
		return 0
	}
	return b.bytes
}

func (b *blocks) add(line string) {
	b.bytes = b.size() + len(line)
	b.closed = nil
	begun := false
	rest, matched := b.match(expandTabs(line))
	if b.leaf == code {
		if matched == len(b.containers) {
			b.codeLine(rest)
			return
		}
		b.closeTo(matched)
	}
	for {
		c, after, ok := b.begins(rest, matched)
		if !ok {
			break
		}
		b.closeTo(matched)
		b.push(c)
		rest, begun = after, true
		matched++
	}
	switch {
	case isBlank(rest):
		if !begun {
			b.closeTo(matched)
			b.blank = true
		}
	case matched < len(b.containers) && b.leaf == paragraph && !b.interrupts(rest):
		b.lines = append(b.lines, rest) // a lazy continuation
	default:
		if matched < len(b.containers) {
			b.closeTo(matched)
		}
		b.content(rest)
	}
}

// match strips the beginning that belongs to the containers and returns how many go on.
func (b *blocks) match(line string) (rest string, matched int) {
	for _, c := range b.containers {
		after, ok := line, false
		switch {
		case c.quote:
			after, ok = cutQuote(line)
		case isBlank(line):
			after, ok = "", true
		case indentOf(line) >= c.offset:
			after, ok = line[c.offset:], true
		}
		if !ok {
			break
		}
		line = after
		matched++
	}
	return line, matched
}

// begins returns the container that begins with rest, inside the first matched ones.
func (b *blocks) begins(rest string, matched int) (c container, after string, ok bool) {
	if isBlank(rest) || indentOf(rest) >= 4 || len(b.containers) >= 50 {
		return c, rest, false
	}
	if after, ok = cutQuote(rest); ok {
		return container{quote: true}, after, true
	}
	within := b.leaf == paragraph && matched == len(b.containers)
	if within && setext(rest) > 0 || isRule(rest) {
		return c, rest, false
	}
	c, after, ok = item(rest)
	if ok && within && (isBlank(after) || c.kind != 0 && c.number != 1 && ordered(c.kind)) {
		return c, rest, false // it would interrupt a paragraph
	}
	return c, after, ok
}

func (b *blocks) push(c container) {
	c.fresh = true
	if last := b.closed; !c.quote && last != nil && !last.quote && last.kind == c.kind {
		c.number = last.number + 1
	}
	switch {
	case c.quote:
		c.marker = b.pick("│ ", "| ")
	case ordered(c.kind):
		c.marker = strconv.Itoa(c.number) + string(c.kind) + " "
	default:
		c.marker = b.pick("• ", "- ")
	}
	b.containers, b.closed = append(b.containers, c), nil
}

// closeTo ends the leaf and all containers but the first n.
func (b *blocks) closeTo(n int) {
	b.closeLeaf()
	b.closed = nil
	for len(b.containers) > n {
		last := b.containers[len(b.containers)-1]
		if last.fresh && !last.quote { // an item without content
			b.write("")
		}
		b.containers, b.closed = b.containers[:len(b.containers)-1], &last
	}
}

// closeLeaf ends a paragraph, table or code.
func (b *blocks) closeLeaf() {
	lines, kind := b.lines, b.leaf
	b.lines, b.leaf = nil, none
	switch {
	case len(lines) == 0:
	case kind == paragraph:
		b.flow(strings.Join(trimLines(lines), "\n"), 0)
	default:
		for _, l := range b.table(lines) {
			b.write(l)
		}
	}
}

// content reads what is inside the containers: the leaves.
func (b *blocks) content(rest string) {
	text := strings.TrimSpace(rest)
	switch {
	case b.leaf == paragraph && len(b.lines) > 0 && setext(rest) > 0:
		lines := trimLines(b.lines)
		b.lines, b.leaf = nil, none
		b.heading(strings.Join(lines, " "), setext(rest))
	case b.leaf == paragraph && isTable(b.lines[len(b.lines)-1], rest):
		head := b.lines[len(b.lines)-1]
		b.lines = b.lines[:len(b.lines)-1]
		b.closeLeaf()
		b.leaf, b.lines = table, []string{head, rest}
	case b.leaf == paragraph && !b.interrupts(rest), b.leaf == table && !b.interrupts(rest):
		b.lines = append(b.lines, rest)
	case indentOf(rest) >= 4:
		b.closeLeaf()
		b.verbatim(rest[4:])
	case headingLevel(text) > 0:
		b.closeLeaf()
		n := headingLevel(text)
		b.heading(trimHashes(text[n:]), n)
	case isFence(rest) != "":
		b.closeLeaf()
		b.leaf, b.fence, b.indent = code, isFence(rest), indentOf(rest)
	case isRule(rest):
		b.closeLeaf()
		b.write(b.paint(strings.Repeat(b.pick("─", "-"), min(b.room(), 40)), dim))
	default:
		b.leaf, b.lines = paragraph, []string{rest}
	}
}

// interrupts reports whether a line ends a paragraph.
func (b *blocks) interrupts(rest string) bool {
	return indentOf(rest) < 4 && (headingLevel(strings.TrimSpace(rest)) > 0 || isFence(rest) != "" || isRule(rest))
}

func (b *blocks) codeLine(rest string) {
	if f := isFence(rest); f != "" && f[0] == b.fence[0] && len(f) >= len(b.fence) && strings.Trim(rest, " "+f[:1]) == "" {
		b.leaf = none
		return
	}
	n := min(indentOf(rest), b.indent)
	b.verbatim(rest[n:])
}

// heading writes a heading, with a blank line before it.
func (b *blocks) heading(text string, level int) {
	b.blank = true
	styles := [...]style{1: bold | under, 2: bold, 3: bold | italic}
	if !b.Color {
		text = strings.Repeat("#", level) + " " + text
	}
	b.flow(text, styles[min(level, 3)])
}

// prose is how wide text is at most: longer lines are hard to read. Code and tables take the
// whole width.
const prose = 100

func (b *blocks) flow(text string, s style) {
	if task, rest, ok := b.task(text); ok {
		b.top().marker = task
		text = rest
	}
	for _, l := range wrap(b.inline(text, s), min(b.room(), prose)) {
		b.write(b.render(l))
	}
}

// task is the mark of an item of a task list.
func (b *blocks) task(text string) (mark, rest string, ok bool) {
	c := b.top()
	if c == nil || !c.fresh || c.quote || ordered(c.kind) || len(text) < 4 || text[0] != '[' || text[2:4] != "] " {
		return "", text, false
	}
	switch text[1] {
	case ' ':
		mark = b.pick("○ ", "[ ] ")
	case 'x', 'X':
		mark = b.pick("✓ ", "[x] ")
	}
	return mark, text[4:], mark != ""
}

func (b *blocks) top() *container {
	if len(b.containers) == 0 {
		return nil
	}
	return &b.containers[len(b.containers)-1]
}

// verbatim writes a line of code, indented. One that is too long continues between words on lines
// that are indented further than it begins, if there is room for that.
func (b *blocks) verbatim(text string) {
	const indent = "  "
	if isBlank(text) {
		b.write("")
		return
	}
	text = expandAll(text)
	room := max(b.room()-len(indent), 1)
	blanks := min(indentOf(text), room/2)
	before, width, further := indent+text[:blanks], room-blanks, ""
	if termtext.Width(text[blanks:]) > width && width > len(indent)+1 { // a character may need two cells
		width, further = width-len(indent), indent
	}
	for i, l := range wrap(cells(text[blanks:], 0, ""), max(width, 1)) {
		if i == 1 {
			before += further
		}
		b.write(before + b.render(l))
	}
}

// write writes a line in its containers, after a blank one if there was one.
func (b *blocks) write(text string) {
	if b.blank && b.any {
		b.out.WriteString(b.prefix(true, true) + "\n")
	}
	b.blank, b.any = false, true
	b.out.WriteString(b.prefix(false, text == "") + text + "\n")
}

// prefix is what precedes a line: bars of quotes, marks of items. Containers that would take
// more than half of the width have none. With before it is that of a blank line before the
// containers that begin, with trim that of a line without text.
func (b *blocks) prefix(before, trim bool) string {
	var s strings.Builder
	used := 0
	for i := range b.containers {
		c := &b.containers[i]
		if before && c.fresh {
			break
		}
		width := termtext.Width(c.marker)
		if used += width; used > b.width()/2 {
			break
		}
		if c.quote || c.fresh {
			s.WriteString(c.marker)
		} else {
			s.WriteString(strings.Repeat(" ", width))
		}
	}
	text := s.String()
	if trim {
		text = strings.TrimRight(text, " ")
	}
	if !before {
		for i := range b.containers {
			b.containers[i].fresh = false
		}
	}
	if isBlank(text) {
		return text
	}
	return b.paint(text, dim)
}

// room is the width inside the containers.
func (b *blocks) room() int {
	used := 0
	for _, c := range b.containers {
		width := termtext.Width(c.marker)
		if used+width > b.width()/2 {
			break
		}
		used += width
	}
	return b.width() - used
}

func (f Format) pick(unicode, ascii string) string {
	if f.ASCII {
		return ascii
	}
	return unicode
}
