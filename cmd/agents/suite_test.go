package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host/hosttest"
)

func TestRunPassesTheSuite(t *testing.T) {
	t.Parallel()
	hosttest.Test(t, hosttest.Edge{Name: "`agents run`", Open: starting(askRun)})
}

func TestCLIPassesTheSuite(t *testing.T) {
	t.Parallel()
	hosttest.Test(t, hosttest.Edge{Name: "`agents cli`", Open: starting(askCLI)})
}

// A starter starts a process for each request.
type starter struct {
	t     *testing.T
	dir   string
	gone  context.Context
	leave context.CancelFunc
	ask   func(ctx context.Context, c *starter, q hosttest.Request) hosttest.Reply
}

// starting returns what opens a client that asks with a function.
func starting(ask func(context.Context, *starter, hosttest.Request) hosttest.Reply) func(*testing.T, map[string]string) hosttest.Client {
	return func(t *testing.T, files map[string]string) hosttest.Client {
		c := &starter{t: t, dir: hosttest.Write(t, files), ask: ask}
		c.gone, c.leave = context.WithCancel(context.Background())
		t.Cleanup(c.leave)
		return c
	}
}

func (c *starter) Leave() { c.leave() }

func (c *starter) Ask(ctx context.Context, q hosttest.Request) hosttest.Reply {
	return c.ask(ctx, c, q)
}

// command returns a process in the folder of the files.
func (c *starter) command(args ...string) *exec.Cmd {
	cmd := agentsCommand(c.t, nil, args...)
	cmd.Dir, cmd.Env = c.dir, append(cmd.Env, "AGENTS_API_KEYS_FILE=keys.json", "XDG_STATE_HOME="+filepath.Join(c.dir, "state"))
	return cmd
}

// output runs the process and gives its standard output to read. The end of ctx is Ctrl-C; a
// client that leaves reads no more. It returns all output and the exit code.
func (c *starter) output(ctx context.Context, cmd *exec.Cmd, read func(io.Reader)) (all string, code int) {
	var stdout, stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Error(err)
		return "", -1
	}
	defer context.AfterFunc(c.gone, func() { _ = out.Close() })()
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGINT) })()
	read(io.TeeReader(out, &stdout))
	_ = cmd.Wait() // the code says it
	return stdout.String() + stderr.String(), cmd.ProcessState.ExitCode()
}

// codes are the exit codes of outcomes.
var codes = map[agent.Status]int{agent.StatusOK: failure.ExitOK, agent.StatusFailed: failure.ExitFailed, agent.StatusBudget: failure.ExitLimit, agent.StatusDeadline: failure.ExitDeadline, agent.StatusInterrupted: failure.ExitInterrupted}

// askRun asks `agents run`, at a terminal if a person is to answer.
func askRun(ctx context.Context, c *starter, q hosttest.Request) (r hosttest.Reply) {
	cmd := c.command("run", "--agent-file", "agent.json", "--output", "jsonl", "--prompt", q.Prompt)
	for i, m := range q.Media {
		name := fmt.Sprintf("media%d", i)
		writeFiles(c.t, cmd.Dir, map[string]string{name: string(m.Data)})
		cmd.Args = append(cmd.Args, "--media", m.MIME+";"+name)
	}
	if q.Session != "" {
		cmd.Args = append(cmd.Args, "--session", q.Session)
	}
	if q.Context != nil {
		cmd.Args = append(cmd.Args, "--context", string(q.Context))
	}
	if q.Schema != nil {
		writeFiles(c.t, cmd.Dir, map[string]string{"schema.json": string(q.Schema)})
		cmd.Args = append(cmd.Args, "--output-schema", "schema.json")
	}
	if q.Approve != nil {
		s := openScreen(c.t, cmd.Dir, strings.Join(cmd.Args, " ")+` >events; echo "code $?"`, "AGENTS_API_KEYS_FILE=keys.json")
		s.Await(helpPrompt)
		s.Press(map[bool]string{true: "yes", false: "no, it is needed"}[q.Approve(s.Text())], "Enter")
		s.Await(`^code 0$`)
		q.Approve = func(string) bool { return true } // the event of what was answered
		text := string(readFile(c.t, cmd, "events"))
		r = hosttest.Follow(q, lines(strings.NewReader(text)), func(string, json.RawMessage) {}, nil)
		r.All = text + s.Text()
		return r
	}
	all, code := c.output(ctx, cmd, func(out io.Reader) { r = hosttest.Follow(q, lines(out), nil, nil) })
	r.All = all
	want, gone := codes[r.Status], c.gone.Err() != nil
	if gone {
		want = failure.ExitFailed
	}
	if code != want || gone && strings.Contains(all, "error:") { // which nobody would read
		c.t.Errorf("the exit code is %d, want %d: %s", code, want, r)
	}
	return r
}

// lines yields events that were written as lines.
func lines(out io.Reader) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for d := json.NewDecoder(out); ; {
			var e agent.Event
			if err := d.Decode(&e); err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// askCLI sends the prompt to a conversation in plain lines, and then asks what it cost.
func askCLI(ctx context.Context, c *starter, q hosttest.Request) (r hosttest.Reply) {
	cmd := c.command("cli", "--agent-file", "agent.json")
	if q.Session != "" {
		cmd.Args = append(cmd.Args, "--continue")
	}
	cmd.Stdin = strings.NewReader(q.Prompt + "\n/cost\n")
	var code int
	r.All, code = c.output(ctx, cmd, func(out io.Reader) {
		for s := bufio.NewScanner(out); s.Scan(); {
			if m := cost().FindStringSubmatch(s.Text()); m != nil {
				r.Usage.InputTokens, r.Usage.OutputTokens = tokens(m[1]), tokens(m[2])
			} else {
				r.Answer += s.Text()
			}
		}
	})
	r.Session, r.Failed = "latest", code != failure.ExitOK
	if q.Started != nil && strings.Contains(r.All, "→ bash_look") {
		q.Started()
	}
	for status, of := range codes {
		if of == code {
			r.Status = status
		}
	}
	return r
}

// cost matches the rows of /cost, which has numbers such as 20 and 0.2k.
func cost() *regexp.Regexp {
	return regexp.MustCompile(`^  (?:all|helper) .* ([\d.]+k?) in / ([\d.]+k?) out`)
}

func tokens(text string) int {
	number, thousands := strings.CutSuffix(text, "k")
	n, _ := strconv.ParseFloat(number, 64) // it matches
	if thousands {
		n *= 1000
	}
	return int(n)
}
