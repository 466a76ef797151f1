// Package acpclient makes agents of the Agent Client Protocol (package acp), which are
// programs, sub-agents of a run.
//
// For a call of an [Agent] the program is started, and ends with the call. A session of the
// run stands for its conversation: the program takes the place of the model. A permission
// that it asks for becomes a call of a tool, whose name is the kind of what is to be done
// (read, edit, execute and so on), and so passes the gate: rights, questions to a person,
// budgets, journal. The tool itself only answers the request, and waits until the program
// has done what it asked for. What the program does without asking is shown as progress,
// and limited by its sandbox alone. It gets neither files nor terminals from this side.
package acpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/jsonrpc"
	"github.com/agents-exe/agents/pkg/process"
)

// An Agent is a program as a tool.
type Agent struct {
	// Name is that of the tool, and Slug that of the agent.
	Name, Slug  string
	Description string
	// Source is the file that names the agent.
	Source string
	// Command is what to start: Path, Args, Env, Sandbox, and Dir, which is absolute and
	// the working folder of the session.
	Command process.Command
	// Version is that of the client, for the agent.
	Version string
	// Mode is the mode of the session; "" leaves it to the agent.
	Mode string
	// StartTimeout limits the time until the session is open, and IdleTimeout the time
	// without a message after that; 0 means the defaults. The time in which a person is
	// asked does not count.
	StartTimeout, IdleTimeout time.Duration
	// Budget and Deadline are those of each call.
	Budget   agent.Budget
	Deadline time.Duration
}

// The defaults of the limits.
const (
	DefaultStartTimeout = time.Minute
	DefaultIdleTimeout  = 10 * time.Minute
)

// Spec implements agent.Tool. The tool counts as an agent in another process.
func (a *Agent) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: a.Name, Description: a.Description, Schema: (&agent.Agent{}).ArgsSchema(), Source: a.Source,
		Channel: agent.ChannelVersion, Effects: agent.EffectsOnce}
}

// WorkDir implements agent.Located.
func (a *Agent) WorkDir() string { return a.Command.Dir }

// Sandbox implements agent.Sandboxed.
func (a *Agent) Sandbox() string {
	if s, ok := a.Command.Sandbox.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Call asks the program. When it returns, no process of the program is alive.
func (a *Agent) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if inv.Again {
		return agent.Result{}, errors.New("an earlier process has asked this agent, and ended before the answer: what the agent did is not known")
	}
	if inv.Host == nil {
		return agent.Result{}, errors.New("this call is not part of a run")
	}
	t := newTalk(a, inv)
	sub := &agent.Agent{Slug: a.Slug, Source: a.Source, Provider: t, Model: a.Slug, Flavor: "acp", Toolsets: []agent.Toolset{t.tools()},
		Budget: a.Budget, Deadline: a.Deadline, NoCompaction: true, LoopWarn: -1}
	prompt, err := sub.Prompt(ctx, inv.Call.Args)
	if err != nil {
		return agent.Result{}, err
	}
	defer t.close()
	return agent.AnswerOf(inv.Run(ctx, sub, prompt))
}

// start starts the program and opens a session.
func (t *talk) start(ctx context.Context) error {
	limit := cmp.Or(t.agent.StartTimeout, DefaultStartTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not open a session within %s", limit))
	defer cancel()
	cmd := t.agent.Command
	path, err := process.LookPath(cmd.Path, cmd.Env)
	if err != nil {
		return err
	}
	cmd.Path, cmd.Env = path, append(cmd.Env[:len(cmd.Env):len(cmd.Env)], t.inv.Environ()...)
	cmd.Stderr, cmd.Mark = &t.stderr, t.inv.Key
	if t.proc, err = process.Start(&cmd); err != nil {
		return err
	}
	t.conn = acp.NewConn(t.proc.Stdout, t.proc.Stdin)
	t.conn.Request, t.conn.Notify, t.conn.Bad, t.conn.Seen = t.request, t.notify, t.bad, t.seen
	t.serving.Go(func() { t.fail(cmp.Or(t.conn.Serve(context.Background()), errEnded)) })
	return t.open(ctx)
}

// errEnded is why a talk ends whose program closes its output.
var errEnded = errors.New("it ended before it answered")

// open opens the session.
func (t *talk) open(ctx context.Context) error {
	hello := acp.InitializeRequest{ProtocolVersion: acp.Version, ClientInfo: &acp.Implementation{Name: "agents", Version: t.agent.Version}}
	if t.inv.Host.Person() {
		_ = json.Unmarshal([]byte(`{"form":{}}`), &hello.ClientCapabilities.Elicitation) // it is valid
	}
	var about acp.InitializeResponse
	if err := t.conn.Call(ctx, acp.MethodInitialize, hello, &about); err != nil {
		return err
	}
	if about.ProtocolVersion != acp.Version {
		return fmt.Errorf("it speaks version %d of the protocol, not %d", about.ProtocolVersion, acp.Version)
	}
	var opened acp.SessionResponse
	err := t.conn.Call(ctx, acp.MethodNew, acp.SessionRequest{CWD: t.agent.Command.Dir, MCPServers: []acp.MCPServer{}}, &opened)
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == acp.AuthRequired {
		var names []string
		for _, m := range about.AuthMethods {
			names = append(names, m.Name)
		}
		return fmt.Errorf("it needs a sign-in, which its own program does (%.200s): %w", strings.Join(names, ", "), err)
	}
	if err != nil {
		return err
	}
	if t.session = opened.SessionID; t.agent.Mode == "" {
		return nil
	}
	return t.conn.Call(ctx, acp.MethodSetMode, acp.SetModeRequest{SessionID: t.session, ModeID: t.agent.Mode}, nil)
}

// flushWait is how long the program may take to read what it was sent last.
const flushWait = 500 * time.Millisecond

// close ends the program.
func (t *talk) close() {
	t.fail(errors.New("the call has ended"))
	if t.proc == nil {
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if t.session != "" {
			_ = t.conn.Send(acp.MethodCancel, acp.SessionID{SessionID: t.session}) // it may have ended
		}
	}()
	select {
	case <-sent:
	case <-time.After(flushWait):
	}
	_, _ = t.proc.Close(context.Background()) // each of its steps has a limit
	<-sent
	t.serving.Wait()
}

// bounded keeps the end of what is written.
type bounded struct {
	mu   sync.Mutex
	text []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	const most = 2 << 10
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	b.text = b.text[max(len(b.text)-most, 0):]
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(b.text), "\uFFFD"))
}
