package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// A CommandTool is a tool that runs a command line with placeholders in its words.
type CommandTool struct {
	words []string
	args  []*commandArg
	shell []string // the words in the syntax of sh
	stdin string   // the standard input of the command, in that syntax; "" if it has none
}

type commandArg struct {
	name, kind, rest string // rest is "?", or "=" and the default
	place            string // as in agents_tool.sh
	about            string // "" before its place is known
	option           string // that the value is behind
}

// Regular expressions, compiled when they are used: not at each start of the program.
const (
	placeholder = `\\?\{([A-Za-z_]\w*)([:=?][^{}]*)?\}`
	argName     = `^[a-z][a-z0-9_]{0,39}$`
	argChoice   = `^[\w.,:+@%/-]+(\|[\w.,:+@%/-]+)+$`
	toHost      = `[A-Za-z0-9+.-]*://[^/?#]*` // the scheme and the host of a URL
	// Parts of a word are code: behind -c or -e of an interpreter, and wherever a filter or a
	// shell elsewhere stands before.
	interpreter = `^((ba|da|a|k|mk|z|fi)?sh|(python|perl|ruby|node|php|lua)[0-9.]*)$`
	codeOption  = `^-\w*[cer]$`
	filter      = `^([gmn]?awk|g?sed)$`
	remoteShell = `^(ssh|eval)$`
)

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// argValue returns the expression of the values of a type, "" if there is no such type.
func argValue(kind string) string {
	switch kind {
	case "str", "path", "stdin":
		return `^[^\x00-\x1f\x7f]*$`
	case "int":
		return `^-?(0|[1-9][0-9]*)$`
	case "num":
		return `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
	case "bool":
		return `^(true|false)$`
	}
	if !matches(argChoice, kind) {
		return ""
	}
	return "^(" + strings.ReplaceAll(regexp.QuoteMeta(kind), `\|`, "|") + ")$"
}

const placeholderHint = `a placeholder is {NAME}, {NAME:TYPE}, {NAME:TYPE=DEFAULT} or {NAME:TYPE?}; the types are str, path, int, num, bool, stdin, and words such as short|full; \{ is a brace`

// NewCommandTool reads the words of a command line.
func NewCommandTool(p *program.Env, words []string) (*CommandTool, error) {
	for _, entry := range p.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if len(value) >= 8 && toolenv.IsSecret(name) && strings.Contains(strings.Join(words, "\n"), value) {
			return nil, failure.Usage(`leave it out, and write "$`+name+`" into the new file; toolEnv of the agent file hands it to tools`, "new tool: the command holds the value of %s, which models would read in the description", name)
		}
	}
	t := &CommandTool{words: words}
	guarded := false // by -- before
	for i, word := range words {
		text, err := t.word(i, guarded)
		if err != nil {
			return nil, failure.Usage(placeholderHint, "new tool: %s: %w", program.OneLine(word, 100), err)
		}
		if text != "" {
			t.shell = append(t.shell, text)
		}
		// A plain word behind -- may be a command with options of its own.
		guarded = word == "--" || guarded && (strings.HasPrefix(word, "{") || words[i-1] != "--")
	}
	return t, nil
}

// word returns a word in the syntax of sh, "" if it is the standard input.
func (t *CommandTool) word(i int, guarded bool) (string, error) {
	word, end := t.words[i], 0
	var plain, quoted strings.Builder // without placeholders, and in double quotes
	var found []*commandArg
	literal := func(text string) {
		plain.WriteString(text)
		quoted.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(text))
	}
	for _, m := range regexp.MustCompile(placeholder).FindAllStringSubmatchIndex(word, -1) {
		if m[0] > 0 && word[m[0]-1] == '{' { // {{…}} is for the command
			continue
		}
		literal(word[end:m[0]])
		if end = m[1]; word[m[0]] == '\\' {
			literal(word[m[0]+1 : end])
			continue
		}
		a, err := t.arg(word[m[2]:m[3]], strings.TrimSuffix(word[m[3]:end], "}"))
		if err == nil {
			err = t.put(a, i, plain.String(), end-m[0] == len(word), guarded)
		}
		if err != nil {
			return "", err
		}
		found = append(found, a)
		if end < len(word) && matches(argName, "a"+strings.ToLower(word[end:end+1])) {
			quoted.WriteString("${" + a.name + "}")
		} else {
			quoted.WriteString("$" + a.name)
		}
	}
	literal(word[end:])
	optional := slices.ContainsFunc(found, func(a *commandArg) bool { return a.rest == "?" })
	switch text := `"` + quoted.String() + `"`; {
	case len(found) == 0:
		return program.ShellQuote(plain.String()), nil
	case found[0].kind == "stdin":
		t.stdin = `"${` + found[0].name + `-}"`
		return "", nil
	case optional && len(found) > 1:
		return "", errors.New("a word with a value that may be left out can have no other placeholder")
	case optional:
		return "${" + found[0].name + "+" + text + "}", nil
	default:
		return text, nil
	}
}

// arg returns the argument of a placeholder: a new one, or one that a word before has.
func (t *CommandTool) arg(name, rest string) (*commandArg, error) {
	i := slices.IndexFunc(t.args, func(a *commandArg) bool { return a.name == name })
	if i >= 0 && rest == "" {
		return t.args[i], nil
	}
	a := &commandArg{name: name, kind: "str", rest: rest}
	if kind, ok := strings.CutPrefix(rest, ":"); ok {
		at := strings.IndexAny(kind+"?", "=?")
		a.kind, a.rest = kind[:at], kind[at:]
	}
	values := argValue(a.kind)
	value, hasDefault := strings.CutPrefix(a.rest, "=")
	switch {
	case i >= 0:
		return nil, fmt.Errorf("the type of %s is already given", name)
	case !matches(argName, name):
		return nil, fmt.Errorf("%q cannot be a name: want lower-case letters, digits and _", name)
	case values == "":
		return nil, fmt.Errorf("there is no type %q", a.kind)
	case strings.HasPrefix(a.rest, "?") && a.rest != "?":
		return nil, fmt.Errorf("unexpected %q", a.rest)
	case hasDefault && !matches(values, value):
		return nil, fmt.Errorf("the default %q does not fit the type %s", value, a.kind)
	}
	t.args = append(t.args, a)
	return a, nil
}

// closed reports whether the type permits no text that the author has not written.
func (a *commandArg) closed() bool {
	return slices.Contains([]string{"int", "num", "bool"}, a.kind) || strings.Contains(a.kind, "|")
}

// put decides what a value in word i can be, behind the text before. alone says that the
// placeholder is the whole word.
func (t *CommandTool) put(a *commandArg, i int, before string, alone, guarded bool) error {
	url := regexp.MustCompile(toHost).FindStringIndex(before)
	inHost := url != nil && url[1] == len(before)
	first := strings.Trim(before, "-") == "" // there is nothing before, or dashes
	place := "allow_dash"
	switch {
	case i == 0:
		return errors.New("the program cannot be a placeholder")
	case a.kind == "stdin" && (!alone || a.about != "" || t.stdin != ""):
		return errors.New("standard input is one placeholder, and a word of its own")
	case !a.closed() && inHost:
		return errors.New("a value would choose the host: there can only be numbers, and words such as a|b")
	case !a.closed() && first && before != "":
		return errors.New("a value would choose the option: there can only be numbers, and words such as a|b")
	case !a.closed() && t.isCode(i, alone):
		return errors.New(`a value would be code: hand it over as an argument, as in sh -c 'grep -- "$1" notes' sh {text}`)
	case inHost, first && !guarded:
		place = ""
	case url != nil && strings.ContainsAny(before[url[1]:], "?#"):
		place = "query"
	case url != nil:
		place = "segment"
	}
	value, hasDefault := strings.CutPrefix(a.rest, "=")
	_, why := a.refused(place)
	inURL := func(place string) bool { return place == "segment" || place == "query" }
	switch {
	case hasDefault && why != "" && (strings.HasPrefix(value, "-") || place == "segment" && strings.Trim(value, ".") == ""):
		return fmt.Errorf("the default %q would be refused here", value)
	case a.about == "":
		a.place = place
		a.describe(t.words, i, before)
	case a.place != place && (inURL(a.place) || inURL(place)):
		return fmt.Errorf("%s is in a URL and elsewhere: want two names", a.name)
	case a.place != place:
		a.place = ""
	}
	return nil
}

// isCode reports whether a value in word i is read as code. A placeholder that is
// the whole word is accepted: the author wants the model to write the code.
func (t *CommandTool) isCode(i int, alone bool) bool {
	previous := t.words[i-1]
	return slices.ContainsFunc(t.words[:i], func(w string) bool {
		w = filepath.Base(w)
		return matches(remoteShell, w) || !alone && (matches(interpreter, w) && matches(codeOption, previous) ||
			matches(filter, w) && previous != "-v" && !strings.HasPrefix(t.words[i], "-v"))
	})
}

// describe notes what is known of an argument without the help of the program.
func (a *commandArg) describe(words []string, i int, before string) {
	a.about = "the " + strings.ReplaceAll(a.name, "_", " ")
	option := program.OneLine(strings.TrimRight(cmp.Or(before, words[i-1]), "=:"), 100)
	switch {
	case a.kind == "stdin":
	case strings.HasPrefix(option, "-") && strings.Trim(option, "-") != "" && !strings.ContainsAny(option, "={"):
		a.option = option
		a.about += ", after " + option
	case before != "":
		a.about += " in " + shownWord(words[i])
	}
}

// shownWord is a word with the names of its placeholders alone, on one line.
func shownWord(word string) string {
	return program.OneLine(regexp.MustCompile(placeholder).ReplaceAllString(word, "{$1}"), 300)
}

// refused is a value that the argument does not take in a place although agents lets it
// pass, and what the tool says then; "" if there is none.
func (a *commandArg) refused(place string) (value any, why string) {
	number := a.kind == "int" || a.kind == "num"
	switch {
	case place == "segment" && !a.closed():
		return "..", "must not be empty"
	case place == "" && number:
		return -1, "begins with a dash"
	case place == "" && (a.kind == "str" || a.kind == "path"):
		return "-", "begins with a dash"
	}
	return nil, ""
}

// Text is the script; help is that of the program. Its example is a call that is refused, so
// that `agents tool test` runs the command only if the effects permit that.
func (t *CommandTool) Text(slug, file, effects, help string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#!/bin/sh
# %s: a command line as a tool. agents_tool.sh says what tool, arg, field and start do; see
#   agents tool test ./%s
set -eu
. "$(dirname "$0")/agents_tool.sh"

`, slug, file)
	line := strings.TrimSpace(t.summary(help) + " It runs: " + shownWord(strings.Join(t.words, " ")))
	fmt.Fprintf(&b, "tool %s %s %s\n", slug, program.ShellQuote(line), effects)
	example := struct {
		Args   map[string]any `json:"args"`
		Fails  bool           `json:"fails"`
		Result string         `json:"result"`
	}{map[string]any{}, true, ""}
	for _, a := range t.args {
		about := program.ShellQuote(cmp.Or(t.optionHelp(help, a.option), a.about))
		fmt.Fprintln(&b, strings.TrimSpace("arg "+program.ShellQuote(a.name+":"+a.kind+a.rest)+" "+about+" "+a.place))
		value, why := a.refused(a.place)
		choice, _, isChoice := strings.Cut(a.kind, "|")
		switch {
		case example.Result == "" && why != "":
			example.Args[a.name], example.Result = value, why
		case a.rest != "":
		case isChoice:
			example.Args[a.name] = choice
		default:
			example.Args[a.name] = cmp.Or(map[string]any{"int": 1, "num": 1, "bool": true}[a.kind], any("x"))
		}
	}
	if example.Result != "" {
		text, _ := jsondoc.Encode([]any{example}, "") // plain values always encode
		fmt.Fprintf(&b, "field examples %s\n", program.ShellQuote(string(text)))
	}
	b.WriteString("start \"$@\"\n\n")
	if t.stdin != "" {
		fmt.Fprintf(&b, "printf '%%s\\n' %s | ", t.stdin)
	} else {
		b.WriteString("exec ")
	}
	return b.String() + strings.Join(t.shell, " ") + "\n"
}
