package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/urfave/cli/v3"
)

// modelFlags choose the model of a new agent.
type modelFlags struct{ flavor, model, url, keyID string }

func (f *modelFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "flavor", Usage: "`KIND` of the model's server, such as openai-v1 or ollama; scripted needs none", Destination: &f.flavor},
		&cli.StringFlag{Name: "model", Usage: "`NAME` of the model", Destination: &f.model},
		&cli.StringFlag{Name: "model-url", Usage: "base `URL` of the model's server", Destination: &f.url},
		&cli.StringFlag{Name: "api-key-id", Usage: "`ID` of the key in the keys file", Destination: &f.keyID},
	}
}

// named says that the flags name a server, so that none is looked for.
func (f *modelFlags) named() bool { return f.flavor != "" || f.url != "" }

// chooseModel is the model of a new agent: what the flags say, else the best of
// what is found here. A person is asked where there is something to choose.
func (p *program) chooseModel(ctx context.Context, f modelFlags, plan *keysPlan, ask *asker) (modelChoice, error) {
	if f.named() {
		return p.namedModel(ctx, f, plan, ask)
	}
	if f.keyID != "" {
		return modelChoice{}, usage("", "--api-key-id: say with --flavor or --model-url which server the key is for")
	}
	found := p.findModels(ctx, plan)
	if ctx.Err() != nil {
		return modelChoice{}, context.Cause(ctx)
	}
	n := 0
	if ask != nil {
		var labels []string
		for _, m := range found {
			labels = append(labels, m.label)
		}
		var err error
		if n, err = ask.choice(ctx, "What should the agent run on?", append(labels, "another server")); err != nil {
			return modelChoice{}, err
		}
		if n == len(found) {
			return p.otherModel(ctx, f, plan, ask)
		}
	}
	m := found[n]
	if m.flavor == agentfile.FlavorScripted {
		if f.model != "" {
			return m, usage("say with --flavor or --model-url where it is", "--model %s: no key is in the environment and no model server answers on this machine", f.model)
		}
		return m, nil
	}
	return p.chooseName(ctx, f, m, ask)
}

// maxListed is how many models a person is shown to choose from by number.
const maxListed = 40

// chooseName settles the name of the model.
func (p *program) chooseName(ctx context.Context, f modelFlags, m modelChoice, ask *asker) (modelChoice, error) {
	var err error
	switch {
	case f.model != "":
		m.model = f.model
	case ask == nil:
	case len(m.models) > maxListed:
		p.note("the server has %d models, such as %s", len(m.models), strings.Join(m.models[:5], ", "))
		m.model, err = ask.line(ctx, "Which model?", m.models[0])
	case len(m.models) > 1:
		var n int
		n, err = ask.choice(ctx, "Which model?", m.models)
		m.model = m.models[n]
	case len(m.models) == 0:
		m.model, err = ask.line(ctx, "Which model?", m.model)
	}
	if err == nil && m.model == "" {
		err = usage("name one with --model", "nothing was written: %s needs the name of a model", m.url)
	}
	return m, err
}

// otherModel asks for the server that nothing here points to.
func (p *program) otherModel(ctx context.Context, f modelFlags, plan *keysPlan, ask *asker) (modelChoice, error) {
	flavors := openai.Flavors()
	n, err := ask.choice(ctx, "What kind of server?", flavors)
	if err != nil {
		return modelChoice{}, err
	}
	f.flavor = flavors[n]
	if f.url, err = ask.line(ctx, "Its base URL", openai.Flavor(f.flavor).URL()); err != nil {
		return modelChoice{}, err
	}
	return p.namedModel(ctx, f, plan, ask)
}

// namedModel is the model of the server that the flags name.
func (p *program) namedModel(ctx context.Context, f modelFlags, plan *keysPlan, ask *asker) (modelChoice, error) {
	if strings.EqualFold(f.flavor, agentfile.FlavorScripted) {
		if f.model+f.url+f.keyID != "" {
			return modelChoice{}, usage("", "--flavor scripted takes no --model, --model-url or --api-key-id: its answers are in a script")
		}
		return scriptedChoice(), nil
	}
	flavor, err := openai.ParseFlavor(first(f.flavor, string(openai.Compatible)))
	if err != nil {
		return modelChoice{}, usage(agentfile.FlavorScripted+" is one more, which needs no model", "--flavor: %w", err)
	}
	m := modelChoice{flavor: string(flavor), url: first(f.url, flavor.URL())}
	if m.url == "" {
		return m, usage("name it with --model-url", "--flavor %s has no server of its own", flavor)
	}
	u, err := url.Parse(m.url)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return m, usage("", "--model-url: want http:// or https://, a host, and no name or password in it")
	}
	m.label = u.Host
	var v vendor
	for _, known := range vendors {
		// A key goes to nobody but the one whose it is.
		if known.flavor == flavor && strings.HasPrefix(flavor.URL(), u.Scheme+"://"+u.Host+"/") {
			v = known
		}
	}
	if err := p.nameKey(ctx, &m, u, v, first(f.keyID, v.keyID), plan, ask); err != nil {
		return m, err
	}
	m.model = v.model
	if f.model == "" && onThisMachine(u) {
		ctx, cancel := context.WithTimeout(ctx, p.probe)
		defer cancel()
		if m.models, _ = serverModels(ctx, loopbackClient(), m.url); len(m.models) > 0 {
			m.model = m.models[0]
		}
	}
	return p.chooseName(ctx, f, m, ask)
}

// nameKey settles the key for a server: from the keys file, the environment, or
// the person.
func (p *program) nameKey(ctx context.Context, m *modelChoice, u *url.URL, v vendor, id string, plan *keysPlan, ask *asker) error {
	key, found := plan.keys.Lookup(id)
	switch {
	case found && key.IsPlaceholder():
		return usage("put the key there", "%s still has the placeholder %q where the key %q belongs", plan.from, config.Placeholder, id)
	case found && !key.Allows(u):
		return usage("", "the key %q in %s is bound to %s by its hosts", id, plan.from, strings.Join(key.Hosts, ", "))
	case found:
		m.keyID = id
		return nil
	case id == "" && onThisMachine(u):
		return nil
	case id == "" && ask == nil:
		return usage("name an entry of the keys file with --api-key-id", "requests to %s need a key", u.Host)
	}
	m.keyID = first(id, slugOf(u.Hostname(), "key"))
	switch {
	case plan.path == "" && plan.from == "":
		return usage("`agents init` writes one, or name one with --api-keys", "there is no key %q: no keys file was found", m.keyID)
	case plan.path == "":
		return usage("add it there", "%s, the keys file in effect, has no key %q", plan.from, m.keyID)
	}
	if _, m.key = p.envKey(v); m.key.Empty() && ask != nil {
		text, err := ask.secret(ctx, "The key for "+u.Host)
		if err != nil {
			return err
		}
		if !isKey(text) {
			return usage("", "nothing was written: a key has no white space and no control characters, and is not empty")
		}
		m.key = config.NewSecret(text)
	}
	switch {
	case !m.key.Empty():
		return nil
	case len(v.env) > 0:
		return usage(fmt.Sprintf("set %s, or write the key into %s", strings.Join(v.env, " or "), plan.path), "there is no key %q for %s", m.keyID, u.Host)
	}
	return usage("write it into "+plan.path, "there is no key %q for %s", m.keyID, u.Host)
}
