package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file looks for commands that a line hides from rules that deny or ask: in the arguments
// of programs that run commands, in texts that a shell evaluates, and where bash reads a line
// in another way than the parser does.

// wrappers are programs that run commands given in their arguments, with a space around each.
const wrappers = shells + "env sudo doas su runuser xargs parallel nice ionice" +
	" nohup setsid time timeout stdbuf unbuffer script exec command builtin eval trap alias find fd watch busybox toybox" +
	" chroot unshare nsenter setpriv flock strace ltrace ssh entr taskset chrt systemd-run coproc" +
	" prlimit setarch linux32 linux64 i386 x86_64 choom fakeroot pkexec capsh sg newgrp logsave split start-stop-daemon" +
	" jobs history compgen complete mapfile readarray noglob nocorrect repeat emulate "

// shells are those wrappers that are shells.
const shells = " sh bash rbash dash ash zsh ksh mksh fish "

// evaluators are builtins that evaluate texts in their arguments.
const evaluators = " test [ printf print read wait unset declare typeset local export readonly let getopts mapfile readarray compgen complete "

func (w word) isOneOf(names string) bool {
	return w.known && strings.Contains(names, " "+path.Base(w.text)+" ")
}

// wraps reports whether the program of c runs commands given in its arguments.
func (c simpleCommand) wraps() bool {
	has := func(option func(word) bool) bool { return slices.ContainsFunc(c[1:], option) }
	switch {
	case c[0].isOneOf(" git "):
		return has(func(w word) bool { return w.isOneOf(" foreach bisect filter-branch difftool -x --exec ") })
	case c[0].isOneOf(" find "):
		return has(func(w word) bool {
			return !w.known || strings.HasPrefix(w.text, "-exec") || strings.HasPrefix(w.text, "-ok")
		})
	case c[0].isOneOf(" command ") && len(c) > 1:
		return !c[1].isOneOf(" -v -V ")
	}
	return c[0].isOneOf(wrappers)
}

// look adds the commands hidden in a simple command.
func (c *commands) look(simple simpleCommand, depth int) {
	c.git(simple, depth)
	sources := simple
	if simple[0].isOneOf(" command builtin ") {
		sources = simple[1:]
	}
	if len(sources) > 1 && sources[0].known && (sources[0].text == "." || sources[0].text == "source") && device(sources[1]) {
		c.unread = true
	}
	if simple[0].isOneOf(" hash ") {
		c.unread = c.unread || slices.ContainsFunc(simple[1:], func(w word) bool {
			return !w.known || strings.Contains(w.text, "=") || strings.HasPrefix(w.text, "-") && strings.Contains(w.text, "p")
		})
	}
	if !simple.wraps() {
		return
	}
	for i, w := range simple {
		if *c.parsed > maxParsed {
			return
		}
		rest := simple[i+1:]
		switch {
		case w.isOneOf(shells):
			c.shell(!w.isOneOf(" bash "), rest, depth)
		case w.isOneOf(" su runuser script flock sg newgrp capsh chroot unshare "):
			c.option(rest, depth)
			c.reads = c.reads || !w.isOneOf(" flock capsh ") && !slices.ContainsFunc(rest, func(w word) bool { return strings.HasPrefix(w.text, "-") && strings.Contains(w.text, "c") })
		case w.isOneOf(" sudo doas "):
			c.reads = c.reads || slices.ContainsFunc(rest, func(w word) bool { return w.isOneOf(" -s -i --shell --login ") })
		case w.isOneOf(" env "):
			c.env(rest, depth)
		case w.isOneOf(" xargs parallel "):
			c.unread = c.unread || substitutes(w, rest)
		case w.isOneOf(" eval watch ssh "):
			c.script(joined(rest), depth)
		case w.isOneOf(" trap "):
			for _, w := range rest {
				c.script(w.text, depth)
			}
		case w.isOneOf(" alias "):
			c.unread = c.unread || slices.ContainsFunc(rest, func(w word) bool { return !w.known || strings.Contains(w.text, "=") })
		}
		c.git(simple[i:], depth)
		text := w.text
		if name, value, ok := strings.Cut(text, "="); ok && (strings.HasPrefix(name, "-") || simple[0].isOneOf(" alias ") || i > 0 && simple[i-1].text == "-o") {
			text = value
		}
		if i > 0 && w.known && (text != w.text || strings.ContainsAny(text, " \t\n;&|()$`<>'\"\\")) {
			inner := c.nested(c.posix)
			inner.parse(text, depth+1)
			c.merge(inner, false)
		}
	}
}

// substitutes reports whether xargs or parallel, which has these arguments, puts what it reads
// into a line of a shell.
func substitutes(w word, args []word) bool {
	mark, shell := "", false
	if w.isOneOf(" parallel ") {
		mark = "{}"
	}
	for i, arg := range args {
		shell = shell || arg.isOneOf(shells+"eval watch ssh su sg ")
		if shell && mark != "" && strings.Contains(arg.text, mark) && (arg.text != mark || strings.HasPrefix(args[i-1].text, "-")) {
			return true
		}
		if m := replaces(args, i); m != "" && !shell {
			mark = m
		}
	}
	return false
}

// replaces returns the text that xargs replaces by what it reads, if word i is the option that
// says so.
func replaces(words []word, i int) string {
	text := words[i].text
	name, value, _ := strings.Cut(text, "=")
	switch {
	case strings.HasPrefix("--replace", name) && len(name) > 4:
		return cmp.Or(value, "{}")
	case text == "-I" && i+1 < len(words):
		return words[i+1].text
	case strings.HasPrefix(text, "-I"), strings.HasPrefix(text, "-i"):
		return cmp.Or(text[2:], "{}")
	}
	return ""
}

func joined(words []word) string {
	var texts []string
	for _, w := range words {
		texts = append(texts, w.text)
	}
	return strings.Join(texts, " ")
}

// script adds the commands of a text that is certainly executed as a command line.
func (c *commands) script(text string, depth int) {
	inner := c.nested(c.posix)
	inner.parse(text, depth+1)
	c.merge(inner, true)
}

// login adds the commands of a text that the shell of a user executes, which may be bash.
func (c *commands) login(text string, depth int) {
	c.script(text, depth)
	if c.posix {
		inner := c.nested(false)
		inner.parse(text, depth+1)
		c.merge(inner, false)
	}
}

// nested returns the commands of a text in the line, of which none are known yet.
func (c *commands) nested(posix bool) *commands {
	return &commands{posix: posix, parsed: c.parsed}
}

// merge adds the commands of a text. certain reports that it is executed as a command line;
// otherwise it may be plain data.
func (c *commands) merge(inner *commands, certain bool) {
	c.inner = append(append(c.inner, inner.simple...), inner.inner...)
	c.reads, c.evaluates = c.reads || inner.reads, c.evaluates || inner.evaluates
	c.unread = c.unread || inner.unread && inner.err == nil || inner.err != nil && certain || *c.parsed > maxParsed
}

// device reports whether a script file may be standard input or a pipe. Partly known paths
// such as "$HOME/.cargo/env" and ~/.bashrc count as plain files.
func device(w word) bool {
	clean := path.Clean(w.text)
	if !w.known && (!strings.Contains(w.text, "/") || strings.ContainsAny(w.text, "*?[{") || strings.Trim(path.Base(clean), "0123456789") == "") {
		return true
	}
	return w.text == "-" || path.Base(clean) == "stdin" || strings.HasPrefix(clean, "/dev/") || strings.HasPrefix(clean, "/proc/")
}

func (c *commands) shell(posix bool, args []word, depth int) {
	line, stdin := false, false
	var operands []word
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; {
		case !args[i].known || len(text) < 2 || text[0] != '-' && text[0] != '+':
			operands = append(operands, args[i])
		case text == "--version", text == "--help":
			return
		case text[1] == '-':
			if text == "--rcfile" || text == "--init-file" {
				i++
			}
		default:
			line = line || strings.Contains(text, "c")
			stdin = stdin || strings.Contains(text, "s")
			if strings.HasSuffix(text, "o") || strings.HasSuffix(text, "O") {
				i++
			}
		}
	}
	switch {
	case line && len(operands) == 0: // another program adds the line
		c.unread = true
	case line:
		for _, w := range operands {
			inner := c.nested(posix)
			inner.parse(w.text, depth+1)
			c.merge(inner, true)
		}
	case stdin || len(operands) == 0 || device(operands[0]):
		c.reads = true
	}
}

// option adds the command line that a program gets with -c or --command.
func (c *commands) option(args []word, depth int) {
	for i, w := range args {
		name, value, ok := strings.Cut(w.text, "=")
		switch {
		case ok && strings.HasPrefix("--command", name) && len(name) > 2:
			c.login(value, depth)
		case i+1 < len(args) && (strings.HasPrefix(w.text, "--c") || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c")):
			c.login(args[i+1].text, depth)
		case strings.HasPrefix(w.text, "-c"):
			c.login(w.text[2:], depth)
		}
	}
}

func (c *commands) env(args []word, depth int) {
	split := func(text string, rest []word) {
		if strings.Contains(text, `\`) { // env has escapes of its own
			c.unread = true
		}
		words := []string{text}
		for _, w := range rest {
			words = append(words, quote(w.text, false))
		}
		c.script(strings.Join(words, " "), depth)
	}
	for i := 0; i < len(args); i++ {
		text := args[i].text
		name, value, assigns := strings.Cut(text, "=")
		switch {
		case strings.HasPrefix(text, "--s") && assigns:
			split(value, args[i+1:])
		case strings.HasPrefix(text, "--s") && i+1 < len(args):
			split(args[i+1].text, args[i+2:])
		case strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") && strings.Contains(text, "S"):
			if _, value, _ := strings.Cut(text, "S"); value != "" || i+1 == len(args) {
				split(value, args[i+1:])
			} else {
				split(args[i+1].text, args[i+2:])
			}
		case text == "-u", text == "-C", text == "--unset", text == "--chdir":
			i++
		case strings.HasPrefix(text, "-"):
		case assigns:
			c.assign(name, value, depth)
		default:
			return
		}
	}
}

// assign adds the commands that a variable such as PAGER makes a program run.
func (c *commands) assign(name, value string, depth int) {
	switch {
	case name == "ENV" && !strings.ContainsAny(value, "/.$`") && value != "": // "production", and no file
	case strings.HasPrefix(name, "GIT_CONFIG"), strings.HasPrefix(name, "BASH_FUNC_"), name == "GIT_EXEC_PATH", name == "BASH_ALIASES", name == "BASH_CMDS", name == "BASH_ENV", name == "ENV":
		c.unread = true
	case len(name) == 3 && strings.HasPrefix(name, "PS"):
		c.evaluates = true
	case name == "PROMPT_COMMAND", name == "GIT_SSH_COMMAND", name == "GIT_SSH", name == "GIT_EXTERNAL_DIFF", name == "GIT_ASKPASS", strings.HasSuffix(name, "PAGER"), strings.HasSuffix(name, "EDITOR"), name == "VISUAL":
		c.script(value, depth)
	}
}

// settings are sections and keys of git's configuration that run no commands, with a space
// around each.
const settings = " user author committer color advice init i18n log status safe push pull fetch branch core.quotepath core.autocrlf core.filemode commit.gpgsign "

// program returns the line in a setting such as core.pager=cat, if it is known.
func program(setting word) (line string, ok bool) {
	key, value, ok := strings.Cut(setting.text, "=")
	return value, ok && setting.known && strings.Contains(" core.pager core.editor sequence.editor ", " "+strings.ToLower(key)+" ")
}

func (c *commands) git(simple simpleCommand, depth int) {
	if !simple[0].isOneOf(" git ") {
		return
	}
	setting := func(s string) {
		key, _, _ := strings.Cut(strings.ToLower(s), "=")
		section, _, _ := strings.Cut(key, ".")
		c.unread = c.unread || !strings.Contains(settings, " "+key+" ") && !strings.Contains(settings, " "+section+" ")
	}
	for i := 1; i < len(simple); i++ {
		switch text := simple[i].text; {
		case text == "-c" && i+1 < len(simple):
			i++
			if command, ok := program(simple[i]); ok {
				c.script(command, depth)
			} else {
				setting(simple[i].text)
			}
		case text == "-C", text == "--git-dir", text == "--work-tree", text == "--namespace":
			i++
		case strings.HasPrefix(text, "--exec-path="), strings.HasPrefix(text, "--config-env"):
			c.unread = true
		case text == "--attr-source":
			i++
		case strings.HasPrefix(text, "-"):
		case text == "config":
			rest := slices.DeleteFunc(slices.Clone(simple[i+1:]), func(w word) bool { return strings.HasPrefix(w.text, "-") || w.text == "set" })
			reads := slices.ContainsFunc(simple[i+1:], func(w word) bool { return strings.HasPrefix(w.text, "--get") || w.isOneOf(" --list -l ") })
			if len(rest) > 1 && !reads {
				setting(rest[0].text)
			}
			return
		default:
			c.gitOptions(text, simple[i+1:], setting, depth)
			return
		}
	}
}

// gitRuns are options of git's commands whose value is a command line.
var gitRuns = []string{"--upload-pack", "--receive-pack", "--exec", "--extcmd", "--open-files-in-pager", "--sendmail-cmd", "--tree-filter", "--index-filter", "--msg-filter"}

// gitOptions adds the command lines that a command of git gets in its options.
func (c *commands) gitOptions(command string, args []word, setting func(string), depth int) {
	for i, w := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1].text
		}
		name, value, joined := strings.Cut(w.text, "=")
		switch long := len(name) > 4 && strings.HasPrefix(name, "--"); {
		case long && slices.ContainsFunc(gitRuns, func(option string) bool { return strings.HasPrefix(option, name) }):
			if !joined {
				value = next
			}
			c.script(value, depth)
		case command == "clone" && (w.text == "-c" || w.text == "--config"):
			setting(next)
		case command == "clone" && long && strings.HasPrefix("--config", name):
			setting(value)
		case command == "clone" && w.text == "-u":
			c.script(next, depth)
		case command == "grep" && strings.HasPrefix(w.text, "-O"):
			c.script(w.text[2:], depth)
		}
	}
}

// texts adds the commands in texts that a shell evaluates when it computes: a[$(command)].
func (c *commands) texts(root syntax.Node, depth int) {
	var list []string
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.LetClause, *syntax.TestClause, *syntax.DeclClause, *syntax.CStyleLoop:
			c.evaluates = true
		case *syntax.Assign:
			c.evaluates = c.evaluates || n.Index != nil
		case *syntax.ArrayElem:
			c.evaluates = c.evaluates || n.Index != nil
		case *syntax.Redirect:
			c.evaluates = c.evaluates || n.N != nil && strings.Contains(n.N.Value, "[")
		case *syntax.ParamExp:
			c.evaluates = c.evaluates || n.Index != nil || n.Slice != nil || n.Excl || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps
		case *syntax.Word:
			if text := wordOf(n).text; strings.Contains(text, "$(") || strings.Contains(text, "`") || strings.Contains(text, "${") {
				list = append(list, text)
			}
		}
		return true
	})
	for _, simple := range c.simple {
		c.evaluates = c.evaluates || simple[0].isOneOf(evaluators) ||
			simple.wraps() && slices.ContainsFunc(simple, func(w word) bool { return w.isOneOf(evaluators) })
	}
	for _, text := range list {
		if !c.evaluates {
			return
		}
		doc, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Document(strings.NewReader(text))
		if err != nil || depth >= deepest {
			c.unread = true
			return
		}
		inner := c.nested(c.posix)
		inner.walk(doc, text, depth+1)
		inner.texts(doc, depth+1)
		c.merge(inner, true)
	}
}
