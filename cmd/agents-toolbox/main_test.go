package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/functool"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

func TestWrongStarts(t *testing.T) {
	for name, c := range map[string]struct {
		args          []string
		request, want string
	}{
		"by a person":     {nil, "", "is started by `agents`"},
		"help":            {[]string{"--help"}, `{"version":1}`, "is started by `agents`"},
		"no request":      {[]string{"sqlite"}, "", "is started by `agents`"},
		"another version": {[]string{"sqlite"}, `{"version":99}`, "install both again"},
		"unknown toolbox": {[]string{"none"}, fmt.Sprintf(`{"version":%d}`, companion.Version), `does not have the toolbox "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), c.args, c.request, strings.NewReader(""), io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run(%q) = %v, want %q in it", c.args, err, c.want)
			}
		})
	}
}

type args struct {
	Text string `json:"text"`
}

// TestToolsAreServed: the tools of a toolbox as MCP has them, their results and their
// errors, and a call that is cancelled.
func TestToolsAreServed(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	tools := agent.ToolList{
		looks{functool.New("echo", "says it again", func(_ context.Context, a args) (string, error) {
			if a.Text == "" {
				return "what came before", fmt.Errorf("there is no text")
			}
			return a.Text, nil
		})},
		functool.New("wait", "waits", func(ctx context.Context, _ struct{}) (string, error) {
			close(started)
			<-ctx.Done()
			close(cancelled)
			return "", ctx.Err()
		}),
	}
	closed := &closer{}
	serve := overMCP(func(_ context.Context, settings json.RawMessage) (agent.ToolList, io.Closer, error) {
		if string(settings) != `{"a":1}` {
			t.Errorf("settings = %s", settings)
		}
		return tools, closed, nil
	})
	in, write := io.Pipe()
	read, out := io.Pipe()
	done := make(chan error)
	go func() { done <- serve(t.Context(), json.RawMessage(`{"a":1}`), in, out); out.Close() }()
	lines := bufio.NewScanner(read)
	ask := func(request, want string) {
		t.Helper()
		fmt.Fprintln(write, request)
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("%s: got %s, want %s in it", request, lines.Text(), want)
		}
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"tools"`)
	ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true}`)
	ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"so"}}}`, `"content":[{"type":"text","text":"so"}]`)
	ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"text":""}}}`,
		`"content":[{"type":"text","text":"there is no text"},{"type":"text","text":"what came before"}],"isError":true`)
	fmt.Fprintln(write, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait","arguments":{}}}`)
	ask(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo","arguments":{"text":"meanwhile"}}}`, "meanwhile")
	<-started
	fmt.Fprintln(write, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	go io.Copy(io.Discard, read)
	<-cancelled
	write.Close()
	if err := <-done; err != nil || !closed.closed {
		t.Errorf("serve = %v, closed: %t", err, closed.closed)
	}
}

// looks only looks.
type looks struct{ agent.Tool }

func (l looks) Spec() agent.ToolSpec {
	spec := l.Tool.Spec()
	spec.Effects = agent.EffectsNone
	return spec
}

type closer struct{ closed bool }

func (c *closer) Close() error { c.closed = true; return nil }

// TestCallsOfATurnRunAtTheSameTime: each of many calls ends when all have begun.
func TestCallsOfATurnRunAtTheSameTime(t *testing.T) {
	for _, n := range []int{2, agent.DefaultMaxParallelTools, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var began sync.WaitGroup
			began.Add(n)
			all := functool.New("all", "waits for the others", func(ctx context.Context, _ struct{}) (string, error) {
				began.Done()
				met := make(chan struct{})
				go func() { began.Wait(); close(met) }()
				select {
				case <-met:
					return "met", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			serve := overMCP(func(context.Context, json.RawMessage) (agent.ToolList, io.Closer, error) {
				return agent.ToolList{all}, nil, nil
			})
			in, write := io.Pipe()
			read, out := io.Pipe()
			done := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			go func() { done <- serve(ctx, nil, in, out); out.Close() }()
			go func() {
				fmt.Fprintln(write, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
				for i := range n {
					fmt.Fprintf(write, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"all","arguments":{}}}`+"\n", i)
				}
			}()
			lines, met := bufio.NewScanner(read), 0
			for met < n && lines.Scan() {
				if strings.Contains(lines.Text(), `"text":"met"`) {
					met++
				}
			}
			if met != n {
				t.Errorf("%d of %d calls ran", met, n)
			}
			write.Close()
			go io.Copy(io.Discard, read)
			<-done
		})
	}
}
