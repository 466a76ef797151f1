package load

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
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

// offerTime limits the request for the models of a server.
const offerTime = 3 * time.Second

// An Offer is a model that the agent can use.
type Offer struct {
	prices.Model
	// Offered says that the agent's model server offers the model, which may have no price.
	Offered bool `json:"offered,omitempty"`
}

// Line returns a line for a list, with prices per million tokens.
func (o *Offer) Line() string {
	line := termtext.Visible(o.Name) + "  " + strings.Join(o.Hosts, " ")
	if o.Offered {
		line += ", offered"
	}
	if o.Input > 0 || o.Output > 0 {
		line += fmt.Sprintf(", $%s in, $%s out", o.Input, o.Output)
	}
	return line + "\n"
}

// Offers returns the models that the server of the first agent offers, and then the others that
// have a price. If the server cannot be asked, it returns the latter and an error.
func (t *Tree) Offers(ctx context.Context) ([]Offer, error) {
	own, err := Prices(t.Config)
	if err != nil {
		return nil, err
	}
	host, names, err := t.offered(ctx)
	var list []Offer
	all, used := prices.All(own), map[int]bool{}
	for _, name := range names {
		o := Offer{prices.Model{Name: name, Hosts: []string{host}}, true}
		i := slices.IndexFunc(all, func(m prices.Model) bool {
			return slices.Contains(m.Hosts, host) && (m.Has(name) || m.Has(prices.Base(name)))
		})
		if i >= 0 {
			o.Model, used[i] = all[i], true
			o.Name = name
		}
		list = append(list, o)
	}
	for i, m := range all {
		if !used[i] {
			list = append(list, Offer{Model: m})
		}
	}
	return list, err
}

// offered asks the server of the first agent for the names of its models.
func (t *Tree) offered(ctx context.Context) (host string, names []string, err error) {
	models := t.Nodes[0].Models()
	if len(models) == 0 || models[0].ServerURL() == "" {
		return "", nil, nil // such as a scripted model
	}
	if u, err := url.Parse(models[0].ServerURL()); err == nil {
		host = u.Host
	}
	var p any = t.Root.Provider
	if f, ok := agent.As[*provider.Fallback](p); ok {
		p = f.Models[0].Provider
	}
	server, ok := agent.As[interface {
		Models(ctx context.Context) ([]string, error)
	}](p)
	if !ok {
		return "", nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	if names, err = server.Models(ctx); err != nil {
		err = fmt.Errorf("list the models of %s: %w", cmp.Or(host, "the server"), err)
	}
	return host, names, err
}
