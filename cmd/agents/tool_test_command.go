package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/results"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/trial/tooltest"
	"github.com/agents-exe/agents/pkg/trial/treetest"
	"github.com/urfave/cli/v3"
)

func toolTestCommand(p *program.Env) *cli.Command {
	var asJSON, run bool
	var junit string
	return &cli.Command{
		ArgsUsage: "PATH...",
		Description: `Tests executables, or all executables in a folder, without a model: that the
description is valid and does not change between calls, that calls behave as in the
examples of the description, that every text argument accepts an empty text, Unicode,
several lines, a leading dash, quotes and 100 kB, that two calls can run at the same
time, that SIGTERM ends a call, and that calls have no more effects than declared.
docs/tools.md describes examples.

Each call runs in a new folder. A tool with effects and without examples is not called
unless --run is set: only its description is tested. Tests that did not run are printed
with the reason.

Exit codes: 0 all tests passed; 1 a test failed; 2 there is no tool, or the usage is
wrong; 130, 143 interrupted.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print each test as a line of JSON", Destination: &asJSON},
			&cli.StringFlag{Name: "junit", Usage: "write the results to `FILE` as JUnit XML too", Destination: &junit},
			&cli.BoolFlag{Name: "run", Usage: "call tools that have effects, with made-up arguments", Destination: &run},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			ended, err := load.NoteRun(ctx, p)
			if err != nil {
				return failure.NothingRan(err, "")
			}
			defer ended()
			start := time.Now()
			tools, reports, err := openTested(ctx, p, c.Args().Slice())
			if err != nil {
				return err
			}
			o := toolTestOptions(p)
			o.MadeUp = run
			var outErr error
			report := func(list []treetest.Report) {
				for _, r := range list {
					outErr = cmp.Or(outErr, results.Print(p, r, asJSON))
				}
			}
			report(reports)
			tooltest.TestAll(ctx, tools, o, func(list []treetest.Report) {
				report(list)
				reports = append(reports, list...)
			})
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case outErr != nil:
				return outErr
			}
			if junit != "" {
				if err := os.WriteFile(junit, []byte(treetest.JUnit(reports)), 0o666); err != nil {
					return fmt.Errorf("--junit: %w", err)
				}
			}
			return results.Summary(p, reports, time.Since(start), asJSON)
		},
	}
}

// toolTestOptions runs calls in a sandbox in which they can read everything but secrets,
// and write only to the folder of the call.
func toolTestOptions(p *program.Env) tooltest.Options {
	ladder := load.Ladder(p)
	box := func(dir string) *sandbox.Box {
		place := sandbox.Place{Dir: dir, Home: toolenv.Lookup(p.Environ, "HOME"), Environ: p.Environ, Ladder: ladder}
		return sandbox.New(place, sandbox.Config{Workspace: true, Network: &sandbox.Network{All: true}})
	}
	o := tooltest.Options{Environ: p.Environ, Describe: p.Describing, Sandbox: func(dir string) (process.Sandbox, func(string) []string) {
		b := box(dir)
		return b, b.Refused
	}}
	for _, e := range box(os.TempDir()).Enforced() {
		if e.What == "write" && e.By == "" {
			o.Unconfined = "this machine has no sandbox that enforces it"
		}
	}
	return o
}

// openTested opens what the arguments name. An executable that cannot describe itself is
// a test that failed.
func openTested(ctx context.Context, p *program.Env, paths []string) (tools []*exectool.Tool, reports []treetest.Report, err error) {
	if len(paths) == 0 {
		return nil, nil, failure.Usage("", "tool test: want the files of tools, or folders of them")
	}
	for _, path := range paths {
		set, err := exectool.Open(ctx, []exectool.Source{{Path: path}}, exectool.Options{Environ: p.Environ, DescribeTimeout: p.Describing})
		if err != nil {
			return nil, nil, failure.NothingRan(err, "")
		}
		tools = append(tools, set.List()...)
		for _, problem := range set.Problems() {
			if !problem.Describe {
				return nil, nil, failure.NothingRan(problem.Err, load.ToolHint(problem.Err))
			}
			reports = append(reports, treetest.Report{File: problem.Path + ": describe", Failures: []treetest.Failure{{File: problem.Path, Key: "describe", Message: problem.Err.Error()}}})
		}
	}
	if len(tools)+len(reports) == 0 {
		return nil, nil, failure.NothingRan(fmt.Errorf("tool test: there is no tool"), "")
	}
	return tools, reports, nil
}
