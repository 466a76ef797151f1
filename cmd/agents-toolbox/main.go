// Command agents-toolbox contains the builtin toolboxes of agents that need large
// libraries. `agents` starts it with the name of a toolbox. It is a separate program
// because the libraries would increase the size and the start-up time of agents. It is not
// meant to be started by hand.
//
// Most toolboxes are sources of tools, which are served over MCP on standard input and
// output; see [overMCP]. Their settings come from an environment variable; see package
// companion.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua/interpreter"
	"github.com/agents-exe/agents/pkg/source/toolbox/sqlite"
)

// A toolbox is what one argument of the program starts. It returns when in ends.
type toolbox struct {
	name string
	run  func(ctx context.Context, settings json.RawMessage, in io.Reader, out io.Writer) error
}

var all = []toolbox{
	{"lua", runScript},
	{"openapi", overMCP(openOpenAPI)},
	{"sqlite", overMCP(sqlite.Open)},
}

func runScript(ctx context.Context, settings json.RawMessage, in io.Reader, out io.Writer) error {
	var limits lua.Limits
	if err := json.Unmarshal(settings, &limits); err != nil {
		return err
	}
	return interpreter.Run(ctx, limits, in, out)
}

func main() {
	// Tools run as the same user: they must not read the settings, and neither must what this
	// program starts. Where the system cannot hide them, it works all the same.
	_ = process.HideEnviron()
	request := os.Getenv(companion.Variable)
	_ = os.Unsetenv(companion.Variable)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], request, os.Stdin, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, request string, in io.Reader, out io.Writer) error {
	var r companion.Request
	if len(args) != 1 || strings.HasPrefix(args[0], "-") || json.Unmarshal([]byte(request), &r) != nil {
		return errors.New("agents-toolbox is started by `agents` for toolboxes of agent files, not by hand")
	}
	if r.Version != companion.Version {
		return fmt.Errorf("agents and agents-toolbox do not match (protocol versions %d and %d): install both again", r.Version, companion.Version)
	}
	for _, t := range all {
		if t.name == args[0] {
			return t.run(ctx, r.Settings, in, out)
		}
	}
	return fmt.Errorf("agents-toolbox does not have the toolbox %q: install agents and agents-toolbox again", args[0])
}
