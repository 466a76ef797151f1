// Command steps drives an agent one step at a time: the program looks at the
// session between the steps and decides itself whether to go on.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

//go:embed script.json
var script []byte

// maxSteps is this program's own limit.
const maxSteps = 10

func main() {
	lamp := &lamp{}
	if err := drive(context.Background(), lamp, "It is dark."); err != nil {
		log.Fatal(err)
	}
	fmt.Println("The lamp is on:", lamp.on.Load())
}

func drive(ctx context.Context, lamp *lamp, prompt string) error {
	model, err := scripted.Parse("script.json", script)
	if err != nil {
		return err
	}
	r := &runner.Runner{Agent: &agent.Agent{
		Slug:     "butler",
		System:   "You look after a room. Switch its lamp with the tool set_lamp.",
		Provider: &scripted.Provider{Script: model},
		Toolsets: []agent.Toolset{agent.ToolList{lamp.tool()}},
	}}
	if err := r.Prompt(ctx, agent.UserText(prompt)); err != nil {
		return err
	}
	for range maxSteps {
		switch next := r.Session().Next(); next.Kind {
		case agent.StepModel:
			fmt.Println("The model is asked.")
		case agent.StepCalls:
			for _, call := range next.Calls {
				fmt.Println("It calls", call.Name, call.Args)
			}
		case agent.StepPrompt:
			answer, _ := r.Session().Answer()
			fmt.Println("It answers:", answer.Text())
			return nil
		}
		if _, err := r.Step(ctx); err != nil {
			return err
		}
	}
	return errors.New("there is no answer yet, and no step left")
}

// A lamp is what the model switches and the program reads.
type lamp struct{ on atomic.Bool }

type lampArgs struct {
	On bool `json:"on"`
}

// tool is the lamp's switch.
func (l *lamp) tool() agent.Tool {
	return functool.New("set_lamp", "Switches the lamp on or off.", func(_ context.Context, args lampArgs) (string, error) {
		l.on.Store(args.On)
		return "done", nil
	})
}
