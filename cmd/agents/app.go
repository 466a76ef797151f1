package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

// version is set by the build.
var version = "dev"

// A program is one start of the binary: its streams, its flags.
type program struct {
	in       io.Reader
	out, err io.Writer
	inTerm   bool
	outTerm  bool
	errTerm  bool
	getenv   func(string) string
	version  string
	environ  []string
	servers  []localServer // where init looks for model servers
	probe    time.Duration // how long all of them together have for their answers
	// journal, if it is not nil, stands between a run and its session: tests
	// end the process there.
	journal func(agent.Journal) agent.Journal

	describing time.Duration // the limit of a tool's description; 0 is the usual one
	patience   time.Duration // between a signal and the end at any price
	editing    sync.Mutex    // held while the person's editor runs

	global globalFlags
}

// globalFlags stand before or after the command.
type globalFlags struct {
	agentFiles []string
	agent      string
	apiKeys    string
	logJSON    string
	logHTTP    string
	logText    string
	quiet      bool
	color      string
}

// systemProgram has the streams and the environment of this process.
func systemProgram() *program {
	p := &program{
		in: os.Stdin, out: &stdout{Writer: os.Stdout}, err: os.Stderr,
		inTerm:  term.IsTerminal(int(os.Stdin.Fd())),
		outTerm: term.IsTerminal(int(os.Stdout.Fd())),
		errTerm: term.IsTerminal(int(os.Stderr.Fd())),
		getenv:  os.Getenv, environ: os.Environ(), version: version,
		servers: localServers, probe: probeTime, patience: 30 * time.Second,
	}
	if p.outTerm && p.eightBit() {
		p.out = &stdout{Writer: observe.EightBit(os.Stdout)}
	}
	if p.errTerm && p.eightBit() {
		p.err = observe.EightBit(os.Stderr)
	}
	return p
}

// start runs the program and returns its exit code.
func (p *program) start(args []string) int {
	// Tools run as the same user; they must not read our memory or
	// environment. What leaves a tool's process group becomes our child.
	// Where the system has neither, tools still run.
	_ = process.HideEnviron()
	_ = process.BecomeSubreaper()
	ctx, caught, stop := p.interruptible()
	defer stop()
	started := time.Now()
	err := p.command(args...).Run(ctx, joinPairs(args))
	sweepOutputs(p.outputDir(), started, time.Now())
	if out, ok := p.out.(*stdout); ok && err == nil && out.failed != nil {
		err = fmt.Errorf("write to standard output: %w", out.failed)
	}
	return report(p.err, err, caught())
}

// interruptible is a context that ends with the first signal that asks the
// program to end. SIGPIPE is taken too, so that a reader of our output that
// goes away is an error of a write and not our death with tools still running.
func (p *program) interruptible() (ctx context.Context, caught func() os.Signal, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var first atomic.Value
	over := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			first.Store(s)
			cancel(&ending{"interrupted", context.Canceled})
			p.giveUp(s, over)
		case <-over:
		}
	}()
	caught = func() os.Signal {
		s, _ := first.Load().(os.Signal)
		return s
	}
	return ctx, caught, func() {
		close(over)
		cancel(nil)
	}
}

// giveUp ends a program that a signal told to end and that does not: it writes to a
// pipe that nobody reads, say. Nothing else could end such a write.
func (p *program) giveUp(s os.Signal, over <-chan struct{}) {
	for tick := time.Tick(p.patience); ; {
		select {
		case <-over:
			return
		case <-tick:
		}
		if p.editing.TryLock() {
			break
		}
	}
	process.EndAll()
	err := &ending{fmt.Sprintf("interrupted; what was still to be done did not end within %s", p.patience), context.Canceled}
	said := make(chan struct{})
	go func() { // stderr may be what nobody reads
		defer close(said)
		report(p.err, err, s)
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
	os.Exit(report(io.Discard, err, s))
}

const exitCodes = `Exit codes: 0 the agent answered; 1 the run failed (model or network after
retries, journal); 2 nothing ran (usage, agent file, keys, configuration);
3 a limit ended it (turns, depth); 4 a policy refused what the run could not do
without; 5 the deadline passed; 6 the answer does not satisfy --output-schema;
130, 143 interrupted.`

// command is the tree of commands. It is built anew for every start, and of a
// command that no word of the command line names it has only what a list of
// commands shows. Without words it is complete.
func (p *program) command(words ...string) *cli.Command {
	root := &cli.Command{
		Name:        "agents",
		Usage:       "run agents whose tools are executables",
		Version:     p.version,
		Description: exitCodes,
		Reader:      p.in, Writer: p.out, ErrWriter: p.err,
		HideHelpCommand: true,
		// A file's name may hold a comma.
		DisableSliceFlagSeparator: true,
		Suggest:                   true,
		ExitErrHandler:            func(context.Context, *cli.Command, error) {},
		Flags:                     p.global.flags(),
		Action: func(_ context.Context, c *cli.Command) error {
			if name := c.Args().First(); name == "help" {
				return cli.ShowRootCommandHelp(c)
			} else if name != "" {
				return usage("`agents --help` lists the commands", "there is no command %q%s", name, didYouMean(name, c))
			}
			return usage("`agents --help` lists the commands", "no command given")
		},
		Commands: p.commands(table(), words),
	}
	cli.VersionPrinter = func(c *cli.Command) { fmt.Fprintf(c.Root().Writer, "agents %s\n", c.Root().Version) }
	_ = root.Walk(func(c *cli.Command) error {
		c.OnUsageError = usageError
		c.DisableSliceFlagSeparator = root.DisableSliceFlagSeparator
		return nil
	})
	return root
}

// usageError keeps the help text off stdout, where callers expect results.
func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	name := strings.TrimSpace(c.FullName())
	return usage(fmt.Sprintf("`%s --help` lists the flags", name), "%s: %s", name, wanted(twoDashes(err.Error())))
}

// wanted says in a message of the flag parser what a value must be, in place of what
// Go says of it.
func wanted(message string) string {
	for _, of := range []struct{ said, want string }{
		{": strconv.ParseInt: ", "a whole number"},
		{": time: ", "a time such as 30s, 5m or 1h30m"},
		{": parse error", "true or false"},
	} {
		if head, _, ok := strings.Cut(message, of.said); ok && strings.HasPrefix(message, "invalid value ") {
			return head + ": want " + of.want
		}
	}
	return message
}

// twoDashes writes the flags in a message of the flag parser as a person does.
func twoDashes(message string) string {
	for _, before := range []string{"for flag -", "not defined: -"} {
		head, name, ok := strings.Cut(message, before)
		end := strings.IndexByte(name+":", ':')
		if ok && !strings.HasPrefix(name, "-") && end > 1 {
			return head + before + "-" + name
		}
	}
	return message
}

func didYouMean(name string, c *cli.Command) string {
	if s := cli.SuggestCommand(c.Commands, name); s != "" && s != "help" {
		return fmt.Sprintf("; did you mean %q?", s)
	}
	return ""
}

// noArguments refuses what stands behind a command's flags.
func noArguments(c *cli.Command) error {
	if c.Args().Present() {
		hint := fmt.Sprintf("`%s --help` lists the flags", c.FullName())
		switch {
		case strings.HasSuffix(c.Args().First(), ".json"):
			hint = "an agent file is given with --agent-file"
		case c.Name == "run" || c.Name == "echo-prompt":
			hint = "a prompt is given with --prompt; quote it"
		}
		return usage(hint, "%s: unexpected argument %q", c.FullName(), c.Args().First())
	}
	return nil
}

func (g *globalFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "agent-file", Usage: "root agent `FILE`, repeatable; replaces what the configuration finds", Destination: &g.agentFiles},
		&cli.StringFlag{Name: "agent", Usage: "pick the loaded agent `SLUG`", Destination: &g.agent},
		&cli.StringFlag{Name: "api-keys", Usage: "keys `FILE`", Destination: &g.apiKeys},
		&cli.StringFlag{Name: "log-json-file", Usage: "append every event to `FILE` as a line of JSON", Destination: &g.logJSON},
		&cli.StringFlag{Name: "log-http", Usage: "post every event to `URL`", Destination: &g.logHTTP},
		&cli.StringFlag{Name: "log-file", Usage: "append a readable log to `FILE`", Destination: &g.logText},
		&cli.BoolFlag{Name: "quiet", Usage: "no progress on stderr", Destination: &g.quiet},
		&cli.StringFlag{Name: "color", Value: "auto", Usage: "`WHEN` to use color: auto, always or never", Destination: &g.color, Validator: oneOf("auto", "always", "never")},
	}
}

func oneOf(values ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(values, s) {
			return nil
		}
		return &choiceError{values}
	}
}
