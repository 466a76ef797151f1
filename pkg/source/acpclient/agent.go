// Package acpclient makes agents of the Agent Client Protocol (package acp) sub-agents of a
// run. Such an agent is a program.
//
// Each call of an [Agent] starts the program, which ends with the call. The conversation is
// a session of the run in which the program takes the place of the model. A permission
// request becomes a call of a tool named after the kind of action (read, edit, execute and
// so on), and so passes the gate: rights, questions to a person, budgets, journal. The tool
// itself only answers the request and waits until the program has done what it asked for.
// A request for a file or a terminal of the client becomes such a call too, which reads or
// writes the file, or runs the command, within the program's sandbox. Actions without any
// request are shown as progress and limited only by the sandbox.
package acpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// An Agent is a program as a tool.
type Agent struct {
	// Name is the name of the tool, Slug the name of the agent.
	Name, Slug  string
	Description string
	// Source is the file that names the agent.
	Source string
	// Command is the program to start: Path, Args, Env, Sandbox, and Dir, the absolute
	// working folder of the session.
	Command process.Command
	// Files are the files that the program may use through the client; not nil.
	Files Files
	// Version is the version of the client that is sent to the agent.
	Version string
	// Mode is the mode of the session; "" leaves it to the agent.
	Mode string
	// StartTimeout limits the time until the session is open, IdleTimeout the time without
	// a message after that; 0 means the defaults. Time spent waiting for a person does not
	// count.
	StartTimeout, IdleTimeout time.Duration
	// Lend opens an endpoint for the models that are lent to a call: its address, the variables by
	// which programs find it, and what ends it; "" if none is lent. nil lends none. What the program
	// says of its consumption does not count then: the requests do.
	Lend func(ctx context.Context, inv *agent.Invocation) (address string, environ []string, end func(), err error)
	// Budget and Deadline limit each call.
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

// Identity implements agent.Identified. The digest is that of the command, with the folder.
func (a *Agent) Identity() (source, digest string) {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{a.WorkDir(), a.Command.Path}, a.Command.Args...), "\x00")))
	return a.Source, fmt.Sprintf("sha256:%x", sum)
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

// Call runs the program with a prompt. When it returns, all processes of the program have
// ended.
func (a *Agent) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if inv.Again {
		return agent.Result{}, errors.New("an earlier process called this agent and ended before the answer: what the agent did is unknown")
	}
	if inv.Caller == nil {
		return agent.Result{}, errors.New("this call is not part of a run")
	}
	t := newTalk(a, inv)
	if a.Lend != nil {
		address, environ, end, err := a.Lend(ctx, inv)
		if err != nil {
			return agent.Result{}, err
		}
		defer end()
		t.lent, t.lentEnv = address, environ
	}
	sub := &agent.Agent{Slug: a.Slug, Source: a.Source, Provider: t, Model: a.Slug, Flavor: "acp", Toolsets: []agent.Toolset{t.tools()},
		Budget: a.Budget, Deadline: a.Deadline, NoCompaction: true, LoopWarn: -1, Free: t.lent != ""}
	prompt, err := sub.Prompt(ctx, inv.Call.Args)
	if err != nil {
		return agent.Result{}, err
	}
	defer t.close()
	return agent.AnswerOf(inv.Run(ctx, sub, prompt))
}

func (t *talk) start(ctx context.Context) error {
	limit := cmp.Or(t.agent.StartTimeout, DefaultStartTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no session was opened within %s", limit))
	defer cancel()
	cmd := t.agent.Command
	path, err := process.LookPath(cmd.Path, cmd.Env)
	if err != nil {
		return err
	}
	cmd.Path, cmd.Env = path, append(cmd.Env[:len(cmd.Env):len(cmd.Env)], t.inv.Environ()...)
	if t.lent != "" {
		cmd.Local, cmd.Env = t.lent, toolenv.Lent(cmd.Env, t.lentEnv)
	}
	cmd.Stderr, cmd.Mark = &t.stderr, t.inv.Key
	if t.proc, err = process.Start(&cmd); err != nil {
		return err
	}
	t.conn = acp.NewConn(t.proc.Stdout, t.proc.Stdin)
	t.conn.Request, t.conn.Notify, t.conn.Bad, t.conn.Seen = t.request, t.notify, t.bad, t.seen
	t.serving.Go(func() { t.fail(cmp.Or(t.conn.Serve(context.Background()), errEnded)) })
	return t.open(ctx)
}

// errEnded ends a talk whose program closes its output.
var errEnded = errors.New("the program ended before it answered")

func (t *talk) open(ctx context.Context) error {
	hello := acp.InitializeRequest{ProtocolVersion: acp.Version, ClientInfo: &acp.Implementation{Name: "agents", Version: t.agent.Version}}
	c := &hello.ClientCapabilities
	c.FS.ReadTextFile, c.FS.WriteTextFile, c.Terminal = true, true, true
	if t.inv.Caller.Person() {
		c.Elicitation = &acp.Elicitation{Form: &acp.Flag{}}
	}
	var about acp.InitializeResponse
	if err := t.conn.Call(ctx, acp.MethodInitialize, hello, &about); err != nil {
		return fmt.Errorf("initialize with version %d of the protocol: %w", acp.Version, err)
	}
	if about.ProtocolVersion != acp.Version {
		return fmt.Errorf("it uses version %d of the protocol, not %d", about.ProtocolVersion, acp.Version)
	}
	var opened acp.SessionResponse
	err := t.conn.Call(ctx, acp.MethodNew, acp.SessionRequest{CWD: t.agent.Command.Dir, MCPServers: []acp.MCPServer{}}, &opened)
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == acp.AuthRequired {
		var names []string
		for _, m := range about.AuthMethods {
			names = append(names, m.Name)
		}
		return fmt.Errorf("it needs a sign-in with its own program (%.200s): %w", strings.Join(names, ", "), err)
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.session = opened.SessionID
	t.mu.Unlock()
	if t.agent.Mode == "" {
		return nil
	}
	return t.conn.Call(ctx, acp.MethodSetMode, acp.SetModeRequest{SessionID: t.session, ModeID: t.agent.Mode}, nil)
}

// flushWait is how long the program may take to read the last message.
const flushWait = 500 * time.Millisecond

// close ends the program.
func (t *talk) close() {
	t.fail(errors.New("the call has ended"))
	t.mu.Lock()
	for _, term := range t.terminals {
		term.kill()
	}
	t.mu.Unlock()
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
