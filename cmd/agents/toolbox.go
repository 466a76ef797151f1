package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func toolboxCommand(p *program.Env) *cli.Command {
	var filter string
	folder := 1
	return &cli.Command{
		ArgsUsage: "DIR list|describe|run [NAME [ARG...]]",
		Description: `list prints a line for each tool. describe prints all descriptions as one JSON
object. run executes the tool with the file name or slug NAME as "TOOL run ARG...",
in place of this process, with its standard input and environment. It is what a
"runner" in an agent file runs on the other side.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "filter", Usage: "only files whose name contains `TEXT`", Destination: &filter},
		},
		StopOnNthArg: &folder, // the tool's arguments are not ours
		Action: func(ctx context.Context, c *cli.Command) error {
			args := c.Args().Slice()
			if ours := args[:min(3, len(args))]; slices.Contains(ours, "--help") || slices.Contains(ours, "-h") {
				return cli.ShowCommandHelp(ctx, c.Lineage()[1], c.Name)
			}
			return load.Noted(ctx, p, func() error { return toolbox(ctx, p, args, filter) })
		},
	}
}

func toolbox(ctx context.Context, p *program.Env, args []string, filter string) error {
	const hint = "`agents toolbox --help` lists the forms"
	switch {
	case len(args) < 2:
		return failure.Usage(hint, "agents toolbox: want a folder, and list, describe or run")
	case args[1] == "run" && len(args) > 2:
		return runInToolbox(ctx, p, args[0], args[2], args[3:])
	case args[1] == "run":
		return failure.Usage(hint, "agents toolbox: run needs the name of a tool")
	case args[1] != "list" && args[1] != "describe" || len(args) > 2:
		return failure.Usage(hint, "agents toolbox: unexpected argument %q", args[min(2, len(args)-1)])
	}
	set, err := load.OpenFolder(ctx, p, args[0], filter)
	if err != nil {
		return err
	}
	if args[1] == "describe" {
		return p.WriteJSON(set.Listing())
	}
	for _, problem := range set.Problems() {
		fmt.Fprintf(p.Err, "%s: %s\n", termtext.Clean(problem.Path), termtext.Clean(problem.Text()))
	}
	var b strings.Builder
	for _, t := range set.List() {
		line, _, _ := strings.Cut(strings.TrimSpace(t.Spec().Description), "\n")
		fmt.Fprintf(&b, "%s: %s\n", filepath.Base(t.Path()), line)
	}
	return p.PrintClean(b.String())
}

// runInToolbox replaces this process by the tool with that file name in dir or, if there
// is no such file, with that slug.
func runInToolbox(ctx context.Context, p *program.Env, dir, name string, args []string) error {
	path := filepath.Join(dir, name)
	_, err := os.Stat(path)
	if filepath.Base(name) != name || strings.HasSuffix(name, ".json") || errors.Is(err, os.ErrNotExist) {
		set, err := load.OpenFolder(ctx, p, dir, "")
		if err != nil {
			return err
		}
		if path = fileOf(set, name); path == "" {
			return failure.Usage("`agents toolbox DIR list` lists the tools", "agents toolbox %s: there is no tool %q", dir, name)
		}
	}
	if err := exectool.CheckFile(path); err != nil {
		return failure.NothingRan(err, "")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return failure.NothingRan(err, "")
	}
	return p.Exec(ctx, abs, append([]string{"run"}, args...))
}

// fileOf returns the file of the tool with the given slug, empty if there is none.
func fileOf(set *exectool.Toolset, slug string) string {
	for _, t := range set.List() {
		if d, err := t.Description(); err == nil && d.Slug == slug {
			return t.Path()
		}
	}
	return ""
}
