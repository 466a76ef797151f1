package exectool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/process"
)

// A Tool is an executable that a model can call. It is safe for concurrent use.
type Tool struct {
	spec   agent.ToolSpec
	path   string // as the source names it
	abs    string // empty behind a runner
	file   string // its name in a folder behind a runner
	raw    []byte
	digest string // of the file, as "sha256:…"; may be empty
	notes  []string
	src    *Source
	env    []string
	opts   *shared

	hash sync.Once // for digest
	once sync.Once // for desc and err
	desc *Description
	err  error
}

// Spec is what the model sees. Source is the path of the executable.
func (t *Tool) Spec() agent.ToolSpec { return t.spec }

// WorkDir implements agent.Located.
func (t *Tool) WorkDir() string {
	if t.src.Runner != nil {
		return ""
	}
	dir, _ := filepath.Abs(t.src.Dir) // "" if the working directory is not known
	return dir
}

// Path is the executable as its source names it.
func (t *Tool) Path() string { return t.path }

// File is the executable, absolute; empty behind a runner.
func (t *Tool) File() string { return t.abs }

// Source says where t was found, and its Runner.
func (t *Tool) Source() *Source { return t.src }

// Agent is the slug of the agent that the tool is, empty if its source is not of the kind
// AgentFile.
func (t *Tool) Agent() string { return t.src.Slug }

// Expects implements agent.Expected.
func (t *Tool) Expects() agent.Expect { return t.src.Expect }

// Raw is what the executable printed when it was described.
func (t *Tool) Raw() []byte { return bytes.Clone(t.raw) }

// Notes are what its author should know; see ParseDescription.
func (t *Tool) Notes() []string { return t.notes }

// Description is what the executable says of itself.
func (t *Tool) Description() (*Description, error) {
	t.once.Do(func() { t.desc, _, t.err = ParseDescription(t.raw) })
	return t.desc, t.err
}

// Identity implements agent.Identified. The digest of a file behind a runner is that of how it
// is reached, with the folder.
func (t *Tool) Identity() (source, digest string) {
	if t.src.Runner != nil {
		dir, _ := filepath.Abs(t.src.Dir) // "" if the working directory is not known
		sum := sha256.Sum256([]byte(t.src.key() + dir))
		return t.spec.Source, DigestSum(sum[:])
	}
	return t.abs, Digest(t.abs)
}

// Command is what a call would execute, without what passes the context through a runner, and the digest of the executable as it
// was at the first call, or of a large one when it was described. Both are empty
// if the arguments are refused.
func (t *Tool) Command(inv *agent.Invocation) (argv []string, digest string) {
	args, _, err := t.Translate(inv)
	if err != nil {
		return nil, ""
	}
	if t.spec.Channel > 0 && inv.Caller != nil {
		args = []string{"--channel"}
	}
	line, err := t.CommandLine(append([]string{"run"}, args...)...)
	if err != nil {
		return nil, ""
	}
	t.hash.Do(func() {
		if t.src.Runner != nil {
			return
		}
		if info, err := os.Stat(t.abs); t.digest == "" && err == nil && info.Size() < largeFile {
			t.digest = Digest(t.abs)
		}
	})
	return line, t.digest
}

// Translate translates the arguments of a call; see Description.Command.
func (t *Tool) Translate(inv *agent.Invocation) (argv []string, stdin []byte, err error) {
	desc, err := t.Description()
	if err != nil {
		return nil, nil, err
	}
	values, err := inv.Args()
	if err != nil {
		return nil, nil, err
	}
	return desc.Command(values, t.src.AllowDash)
}

// Call runs the executable as `<tool> run ARGV…` in a process group of its own.
// Exit status 0 makes stdout the result. Anything else is an error that says
// what happened, beside a result with stdout and stderr.
//
// An agent that speaks the channel is run with that instead, as a sub-agent of the run
// that makes the call.
func (t *Tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if t.spec.Channel > 0 && inv.Caller != nil {
		if _, err := t.Description(); err != nil {
			return agent.Result{}, err
		}
		return t.callChannel(ctx, inv)
	}
	argv, stdin, err := t.Translate(inv)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	shared := t.sharedContext(inv)
	line, err := t.line(shared, argv)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	locks, release, err := t.lock(ctx, inv)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	defer release()
	c := &call{
		desc:   t.desc,
		stdout: spool.Output{Dir: t.opts.SpoolDir, Pattern: spoolName(inv.Key) + "-*.stdout"},
		stderr: spool.Output{Dir: t.opts.SpoolDir, Pattern: spoolName(inv.Key) + "-*.stderr"},
	}
	c.stderrWriter = stderrWriter{keep: &c.stderr, inv: inv}
	stdout, stderr := t.opts.Redact.Writer(&c.stdout), t.opts.Redact.Writer(&c.stderrWriter)
	cmd := &process.Command{
		Path: line[0], Args: line[1:], Env: callEnviron(t.env, inv, t.opts.tree, locks), Dir: t.src.Dir,
		Stdout: stdout, Stderr: stderr, Mark: inv.Key, Grace: t.opts.Grace, Sandbox: t.Confinement(),
	}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	if end, ok := ctx.Deadline(); ok { // that of the run: the call's own limit comes next
		cmd.Env = append(cmd.Env, toolenv.Deadline+"="+end.UTC().Format(time.RFC3339Nano))
	}
	if err := shared.pass(cmd, stdin); err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: write the context: %w", err)
	}
	defer shared.remove()
	cmd.EndContainer()
	limit, name := t.limit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s (%s)", seconds(limit), name))
	defer cancel()
	endLoan, err := t.borrow(ctx, inv, cmd)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	c.exit, err = process.Run(ctx, cmd)
	endLoan()
	shared.flush()
	stdout.Close() // what may be the beginning of a secret; neither writer can fail
	stderr.Close()
	if start, ok := errors.AsType[*process.StartError](err); ok {
		return agent.Result{}, startError(ctx, start, size(cmd.Args))
	}
	if c.exit.Left > 0 {
		inv.Progress(fmt.Sprintf("%d processes that %s left behind were ended", c.exit.Left, t.path))
	}
	if c.exit.Held {
		inv.Progress(fmt.Sprintf("something out of reach holds the output of %s open; what it prints from now on is lost", t.path))
	}
	err = process.WithRefused(c.exit.Failure(ctx, err), t.Confinement(), c.stderr.Excerpt(), c.exit.Refused)
	if err == nil { // what a failed call has written does not count
		err = shared.changed(ctx)
	}
	return c.result(err)
}

// lock waits for the locks that the call declares, no longer than the call itself
// may take.
func (t *Tool) lock(ctx context.Context, inv *agent.Invocation) (ids []string, release func(), err error) {
	args, err := inv.Args()
	if err != nil {
		return nil, nil, err
	}
	limit, _ := t.limit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %s for it", seconds(limit)))
	defer cancel()
	set := filelock.Set{Dir: t.opts.LockDir, Held: toolenv.HeldLocks(t.opts.Environ),
		Holder: fmt.Sprintf("the tool %s of process %d", t.desc.Slug, os.Getpid())}
	return set.Acquire(ctx, t.desc.lockNames(args, toolenv.Lookup(t.opts.Environ, toolenv.Terminal))...)
}

// limit is the time limit of a call and what sets it.
func (t *Tool) limit() (time.Duration, string) {
	switch {
	case t.desc.Timeout > 0:
		return t.desc.Timeout, "timeout-seconds"
	case t.src.Timeout > 0:
		return t.src.Timeout, "toolTimeoutSeconds"
	default:
		return DefaultTimeout, "timeout-seconds"
	}
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// startError says why a program could not be started, and what to do about it.
func startError(ctx context.Context, start *process.StartError, argBytes int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	if errors.Is(start, syscall.E2BIG) {
		return fmt.Errorf("cannot start: %w: the arguments have %d bytes and are with the environment more than the system permits; send less at once, or put the values into a file and give its name", start.Err, argBytes)
	}
	if start.Why != "" {
		return fmt.Errorf("cannot start: %w: %s", start.Err, start.Why)
	}
	return fmt.Errorf("cannot start %s: %w", start.Path, start.Err)
}

func size(args []string) int {
	n := 0
	for _, a := range args {
		n += len(a) + 1
	}
	return n
}

// spoolName is key as the beginning of a file name.
func spoolName(key string) string {
	return toolname.Join("", cmp.Or(key, "call"))
}

// callEnviron is env, which came from toolenv.Environ, with the variables of one call,
// the value of toolenv.Tree and the ids of the locks that it holds.
func callEnviron(env []string, inv *agent.Invocation, tree string, locks []string) []string {
	out := slices.Concat(env, inv.Environ())
	if tree != "" {
		out = append(out, toolenv.Tree+"="+tree)
	}
	if len(locks) > 0 {
		out = append(out, toolenv.Locks+"="+strings.Join(locks, " "))
	}
	return out
}

// The limits of the progress of one call: lines, and the bytes of a line.
const (
	maxProgressLines = 1000
	maxProgressLine  = 2000
)

// A stderrWriter keeps what a tool writes to stderr, and reports each line as progress while
// the tool runs. A carriage return ends a line too, as in a bar that is redrawn.
type stderrWriter struct {
	keep     *spool.Output
	inv      *agent.Invocation
	line     []byte // what was written of the next line, up to maxProgressLine
	reported int
}

// Write implements io.Writer.
func (t *stderrWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && t.reported < maxProgressLines; {
		piece := rest
		i := bytes.IndexAny(rest, "\r\n")
		if i >= 0 {
			piece = rest[:i]
		}
		t.line = append(t.line, piece[:min(len(piece), maxProgressLine-len(t.line))]...)
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if text := strings.TrimSpace(strings.ToValidUTF8(string(t.line), "\uFFFD")); text != "" {
			t.reported++
			t.inv.Progress(text)
		}
		t.line = t.line[:0]
	}
	return t.keep.Write(p)
}
