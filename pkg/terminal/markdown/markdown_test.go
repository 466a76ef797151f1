package markdown

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestRenderOfASample compares the sample at three widths, with and without colors.
func TestRenderOfASample(t *testing.T) {
	sample, err := os.ReadFile("testdata/sample.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Format{
		"sample-40.txt": {Width: 40}, "sample-80-color.txt": {Color: true}, "sample-200.txt": {Width: 200}, "sample-60-ascii.txt": {Width: 60, ASCII: true},
	} {
		got := Render(string(sample), f)
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRender(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"blank lines", "\n\n\n", ""},
		{"line breaks", "a\nb  \nc\\\nd<br>e\n", "a\nb\nc\nd\ne\n"},
		{"several blank lines are one", "a\n\n\n\nb", "a\n\nb\n"},
		{"underlined headings", "Title\nof two\n===\nSub\n---\n", "# Title of two\n\n## Sub\n"},
		{"hashes at the end", "## a ##\n# b#\n#c\n", "## a\n\n# b#\n#c\n"},
		{"emphasis", "*a* _b_ **c** __d__ ***e*** *f **g** h*", "a b c d e f g h\n"},
		{"no emphasis", `a_b_c 2 * 3 * 4 \*x\* ** **`, "a_b_c 2 * 3 * 4 *x* ** **\n"},
		{"an emphasis that does not end", "**bold *and", "**bold *and\n"},
		{"code spans", "`a` `` b`c `` ` `d", "`a` `b`c` ` `d\n"},
		{"code keeps stars", "`*a*` *b*", "`*a*` b\n"},
		{"strikethrough", "~~a~~ ~b~", "a ~b~\n"},
		{"links", "[a](http://x) [http://x](http://x) ![pic](p.png) <http://y> <a@b.c> [no] [no](",
			"a (http://x) http://x pic (p.png) http://y a@b.c\n[no] [no](\n"},
		{"link with a title and brackets", `[a [b]](<http://x> "t") \[c](d)`, "a [b] (http://x) [c](d)\n"},
		{"entities", "&lt;a&gt; &amp;amp; &#65;&#x42; &#27; &#x202e; &unknown; AT&T", "<a> &amp; AB &#27; &#x202e; &unknown; AT&T\n"},
		{"unknown HTML", "<b>x</b> a < b", "<b>x</b> a < b\n"},
		{"tight and loose lists", "- a\n- b\n\n1. c\n\n2. d\n", "• a\n• b\n\n1. c\n\n2. d\n"},
		{"numbers count up", "1. a\n1. b\n1. c\n\nx\n\n7) d\n7) e\n", "1. a\n2. b\n3. c\n\nx\n\n7) d\n8) e\n"},
		{"a list after a paragraph", "Steps:\n- a\n- b\nlazy\n", "Steps:\n• a\n• b\n  lazy\n"},
		{"no list in a paragraph", "in\n2024. that\n-\nx", "## in 2024. that\nx\n"},
		{"nested lists", "- a\n  - b\n    1. c\n\n       d\n- e", "• a\n  • b\n    1. c\n\n       d\n• e\n"},
		{"items without content", "-\n- a\n1.\n", "•\n• a\n1.\n"},
		{"tasks", "- [ ] a\n- [x] b\n- [y] c\n1. [ ] d", "○ a\n✓ b\n• [y] c\n1. [ ] d\n"},
		{"quotes", "> a\nlazy\n\n> b\n>> c\n>\n> d\nx\n\ny", "│ a\n│ lazy\n\n│ b\n│ │ c\n│\n│ d\n│ x\n\ny\n"},
		{"a list in a quote", "> - a\n>   b\n> - c\n", "│ • a\n│   b\n│ • c\n"},
		{"fenced code", "```go\nif a {\n\tb\n}\n\n~~~\n```\nx", "  if a {\n      b\n  }\n\n  ~~~\nx\n"},
		{"code in an item", "- a\n\n  ```\n  x\n    y\n  ```\n  b", "• a\n\n    x\n      y\n  b\n"},
		{"code without an end", "~~~~\na\n~~~\n", "  a\n  ~~~\n"},
		{"code ends with its item", "- ```\n  a\nb", "•   a\nb\n"},
		{"indented code", "a\n\n    b\n      c\n\nd\n    e", "a\n\n  b\n    c\n\nd\ne\n"},
		{"rules", "a\n\n***\n- - -\n_ _ _\n--", "a\n\n" + strings.Repeat(strings.Repeat("─", 40)+"\n", 3) + "--\n"},
		{"a table", "x\n|a|b\\|c|\n|-|:-:|\n|1|2|3|\n|4\n\ny", "x\na │ b|c\n──┼────\n1 │  2\n4 │\n\ny\n"},
		{"no table", "a | b\n- | - | -\nc | -", "a | b\n• | - | -\n  c | -\n"},
		{"a table with formatting", "|a|b|\n|--|--|\n|**x**|[y](z)|", "a │ b\n──┼──────\nx │ y (z)\n"},
		{"a long word", strings.Repeat("x", 60), strings.Repeat("x", 50) + "\n" + strings.Repeat("x", 10) + "\n"},
		{"wide characters", strings.Repeat("漢", 30), strings.Repeat("漢", 25) + "\n" + strings.Repeat("漢", 5) + "\n"},
		{"right to left", "שלום *עולם*", "שלום עולם\n"},
		{"a combining character", "e\u0301*e\u0301*", "e\u0301e\u0301\n"},
		{"control characters", "a\x1b[2Jb \x1b]8;;http://evil\x07c\r\nd \u202e `\x9b`", "ab c\nd \\u202e `\uFFFD`\n"},
	} {
		if got := Render(test.in, Format{Width: 50}); got != test.want {
			t.Errorf("%s: Render(%q) =\n%s\nwant\n%s", test.name, test.in, got, test.want)
		}
	}
}

func TestColours(t *testing.T) {
	for in, want := range map[string]string{
		"# A *b*":             "\x1b[1;4mA \x1b[0;1;3;4mb\x1b[0m\n",
		"`a`":                 "\x1b[36ma\x1b[0m\n",
		"[a](https://x/ö)":    "\x1b]8;;https://x/%C3%B6\x1b\\\x1b[4ma\x1b]8;;\x1b\\\x1b[0;2m (https://x/ö)\x1b[0m\n",
		"[a](javascript:x)":   "\x1b[4ma\x1b[0;2m (javascript:x)\x1b[0m\n",
		"[a](https://x\x1b\\": "[a](https://x\n",
		"> a":                 "\x1b[2m│ \x1b[0ma\n",
	} {
		if got := Render(in, Format{Color: true}); got != want {
			t.Errorf("Render(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestATableThatIsTooWideIsAList(t *testing.T) {
	in := "|" + strings.Repeat("column|", 6) + "\n|" + strings.Repeat("-|", 6) + "\n|" + strings.Repeat("a value|", 6) + "\n|second|"
	want := strings.Repeat("column: a value\n", 6) + "\ncolumn: second\n"
	if got := Render(in, Format{Width: 30}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestWriterShowsTheOpenBlock: finished blocks are written once, the open one is shown as it
// grows.
func TestWriterShowsTheOpenBlock(t *testing.T) {
	var log strings.Builder
	w := &Writer{W: writerFunc(func(p []byte) (int, error) { fmt.Fprintf(&log, "written %q\n", p); return len(p), nil }),
		Open: func(lines []string) { fmt.Fprintf(&log, "open %q\n", lines) }}
	for _, piece := range []string{"one **tw", "o**\n", "\n- a", "\n```\nco", "de\nmore"} {
		if _, err := io.WriteString(w, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := `open ["one **tw"]
open ["one two"]
written "one two\n"
open ["" "• a"]
written "\n• a\n"
open ["  co"]
written "  code\n"
open ["  more"]
written "  more\n"
open []
`
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWriterReturnsTheErrorOfItsWriter(t *testing.T) {
	full := errors.New("no space left")
	w := &Writer{W: writerFunc(func([]byte) (int, error) { return 0, full })}
	if _, err := io.WriteString(w, "a\n\nb"); err != full {
		t.Errorf("Write: %v, want %v", err, full)
	}
	if err := w.Close(); err != full {
		t.Errorf("Close: %v, want %v", err, full)
	}
}

// FuzzRender: no panic, no line wider than the terminal, no control characters but our own,
// and the chunks make no difference.
func FuzzRender(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.md")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample), byte(40), uint16(7))
	f.Add("- > 1. `a\n|a|b|\n|-|-|\n|漢\u0301|", byte(1), uint16(1))
	f.Add(strings.Repeat("> - ", 60)+"a", byte(12), uint16(3))
	f.Add(">* *\t\t00世", byte(12), uint16(3))
	f.Add("*a **b ~~c~~ [d](e) `f` <g@h> &#x41; \x1b[2J\u202e\r\n===\n\tx\n```\n\t\ty", byte(20), uint16(2))
	f.Fuzz(func(t *testing.T, text string, width byte, chunk uint16) {
		for _, format := range []Format{{Width: int(width)}, {Width: int(width), Color: true}, {Width: int(width), ASCII: true}} {
			whole := Render(text, format)
			checkLines(t, whole, format)
			var b strings.Builder
			last := 0
			w := Writer{W: &b, Format: func() Format { return format }, Open: func(lines []string) {
				checkLines(t, strings.Join(append(lines, ""), "\n"), format)
			}}
			for i := 0; i < len(text); i = last {
				last = min(i+1+int(chunk), len(text))
				if _, err := io.WriteString(&w, text[i:last]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if b.String() != whole {
				t.Fatalf("in chunks of %d:\n%q\nin one piece:\n%q", 1+int(chunk), b.String(), whole)
			}
		}
	})
}

// TestCodeFitsEveryWidth has code in every nesting, with every indentation.
func TestCodeFitsEveryWidth(t *testing.T) {
	for width := range 40 {
		for _, nest := range []string{"", ">", "* ", ">* ", ">* * ", "> > * ", "1. ", "- - - - "} {
			for blanks := 4; blanks < 14; blanks++ {
				for _, word := range []string{"00", "世界世", "a世", "long_words_that_never_end", "a b c d e f g h"} {
					for _, f := range []Format{{Width: width}, {Width: width, ASCII: true}} {
						checkLines(t, Render(nest+strings.Repeat(" ", blanks)+word, f), f)
					}
				}
			}
		}
	}
}

func checkLines(t *testing.T, text string, f Format) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		plain := termtext.Clean(line)
		if n := termtext.Width(plain); n > f.width() {
			t.Fatalf("a line has %d cells, not %d: %q", n, f.width(), line)
		}
		if !f.Color && plain != line || strings.ContainsFunc(plain, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Fatalf("control characters in %q", line)
		}
	}
}

// hostile are texts that repeat something, of about n bytes each.
func hostile(n int) map[string]string {
	all := map[string]string{
		"emphasis in emphasis": strings.Repeat("*a ", n/6) + strings.Repeat("a* ", n/6),
		"wide table":           strings.Repeat("|a", n/6) + "\n" + strings.Repeat("|-", n/6) + "\n" + strings.Repeat("a\n", n/6),
		"table of short rows":  strings.Repeat("|a", 80) + "\n" + strings.Repeat("|-", 80) + "\n" + strings.Repeat("a\n", n/2),
	}
	for _, piece := range []string{"abc ", "word\n", "*a ", "_a_b", "~~a", "[", "[](", "[a](b)", "`a``b", "<a ", "&lt;", "\\*", "\u0301", "世", ">", "- ", "- a\n", "|", "a|\n", "#", " ", "\t"} {
		all[fmt.Sprintf("%q", piece)] = strings.Repeat(piece, n/len(piece))
	}
	return all
}

// What a model repeats takes time and memory in proportion to its length.
func TestRenderingIsLinear(t *testing.T) {
	allocated := func(text string) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Render(text, Format{Color: true})
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	const small, times = 2 << 10, 8
	long := hostile(small * times)
	for name, text := range hostile(small) {
		if one, many := allocated(text), allocated(long[name]); many > 2*times*one+1<<18 {
			t.Errorf("%s: %.0f bytes for a text of %d, %.0f for one %d times as long", name, one, small, many, times)
		}
	}
}

// A long block that arrives in small pieces is not rendered for each of them, and is shown
// as far as it has arrived, but for a small part.
func TestALongOpenBlockIsRenderedSeldom(t *testing.T) {
	for name, text := range hostile(4 << 10) {
		rendered, open := 0, ""
		w := Writer{W: io.Discard, Open: func(lines []string) {
			open = strings.Join(lines, "\n")
			rendered += len(open)
		}}
		for i := 0; i < len(text); i += 4 {
			_, _ = io.WriteString(&w, text[i:min(i+4, len(text))])
			if end := text[:i]; name == `"abc "` && strings.Count(open, "abc") < strings.Count(end, "abc")*15/16-1 {
				t.Fatalf("%s: only %d bytes of %d are shown", name, len(open), i)
			}
		}
		if most := 100 * len(text); rendered > most {
			t.Errorf("%s: %d bytes were rendered for a text of %d, want at most %d", name, rendered, len(text), most)
		}
	}
}

// A line of code that is too long continues between words, further to the right, and one that
// fits stays as it is.
func TestCodeIsNotBrokenInWords(t *testing.T) {
	const code = "```go\nfunc f() {\n\tif err := open(name,  os.O_RDONLY); err != nil {\n\tshort(a,  b)\nalongwordthatdoesnotfitalineofthirtycells\n}\n```\n"
	want := "  func f() {\n      if err := open(name,\n        os.O_RDONLY); err !=\n        nil {\n      short(a,  b)\n  alongwordthatdoesnotfitali\n    neofthirtycells\n  }\n"
	got := Render(code, Format{Width: 30})
	if got != want {
		t.Errorf("the code is\n%swant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := termtext.Width(strings.TrimSuffix(line, "\n")); n > 30 {
			t.Errorf("%q has %d cells", line, n)
		}
	}
}
