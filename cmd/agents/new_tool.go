package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/urfave/cli/v3"
)

func newToolCommand(p *program.Env) *cli.Command {
	var dir, lang, from string
	return &cli.Command{
		ArgsUsage: "SLUG",
		Description: `A Go tool is a script that runs the program in the folder beside it, and builds it
first if it has changed. A Python tool is a function; agents_tool.py beside it, a
single-file library, turns it into a tool. Nothing is overwritten.

With --from it is a copy of a tool that ships with this program, with the modules that
it needs in the folder lib beside it. The slug is then optional.

SLUG LANGUAGE FILE, the arguments of agents-exe, write the tool to FILE and the suffix of
the language.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "lang", Value: "bash", Usage: "`LANGUAGE` of the tool: bash, python, node or go", Destination: &lang, Validator: command.OneOf("bash", "python", "node", "go")},
			&cli.StringFlag{Name: "dir", Usage: "write into `DIR` (default: the tool directory of the agent that is chosen here, or tools)", Destination: &dir},
			scaffold.Tools().Flag(&from),
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if from == "?" {
				return p.Print(scaffold.Tools().List())
			}
			if from != "" && c.IsSet("lang") {
				return failure.Usage("", "--from and --lang exclude each other")
			}
			if args, ok, err := scaffold.FileArguments(c, 3, 3); ok && from == "" && dir == "" {
				if err == nil {
					err = command.OneOf("bash", "python", "node", "go")(args[1])
				}
				if err != nil {
					return err
				}
				return newTool(p, args[0], toolPlace{dir: filepath.Dir(args[2]), base: filepath.Base(args[2])}, args[1], "")
			}
			slug, err := scaffold.Tools().Slug(c, from)
			if err != nil {
				return err
			}
			return newTool(p, slug, toolPlace{dir: dir}, lang, from)
		},
	}
}

type language struct {
	suffix, text string
	program      string // what runs it
	source       bool   // a Go program lies beside it
}

func languageOf(name string) language {
	switch name {
	case "python":
		return language{suffix: ".py", text: scaffold.PythonTool, program: "python3"}
	case "node":
		return language{suffix: ".mjs", text: scaffold.NodeTool, program: "node"}
	case "go":
		return language{suffix: ".sh", text: scaffold.GoTool, program: "go", source: true}
	}
	return language{suffix: ".sh", text: scaffold.BashTool, program: "bash"}
}

// A toolPlace is where a new tool is written: the zero value is the tool directory of the agent
// that is chosen here. base is the name of its file without the suffix; "" is the slug.
type toolPlace struct{ dir, base string }

func newTool(p *program.Env, slug string, to toolPlace, lang, from string) error {
	dir, base := to.dir, cmp.Or(to.base, slug)
	changed := func() {}
	if dir == "" {
		var err error
		if dir, changed, err = toolDir(p); err != nil {
			return err
		}
	}
	defer changed()
	l := languageOf(lang)
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
	err := s.Folder(dir)
	if l.source && err == nil {
		err = goSource(s, filepath.Join(dir, source), slug, name)
	}
	if lang == "python" && err == nil {
		err = s.AddSame(filepath.Join(dir, "agents_tool.py"), 0o644, scaffold.PythonLibrary)
	}
	path := filepath.Join(dir, name)
	if err == nil {
		err = s.Add(path, 0o755, scaffold.Fill(l.text, slug, name))
	}
	if _, lookErr := exec.LookPath(l.program); lookErr != nil && err == nil {
		p.Note("%s, which runs it, is not in PATH", l.program)
	}
	return s.Finish(err, "agents tool call "+program.ShellQuote(program.Command(path))+" --arg text=hello --arg times=2")
}

// goSource writes the program of a tool in Go, a module of its own.
func goSource(s *scaffold.Files, dir, slug, name string) error {
	if err := s.Folder(dir); err != nil {
		return err
	}
	if err := s.Add(filepath.Join(dir, "go.mod"), 0o644, scaffold.Fill("module example.com/@SLUG@\n\ngo 1.21\n", slug, name)); err != nil {
		return err
	}
	if err := s.Add(filepath.Join(dir, ".gitignore"), 0o644, scaffold.Fill("/@SLUG@.built*\n", slug, name)); err != nil {
		return err
	}
	return s.Add(filepath.Join(dir, "main.go"), 0o644, scaffold.Fill(scaffold.GoProgram, slug, name))
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
