// Package runs has the flags that all commands that start runs share, with the same names and
// help everywhere, and applies them when a tree is loaded.
package runs

import (
	"slices"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/urfave/cli/v3"
)

type Flags struct {
	Keep   keep.Flags
	Models load.Models
	Rights load.RightsFlags
	Set    map[string]string // placeholders of the agent's prompts
	Budget agent.Budget
	Strict bool
	// TraceFile gets the spans of the runs; "" is none.
	TraceFile string
}

// Flags returns the flags of a command for one session: with Keep.Flags, and not only its
// folders.
func (f *Flags) Flags() []cli.Flag { return slices.Concat(f.Keep.Flags(), f.shared()) }

func (f *Flags) ManyFlags() []cli.Flag { return slices.Concat(f.Keep.Folders(), f.shared()) }

// Hide leaves a flag out of the help of a command that refuses it with an explanation.
func Hide(flags []cli.Flag, name string) []cli.Flag {
	for _, flag := range flags {
		if b, ok := flag.(*cli.BoolFlag); ok && b.Name == name {
			b.Hidden = true
		}
	}
	return flags
}

func (f *Flags) shared() []cli.Flag {
	return append(append(f.Models.Flags(), f.Rights.CallFlags()...),
		command.SetFlag("fill ${NAME} in the agent's prompts, `NAME=VALUE`; repeatable", &f.Set),
		command.BudgetFlag("limit what each run and all its sub-agents consume, `AMOUNTS` such as usd=2,seconds=600; also inputTokens, outputTokens, turns, calls, depth; repeatable", &f.Budget),
		&cli.BoolFlag{Name: "strict", Usage: "refuse to start if anything of the tree had to be left out, or a key has no effect", Destination: &f.Strict},
		&cli.StringFlag{Name: "trace-file", Usage: "append every span of the runs to `FILE` as a line of OTLP in JSON", Destination: &f.TraceFile},
	)
}

// Load applies the flags to the options of a tree.
func (f *Flags) Load(o load.Options) load.Options {
	o.Set, o.Models, o.Rights, o.Strict = f.Set, f.Models, f.Rights, f.Strict
	return o
}

// Host returns a Host for the runs of a tree's root, whose session is kept; nil stores none.
func (f *Flags) Host(p *program.Env, l *load.Tree, kept *keep.Session) *host.Host {
	h := host.New(l.Tree)
	h.Budget, h.Sessions, h.Caller = f.Budget, kept.Only, keep.Caller(p)
	return h
}
