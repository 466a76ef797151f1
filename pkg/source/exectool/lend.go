package exectool

import (
	"context"
	"errors"
	"slices"
	"strings"

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
	cmd.Local = e.Address()
	own := e.Environ()
	for _, name := range []string{"NO_PROXY", "no_proxy"} { // a proxy of the environment does not know this machine
		own = append(own, name+"="+strings.TrimPrefix(toolenv.Lookup(cmd.Env, name)+",127.0.0.1", ","))
	}
	cmd.Env = slices.DeleteFunc(cmd.Env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	cmd.Env = append(cmd.Env, own...)
	return e.Close, nil
}
