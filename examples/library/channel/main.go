// Command channel directs a run: it watches the events, answers the agent's question
// and runs a tool that only it has.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
)

//go:embed script.json
var script []byte

func main() {
	if err := direct(context.Background(), "allow"); err != nil {
		log.Fatal(err)
	}
}

// direct runs the agent and replies to every question with answer.
func direct(ctx context.Context, answer string) error {
	model, err := scripted.Parse("script.json", script)
	if err != nil {
		return err
	}
	r := &runner.Runner{
		Agent: &agent.Agent{Slug: "butler", Provider: &scripted.Provider{Script: model}},
		Policy: func(context.Context, *agent.Invocation) agent.Verdict {
			return agent.Verdict{Decision: agent.AskPerson}
		},
	}
	run := r.Start(ctx, agent.Start{
		Channel: agent.ChannelVersion,
		Args:    json.RawMessage(`{"prompt": "It is dark."}`),
		Tools:   []agent.ToolSpec{{Name: "set_lamp", Description: "Switches the lamp on or off.", Schema: json.RawMessage(`{"type": "object"}`)}},
	})
	for e := range run.Events() {
		switch e.Kind {
		case agent.EventQuestion:
			fmt.Println("May it call", e.Tool, e.Args+"?", answer)
			reply, _ := json.Marshal(answer) // a string
			run.Reply(e.Question, reply)
		case agent.EventClientCall:
			fmt.Println("The lamp is set:", e.Args)
			run.Result(e.Key, []agent.Part{agent.Text("done")}, false)
		}
	}
	out, err := run.Wait()
	fmt.Println("It answers:", out.Answer)
	return err
}
