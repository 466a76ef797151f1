package policy

import (
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

// maxLine limits a line that is parsed.
const maxLine = 64 << 10

// commands are the commands in the arguments of a call.
type commands struct {
	simple []simpleCommand
	inner  []simpleCommand // in the arguments of programs that run commands, such as sh -c
	// unsafe is what the line does besides simple commands, so that no allow rule matches;
	// "" if it does nothing else.
	unsafe string
	// err is why the commands cannot be determined.
	err error
}

// A simpleCommand is a program with its arguments.
type simpleCommand []word

// A word is known only if nothing in it is expanded when the command runs.
type word struct {
	text  string
	known bool
}

// commandsOf returns the commands of a call, parsed once; nil if it has none.
func commandsOf(inv *agent.Invocation) *commands {
	if c, ok := inv.Parsed.(*commands); ok {
		return c
	}
	var c *commands
	values := inv.Values()
	for _, name := range commandArgs {
		v, ok := values[name]
		if !ok {
			continue
		}
		if c == nil {
			c = &commands{}
		}
		c.add(v, values["args"])
	}
	if c != nil {
		for _, name := range environArgs {
			if _, ok := values[name]; ok {
				c.unsafe = "the argument " + name + " can change what the command means"
			}
		}
	}
	inv.Parsed = c
	return c
}

// add adds the command in one argument. args is the argument with the words that follow it,
// nil if there is none.
func (c *commands) add(v, args any) {
	words, isList := texts(args)
	switch v := v.(type) {
	case string:
		switch {
		case args == nil:
			c.parse(v, 0)
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
	c.wrapped(simple, 0)
}

// parse adds the commands of a shell command line, and those nested in it.
func (c *commands) parse(line string, depth int) {
	const deepest = 4 // of lines in lines, as in sh -c "sh -c …"
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7F }); i >= 0 {
		c.err = fmt.Errorf("it has the control character %q", line[i])
		return
	}
	if len(line) > maxLine || depth > deepest {
		c.err = errors.New("it is too long, or has too many lines within lines")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		c.err = err
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			return true
		}
		if why := unsafe(n); why != "" && c.unsafe == "" {
			c.unsafe = why
		}
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			simple := make(simpleCommand, len(call.Args))
			for i, w := range call.Args {
				simple[i] = wordOf(w)
			}
			c.simple = append(c.simple, simple)
			c.wrapped(simple, depth)
		}
		return true
	})
}

// unsafe returns why a node is more than a sequence of simple commands, "" if it is not.
func unsafe(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.File, *syntax.Comment, *syntax.Lit, *syntax.Word, *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.CallExpr, *syntax.SglQuoted:
		return ""
	case *syntax.BinaryCmd:
		if n.Op == syntax.AndStmt || n.Op == syntax.OrStmt || n.Op == syntax.Pipe {
			return ""
		}
	case *syntax.Stmt:
		if !n.Coprocess && !n.Disown {
			return ""
		}
	case *syntax.Redirect:
		return unsafeRedirect(n)
	case *syntax.DblQuoted:
		if !n.Dollar {
			return ""
		}
	case *syntax.ParamExp:
		if plain := (syntax.ParamExp{Dollar: n.Dollar, Rbrace: n.Rbrace, Short: n.Short, Param: n.Param}); equalParam(plain, *n) {
			return ""
		}
	case *syntax.Assign:
		return "it sets a variable"
	case *syntax.CmdSubst, *syntax.ProcSubst:
		return "it runs a command inside another one"
	}
	return "it has a part that is not a simple command"
}

// equalParam reports whether two expansions have the same parts.
func equalParam(a, b syntax.ParamExp) bool {
	return b.Flags == nil && b.Index == nil && b.Slice == nil && b.Repl == nil && b.Exp == nil && b.NestedParam == nil && len(b.Modifiers) == 0 &&
		a.Excl == b.Excl && a.Length == b.Length && a.Width == b.Width && a.IsSet == b.IsSet && a.Names == b.Names && a.Split == b.Split && a.GlobSubst == b.GlobSubst && a.RcExpand == b.RcExpand
}

// unsafeRedirect returns why a redirection is not harmless: it may write to a file, or bash
// may open a connection for it.
func unsafeRedirect(r *syntax.Redirect) string {
	target := wordOf(r.Word)
	switch r.Op {
	case syntax.DplIn, syntax.DplOut, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		digits := strings.Trim(target.text, "0123456789-") == ""
		if r.Op != syntax.DplIn && r.Op != syntax.DplOut || target.known && digits {
			return ""
		}
	case syntax.RdrIn:
		if target.known && (target.text == "/dev/null" || !strings.HasPrefix(path.Clean(target.text), "/dev/")) {
			return ""
		}
	}
	if target.known && target.text == "/dev/null" && (r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrAll || r.Op == syntax.AppAll) {
		return ""
	}
	return "it has a redirection that does more than read a plain file"
}

// wordOf returns what is known of a word.
func wordOf(w *syntax.Word) word {
	if w == nil {
		return word{}
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
	known = quoted || !(first && strings.HasPrefix(s, "~"))
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
		case !quoted && strings.IndexByte("*?[{", c) >= 0:
			known = false
		}
		b.WriteByte(c)
	}
	return known
}

// wrappers are programs that run commands given in their arguments, with a space around each.
const wrappers = " sh bash dash ash zsh ksh mksh fish env sudo doas su runuser xargs parallel nice ionice" +
	" nohup setsid time timeout stdbuf unbuffer script exec command builtin eval trap alias find fd watch busybox toybox" +
	" chroot unshare nsenter setpriv flock strace ltrace ssh entr taskset chrt systemd-run coproc "

// wrapped adds the commands in the arguments of a wrapper.
func (c *commands) wrapped(simple simpleCommand, depth int) {
	if !simple.wraps() {
		return
	}
	for _, w := range simple[1:] {
		text := w.text
		if name, value, ok := strings.Cut(text, "="); ok && (strings.HasPrefix(name, "-") || path.Base(simple[0].text) == "alias") {
			text = value
		}
		if text = strings.TrimPrefix(text, "-S"); !w.known || !strings.ContainsAny(text, " \t\n;&|()$`<>'\"\\") && text == w.text {
			continue
		}
		inner := &commands{}
		if inner.parse(text, depth+1); inner.err == nil {
			c.inner = slices.Concat(c.inner, inner.simple, inner.inner)
		}
	}
	if path.Base(simple[0].text) == "eval" {
		var line []string
		for _, w := range simple[1:] {
			line = append(line, w.text)
		}
		inner := &commands{}
		if inner.parse(strings.Join(line, " "), depth+1); inner.err == nil {
			c.inner = slices.Concat(c.inner, inner.simple, inner.inner)
		}
	}
}

// wraps reports whether the program of c runs commands given in its arguments.
func (c simpleCommand) wraps() bool {
	return c[0].known && strings.Contains(wrappers, " "+path.Base(c[0].text)+" ")
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
// result is maybe if it depends on a word that is not known.
func (c simpleCommand) couldBe(words []string) fit {
	f := c.couldBeAt(words)
	for i := 1; i < len(c) && f != yes && c.wraps(); i++ {
		f = max(f, c[i:].couldBeAt(words))
	}
	return f
}

func (c simpleCommand) couldBeAt(words []string) fit {
	f := yes
	switch name := c[0]; {
	case !name.known:
		f = maybe
	case name.text != words[0] && path.Base(name.text) != words[0] && path.Clean(name.text) != words[0]:
		return no
	}
	rest := c[1:]
	for _, w := range words[1:] {
		i := slices.IndexFunc(rest, func(r word) bool { return r.known && r.text == w })
		if i >= 0 {
			rest = rest[i+1:]
			continue
		}
		if !slices.ContainsFunc(c, func(r word) bool { return !r.known }) {
			return no
		}
		f = maybe
	}
	return f
}
