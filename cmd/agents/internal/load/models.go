package load

import (
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/urfave/cli/v3"
)

// Models are the flags that replace the models of a tree, or of one of its agents.
type Models map[string]agentfile.ModelChoice

// Flags are --model, --model-url and --flavor.
func (m *Models) Flags() []cli.Flag {
	flag := func(name, usage string, set func(*agentfile.ModelChoice, string)) cli.Flag {
		return &cli.GenericFlag{Name: name, Category: "model", Usage: usage, Value: &program.Repeatable{Add: func(value string) error { m.choose(value, set); return nil }}}
	}
	return []cli.Flag{
		flag("model", "use the model `NAME` in the whole tree, or as SLUG=NAME in one agent; repeatable", func(c *agentfile.ModelChoice, v string) { c.Name = v }),
		flag("model-url", "base `URL` of the model's server, or SLUG=URL; repeatable", func(c *agentfile.ModelChoice, v string) { c.URL = v }),
		flag("flavor", "`KIND` of the model's server, or SLUG=KIND; repeatable", func(c *agentfile.ModelChoice, v string) { c.Flavor = v }),
	}
}

func nameFlags(problems []agentfile.Problem) {
	flags := map[string]string{"modelName": "--model", "modelUrl": "--model-url", "flavor": "--flavor"}
	for i, p := range problems {
		if p.Choice != "" {
			problems[i].Key = flags[p.Choice]
		}
	}
}

func (m *Models) choose(value string, set func(*agentfile.ModelChoice, string)) {
	slug, rest, ok := strings.Cut(value, "=")
	if !ok || strings.ContainsAny(slug, ":/?. ") { // not a slug: a URL, or a part of a name
		slug, rest = "", value
	}
	if *m == nil {
		*m = Models{}
	}
	choice := (*m)[slug]
	set(&choice, rest)
	(*m)[slug] = choice
}
