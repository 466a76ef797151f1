package agentfile_test

import (
	"context"
	"fmt"
	"os"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/host"
)

// An agent from a file, with the tools and sub-agents beside it.
func Example() {
	ctx := context.Background()
	tree, err := agentfile.Load(ctx, "../../examples/sub-agents/style/agent.json", agentfile.Options{Environ: os.Environ()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Close()
	out, err := host.New(tree).Runner(tree.Root).Run(ctx, agent.UserText("Is ../../examples/sub-agents/letter.txt easy to read?"))
	fmt.Println(out.Answer, err)
	// Output: a sentence of 36 words is too long. It begins: The price is 3,480.00 <nil>
}
