package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/urfave/cli/v3"
)

func newToolCommand(p *program.Env) *cli.Command {
	var dir, lang, from, effects string
	return &cli.Command{
		ArgsUsage: "SLUG [-- COMMAND...]",
		Description: `A Go tool is a script that runs the program in the folder beside it, and builds it
first if it has changed. A Python tool is a function; agents_tool.py beside it, a
single-file library, turns it into a tool. A bash tool uses agents_tool.sh in the same
way. Nothing is overwritten.

With a COMMAND after --, the tool is a script of a few lines that runs COMMAND. A
placeholder in a word is an argument of the tool: {NAME}, {NAME:TYPE}, {NAME:TYPE=DEFAULT}, or
{NAME:TYPE?} for a word that may be left out. The types are str, path, int, num, bool,
stdin, and words such as short|full:

	agents new tool log -- git log --oneline -n '{count:int=10}' -- '{path:path}'
	agents new tool item -- curl -sS 'https://example.org/items/{id}'

A value that begins with a dash is refused where the command could read it as an option;
it is accepted after -- and inside a word. In a URL, values are percent-encoded. For the
description, the program (the first word of COMMAND, if it is in PATH) is run with --help
alone, in a sandbox. See docs/tools.md.

With --from it is a copy of a tool that ships with this program, with the modules that
it needs in the folder lib beside it. The slug is then optional.

SLUG LANGUAGE FILE, the arguments of agents-exe, write the tool to FILE and the suffix of
the language.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "lang", Value: "bash", Usage: "`LANGUAGE` of the tool: bash, python, node or go", Destination: &lang, Validator: command.OneOf("bash", "python", "node", "go")},
			&cli.StringFlag{Name: "dir", Usage: "write into `DIR` (default: the tool directory of the agent that is chosen here, or tools)", Destination: &dir},
			scaffold.Tools().Flag(&from),
			&cli.StringFlag{Name: "effects", Usage: "`EFFECTS` of COMMAND: none, idempotent or once (default: once, or what you answer at a terminal)", Destination: &effects, Validator: command.OneOf("none", "idempotent", "once")},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			i := slices.Index(os.Args, "--") // which is not among the arguments
			switch {
			case from == "?":
				return p.Print(scaffold.Tools().List())
			case from != "" && c.IsSet("lang"):
				return failure.Usage("", "--from and --lang exclude each other")
			case i >= 0 && (from != "" || c.IsSet("lang")):
				return failure.Usage("", "a command, --from and --lang exclude each other")
			case i >= 0:
				return newCommandTool(ctx, p, c, os.Args[i+1:], toolPlace{dir: dir}, effects)
			case effects != "":
				return failure.Usage("", "--effects is for a command after --")
			}
			if args, ok, err := scaffold.FileArguments(c, 3, 3); ok && from == "" && dir == "" {
				if err == nil {
					err = command.OneOf("bash", "python", "node", "go")(args[1])
				}
				if err != nil {
					return err
				}
				return newTool(p, args[0], toolPlace{dir: filepath.Dir(args[2]), base: filepath.Base(args[2])}, languageOf(args[1]), "")
			}
			slug, err := scaffold.Tools().Slug(c, from)
			if err != nil {
				return err
			}
			return newTool(p, slug, toolPlace{dir: dir}, languageOf(lang), from)
		},
	}
}

// newCommandTool writes a tool that runs the command line words.
func newCommandTool(ctx context.Context, p *program.Env, c *cli.Command, words []string, to toolPlace, effects string) error {
	slug := c.Args().First()
	if c.NArg() != len(words)+1 || len(words) == 0 {
		return failure.Usage("`agents new tool --help` says more", "new tool: want SLUG -- COMMAND...")
	}
	if err := scaffold.CheckSlug(c, slug); err != nil {
		return err
	}
	t, err := scaffold.NewCommandTool(p, words)
	if err != nil {
		return err
	}
	return newTool(p, slug, to, language{suffix: ".sh", text: func(slug, file string) (string, error) {
		if effects == "" {
			if effects, err = askEffects(ctx, p); err != nil {
				return "", err
			}
		}
		return t.Text(slug, file, effects, scaffold.CommandHelp(ctx, p, words[0])), nil
	}, program: "sh", library: scaffold.ShellLibrary, try: "agents tool test %s"}, "")
}

// askEffects asks the person at the terminal for the effects of a command.
func askEffects(ctx context.Context, p *program.Env) (string, error) {
	asker := ask.Terminal(p, false)
	if asker == nil {
		return "once", nil
	}
	n, err := asker.Choice(ctx, "What does a call change?", ask.Group{Labels: []string{
		"every call changes something: it is never repeated automatically",
		"nothing: it only reads",
		"nothing more, if the same call is repeated",
	}})
	if err != nil && ctx.Err() == nil {
		err = failure.Usage("--effects answers the question", "new tool: nothing was written: there was no answer")
	}
	return []string{"once", "none", "idempotent"}[n], err
}

type language struct {
	suffix  string
	text    func(slug, file string) (string, error)
	program string // what runs it
	library string // the text of agents_tool with this suffix; "" if it needs none
	source  bool   // a Go program lies beside it
	try     string // a command for the new tool
}

func languageOf(name string) language {
	l := language{suffix: ".sh", program: "bash", library: scaffold.ShellLibrary}
	text := scaffold.BashTool
	switch name {
	case "python":
		l = language{suffix: ".py", program: "python3", library: scaffold.PythonLibrary}
		text = scaffold.PythonTool
	case "node":
		l = language{suffix: ".mjs", program: "node"}
		text = scaffold.NodeTool
	case "go":
		l = language{suffix: ".sh", program: "go", source: true}
		text = scaffold.GoTool
	}
	l.text = func(slug, file string) (string, error) { return scaffold.Fill(text, slug, file), nil }
	l.try = "agents tool call %s --arg text=hello --arg times=2"
	return l
}

// A toolPlace is where a new tool is written: the zero value is the tool directory of the agent
// that is chosen here. base is the name of its file without the suffix; "" is the slug.
type toolPlace struct{ dir, base string }

func newTool(p *program.Env, slug string, to toolPlace, l language, from string) error {
	dir, base := to.dir, cmp.Or(to.base, slug)
	changed := func() {}
	if dir == "" {
		var err error
		if dir, changed, err = toolDir(p); err != nil {
			return err
		}
	}
	defer changed()
	name := strings.TrimSuffix(base, l.suffix) + l.suffix
	source := slug + "-src"
	for _, other := range []string{base, name, base + ".sh", base + ".py", base + ".mjs", source} {
		if path := filepath.Join(dir, other); program.Taken(path) {
			return failure.Usage("choose another slug or --dir", "new tool: %s already exists", path)
		}
	}
	s := &scaffold.Files{P: p}
	if from != "" {
		return s.Finish(s.CopyTool(dir, slug, from), "agents tool describe "+program.ShellQuote(program.Command(filepath.Join(dir, slug))))
	}
	text, err := l.text(slug, name)
	if err == nil {
		err = s.Folder(dir)
	}
	if l.source && err == nil {
		err = goSource(s, filepath.Join(dir, source), slug, name)
	}
	if l.library != "" && err == nil {
		err = s.AddSame(filepath.Join(dir, "agents_tool"+l.suffix), 0o644, l.library)
	}
	path := filepath.Join(dir, name)
	if err == nil {
		err = s.Add(path, 0o755, text)
	}
	if _, lookErr := exec.LookPath(l.program); lookErr != nil && err == nil {
		p.Note("%s, which runs it, is not in PATH", l.program)
	}
	return s.Finish(err, fmt.Sprintf(l.try, program.ShellQuote(program.Command(path))))
}

// goSource writes the program of a tool in Go, a module of its own.
func goSource(s *scaffold.Files, dir, slug, name string) error {
	err := s.Folder(dir)
	for _, f := range [][2]string{{"go.mod", "module example.com/@SLUG@\n\ngo 1.21\n"}, {".gitignore", "/@SLUG@.built*\n"}, {"main.go", scaffold.GoProgram}} {
		if err == nil {
			err = s.Add(filepath.Join(dir, f[0]), 0o644, scaffold.Fill(f[1], slug, name))
		}
	}
	return err
}

// toolDir is the folder of a new tool. changed is to be called when the tool is there.
func toolDir(p *program.Env) (dir string, changed func(), err error) {
	c, err := load.Config(p)
	if err != nil {
		return "", nil, err
	}
	file, err := scaffold.Chosen(p, c)
	if err != nil {
		return "", nil, err
	}
	if file == nil {
		return "tools", func() {}, nil
	}
	changed = load.Changing(p, file.Path)
	dir = file.Spec.ToolDirectory
	if dir == "" {
		return "", nil, failure.NothingRan(fmt.Errorf("new tool: agent %s (%s) has no toolDirectory", file.Spec.Slug, file.Path), "name a folder with --dir")
	}
	if filepath.IsAbs(dir) {
		return dir, changed, nil
	}
	beside := filepath.Join(filepath.Dir(file.Path), dir)
	// Some files mean the working directory; see agentfile.Load.
	if _, err := os.Stat(beside); errors.Is(err, os.ErrNotExist) && program.Taken(dir) {
		return dir, changed, nil
	}
	return program.Relative(beside), changed, nil
}
