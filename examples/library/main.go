// Command library runs an agent inside a Go program: a model, a tool that is
// written in Go, and a Runner.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
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
	r := &runner.Runner{Agent: &agent.Agent{
		Slug:     "calendar",
		System:   "You answer questions about dates. Calculate with the tool add_days, never yourself.",
		Provider: &scripted.Provider{Script: model},
		Toolsets: []agent.Toolset{agent.ToolList{addDays}},
	}}
	for _, question := range questions {
		out, err := r.Run(ctx, agent.UserText(question))
		if err != nil {
			return err
		}
		fmt.Printf("%s\n%s\n", question, out.Answer)
	}
	return nil
}

// An offset is the arguments of addDays.
type offset struct {
	Date string `json:"date" jsonschema:"as 2026-01-31"`
	Days int    `json:"days"`
}

// addDays is a tool. It may be called several times at once.
var addDays = functool.New("add_days", "Adds days to a date and tells the day of the week.", func(_ context.Context, args offset) (string, error) {
	date, err := time.Parse(time.DateOnly, args.Date)
	if err != nil {
		return "", fmt.Errorf("date must be like 2026-01-31, not %q", args.Date)
	}
	return date.AddDate(0, 0, args.Days).Format("2006-01-02 (Monday)"), nil
})
