// Command mcp is the least MCP server on standard input and output, and a program
// that calls its tool through package mcpclient and prints what a call cost beyond
// the time that the server itself took.
//
//	mcp -serve
//	mcp -calls 1000
//
// The tool, shell, takes a command and runs nothing. It sleeps if the command is
// "sleep SECONDS" and more, and answers with the command and the nanoseconds that
// the server had the call for.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

func main() {
	serving := flag.Bool("serve", false, "be the server")
	calls := flag.Int("calls", 1000, "how many calls are made, one after the other")
	flag.Parse()
	run := func() error { return measure(*calls) }
	if *serving {
		run = func() error { return serve(os.Stdin, os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mcp:", err)
		os.Exit(1)
	}
}

// measure makes calls and prints the median of what they took beyond the server's
// own time.
func measure(calls int) (err error) {
	ctx := context.Background()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	set := mcpclient.Open(mcpclient.Server{Name: "bench", Executable: self, Args: []string{"-serve"}, Env: os.Environ()}, mcpclient.Options{})
	defer func() { err = errors.Join(err, set.Close(ctx)) }()
	tools, err := set.Tools(ctx)
	if err != nil {
		return err
	}
	if len(tools) != 1 {
		return fmt.Errorf("%d tools, want 1", len(tools))
	}
	beyond := make([]time.Duration, 0, calls)
	for i := range calls {
		d, err := overhead(ctx, tools[0], i)
		if err != nil {
			return err
		}
		beyond = append(beyond, d)
	}
	slices.Sort(beyond)
	fmt.Printf("%.4f ms a call\n", beyond[len(beyond)/2].Seconds()*1000)
	return nil
}

// overhead makes one call and returns what it took beyond the server's own time.
func overhead(ctx context.Context, tool agent.Tool, n int) (time.Duration, error) {
	inv := &agent.Invocation{Call: agent.ToolCall{ID: strconv.Itoa(n), Name: tool.Spec().Name, Args: fmt.Sprintf(`{"command":"echo %d"}`, n)}}
	start := time.Now()
	result, err := tool.Call(ctx, inv)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	text := result.Text()
	own, err := strconv.ParseInt(text[strings.LastIndexByte(text, ' ')+1:], 10, 64)
	if err != nil || !strings.HasPrefix(text, fmt.Sprintf("echo %d ", n)) {
		return 0, fmt.Errorf("the server answered call %d with %q", n, text)
	}
	return took - time.Duration(own), nil
}

// A message is a request.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct{ Arguments struct{ Command string } }
}
