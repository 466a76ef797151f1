// Command biggest is an agent of steps that is written in Go: it tells the largest file
// of a folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/step"
	"github.com/agents-exe/agents/pkg/source/toolbox/bash"
	"github.com/agents-exe/agents/pkg/source/toolbox/finish"
)

// biggest is an agent without a model. It keeps nothing between its steps.
type biggest struct{}

// Step implements step.Agent.
func (biggest) Step(_ context.Context, s step.State) (step.Action, error) {
	if len(s.Session.History) == 0 {
		folder := strings.ReplaceAll(s.Task.Title, "'", `'\''`)
		return step.Action{Kind: step.Run, Command: "ls -S -- '" + folder + "'"}, nil
	}
	last := s.Observations[0]
	if last.Kind == step.Failed {
		return step.Action{Kind: step.Reject, Text: last.Text}, nil
	}
	name, _, _ := strings.Cut(last.Text, "\n")
	return step.Action{Kind: step.Finish, Text: "The largest file is " + name + "."}, nil
}

func main() {
	flag.Parse()
	out, err := run(context.Background(), flag.Arg(0), func(agent.Event) {})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Println(out.Answer)
}

func run(ctx context.Context, folder string, observe func(agent.Event)) (*agent.Outcome, error) {
	a := &agent.Agent{
		Slug: "biggest", Model: step.Model, Provider: step.Provider(biggest{}), NoCompaction: true,
		Toolsets: []agent.Toolset{bash.Open(bash.Options{Environ: os.Environ()}), finish.Tools()},
	}
	return (&runner.Runner{Agent: a, Observe: observe}).Run(ctx, agent.UserText(folder))
}
