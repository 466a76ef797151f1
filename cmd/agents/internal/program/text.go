package program

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func (p *Env) Warn(list ...string) {
	for _, w := range list {
		fmt.Fprintf(p.Err, "warning: %s\n", termtext.Clean(w))
	}
}

// Mention is Warn, unless --quiet is set.
func (p *Env) Mention(list ...string) {
	if !p.Global.Quiet {
		p.Warn(list...)
	}
}

func (p *Env) Note(format string, args ...any) {
	if !p.Global.Quiet {
		fmt.Fprintf(p.Err, "note: %s\n", termtext.Clean(fmt.Sprintf(format, args...)))
	}
}

// CleanOnTerminal is stdout. If it is a terminal, control sequences are removed; flush
// writes what is buffered.
func (p *Env) CleanOnTerminal() (w io.Writer, flush func() error) {
	if !p.OutTerm {
		return p.Out, func() error { return nil }
	}
	return p.CleanOutput()
}

// CleanOutput is stdout without control sequences, for text that may reach a terminal
// through head or less.
func (p *Env) CleanOutput() (w io.Writer, flush func() error) {
	c := &cleaned{w: p.Out}
	return c, func() error {
		_, err := io.WriteString(p.Out, c.clean.Flush())
		return err
	}
}

type cleaned struct {
	w     io.Writer
	clean termtext.Cleaner
}

func (c *cleaned) Write(b []byte) (int, error) {
	if _, err := io.WriteString(c.w, c.clean.Clean(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// OneLine is at most n characters of text on one line, without control sequences.
func OneLine(text string, n int) string {
	text = strings.Join(strings.Fields(termtext.Clean(text)), " ")
	if r := []rune(text); len(r) > n {
		return string(r[:max(n-1, 0)]) + "…"
	}
	return text
}

// Room is the width of a line.
func (p *Env) Room() int {
	if p.OutTerm {
		if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 300
}

// WriteJSON writes v to stdout, indented for a person and without escapes that
// only HTML needs.
func (p *Env) WriteJSON(v any) error {
	text, err := jsondoc.Encode(v, "  ")
	if err != nil {
		return err
	}
	return p.Print(string(text) + "\n")
}

// Color reports whether a stream gets colors.
func (p *Env) Color(terminal bool) bool {
	switch p.Global.Color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb"
}

// ASCII reports whether the locale lacks UTF-8.
func (p *Env) ASCII() bool { return p.ErrTerm && !strings.Contains(p.locale(), "UTF8") }

// eightBit reports whether the locale names characters of one byte. The C locale,
// where nobody chose one, does not count: such terminals show UTF-8 today.
func (p *Env) eightBit() bool {
	locale := p.locale()
	return locale != "" && locale != "C" && locale != "POSIX" && !strings.Contains(locale, "UTF8")
}

// locale is the locale of characters in upper case, with UTF8 for UTF-8.
func (p *Env) locale() string {
	locale := strings.ToUpper(cmp.Or(p.Getenv("LC_ALL"), p.Getenv("LC_CTYPE"), p.Getenv("LANG")))
	return strings.ReplaceAll(locale, "UTF-8", "UTF8")
}

// Size is the size of the terminal on stderr.
func Size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// Print writes text to stdout, on a terminal without control sequences.
func (p *Env) Print(text string) error {
	if p.OutTerm {
		text = termtext.Clean(text)
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

// PrintClean is Print, but also removes control sequences for a pipe, whose reader may show the
// text at a terminal.
func (p *Env) PrintClean(text string) error {
	_, err := io.WriteString(p.Out, termtext.Clean(text))
	return err
}

func QuoteJSON(s string) []byte {
	text, _ := json.Marshal(s) // a string always encodes
	return text
}

func ShellQuote(s string) string {
	unsafe := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./:,=@%+", r)
	}
	if s != "" && !strings.ContainsFunc(s, unsafe) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ShownURL returns an address without the parts that may hold a secret.
func ShownURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
