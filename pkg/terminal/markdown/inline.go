package markdown

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A node is a part of a text: characters of one style, or a run of * _ or ~.
type node struct {
	text      string
	style     style
	url       string
	run       byte // the character of a run; 0 for other nodes
	canOpen   bool
	canClose  bool
	wasOpener int // length of the run before parts of it were used
}

// The scans for the end of a link look at most at so many bytes, and those for the
// beginning of an emphasis at so many runs, so that no text takes long.
const (
	maxLink = 2000
	maxRuns = 100
)

// inline reads the formatting within a paragraph.
func (b *blocks) inline(text string, base style) []cell {
	in := inliner{format: b.Format, text: text, base: base}
	in.read()
	in.emphasis()
	var list []cell
	for _, n := range in.nodes {
		list = append(list, cells(n.text, n.style|base, n.url)...)
	}
	return list
}

// An inliner reads a text into nodes.
type inliner struct {
	format    Format
	text      string
	base      style
	nodes     []node
	plainText []byte       // that follows the last node, without a style
	styles    [][3]int     // by node: how many ranges of bold, italic and strike begin there, less those that end
	ends      []int        // of brackets, by their position: see closing
	unmet     map[int]bool // lengths of backtick runs that nothing closes
	inLink    bool
}

func (in *inliner) add(nodes ...node) {
	if len(in.plainText) > 0 {
		in.nodes = append(in.nodes, node{text: string(in.plainText)})
		in.plainText = in.plainText[:0]
	}
	in.nodes = append(in.nodes, nodes...)
}

func (in *inliner) read() {
	for i := 0; i < len(in.text); {
		n := in.special(i)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(in.text[i:])
			in.plain(in.text[i : i+n])
		}
		i += n
	}
	in.add()
}

// plain adds characters without a meaning.
func (in *inliner) plain(s string) { in.plainText = append(in.plainText, s...) }

// special reads what stands at i and returns its length; 0 if it has no meaning.
func (in *inliner) special(i int) int {
	s := in.text[i:]
	switch s[0] {
	case '\\':
		return in.escape(s)
	case '\n':
		in.newline()
		return 1
	case '\t':
		in.plain(" ")
		return 1
	case '`':
		return in.code(s)
	case '*', '_', '~':
		return in.run(i)
	case '!':
		if strings.HasPrefix(s, "![") {
			if n := in.link(i + 1); n > 0 {
				return n + 1
			}
		}
	case '[':
		return in.link(i)
	case '<':
		return in.angle(s)
	case '&':
		return in.entity(s)
	}
	return 0
}

func (in *inliner) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if s[1] == '\n' {
		in.plain("\n")
		return 2
	}
	if s[1] > ' ' && s[1] < 0x7f && !isWord(rune(s[1])) {
		in.plain(s[1:2])
		return 2
	}
	return 0
}

// newline is a new line: what models write in lines, such as the names of files, is meant
// so, although Markdown would make a paragraph of it.
func (in *inliner) newline() {
	in.plainText = append(bytes.TrimRight(in.plainText, " "), '\n')
}

func (in *inliner) code(s string) int {
	rest := strings.TrimLeft(s, "`")
	n := len(s) - len(rest)
	if in.unmet[n] {
		in.plain(s[:n])
		return n
	}
	for i := n; i < len(s); {
		j := strings.IndexByte(s[i:], '`')
		if j < 0 {
			break
		}
		i += j
		end := len(s) - len(strings.TrimLeft(s[i:], "`"))
		if end-i == n {
			in.codeSpan(strings.ReplaceAll(s[n:i], "\n", " "))
			return end
		}
		i = end
	}
	if in.unmet == nil {
		in.unmet = map[int]bool{}
	}
	in.unmet[n] = true
	in.plain(s[:n])
	return n
}

func (in *inliner) codeSpan(text string) {
	if len(text) > 2 && text[0] == ' ' && text[len(text)-1] == ' ' && !isBlank(text) {
		text = text[1 : len(text)-1]
	}
	if !in.format.Color {
		text = "`" + text + "`"
	}
	in.add(node{text: expandAll(text), style: mono})
}

// run reads a run of the characters of emphasis.
func (in *inliner) run(i int) int {
	c := in.text[i]
	rest := strings.TrimLeft(in.text[i:], string(c))
	n := len(in.text) - i - len(rest)
	before, _ := utf8.DecodeLastRuneInString(in.text[:i])
	after, _ := utf8.DecodeRuneInString(rest)
	if i == 0 {
		before = ' '
	}
	if rest == "" {
		after = ' '
	}
	left := !unicode.IsSpace(after) && (isWord(after) || unicode.IsSpace(before) || !isWord(before))
	right := !unicode.IsSpace(before) && (isWord(before) || unicode.IsSpace(after) || !isWord(after))
	r := node{text: in.text[i : i+n], run: c, canOpen: left, canClose: right, wasOpener: n}
	switch {
	case c == '_':
		r.canOpen, r.canClose = left && (!right || !isWord(before)), right && (!left || !isWord(after))
	case c == '~' && n != 2:
		r.canOpen, r.canClose = false, false
	}
	in.add(r)
	return n
}

// isWord reports whether r is neither a blank nor punctuation.
func isWord(r rune) bool {
	return !unicode.IsSpace(r) && !unicode.IsPunct(r) && !unicode.IsSymbol(r)
}

// emphasis pairs the runs, as CommonMark's appendix does.
func (in *inliner) emphasis() {
	in.styles = make([][3]int, len(in.nodes)+1)
	var open []int // runs that can begin an emphasis
	for i := 0; i < len(in.nodes); i++ {
		c := &in.nodes[i]
		if c.run == 0 {
			continue
		}
		for c.canClose && c.text != "" {
			j := in.opener(open, c)
			if j < 0 {
				break
			}
			in.pair(open[j], i)
			if in.nodes[open[j]].text == "" {
				open = open[:j]
			} else {
				open = open[:j+1]
			}
		}
		if c.canOpen && c.text != "" {
			open = append(open, i)
		}
	}
	var now [3]int
	for i := range in.nodes {
		for k, n := range in.styles[i] {
			if now[k] += n; now[k] > 0 {
				in.nodes[i].style |= emphases[k]
			}
		}
	}
}

var emphases = [3]style{italic, bold, strike}

// opener finds the run that c closes; -1 if there is none.
func (in *inliner) opener(open []int, c *node) int {
	for j := len(open) - 1; j >= max(0, len(open)-maxRuns); j-- {
		o := &in.nodes[open[j]]
		odd := (o.canClose || c.canOpen) && (o.wasOpener+c.wasOpener)%3 == 0 && (o.wasOpener%3 != 0 || c.wasOpener%3 != 0)
		if o.run == c.run && !odd {
			return j
		}
	}
	return -1
}

// pair gives what is between two runs its style.
func (in *inliner) pair(from, to int) {
	o, c := &in.nodes[from], &in.nodes[to]
	n, kind := 1, 0
	if len(o.text) > 1 && len(c.text) > 1 {
		n, kind = 2, 1
	}
	if o.run == '~' {
		n, kind = 2, 2
	}
	o.text, c.text = o.text[n:], c.text[n:]
	in.styles[from+1][kind]++
	in.styles[to][kind]--
}

// link reads a link or, after its !, an image: its text, and its address behind it.
func (in *inliner) link(i int) int {
	if in.inLink {
		return 0
	}
	s, end := in.text[i:], in.closing(i)
	if end < 0 || end+1 >= len(s) || s[end+1] != '(' {
		return 0
	}
	size := in.closing(i + end + 1)
	if size < 0 {
		return 0
	}
	url, _, _ := strings.Cut(strings.TrimSpace(s[end+2:end+1+size]), " ")
	url = strings.TrimSuffix(strings.TrimPrefix(url, "<"), ">")
	label := inliner{format: in.format, text: s[1:end], base: in.base, inLink: true}
	label.read()
	label.emphasis()
	in.address(label.nodes, url)
	return end + 1 + size + 1
}

// address adds a link with its text, and its address if the text is another one.
func (in *inliner) address(label []node, url string) {
	target, text := linkTarget(url), ""
	for _, n := range label {
		n.url = target
		if in.format.Color {
			n.style |= under
		}
		text += n.text
		n.run = 0
		in.add(n)
	}
	if url != "" && text != url && "mailto:"+text != url {
		if text != "" {
			url = " (" + url + ")"
		}
		in.add(node{text: url, style: dim})
	}
}

// linkTarget is an address that a terminal may open, in the characters that its sequence
// permits; "" for others.
func linkTarget(url string) string {
	scheme, _, _ := strings.Cut(url, ":")
	if !slices.Contains([]string{"http", "https", "mailto"}, strings.ToLower(scheme)) || len(url) > maxLink {
		return ""
	}
	var b strings.Builder
	for i := range len(url) {
		if c := url[i]; c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
		}
	}
	return b.String()
}

// closing returns how far the bracket is that closes the one at i; -1 if there is none
// within maxLink. All brackets are matched in one pass.
func (in *inliner) closing(i int) int {
	if in.ends == nil {
		in.ends = make([]int, len(in.text))
		var square, round []int // that are open
		match := func(open []int, at int) []int {
			if len(open) == 0 {
				return nil
			}
			in.ends[open[len(open)-1]] = at
			return open[:len(open)-1]
		}
		for at := 0; at < len(in.text); at++ {
			switch in.text[at] {
			case '\\':
				at++
			case '[':
				square = append(square, at)
			case '(':
				round = append(round, at)
			case ']':
				square = match(square, at)
			case ')':
				round = match(round, at)
			}
		}
	}
	if n := in.ends[i] - i; n > 0 && n < maxLink {
		return n
	}
	return -1
}

// angle reads <address> and <br>.
func (in *inliner) angle(s string) int {
	end := strings.IndexByte(s[:min(len(s), maxLink)], '>')
	if end < 0 {
		return 0
	}
	inner := s[1:end]
	switch strings.ToLower(strings.TrimRight(inner, " /")) {
	case "br":
		in.plain("\n")
		return end + 1
	}
	if strings.ContainsAny(inner, " \t\n<") {
		return 0
	}
	switch {
	case strings.Contains(inner, "://") && linkTarget(inner) != "", strings.HasPrefix(inner, "mailto:"):
		in.address([]node{{text: inner}}, inner)
	case strings.Contains(inner, "@") && !strings.Contains(inner, ":"):
		in.address([]node{{text: inner}}, "mailto:"+inner)
	default:
		return 0
	}
	return end + 1
}

// entities are those that models write.
var entities = [...][2]string{{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", `"`}, {"apos", "'"}, {"nbsp", "\u00a0"}, {"copy", "©"},
	{"mdash", "—"}, {"ndash", "–"}, {"hellip", "…"}, {"times", "×"}, {"rarr", "→"}, {"larr", "←"}}

// entity reads a character that is written as &name; or &#number;.
func (in *inliner) entity(s string) int {
	name, _, ok := strings.Cut(s[1:min(len(s), 12)], ";")
	if !ok {
		return 0
	}
	for _, e := range entities {
		if e[0] == name {
			in.plain(e[1])
			return len(name) + 2
		}
	}
	digits, base := strings.TrimPrefix(name, "#"), 10
	if digits == name {
		return 0
	}
	if d := strings.TrimLeft(digits, "xX"); d != digits {
		digits, base = d, 16
	}
	n, err := strconv.ParseUint(digits, base, 21)
	if r := rune(n); err != nil || !utf8.ValidRune(r) || termtext.Hidden(r) || n < ' ' {
		return 0
	}
	in.plain(string(rune(n)))
	return len(name) + 2
}
