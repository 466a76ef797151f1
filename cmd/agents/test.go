package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/results"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/trial/treetest"
	"github.com/urfave/cli/v3"
)

type testFlags struct {
	json   bool
	junit  string
	run    string
	record string
	set    map[string]string
	prompt prompt.Flags
}

func testCommand(p *program.Env) *cli.Command {
	f := &testFlags{}
	return &cli.Command{
		ArgsUsage: "[FILE|FOLDER|FOLDER/...]",
		Description: `Runs the test files (*` + treetest.Suffix + `) that the arguments name, all at the same
time: a file, a folder, or with /... all folders below it; without one the working
directory. The models of a test are scripts and its tools answer what it says, so
that it needs no key and no network. docs/testing.md describes the format.

With --record it runs an agent for real instead and writes the test that repeats
this run; see ` + "`agents run`" + ` for the prompt.

Exit codes: 0 all tests passed; 1 a test failed; 2 there is no test, or the usage is
wrong; 130, 143 interrupted.`,
		Flags: append(f.prompt.Script.Flags(p, nil),
			&cli.BoolFlag{Name: "json", Usage: "a line of JSON for each test", Destination: &f.json},
			&cli.StringFlag{Name: "junit", Usage: "write the results to `FILE` as JUnit XML too", Destination: &f.junit},
			&cli.StringFlag{Name: "run", Usage: "run only the tests whose path matches `REGEXP`", Destination: &f.run},
			&cli.StringFlag{Name: "record", Usage: "run the agent and write a test to `FILE` that repeats it", Destination: &f.record},
			command.SetFlag("with --record: fill ${NAME} in the agent's prompts, `NAME=VALUE`; repeatable", &f.set),
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if f.record != "" {
				if err := command.NoArguments(c); err != nil {
					return err
				}
				return recordTest(ctx, p, f)
			}
			if len(f.prompt.Script) > 0 || len(f.set) > 0 {
				return failure.Usage("a test file has a prompt of its own", "agents test: a prompt goes with --record alone")
			}
			return runTests(ctx, p, f, c.Args().Slice())
		},
	}
}

func runTests(ctx context.Context, p *program.Env, f *testFlags, patterns []string) error {
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	files, err := treetest.Find(patterns)
	if err != nil {
		return failure.NothingRan(err, "`agents test ./...` runs the tests of all folders; `agents help testing` shows how to write one")
	}
	only, err := regexp.Compile(f.run)
	if err != nil {
		return failure.Usage("", "--run: %s", err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return !only.MatchString(file) })
	if len(files) == 0 {
		return failure.NothingRan(fmt.Errorf("--run %s: no test has such a path", f.run), "")
	}
	if _, err := load.Config(p); err != nil { // it names keys
		return err
	}
	ended, err := load.NoteRun(ctx, p)
	if err != nil {
		return failure.NothingRan(err, "")
	}
	defer ended()
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var outErr error
	reports := treetest.RunAll(ctx, files, testOptions(p, patterns), func(r treetest.Report) {
		if err := results.Print(p, r, f.json); err != nil && outErr == nil {
			outErr = err
			cancel(failure.ErrOutput)
		}
	})
	if f.junit != "" {
		if err := os.WriteFile(f.junit, []byte(treetest.JUnit(reports)), 0o666); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	switch {
	case outErr != nil:
		return outErr
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return results.Summary(p, reports, time.Since(start), f.json)
}

// testOptions are the options of tests that the patterns name. The agent file of a test
// must be trusted unless it is in a folder that the person named, or in the working
// directory: a test file from elsewhere has no say in what is run.
func testOptions(p *program.Env, patterns []string) treetest.Options {
	trusted := func(agentFile string) (*agentfile.Lock, error) {
		for _, pattern := range append(patterns, ".") {
			dir := strings.TrimSuffix(pattern, "...")
			if info, err := os.Stat(dir); err == nil && !info.IsDir() {
				dir = filepath.Dir(dir)
			}
			if dir = filepath.Clean(dir); filepath.Base(dir) == "testdata" { // it belongs to the agent beside it
				dir = filepath.Dir(dir)
			}
			if load.Below(dir, agentFile) {
				return load.TrustedTree(p, agentFile, false)
			}
		}
		tree, err := load.TrustedTree(p, agentFile, true)
		if err != nil {
			err = fmt.Errorf("%w; see `agents trust --agent-file %s`", err, program.ShellQuote(agentFile))
		}
		return tree, err
	}
	keys := func(agentFile string) *config.Keys {
		c, err := load.Config(p, agentFile)
		if err != nil {
			return nil
		}
		keys, _, err := config.ReadKeys(c.KeysFile(agentFile).Path)
		if err != nil {
			return nil // there is none that a tool could print
		}
		return keys
	}
	return treetest.Options{Keys: keys, Locked: p.Global.Locked, Trusted: trusted, Environ: p.Environ, Folders: load.Folders(p), Version: p.Version, Ladder: func() *sandbox.Ladder { return load.Ladder(p) }}
}

// recordTest runs the agent for real and writes the test that repeats the run.
func recordTest(ctx context.Context, p *program.Env, f *testFlags) error {
	switch {
	case f.json || f.junit != "" || f.run != "":
		return failure.Usage("", "--record excludes --json, --junit and --run")
	case !strings.HasSuffix(f.record, treetest.Suffix):
		return failure.Usage("name it NAME"+treetest.Suffix, "--record %s: it would not be found as a test", f.record)
	}
	if _, err := os.Lstat(f.record); !errors.Is(err, fs.ErrNotExist) {
		return failure.Usage("remove it first, or choose another name", "--record %s: it already exists", f.record)
	}
	person := ask.NewPerson(p)
	loaded, err := load.Load(ctx, p, load.Options{Set: f.set, Elicit: person.Asked()})
	if err != nil {
		return err
	}
	defer loaded.Close()
	rec, runErr := runRecorded(ctx, p, f, loaded, person)
	if rec == nil {
		return runErr
	}
	text, err := treetest.Record(f.record, *rec)
	if err != nil {
		return errors.Join(runErr, fmt.Errorf("record %s: %w", f.record, err))
	}
	if err := scaffold.WriteNew(f.record, 0o666, string(text)); err != nil {
		return errors.Join(runErr, fmt.Errorf("record %s: %w", f.record, err))
	}
	if r := treetest.Run(ctx, f.record, testOptions(p, []string{f.record})); !r.OK() && ctx.Err() == nil {
		fmt.Fprintf(p.Err, "warning: the recorded test does not pass as it is:\n  %s\n", termtext.Clean(strings.ReplaceAll(r.String(), "\n", "\n  ")))
	}
	return runErr
}

// runRecorded runs the prompt as `agents run` does. Without a recording the error
// says why nothing ran.
func runRecorded(ctx context.Context, p *program.Env, f *testFlags, l *load.Tree, person *ask.Person) (*treetest.Recording, error) {
	prompt, err := f.prompt.Message(ctx, p, l)
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("find the working directory: %w", err), "")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := sinks.Open(ctx, p, l, sinks.Flags{Output: "text"}, person, cancel)
	if err != nil {
		return nil, err
	}
	rec := &treetest.Recording{AgentFile: l.Nodes[0].File.Path, WorkDir: dir, Set: f.set, Prompt: prompt.Text(), Redact: s.Hide}
	h := (&runs.Flags{}).Host(p, l, nil) // without a person: the test has none
	h.Observe = observe.Tee(func(e agent.Event) { rec.Events = append(rec.Events, e) }, s.Observe)
	c, err := h.Start(ctx, l.Root.Slug, agent.Start{Message: &prompt, Person: new(bool)})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return rec, s.Finish(c.Wait())
}
