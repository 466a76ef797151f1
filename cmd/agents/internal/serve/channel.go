package serve

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/mcpclient"
	"github.com/agents-exe/agents/pkg/process"
)

// A Channel runs one agent for the program at the other end of standard input and
// output.
type Channel struct {
	runs.Flags
}

// Run serves the channel until the run has ended. The last event says how the run
// ended; the error only decides the exit code.
func (c *Channel) Run(ctx context.Context, p *program.Env) error {
	if p.InTerm {
		p.Note("--channel is for programs: the messages of `agents help nesting` are read from standard input; Ctrl-D ends it")
	}
	r := &channelRun{Channel: c, p: p}
	s := channel.Server{In: p.In, Out: p.Out, Open: r.open, Grace: p.KillAfter, Kill: func() {
		process.EndAll()
		os.Exit(failure.ExitInterrupted)
	}}
	_, err := s.Serve(ctx)
	if closeErr := r.close(); err == nil {
		err = closeErr
	}
	if err == nil {
		return nil
	}
	return failure.Silent(err)
}

// A channelRun is the run of a Channel.
type channelRun struct {
	*Channel
	p      *program.Env
	kept   *keep.Session
	tree   *load.Tree
	output *sinks.Sinks
}

// open returns the runner for a start message.
func (r *channelRun) open(ctx context.Context, start agent.Start) (*agent.Runner, error) {
	switch {
	case start.Journal:
		r.Keep.None = true
	case start.Session != "":
		r.Keep.Session = start.Session
	}
	var err error
	if r.kept, err = keep.Open(r.p, &r.Keep); err != nil {
		return nil, err
	}
	o := r.Load(r.kept.LoadOptions())
	if start.Person == nil || *start.Person {
		o.Elicit = elicit
	}
	if r.tree, err = load.Load(ctx, r.p, o); err != nil {
		return nil, err
	}
	runner := r.tree.Runner(r.tree.Root)
	if r.output, err = sinks.Background(r.p, r.tree, nil); err != nil {
		return nil, err
	}
	runner.Observe, runner.Lease.Budget = r.output.Observe, r.Budget.Budget
	return runner, r.kept.Attach(r.p, runner)
}

func (r *channelRun) close() error {
	var errs []error
	if r.kept != nil {
		errs = append(errs, r.kept.Journal.Close())
	}
	if r.tree != nil {
		_ = r.tree.Close() // what it started has ended in any case
	}
	if r.output != nil {
		errs = append(errs, r.output.Close())
	}
	return errors.Join(errs...)
}

// elicit asks the question of an MCP server as a question of the run. Outside a call it
// is declined.
func elicit(ctx context.Context, q mcpclient.Elicitation) (mcpclient.Answer, error) {
	decline := mcpclient.Answer{Action: mcpclient.Decline}
	if q.Call == nil {
		return decline, nil
	}
	text := q.Message
	if q.URL != "" {
		text += "\n" + q.URL
	}
	reply, err := q.Call.Question(ctx, agent.Event{What: "elicit", Tool: q.Server, Text: text, Schema: q.Schema})
	switch {
	case ctx.Err() != nil:
		return decline, context.Cause(ctx)
	case err != nil:
		return decline, nil
	}
	var answer struct {
		Action  mcpclient.Action `json:"action"`
		Content json.RawMessage  `json:"content"`
	}
	if json.Unmarshal(reply, &answer) != nil || answer.Action == "" {
		return decline, nil
	}
	return mcpclient.Answer{Action: answer.Action, Content: answer.Content}, nil
}
