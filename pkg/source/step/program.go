package step

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/process"
)

// DefaultTimeout is how long a step of a Program may take, if it has no other limit.
const DefaultTimeout = 2 * time.Minute

const (
	maxAction = 16 << 20
	maxStderr = 4 << 10
)

// A Program is an Agent that is an executable. Each step starts it: it reads the State as
// JSON from standard input and writes one Action as JSON to standard output. An exit code
// other than 0 is an error, and its text the end of standard error.
type Program struct {
	Path    string
	Dir     string        // the working directory; "" is that of this process
	Env     []string      // the whole environment
	Timeout time.Duration // of a step; 0 means DefaultTimeout
	Sandbox process.Sandbox
	// Verify, if it is not nil, is called before each start; its error refuses it.
	Verify func() error
}

// Step implements Agent.
func (p *Program) Step(ctx context.Context, s State) (Action, error) {
	a, err := p.step(ctx, s)
	if err != nil {
		return Action{}, fmt.Errorf("%s: %w", p.Path, err)
	}
	return a, nil
}

func (p *Program) step(ctx context.Context, s State) (a Action, err error) {
	if p.Verify != nil {
		if err := p.Verify(); err != nil {
			return a, err
		}
	}
	in, err := json.Marshal(s)
	if err != nil {
		return a, err
	}
	limit := cmp.Or(max(p.Timeout, 0), DefaultTimeout)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, errs := &bounded{most: maxAction + 1}, &spool.Output{MemoryOnly: true}
	exit, err := process.Run(limited, &process.Command{Path: p.Path, Dir: p.Dir, Env: p.Env, Sandbox: p.Sandbox,
		Mark: fmt.Sprintf("%s.%d.step", s.Session.ID, s.Session.Turns+1), Stdin: bytes.NewReader(in), Stdout: out, Stderr: errs})
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case limited.Err() != nil:
		return a, fmt.Errorf("it printed no action within %s", limit)
	case err != nil:
		return a, err
	case exit.Code != 0:
		return a, fmt.Errorf("%s%s%s", exit, colon(errs.Tail(maxStderr)), colon(exit.Refused))
	case out.Len() > maxAction:
		return a, fmt.Errorf("it printed more than %d bytes", maxAction)
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 {
		return a, errors.New("it printed no action")
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("its output is not an action: %w", err)
	}
	return a, nil
}

// colon is a text behind another one.
func colon(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}

// bounded keeps the first bytes that are written.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}
