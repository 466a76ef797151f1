// Command library runs an agent inside a Go program: a model, a tool that is
// written in Go, and a Runner.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/schema"
)

//go:embed script.json
var script []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := talk(ctx, "Which day is 100 days after 2026-01-31?", "And 100 days after that?"); err != nil {
		log.Fatal(err)
	}
}

// talk asks one question after the other in one session.
func talk(ctx context.Context, questions ...string) error {
	model, err := scripted.Parse("script.json", script)
	if err != nil {
		return err
	}
	runner := &agent.Runner{Agent: &agent.Agent{
		Slug:     "calendar",
		System:   "You answer questions about dates. Calculate with the tool add_days, never yourself.",
		Provider: &scripted.Provider{Script: model},
		Toolsets: []agent.Toolset{agent.ToolList{schema.Checked(addDays{})}},
	}}
	for _, question := range questions {
		out, err := runner.Run(ctx, agent.UserText(question))
		if err != nil {
			return err
		}
		fmt.Printf("%s\n%s\n", question, out.Answer)
	}
	return nil
}

// addDays is a tool. It may be called several times at once.
type addDays struct{}

// Spec is what the model is told.
func (addDays) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        "add_days",
		Description: "Adds days to a date and tells the day of the week.",
		Schema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"date": {"type": "string", "description": "as 2026-01-31"},
				"days": {"type": "integer", "minimum": -1000000, "maximum": 1000000}
			},
			"required": ["date", "days"],
			"additionalProperties": false
		}`),
		Effects: agent.EffectsNone,
	}
}

// Call does it. schema.Checked has compared the arguments with the schema.
func (addDays) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args struct {
		Date string
		Days int
	}
	if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
		return agent.Result{}, err
	}
	date, err := time.Parse(time.DateOnly, args.Date)
	if err != nil {
		return agent.Result{}, fmt.Errorf("date must be like 2026-01-31, not %q", args.Date)
	}
	return agent.TextResult(date.AddDate(0, 0, args.Days).Format("2006-01-02 (Monday)")), nil
}
