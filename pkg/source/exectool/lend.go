package exectool

import (
	"context"
	"errors"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// borrow gives cmd the models that are lent to its call, until end is called.
func (t *Tool) borrow(ctx context.Context, inv *agent.Invocation, cmd *process.Command) (end func(), err error) {
	if !t.desc.Models || t.opts.Lend == nil {
		return func() {}, nil
	}
	e, err := t.opts.Lend(ctx, inv, t.desc.ModelNames)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return func() {}, nil
	case t.src.Runner != nil:
		e.Close()
		return nil, errors.New("the models that the agent lends to this tool cannot be reached from behind a runner")
	}
	cmd.Local, cmd.Env = e.Address(), toolenv.Lent(cmd.Env, e.Environ())
	return e.Close, nil
}
