package main

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/urfave/cli/v3"
)

func manCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		Description: "Read it with `agents man | man -l -`, or install it as share/man/man1/agents.1.",
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return failure.Usage("", "%s: unexpected argument %q", c.FullName(), c.Args().First())
			}
			_, err := io.WriteString(p.Out, manPage(c.Root()))
			return err
		},
	}
}

// manPage is the manual page of a command and all below it, in the macros of
// man(7).
func manPage(root *cli.Command) string {
	m := &manual{}
	m.line(".TH", strings.ToUpper(root.Name), "1", "", root.Name+" "+root.Version, "User Commands")
	m.line(".SH", "NAME")
	m.text(root.Name + " - " + root.Usage)
	m.line(".SH", "SYNOPSIS")
	for i, c := range leaves(root) {
		if i > 0 {
			m.line(".br")
		}
		m.synopsis(c)
	}
	m.line(".SH", "OPTIONS")
	m.text("These stand before or after the command.")
	m.flags(root)
	m.line(".SH", "COMMANDS")
	for _, c := range leaves(root) {
		m.command(c)
	}
	m.line(".SH", "EXIT STATUS")
	m.exitStatus(root.Description)
	m.line(".SH", "ENVIRONMENT")
	for _, e := range environment {
		m.item(bold(e[0]), e[1])
	}
	m.line(".SH", "FILES")
	for _, f := range manFiles {
		m.item(italic(f[0]), f[1])
	}
	m.line(".SH", "EXAMPLES")
	for _, e := range manExamples {
		m.item(e[0], "")
		m.line(".EX")
		m.text(e[1])
		m.line(".EE")
	}
	return m.b.String()
}

// environment, manFiles and manExamples are what the command tree does not tell.
var environment = [][2]string{
	{"AGENTS_AGENT_FILE", "agent files, separated as in PATH; weaker than --agent-file"},
	{"AGENTS_RECORD", "set by run --record for its tools: where agents that they run keep their sessions"},
	{"AGENTS_API_KEYS_FILE", "the keys file; weaker than --api-keys"},
	{"GIT_EDITOR, EDITOR", "opens the new agent file in init"},
	{"VISUAL, EDITOR", "opens the message of /edit in cli"},
	{"NO_COLOR", "no color, whatever its value"},
	{"XDG_CACHE_HOME", "where descriptions of tools are kept; otherwise ~/.cache"},
}

var manFiles = [][2]string{
	{"agents-exe.cfg.json", "configuration, looked for from the working directory upwards"},
	{"agents-exe.keys", "keys, in the working directory or beside the agent file"},
	{"~/.config/agents-exe/", "agents (default/*.json) and keys (secret-keys) of the user"},
}

var manExamples = [][2]string{
	{"A first agent, and a question to it:", "agents init --yes\nagents run --agent-file agent.json --prompt \"What is in this folder?\""},
	{"A prompt of several pieces:", "agents run --prompt \"Explain this:\" --file main.go --shell \"git diff\""},
	{"A new tool, called without a model:", "agents new tool words --lang python\nagents tool call tools/words.py --arg text=hello"},
}

// leaves are the commands that do something, in the order of the tree.
func leaves(c *cli.Command) []*cli.Command {
	var list []*cli.Command
	for _, sub := range c.VisibleCommands() {
		if len(sub.VisibleCommands()) > 0 {
			list = append(list, leaves(sub)...)
		} else {
			list = append(list, sub)
		}
	}
	return list
}

type manual struct{ b strings.Builder }

// line writes a macro with its arguments.
func (m *manual) line(macro string, args ...string) {
	m.b.WriteString(macro)
	for _, a := range args {
		m.b.WriteString(` "` + strings.ReplaceAll(roff(a), `"`, `\(dq`) + `"`)
	}
	m.b.WriteByte('\n')
}

// text writes lines of text, empty ones as paragraphs.
func (m *manual) text(s string) { m.marked(roff(s)) }

// marked writes text that has its font changes already.
func (m *manual) marked(s string) {
	for line := range strings.Lines(strings.Trim(s, "\n") + "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			line = ".PP"
		case strings.ContainsAny(line[:1], ".'"):
			line = `\&` + line
		}
		m.b.WriteString(line + "\n")
	}
}

// item is a name with what it means, indented.
func (m *manual) item(name, meaning string) {
	m.line(".TP")
	m.marked(name)
	if meaning != "" {
		m.text(meaning)
	}
}

func (m *manual) synopsis(c *cli.Command) {
	text := bold(c.FullName())
	if len(c.VisibleFlags()) > 1 { // beside --help
		text += " [" + italic("options") + "]"
	}
	if c.ArgsUsage != "" {
		text += " " + italic(c.ArgsUsage)
	}
	m.marked(text)
}

func (m *manual) command(c *cli.Command) {
	m.line(".SS", strings.TrimSpace(strings.TrimPrefix(c.FullName(), c.Root().Name)+" "+c.ArgsUsage))
	m.text(strings.ToUpper(c.Usage[:1]) + c.Usage[1:] + ".")
	// The exit codes have a section of their own.
	if text := strings.TrimSpace(strings.ReplaceAll(c.Description, c.Root().Description, "")); text != "" {
		m.line(".PP")
		m.text(text)
	}
	m.flags(c)
}

// flags writes the flags of c, but for --help.
func (m *manual) flags(c *cli.Command) {
	for _, f := range c.VisibleFlags() {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok || f.Names()[0] == "help" && c != c.Root() {
			continue
		}
		usage := doc.GetUsage()
		before, rest, _ := strings.Cut(usage, "`")
		placeholder, after, _ := strings.Cut(rest, "`")
		var names []string
		for _, name := range f.Names() {
			names = append(names, bold(command.Dashes(name)))
		}
		name := strings.Join(names, ", ")
		if doc.TakesValue() {
			name += " " + italic(cmp.Or(placeholder, "VALUE"))
		}
		text := before + placeholder + after
		if s, ok := f.(*cli.StringFlag); ok && s.Value != "" {
			text += " (default: " + s.Value + ")"
		}
		m.item(name, text)
	}
}

// exitStatus writes "Exit codes: 0 this; 1 that; 130, 143 these." as a list.
func (m *manual) exitStatus(codes string) {
	text := strings.TrimSuffix(strings.TrimPrefix(strings.Join(strings.Fields(codes), " "), "Exit codes: "), ".")
	for item := range strings.SplitSeq(text, "; ") {
		n := strings.IndexFunc(item, func(r rune) bool { return r != ',' && r != ' ' && (r < '0' || r > '9') })
		m.item(bold(strings.TrimSpace(item[:n])), item[n:])
	}
}

func bold(s string) string { return `\fB` + roff(s) + `\fR` }

func italic(s string) string { return `\fI` + roff(s) + `\fR` }

// roff escapes what means something in a line of text. A dash becomes a minus,
// so that options can be copied; marks of code are left out.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "", "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}
