package policy

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A printer prints a command line whose commands consist of plain words, joined by &&, ||, |,
// ; and newlines. What it prints means the same to bash, dash, busybox and zsh: words are
// quoted unless their characters have no meaning to any of them.
type printer struct {
	strings.Builder
	// why names what else is in the line, which no allow rule covers; "" if there is nothing.
	why string
}

func (p *printer) refuse(why string) {
	p.why = cmp.Or(p.why, why)
}

func (p *printer) file(f *syntax.File) {
	if len(f.Last) > 0 {
		p.refuse("it has a comment")
	}
	for i, s := range f.Stmts {
		if i > 0 {
			p.WriteString("; ")
		}
		p.stmt(s)
	}
}

func (p *printer) stmt(s *syntax.Stmt) {
	switch {
	case len(s.Comments) > 0:
		p.refuse("it has a comment")
	case s.Negated || s.Background || s.Coprocess || s.Disown:
		p.refuse("it does more with a command than run it")
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(cmd.Assigns) > 0 || len(cmd.Args) == 0 {
			p.refuse("it sets a variable")
		}
		for i, w := range cmd.Args {
			if i > 0 {
				p.WriteByte(' ')
			}
			p.word(w, i == 0)
		}
	case *syntax.BinaryCmd:
		if cmd.Op != syntax.AndStmt && cmd.Op != syntax.OrStmt && cmd.Op != syntax.Pipe {
			p.refuse("it has the operator " + cmd.Op.String())
		}
		p.stmt(cmd.X)
		p.WriteString(" " + cmd.Op.String() + " ")
		p.stmt(cmd.Y)
	case *syntax.DeclClause:
		p.refuse("it sets a variable")
	default:
		p.refuse("it has a part that is not a simple command")
	}
	for _, r := range s.Redirs {
		p.redirect(r)
	}
}

// redirect prints a redirection to or from /dev/null, or of one standard stream to another.
func (p *printer) redirect(r *syntax.Redirect) {
	from, to := "", wordOf(r.Word)
	if r.N != nil {
		from = r.N.Value
	}
	null := to.text == "/dev/null" && (r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrIn)
	stream := r.Op == syntax.DplOut && (to.text == "1" || to.text == "2")
	if !to.known || !null && !stream || from != "" && from != "1" && from != "2" {
		p.refuse("it has a redirection that is not to /dev/null, or from one standard stream to another")
	}
	p.WriteString(" " + from + r.Op.String() + to.text)
}

func (p *printer) word(w *syntax.Word, first bool) {
	literal := wordOf(w)
	if !literal.known {
		p.refuse("it has a word that the shell expands")
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			p.why = "it runs a command inside another one"
		}
		return true
	})
	p.WriteString(quote(literal.text, first))
}

// printed returns the arguments of a call with its lines in printed form; "" if they have this
// form already.
func (c *commands) printed(args string) (string, error) {
	changed := ""
	for _, l := range c.lines {
		if l.text == l.print {
			continue
		}
		changed = cmp.Or(changed, args)
		doc, err := jsondoc.Parse([]byte(changed), jsondoc.Options{Shallow: true})
		if err != nil {
			return "", err
		}
		text, err := jsondoc.Encode(l.print, "")
		if err != nil {
			return "", err
		}
		n := doc.Root.Member(l.argument)
		changed = changed[:n.Start] + string(text) + changed[n.End:]
	}
	return changed, nil
}

// harmless reports whether no shell treats a character specially inside a word.
func harmless(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_./,:@%+-=", c)
}

// reserved are words that a shell treats specially as the first one of a command, with a
// space around each.
const reserved = " if then else elif fi do done case esac while until for in select function time coproc repeat foreach end nocorrect noglob namespace" +
	" declare export let local nameref readonly typeset "

// quote returns a text as one word of a shell. first says that it is the first word of a command.
func quote(s string, first bool) string {
	special := strings.HasPrefix(s, "=") || first && (strings.Contains(s, "=") || strings.Contains(reserved, " "+s+" "))
	if s != "" && !special && strings.IndexFunc(s, func(c rune) bool { return !harmless(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// builtins are commands inside a shell that run other commands, set variables, change what
// later commands mean, or evaluate their words as arithmetic, which can run commands; with a
// space around each.
const builtins = " . alias autoload bind break builtin command compgen complete compopt continue coproc declare disown emulate enable eval exec export" +
	" fc float functions getln getopts hash history integer jobs let local mapfile print read readarray readonly return set setopt shift shopt source trap" +
	" typeset unalias unset unsetopt vared wait zformat zmodload zparseopts zstyle "

// contained reports whether a shell only runs the command with these words. The first of them
// are those of an allow rule.
func (c simpleCommand) contained(known int) bool {
	free := c[known:]
	switch name := c[0].text; {
	case len(free) == 0:
		return true
	case name == "test", name == "[", name == "printf":
		return !slices.ContainsFunc(free, func(w word) bool {
			return len(w.text) > 1 && w.text[0] == '-' && strings.IndexByte("vRt", w.text[1]) >= 0 || name == "printf" && !printable(w.text)
		})
	case name == "command" && known > 1:
		return c[1].text == "-v" || c[1].text == "-V"
	default:
		return !strings.Contains(builtins, " "+name+" ")
	}
}

// printable reports whether a word as the format of printf has only conversions of texts: %n
// sets a variable, and zsh evaluates numbers.
func printable(format string) bool {
	for {
		_, rest, found := strings.Cut(format, "%")
		if !found {
			return true
		}
		if format = strings.TrimLeft(rest, "-+ #0'.123456789"); format == "" || !strings.Contains("%bcs", format[:1]) {
			return false
		}
		format = format[1:]
	}
}
