// Package complete finds what may stand in place of a word of a command line that is
// being typed.
package complete

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/urfave/cli/v3"
)

// Kinds of candidates: words, or what the shell finds itself.
const (
	kindWords   = "words"
	kindFiles   = "files"
	kindFolders = "folders"
)

// Print prints the kind, then a line for each candidate that begins like the
// word under the cursor: VALUE, or VALUE, a tab and what it is.
func Print(p *program.Env, root *cli.Command, args []string) error {
	var words []string
	switch {
	case len(args) == 2 && args[0] == "line":
		words = shellWords(args[1])[1:]
	case len(args) > 1 && args[0] == "words":
		words = args[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	kind, current, list := (&completer{p: p, chain: []*cli.Command{root}}).complete(words)
	slices.Sort(list)
	var b strings.Builder
	b.WriteString(kind + "\n")
	for _, line := range slices.Compact(list) {
		if strings.HasPrefix(line, current) {
			b.WriteString(line + "\n")
		}
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}

// A completer walks along a command line.
type completer struct {
	p     *program.Env
	chain []*cli.Command // from the root to the command so far
	files []string       // of --agent-file
}

func (c *completer) command() *cli.Command { return c.chain[len(c.chain)-1] }

// complete returns what may stand in place of the last word, and what of that
// word the candidates begin with.
func (c *completer) complete(words []string) (kind, current string, list []string) {
	last := len(words) - 1
	current = words[last]
	for i := 0; i < last; i++ {
		word := words[i]
		if word == "--" {
			kind, list = c.positional(current)
			return kind, current, list
		}
		if len(word) < 2 || word[0] != '-' {
			if sub := c.command().Command(word); sub != nil {
				c.chain = append(c.chain, sub)
			}
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := c.flag(name)
		if flag == nil || !flag.TakesValue() {
			continue
		}
		if !given {
			if i++; i == last {
				kind, list = c.values(name, flag)
				return kind, current, list
			}
			value = words[i]
		}
		if name == "agent-file" { // which decides which agents there are
			c.files = append(c.files, input.ExpandHome(value))
		}
	}
	if name, value, ok := strings.Cut(current, "="); ok && strings.HasPrefix(current, "-") {
		flag := c.flag(strings.TrimLeft(name, "-"))
		if flag == nil {
			return kindWords, value, nil
		}
		kind, list = c.values(strings.TrimLeft(name, "-"), flag)
		return kind, value, list
	}
	if strings.HasPrefix(current, "-") {
		return kindWords, current, c.flags()
	}
	kind, list = c.positional(current)
	for _, sub := range c.command().VisibleCommands() {
		list = append(list, sub.Name+"\t"+sub.Usage)
	}
	return kind, current, list
}

func (c *completer) positional(current string) (kind string, list []string) {
	args := c.command().ArgsUsage
	switch {
	case len(c.chain) > 1 && c.chain[len(c.chain)-2].Name == "keys":
		return kindWords, nil // their IDs are not those of sessions
	case strings.Contains(current, "/") && strings.Contains(args, "-or-"):
		return kindFiles, nil
	case strings.HasPrefix(args, "ID"), strings.HasPrefix(args, "SESSION"):
		return kindWords, sessions.IDs(c.p)
	case args == "SERVER":
		return kindWords, servers(c.p, c.files)
	case strings.HasPrefix(args, "NAME-or-PATH"):
		if list = tools(c.p, c.files); len(list) > 0 {
			return kindWords, list
		}
		return kindFiles, nil
	case strings.Contains(args, "PATH"):
		return kindFiles, nil
	case strings.HasPrefix(args, "DIR"):
		return kindFolders, nil
	case strings.Contains(args, "|"):
		return kindWords, strings.Split(args, "|")
	}
	return kindWords, nil
}

func (c *completer) flag(name string) cli.DocGenerationFlag {
	for _, level := range slices.Backward(c.chain) {
		for _, f := range level.Flags {
			if doc, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
				return doc
			}
		}
	}
	return nil
}

// flags are the flags of the command and of those above.
func (c *completer) flags() []string {
	var list []string
	for _, level := range c.chain {
		for _, f := range level.VisibleFlags() {
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok {
				continue
			}
			for _, name := range f.Names() {
				list = append(list, command.Dashes(name)+"\t"+strings.ReplaceAll(doc.GetUsage(), "`", ""))
			}
		}
	}
	return list
}

func (c *completer) values(name string, flag cli.DocGenerationFlag) (kind string, list []string) {
	switch name {
	case "agent":
		return kindWords, slugs(c.p, c.files)
	case "alias":
		return kindWords, aliases(c.p, c.files)
	case "session":
		return kindWords, sessions.IDs(c.p)
	case "flavor":
		return kindWords, append(openai.Flavors(), agentfile.FlavorScripted, agentfile.FlavorCaller)
	}
	// A flag that takes one of a few values names them when it refuses another.
	var refused error
	switch f := flag.(type) {
	case *cli.StringFlag:
		if f.Validator != nil {
			refused = f.Validator("\x00")
		}
	case *cli.GenericFlag:
		refused = f.Value.Set("\x00")
	}
	if choice, ok := errors.AsType[*command.ChoiceError](refused); ok {
		return kindWords, choice.Values
	}
	_, rest, _ := strings.Cut(flag.GetUsage(), "`")
	placeholder, _, _ := strings.Cut(rest, "`")
	switch {
	case strings.Contains(placeholder, "FILE"), strings.Contains(placeholder, "PATH"):
		return kindFiles, nil
	case strings.Contains(placeholder, "DIR"):
		return kindFolders, nil
	}
	return kindWords, nil
}

// agentFiles returns the agent files that the command line can mean, by their paths. Files
// are read, nothing is run.
func agentFiles(p *program.Env, named []string) iter.Seq2[string, *agentfile.File] {
	return func(yield func(string, *agentfile.File) bool) {
		c, err := load.Config(p, named...)
		if err != nil {
			return
		}
		paths, _ := load.Candidates(p, c) // what is not trusted is not read
		for _, path := range paths {
			if f, _, err := agentfile.Read(path); err == nil && !yield(path, f) {
				return
			}
		}
	}
}

// slugs returns the slugs that --agent can have.
func slugs(p *program.Env, files []string) (list []string) {
	for path, file := range agentFiles(p, files) {
		for _, slug := range file.Slugs {
			if f, _, err := agentfile.ReadAgent(path, slug); err == nil {
				announce, _, _ := strings.Cut(f.Spec.Announce, "\n")
				list = append(list, OneLine(slug, announce))
			}
		}
	}
	return list
}

// tools are the executables in the tool folders of the agents, and the names of those
// that have described themselves before.
func tools(p *program.Env, files []string) (list []string) {
	for path, f := range agentFiles(p, files) {
		if f.Spec.ToolDirectory == "" {
			continue
		}
		dir := f.Spec.ToolDirectory
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(path), dir)
		}
		for _, known := range agentfile.KnownTools(p.CacheDir(), dir) {
			what, _, _ := strings.Cut(known.Description, "\n")
			list = append(list, OneLine(strings.TrimPrefix(known.Name, toolname.Join("bash", "")), what))
		}
		entries, _ := os.ReadDir(dir) // a folder that is missing has none
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			if err == nil && info.Mode().IsRegular() && filemode.Of(filepath.Join(dir, e.Name()), info)&0o111 != 0 && e.Name()[0] != '.' {
				list = append(list, plain(program.Relative(filepath.Join(dir, e.Name()))))
			}
		}
	}
	return list
}

// servers are the MCP servers over HTTP that the agent files name.
func servers(p *program.Env, files []string) (list []string) {
	for _, f := range agentFiles(p, files) {
		for _, s := range f.Spec.MCPServers {
			if s.URL != "" {
				list = append(list, plain(s.Name))
			}
		}
	}
	return list
}

func aliases(p *program.Env, files []string) []string {
	all := maps.Clone(prompt.BuiltinAliases)
	if c, err := load.Config(p, files...); err == nil {
		maps.Copy(all, c.File.Aliases)
	}
	var list []string
	for name, alias := range all {
		list = append(list, OneLine(name, alias.Description))
	}
	return list
}

// OneLine is a candidate and what it is.
func OneLine(value, what string) string {
	if what = plain(what); what != "" {
		return plain(value) + "\t" + what
	}
	return plain(value)
}

// shellWords splits the beginning of a command line as a shell would. There is
// always a last word, the one that is being typed.
func shellWords(line string) []string {
	var words []string
	var word bytes.Buffer
	var quote byte
	inside := false
	for i := 0; i < len(line); i++ {
		b := line[i]
		switch {
		case b == '\\' && quote != '\'' && i+1 < len(line):
			i++
			if quote == '"' && !strings.ContainsRune("\\\"$`", rune(line[i])) {
				word.WriteByte('\\')
			}
			word.WriteByte(line[i])
			inside = true
		case quote != 0 && b == quote:
			quote = 0
		case quote == 0 && (b == '\'' || b == '"'):
			quote, inside = b, true
		case quote == 0 && (b == ' ' || b == '\t' || b == '\n'):
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteByte(b)
			inside = true
		}
	}
	words = append(words, word.String())
	if len(words) == 1 { // the program's own name
		words = append(words, "")
	}
	return words
}

// plain is a text without control characters. Files that people share hold the texts,
// so nothing in them may act on a terminal or look like another candidate.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}
