package scaffold

import (
	"cmp"
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// CommandHelp returns what `NAME --help` prints, and says on stderr that it ran. A
// subcommand is not asked: a program that does not know --help may take both words for
// what to do. For the same reason it runs in an empty folder, in a sandbox without a network
// that permits to write there alone, with 3 seconds and neither input nor terminal; and not
// at all unless it is a name that PATH has.
func CommandHelp(ctx context.Context, p *program.Env, name string) string {
	path, err := process.LookPath(name, p.Environ)
	if err != nil || strings.Contains(name, string(filepath.Separator)) {
		if err != nil {
			p.Note("%s is not in PATH", name)
		}
		p.Note("the description is without the help of %s, which was not run", name)
		return ""
	}
	help, ok := confined(ctx, p, cmp.Or(p.Describing, 3*time.Second), path, "--help")
	p.Note("`%s --help` was run for the description", name)
	if !ok {
		return ""
	}
	return help
}

// confined runs a program as CommandHelp says, and returns what it prints. ok says that it
// ended by itself with exit code 0.
func confined(ctx context.Context, p *program.Env, limit time.Duration, path, arg string) (said string, ok bool) {
	dir, err := process.NewTemp("agents-help-")
	if err != nil {
		return "", false
	}
	defer func() { _ = dir.Remove() }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	environ := append(toolenv.Environ(p.Environ, nil), "LC_ALL=C", "PAGER=cat", "TERM=dumb", "NO_COLOR=1", "COLUMNS=200")
	out := &head{}
	box := sandbox.New(sandbox.Place{Dir: dir.Dir, Home: toolenv.Lookup(p.Environ, "HOME"), Environ: p.Environ, Ladder: load.Ladder(p)}, sandbox.Config{Workspace: true})
	e, err := process.Run(ctx, &process.Command{Path: path, Args: []string{arg}, Dir: dir.Dir, Env: environ, Stdout: out, Grace: 200 * time.Millisecond, Sandbox: box})
	return termtext.Clean(string(out.text)), err == nil && e.Code == 0
}

// A head keeps the beginning of what is written to it.
type head struct{ text []byte }

func (h *head) Write(data []byte) (int, error) {
	h.text = append(h.text, data[:min(len(data), 64<<10-len(h.text))]...)
	return len(data), nil
}

const (
	subcommand = `^[a-z][a-z0-9-]*$`
	manName    = `(?m)^NAME\s*\n\s+\S+\s+-\s+(\S.*)$`
	usageLine  = `(?i)^usage\b`
	titleLine  = `(?i)^\S*$|^\S+ v?\d|@|://|copyright|licen[cs]e` // versions, authors
	listLine   = `^(\s|-)|:$`
	takesValue = `[=<A-Z]`
)

// summary is what the help says that the command does, "" if it does not.
func (t *CommandTool) summary(help string) string {
	if sub := t.subcommand(); sub != "" {
		if _, text := listed(help, regexp.QuoteMeta(sub)); text != "" {
			return sentence(text)
		}
	}
	if m := regexp.MustCompile(manName).FindStringSubmatch(help); m != nil {
		return sentence(m[1])
	}
	var prose []string
	usage := false
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n ")
		list := matches(listLine, line)
		usage = matches(usageLine, line) || usage && list
		switch {
		case usage && !strings.HasPrefix(strings.TrimSpace(line), "-"), line == "" && prose == nil:
		case line == "":
			return sentence(strings.Join(prose, " "))
		case list: // and what is directly before it is a heading
			return ""
		case !matches(titleLine, line):
			prose = append(prose, line)
		}
	}
	return sentence(strings.Join(prose, " "))
}

// subcommand is the word behind the program if it can be one.
func (t *CommandTool) subcommand() string {
	if len(t.words) > 1 && matches(subcommand, t.words[1]) {
		return t.words[1]
	}
	return ""
}

// listed returns what the help says in the list of subcommands or options about what
// the regular expression name matches, and what is between the two.
func listed(help, name string) (between, text string) {
	m := regexp.MustCompile(`(?m)^[ \t]+` + name + `((?:[:,=\[ ][^\n]*?)??)(?: {2,}|\t| - )[ \t]*(\S[^\n]*)$`).FindStringSubmatch(help)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

// optionHelp is what the help says about an option with a value, "" if nothing. That of a
// program says nothing about the options of its subcommands.
func (t *CommandTool) optionHelp(help, option string) string {
	if option == "" || t.subcommand() != "" {
		return ""
	}
	between, text := listed(help, `(?:-\w, )?`+regexp.QuoteMeta(option))
	if !matches(takesValue, between) {
		return ""
	}
	return program.OneLine(text, 150)
}

// sentence is the first sentence of a text.
func sentence(text string) string {
	text = program.OneLine(text, 200)
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i]
	}
	if text = strings.TrimSuffix(text, "."); text != "" {
		text += "."
	}
	return text
}
