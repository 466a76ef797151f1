package main

import (
	"context"
	"fmt"
	"os"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/runner"
)

func Example() {
	main()
	// Output:
	// Which day is 100 days after 2026-01-31?
	// That is 2026-05-11 (Monday).
	// And 100 days after that?
	// That is 2026-08-19 (Wednesday).
}

// A tool that fails is no error of the run: the model reads why.
func Example_failingTool() {
	if err := talk(context.Background(), "Which day is 3 days after 2026-02-30?"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Which day is 3 days after 2026-02-30?
	// I cannot say: error: date must be like 2026-01-31, not "2026-02-30"
}

// The agent may come from a file, with everything in its tool directory, and
// have tools in Go besides.
func Example_agentFile() {
	ctx := context.Background()
	tree, err := agentfile.Load(ctx, "../sub-agents/style/agent.json", agentfile.Options{Environ: os.Environ()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Close()
	a := *tree.Root
	a.Toolsets = append(a.Toolsets, agent.ToolList{addDays})
	out, err := host.New(tree).Runner(&a).Run(ctx, agent.UserText("Is ../sub-agents/letter.txt easy to read?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Answer)
	// Output:
	// a sentence of 36 words is too long. It begins: The price is 3,480.00
}

// A real model takes the place of the script. Without output this is compiled
// and not run.
func Example_realModel() {
	key := os.Getenv("OPENAI_API_KEY")
	r := &runner.Runner{Agent: &agent.Agent{
		Slug: "calendar",
		Provider: &provider.Retry{Provider: &openai.Provider{
			Flavor:   openai.OpenAI,
			Settings: modelhttp.Settings{Model: "gpt-5-mini", Key: func() string { return key }},
		}},
		Toolsets: []agent.Toolset{agent.ToolList{addDays}},
	}}
	out, err := r.Run(context.Background(), agent.UserText("Which day is it 100 days after 2026-01-31?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Answer)
}
