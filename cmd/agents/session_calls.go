package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

func sessionCallsCommand(p *program.Env) *cli.Command {
	var asJSON, failed bool
	var tool string
	return &cli.Command{
		ArgsUsage: "[ID]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array", Destination: &asJSON},
			&cli.BoolFlag{Name: "failed", Usage: "only calls that failed", Destination: &failed},
			&cli.StringFlag{Name: "tool", Usage: "only calls of the tool `NAME`", Destination: &tool},
		},
		Action: command.WithOptional("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			s := sessions.Of(p, c)
			events, err := s.Open(name)
			if err != nil {
				return err
			}
			want := func(c transcript.CallOf) bool { return (tool == "" || c.Name == tool) && (!failed || c.Failed()) }
			return printCalls(p, events, want, asJSON)
		}),
	}
}

// A listedCall is a call in `session calls --json`.
type listedCall struct {
	Turn    int          `json:"turn"`
	Session string       `json:"session"`
	Agent   string       `json:"agent"`
	Depth   int          `json:"depth"`
	Tool    string       `json:"tool"`
	CallID  string       `json:"call_id"`
	Key     string       `json:"key"`
	Args    string       `json:"args"`
	Argv    []string     `json:"argv,omitempty"`
	Started *time.Time   `json:"started,omitempty"`
	Millis  int64        `json:"millis"`
	Runs    int          `json:"runs"`
	Outcome string       `json:"outcome"` // ok, failed, open
	Result  []agent.Part `json:"result,omitempty"`
}

func newListedCall(c transcript.CallOf) listedCall {
	l := listedCall{
		Turn: c.Turn, Session: c.Session, Agent: c.Agent, Depth: c.Depth, Tool: c.Name, CallID: c.ID, Key: c.Key, Args: c.Args,
		Argv: c.Argv, Millis: c.Millis, Runs: c.Runs, Outcome: "open",
	}
	if !c.Started.IsZero() {
		l.Started = &c.Started
	}
	if c.Result != nil {
		l.Outcome, l.Result = "ok", c.Result.Parts
	}
	if c.Failed() {
		l.Outcome = "failed"
	}
	return l
}

func printCalls(p *program.Env, events sessions.Events, want func(transcript.CallOf) bool, asJSON bool) error {
	sum, err := sessions.Summary(events)
	if err != nil {
		return err
	}
	w, flush := p.CleanOnTerminal()
	var readErr error
	n := 0
	for t, err := range transcript.Turns(events) {
		if err != nil {
			readErr = err
			break
		}
		for c := range t.All(sum.ID, sum.Agent) {
			if !want(c) {
				continue
			}
			text := callText(c)
			if asJSON {
				text = jsonElement(newListedCall(c), n)
			}
			n++
			if _, err := w.Write([]byte(text)); err != nil {
				return err
			}
		}
	}
	if asJSON {
		end := "\n]\n"
		if n == 0 {
			end = "[]\n"
		}
		if _, err := w.Write([]byte(end)); err != nil {
			return err
		}
	}
	if n == 0 && !asJSON && readErr == nil {
		p.Note("there are no such calls")
	}
	if readErr != nil {
		return errors.Join(flush(), sessions.Damaged(readErr))
	}
	return flush()
}

// callText is a call for a person: a line of facts, the arguments, the beginning of
// the result.
func callText(c transcript.CallOf) string {
	state := newListedCall(c).Outcome
	if c.Millis > 0 {
		state += ", " + termtext.Elapsed(time.Duration(c.Millis)*time.Millisecond)
	}
	if !c.Started.IsZero() {
		state += ", " + c.Started.UTC().Format("2006-01-02 15:04:05Z")
	}
	indent := strings.Repeat("  ", c.Depth)
	text := fmt.Sprintf("%s%s turn %s: %s (%s)\n", indent, program.OneLine(c.Agent, 60), sessions.TurnAndPlace(c), program.OneLine(c.Name, 100), state)
	if args := program.OneLine(c.Args, 300); args != "" && args != "{}" {
		text += fmt.Sprintf("%s  arguments: %s\n", indent, args)
	}
	if c.Result != nil {
		text += fmt.Sprintf("%s  result: %s\n", indent, program.OneLine(c.Result.Text(), 300))
	}
	return text
}

// jsonElement is element n of an array that is written piece by piece.
func jsonElement(v any, n int) string {
	text, err := jsondoc.Encode(v, "  ")
	if err != nil {
		text = []byte("null")
	}
	before := ",\n  "
	if n == 0 {
		before = "[\n  "
	}
	return before + strings.ReplaceAll(string(text), "\n", "\n  ")
}
