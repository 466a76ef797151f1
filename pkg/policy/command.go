package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/agents-exe/agents/pkg/agent"
)

// commandArgs are the arguments that contain a command: a shell command line, or the words
// of one command.
var commandArgs = [...]string{"command", "cmd", "argv", "script"}

// environArgs are arguments that change what a command means.
var environArgs = [...]string{"env", "environment"}

// maxLine limits a line that is parsed, deepest the nesting of lines, as in sh -c "sh -c …", and
// maxParsed the bytes of all lines together, to which each line adds lineCost: the number of
// lines that eval eval eval … could run doubles with each word.
const (
	maxLine   = 64 << 10
	deepest   = 4
	maxParsed = 1 << 20
	lineCost  = 256
)

// commands are the commands in the arguments of a call.
type commands struct {
	simple []simpleCommand
	inner  []simpleCommand // in the arguments of programs that run commands, such as sh -c
	// unsafe is what the line does besides simple commands, so that no allow rule matches;
	// "" if it does nothing else.
	unsafe string
	// lines are the arguments that a shell parses, and what replaces them if an allow rule
	// matches: lines printed from the judged words.
	lines []line
	// unread reports that the line cannot be fully analyzed: every rule that denies or asks then
	// matches.
	unread bool
	// err is why the commands cannot be determined.
	err error

	posix            bool // the shell is not bash
	evaluates, reads bool // the line has builtins that evaluate texts, and shells that read commands
	print            string
	parsed           *int // see maxParsed; of all lines of the call
}

// A line is the command line text in an argument, and print the same line printed from its
// words.
type line struct{ argument, text, print string }

// A simpleCommand is a program with its arguments.
type simpleCommand []word

// A word is known only if nothing in it is expanded when the command runs.
type word struct {
	text  string
	known bool
}

// commandsOf returns the commands of a call, parsed once; nil if it has none.
func commandsOf(inv *agent.Invocation) *commands {
	p := parsedOf(inv)
	if p.split {
		return p.commands
	}
	var c *commands
	values := inv.Values()
	for _, name := range commandArgs {
		v, ok := values[name]
		if !ok {
			continue
		}
		if c == nil {
			c = &commands{parsed: new(int)}
		}
		c.shellArg(values["shell"])
		c.add(name, v, values["args"])
	}
	if c != nil {
		for _, name := range environArgs {
			if _, ok := values[name]; ok {
				c.unsafe = "the argument " + name + " can change what the command means"
			}
		}
	}
	p.split, p.commands = true, c
	return c
}

// shellArg records which shell the argument shell names.
func (c *commands) shellArg(v any) {
	if v == nil {
		return
	}
	name, _ := v.(string)
	switch name = path.Base(name); name {
	case "bash":
	case "sh", "dash", "ash", "busybox":
		c.posix = true
	default:
		c.posix, c.unsafe = true, "the argument shell is none of bash, sh, dash, ash and busybox"
	}
}

// add adds the command in one argument. args is the argument with the words that follow it,
// nil if there is none.
func (c *commands) add(name string, v, args any) {
	words, isList := texts(args)
	switch v := v.(type) {
	case string:
		switch {
		case args == nil:
			c.parse(v, 0)
			if c.unsafe == "" && c.err == nil {
				c.lines = append(c.lines, line{name, v, c.print})
			}
		case isList:
			c.addWords(append([]string{v}, words...))
		default:
			c.err = errors.New("args is not a list of texts")
		}
	case []any:
		list, ok := texts(v)
		if !ok || len(list) == 0 || args != nil {
			c.err = errors.New("it is not a list of texts")
			return
		}
		c.addWords(list)
	default:
		c.err = errors.New("it is neither a text nor a list of texts")
	}
}

func texts(v any) (list []string, ok bool) {
	items, ok := v.([]any)
	for _, item := range items {
		s, isText := item.(string)
		if !isText {
			return nil, false
		}
		list = append(list, s)
	}
	return list, ok
}

// addWords adds one command that no shell parses.
func (c *commands) addWords(words []string) {
	simple := make(simpleCommand, len(words))
	for i, w := range words {
		simple[i] = word{w, true}
	}
	c.simple = append(c.simple, simple)
	c.look(simple, 0)
}

// parse adds the commands of a shell command line, and those nested in it.
func (c *commands) parse(line string, depth int) {
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7F }); i >= 0 {
		c.err = fmt.Errorf("it has the control character %q", line[i])
		return
	}
	if *c.parsed += len(line) + lineCost; len(line) > maxLine || depth > deepest || *c.parsed > maxParsed {
		c.err = errors.New("it is too long, or has too many lines within lines")
		return
	}
	options := []syntax.ParserOption{syntax.KeepComments(true), syntax.Variant(syntax.LangBash)}
	if c.posix {
		options = append(options, syntax.Variant(syntax.LangPOSIX))
	}
	file, err := syntax.NewParser(options...).Parse(strings.NewReader(line), "")
	if err != nil {
		c.err = err
		return
	}
	var p printer
	p.file(file)
	c.print = p.String()
	if p.why != "" && c.unsafe == "" {
		c.unsafe = p.why
	}
	c.walk(file, line, depth)
	if depth > 0 || strings.ContainsAny(line, "$`") { // it may evaluate texts of the line around it
		c.texts(file, depth)
	}
}

// outputs are the redirections from which no command reads.
var outputs = []syntax.RedirOperator{syntax.RdrOut, syntax.AppOut, syntax.DplOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll}

func (c *commands) walk(root syntax.Node, line string, depth int) {
	input := false
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				simple := make(simpleCommand, len(n.Args))
				for i, w := range n.Args {
					simple[i] = wordOf(w)
				}
				c.simple = append(c.simple, simple)
				c.look(simple, depth)
			}
		case *syntax.DeclClause:
			c.simple = append(c.simple, simpleCommand{word{n.Variant.Value, true}, word{}})
		case *syntax.LetClause:
			c.simple = append(c.simple, simpleCommand{word{"let", true}, word{}})
		case *syntax.Assign:
			if n.Name != nil {
				c.assign(n.Name.Value, wordOf(n.Value).text, depth)
			}
		case *syntax.BinaryCmd:
			input = input || n.Op == syntax.Pipe || n.Op == syntax.PipeAll
		case *syntax.Redirect:
			input = input || !slices.Contains(outputs, n.Op)
			// Backslashes at line ends are joined by bash before it looks for the end.
			c.unread = c.unread || n.Hdoc != nil && n.Word.Lit() != "" && strings.Contains(line[n.Hdoc.Pos().Offset():n.Hdoc.End().Offset()], "\\\n")
		case *syntax.Comment:
			// The parser takes the next line for a part of the comment; shells do not.
			c.unread = c.unread || strings.Contains(n.Text, "\\\n")
		}
		return true
	})
	c.unread = c.unread || c.reads && input
}

func wordOf(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	if w.Lit() == "[" { // the command: no pattern, since nothing closes it
		return word{"[", true}
	}
	var b strings.Builder
	known := partsOf(&b, w.Parts, false)
	return word{b.String(), known}
}

func partsOf(b *strings.Builder, parts []syntax.WordPart, quoted bool) (known bool) {
	known = true
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			known = unescape(b, p.Value, quoted, i == 0) && known
			if !quoted && i+1 < len(parts) && strings.HasSuffix(p.Value, "$") { // $'…' is for bash, busybox and zsh
				known = false
			}
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
			known = known && !p.Dollar
		case *syntax.DblQuoted:
			known = partsOf(b, p.Parts, true) && known && !p.Dollar
		default:
			known = false
		}
	}
	return known
}

// unescape removes the backslashes of a text. It is not known if the shell expands it.
func unescape(b *strings.Builder, s string, quoted, first bool) (known bool) {
	known = quoted || !first || !strings.HasPrefix(s, "~") && (len(s) < 2 || s[0] != '=' || s[1] == '=') // zsh expands =ls
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\n' {
				continue
			}
			if quoted && !strings.ContainsRune("$`\"\\", rune(s[i])) {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
			continue
		case known && !quoted && (strings.IndexByte("*?[", c) >= 0 || c == '{' && expands(s[i:])):
			known = false
		}
		b.WriteByte(c)
	}
	return known
}

// expands reports whether a shell may expand the braces that s begins with, as in {a,b} and
// {1..3}. It leaves HEAD@{1} as it is.
func expands(s string) bool {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			if depth++; depth > deepest {
				return true
			}
		case '}':
			if depth--; depth == 0 {
				return false
			}
		case ',', '\\', '*', '?', '[':
			return true
		case '.':
			if strings.HasPrefix(s[i:], "..") {
				return true
			}
		}
	}
	return true
}

// begins reports whether c certainly begins with words: for allow rules.
func (c simpleCommand) begins(words []string) bool {
	if len(c) < len(words) {
		return false
	}
	for i, w := range words {
		if !c[i].known || c[i].text != w {
			return false
		}
	}
	return true
}

// couldBe reports whether c may run words: for deny and ask rules. The program may have a
// path, other words may stand between the words, and a wrapper may run the command. The
// result is maybe if it depends on a word that is not known, or that a wrapper reads.
func (c simpleCommand) couldBe(words []string) fit {
	wraps := c.wraps()
	reader := -1
	if wraps {
		reader = slices.IndexFunc(c, func(w word) bool { return w.isOneOf(" xargs parallel ") })
	}
	more := reader >= 0
	f := c.couldBeAt(words, more)
	mark := "{}"
	for i := 1; i < len(c) && f != yes && wraps; i++ {
		f = max(f, c[i:].couldBeAt(words, more))
		if more {
			mark = cmp.Or(replaces(c, i-1), mark)
		}
		if more && i == len(c)-1 && c[i:].wraps() || c[i].text == mark && c.runs(i, reader) {
			f = max(f, maybe)
		}
	}
	return f
}

// runs reports whether word i is a program that is run by find, by another wrapper, or by the
// xargs or parallel at index reader.
func (c simpleCommand) runs(i, reader int) bool {
	if reader >= 0 {
		first := reader + 1
		for ; first < i && strings.HasPrefix(c[first].text, "-"); first++ {
			if c[first].isOneOf(" -I -n -P -L -d -s -a -E -j ") {
				first++
			}
		}
		if first >= i {
			return first == i
		}
	}
	before := c[i-1]
	if number := strings.TrimPrefix(before.text, "-"); i > 1 && number != "" && number[0] >= '0' && number[0] <= '9' { // timeout 5
		before = c[i-2]
	}
	return before.isOneOf(wrappers) && !before.isOneOf(shells+"ssh ") || strings.HasPrefix(c[i-1].text, "-exec") || strings.HasPrefix(c[i-1].text, "-ok")
}

// couldBeAt is couldBe without wrappers. With more, words that are not known follow those of c.
func (c simpleCommand) couldBeAt(words []string, more bool) fit {
	f := yes
	rest := c[1:]
	base := path.Base(c[0].text)
	switch name := c[0]; {
	case !name.known:
		f = maybe
	case name.text == words[0] || base == words[0] || path.Clean(name.text) == words[0]:
	case strings.HasPrefix(base, "git-") && words[0] == "git": // a program of git's own folder
		rest = append(simpleCommand{{base[len("git-"):], true}}, rest...)
	default:
		return no
	}
	for _, w := range words[1:] {
		i := slices.IndexFunc(rest, func(r word) bool { return r.known && r.text == w })
		if i >= 0 {
			rest = rest[i+1:]
			continue
		}
		if !more && !slices.ContainsFunc(c, func(r word) bool { return !r.known }) {
			return no
		}
		f = maybe
	}
	return f
}
