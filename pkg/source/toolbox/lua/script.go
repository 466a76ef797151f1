package lua

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
)

// model is the name under which a script appears as a model.
const model = "lua"

// A script is the model of one run: each of its steps is an answer.
type script struct {
	*tool
	key, text string

	process *process.Process
	steps   *json.Decoder
	stderr  bytes.Buffer
	asked   time.Time // when the script last made calls
	last    *Step     // the end of the script
	failure error     // why the process ended before it
}

// Generate implements agent.Provider.
func (s *script) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	step, err := s.next(ctx, req)
	if err == nil && len(step.Calls) == 0 {
		s.last = step
		if step.Error != "" {
			err = errors.New(step.Error)
		}
	}
	if err != nil {
		return nil, err
	}
	m := agent.Message{Role: agent.RoleAssistant}
	for _, c := range step.Calls {
		m.Calls = append(m.Calls, agent.ToolCall{Name: c.Name, Args: string(c.Args)})
	}
	if s.last != nil {
		m.Parts = []agent.Part{agent.Text(step.text())}
	}
	s.asked = time.Now()
	return &agent.Response{Message: m, Finish: agent.FinishStop, Model: model, Usage: agent.Usage{Requests: 1, Priced: 1}}, nil // it costs nothing
}

// next gives the process what it waits for, the script or the results of its calls, and
// returns its next step.
func (s *script) next(ctx context.Context, req *agent.Request) (*Step, error) {
	var line any
	if s.process != nil {
		line = s.results(req)
	} else {
		if s.failure = s.start(); s.failure != nil {
			return nil, s.failure
		}
		start := Start{Script: s.text, Tools: []any{}}
		for _, t := range req.Tools {
			start.Tools = append(start.Tools, t.Name)
		}
		line = start
	}
	defer context.AfterFunc(ctx, s.close)()
	var step Step
	err := json.NewEncoder(s.process.Stdin).Encode(line)
	if err == nil {
		err = s.steps.Decode(&step)
	}
	if ctx.Err() != nil {
		return nil, agent.ContextError(ctx)
	}
	if err != nil {
		s.failure = s.ended()
		return nil, s.failure
	}
	return &step, nil
}

func (s *script) start() error {
	cmd := s.Command
	cmd.Mark, cmd.Stderr = s.key, &s.stderr
	p, err := process.Start(&cmd)
	if err != nil {
		return fmt.Errorf("nothing ran: %w", err)
	}
	s.process, s.steps = p, json.NewDecoder(p.Stdout)
	return nil
}

func (s *script) close() {
	if s.process != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.process.Close(now)
	}
}

// ended returns the reason why the process ended before its script.
func (s *script) ended() error {
	s.close()
	exit, _ := s.process.Wait() // what it has written says more
	said, _, _ := strings.Cut(s.stderr.String(), "\n")
	for _, sign := range []string{"out of memory", "cannot allocate memory", "failed to reserve"} {
		if strings.Contains(said, sign) {
			return s.Limits.ErrMemory()
		}
	}
	return fmt.Errorf("the process of the script ended: %s", strings.TrimSuffix(exit.String()+": "+said, ": "))
}

// results returns the results of the calls that the script made last.
func (s *script) results(req *agent.Request) []Result {
	i := len(req.Messages) - 1
	for i > 0 && req.Messages[i].Role != agent.RoleTool { // a message to the agent may follow
		i--
	}
	results := make([]Result, len(req.Messages[i].Results))
	for n, r := range req.Messages[i].Results {
		results[n] = Result{Text: r.Text(), Failed: r.Failed, Seconds: time.Since(s.asked).Seconds(), ID: r.CallID}
		if r.Failed {
			results[n].Text = strings.TrimSpace(strings.TrimPrefix(r.Text(), "error: "))
		}
	}
	return results
}
