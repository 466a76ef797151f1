package acpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/process"
)

// maxTerminals is how many terminals a program may have that it has not released.
const maxTerminals = 32

// A terminal is a command that the client runs for the program, within the program's
// sandbox.
type terminal struct {
	output bounded
	kill   func()
	done   chan struct{} // closed when all of its processes have ended; exit and err are set then
	exit   process.Exit
	err    error
}

func (t *terminal) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (t *terminal) status() (e acp.TerminalExit) {
	if e.Code = &t.exit.Code; t.exit.Code < 0 {
		e.Code, e.Signal = nil, t.exit.Signal.String()
	}
	return e
}

// createTerminal answers terminal/create.
func (t *talk) createTerminal(ctx context.Context, p *acp.TerminalRequest) (any, error) {
	if p.CWD != "" && !filepath.IsAbs(p.CWD) {
		return nil, jsonrpc.Errorf(acp.InvalidParams, "cwd: %.100q is not an absolute path", p.CWD)
	}
	p.SessionID = ""
	r := &request{kind: "execute", args: string(acp.Raw(p)), allowed: t.granted("execute", words(p.Command, p.Args))}
	r.run = func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		term, err := t.startTerminal(ctx, inv, p)
		if r.answer(map[string]string{"terminalId": r.id}, err); err != nil {
			return agent.Result{}, err
		}
		err = t.until(ctx, term.ended)
		text, _ := term.output.text()
		switch {
		case err == nil:
			err = term.exit.Failure(ctx, term.err)
		case errors.Is(err, errProceeds):
			return agent.TextResult(text + "[the command is still running]"), nil
		}
		return agent.TextResult(text), err
	}
	return t.decided(ctx, r)
}

func (t *talk) startTerminal(ctx context.Context, inv *agent.Invocation, p *acp.TerminalRequest) (*terminal, error) {
	cmd := t.agent.Command
	cmd.Env, cmd.Mark = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], inv.Environ()...), inv.Key
	for _, v := range p.Env {
		if !strings.HasPrefix(v.Name, "AGENTS_") {
			cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
		}
	}
	cmd.Dir = cmp.Or(p.CWD, cmd.Dir)
	// One pipe for both streams keeps their order.
	if cmd.Args = []string{"-c", "exec 2>&1\n" + p.Command}; len(p.Args) > 0 {
		cmd.Args = append([]string{"-c", `exec 2>&1; exec "$0" "$@"`, p.Command}, p.Args...)
	}
	var err error
	if cmd.Path, err = process.LookPath("sh", cmd.Env); err != nil {
		return nil, err
	}
	term := &terminal{output: bounded{limit: maxText}, done: make(chan struct{})}
	if p.Limit != nil {
		term.output.limit = min(max(*p.Limit, 0), maxText)
	}
	cmd.Stdout, cmd.Stderr = &term.output, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil:
		return nil, t.err
	case len(t.terminals) >= maxTerminals:
		return nil, fmt.Errorf("more than %d terminals are not released", maxTerminals)
	}
	ctx, term.kill = context.WithCancel(context.WithoutCancel(ctx))
	t.terminals[inv.Call.ID] = term
	t.serving.Go(func() {
		term.exit, term.err = process.Run(ctx, &cmd)
		term.kill()
		if term.err != nil {
			fmt.Fprintln(&term.output, term.err)
		}
		if _, ok := errors.AsType[*process.StartError](term.err); ok {
			term.exit.Code = 127 // as in a shell
		}
		close(term.done)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.change()
	})
	return term, nil
}

// useTerminal answers the other requests about terminals.
func (t *talk) useTerminal(ctx context.Context, method string, p *acp.TerminalRequest) (any, error) {
	t.mu.Lock()
	term := t.terminals[p.TerminalID]
	if method == acp.MethodTerminalEnd {
		delete(t.terminals, p.TerminalID)
	}
	t.mu.Unlock()
	if term == nil {
		return nil, jsonrpc.Errorf(acp.NotFound, "there is no terminal %.100q", p.TerminalID)
	}
	if method == acp.MethodTerminalOutput {
		var r acp.TerminalOutput
		if term.ended() {
			exit := term.status()
			r.Exit = &exit
		}
		r.Output, r.Truncated = term.output.text()
		return r, nil
	}
	if method != acp.MethodTerminalWait {
		term.kill()
	}
	t.waits.Add(1)
	defer t.waits.Add(-1)
	select {
	case <-term.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if method != acp.MethodTerminalWait {
		return acp.Flag{}, nil
	}
	return term.status(), nil
}

// bounded keeps the end of what is written. It is safe for concurrent use.
type bounded struct {
	limit int
	mu    sync.Mutex
	end   []byte
	cut   bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = append(b.end, p...)
	if more := len(b.end) - b.limit; more > 0 {
		b.end, b.cut = b.end[more:], true
	}
	return len(p), nil
}

// text returns what b keeps, without invalid UTF-8. cut reports whether b dropped a part.
func (b *bounded) text() (text string, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ToValidUTF8(string(b.end), ""), b.cut
}
