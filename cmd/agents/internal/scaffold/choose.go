package scaffold

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/urfave/cli/v3"
)

type ModelFlags struct{ flavor, Model, url, KeyID string }

func (f *ModelFlags) Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "flavor", Usage: "`KIND` of the model's server, such as openai-v1 or ollama; scripted needs none", Destination: &f.flavor},
		&cli.StringFlag{Name: "model", Usage: "`NAME` of the model", Destination: &f.Model},
		&cli.StringFlag{Name: "model-url", Usage: "base `URL` of the model's server", Destination: &f.url},
		&cli.StringFlag{Name: "api-key-id", Usage: "`ID` of the key in the keys file", Destination: &f.KeyID},
	}
}

// Named reports whether the flags name a server, so that none is looked for.
func (f *ModelFlags) Named() bool { return f.flavor != "" || f.url != "" }

// ChooseModel is the model of a new agent: from the flags, or the best that
// is found. At a terminal the person chooses.
func ChooseModel(ctx context.Context, p *program.Env, f ModelFlags, plan *KeysPlan, asker *ask.Asker) (ModelChoice, error) {
	if f.Named() {
		return namedModel(ctx, p, f, plan, asker)
	}
	if f.KeyID != "" {
		return ModelChoice{}, failure.Usage("", "--api-key-id: say with --flavor or --model-url which server the key is for")
	}
	found := findModels(ctx, p, plan)
	if ctx.Err() != nil {
		return ModelChoice{}, context.Cause(ctx)
	}
	m := found[0]
	if asker != nil {
		var other openai.Flavor
		var err error
		if m, other, err = askModel(ctx, found, asker); err != nil {
			return ModelChoice{}, err
		}
		if other != "" {
			return otherModel(ctx, p, f, other, plan, asker)
		}
	}
	if m.Flavor == agentfile.FlavorScripted {
		if f.Model != "" {
			return m, failure.Usage("say with --flavor or --model-url where it is", "--model %s: no key is in the environment and no model server answers on this machine", f.Model)
		}
		return m, nil
	}
	return chooseName(ctx, p, f, m, asker)
}

// maxListed is how many models are listed for a choice by number.
const maxListed = 40

func chooseName(ctx context.Context, p *program.Env, f ModelFlags, m ModelChoice, asker *ask.Asker) (ModelChoice, error) {
	var err error
	switch {
	case f.Model != "":
		m.Model = f.Model
	case asker == nil:
	case len(m.models) > maxListed:
		p.Note("the server has %d models, such as %s", len(m.models), strings.Join(m.models[:5], ", "))
		m.Model, err = asker.Line(ctx, "Which model?", m.models[0])
	case len(m.models) > 1:
		var n int
		n, err = asker.Choice(ctx, "Which model?", ask.Group{Labels: m.models})
		m.Model = m.models[n]
	case len(m.models) == 0:
		m.Model, err = asker.Line(ctx, "Which model?", m.Model)
	}
	if err == nil && m.Model == "" {
		err = failure.Usage("name one with --model", "nothing was written: %s needs the name of a model", m.Url)
	}
	return m, err
}

// askModel offers what was found, and the services and servers that were not. other is the flavor
// of such a one.
func askModel(ctx context.Context, found []ModelChoice, asker *ask.Asker) (m ModelChoice, other openai.Flavor, err error) {
	ready := ask.Group{Title: "ready to use"}
	here := map[string]bool{}
	for _, m := range found {
		ready.Labels = append(ready.Labels, m.Label)
		here[m.Flavor] = true
	}
	var flavors []openai.Flavor
	services, servers := ask.Group{Title: "with a key of yours"}, ask.Group{Title: "on a server of yours"}
	for _, v := range vendors {
		if !here[string(v.flavor)] {
			services.Labels, flavors = append(services.Labels, v.name), append(flavors, v.flavor)
		}
	}
	for _, s := range program.ModelServers {
		servers.Labels, flavors = append(servers.Labels, s.Name), append(flavors, s.Flavor)
	}
	servers.Labels, flavors = append(servers.Labels, "another that speaks OpenAI's protocol"), append(flavors, openai.Compatible)
	n, err := asker.Choice(ctx, "Which model should it use?", ready, services, servers)
	switch {
	case err != nil:
		return m, "", err
	case n < len(found):
		return found[n], "", nil
	}
	return m, flavors[n-len(found)], nil
}

// otherModel asks for what is missing to use a server of the flavor.
func otherModel(ctx context.Context, p *program.Env, f ModelFlags, flavor openai.Flavor, plan *KeysPlan, asker *ask.Asker) (ModelChoice, error) {
	f.flavor = string(flavor)
	service := slices.ContainsFunc(vendors, func(v vendor) bool { return v.flavor == flavor })
	for !service {
		var err error
		if f.url, err = asker.Line(ctx, "Its base URL", flavor.URL()); err != nil {
			return ModelChoice{}, err
		}
		if serverURL(f.url) != nil {
			break
		}
		fmt.Fprintln(p.Err, wantURL)
	}
	return namedModel(ctx, p, f, plan, asker)
}

const wantURL = "want http:// or https://, a host, and no name or password in it"

// serverURL is the address of a model server, nil if text is not a valid one.
func serverURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	return u
}

// namedModel is the model of the server that the flags name.
func namedModel(ctx context.Context, p *program.Env, f ModelFlags, plan *KeysPlan, asker *ask.Asker) (ModelChoice, error) {
	if strings.EqualFold(f.flavor, agentfile.FlavorScripted) {
		if f.Model+f.url+f.KeyID != "" {
			return ModelChoice{}, failure.Usage("", "--flavor scripted takes no --model, --model-url or --api-key-id: its answers are in a script")
		}
		return ScriptedChoice(), nil
	}
	flavor, err := openai.ParseFlavor(cmp.Or(f.flavor, string(openai.Compatible)))
	if err != nil {
		return ModelChoice{}, failure.Usage(agentfile.FlavorScripted+" is one more, which needs no model", "--flavor: %w", err)
	}
	m := ModelChoice{Flavor: string(flavor), Url: cmp.Or(f.url, flavor.URL())}
	if m.Url == "" {
		return m, failure.Usage("name it with --model-url", "--flavor %s has no server of its own", flavor)
	}
	u := serverURL(m.Url)
	if u == nil {
		return m, failure.Usage("", "--model-url: "+wantURL)
	}
	m.Label = u.Host
	var v vendor
	for _, known := range vendors {
		// A key is only sent to its own service.
		if known.flavor.URL() == flavor.URL() && strings.HasPrefix(flavor.URL(), u.Scheme+"://"+u.Host+"/") {
			v, m.Label = known, known.name
		}
	}
	if err := nameKey(ctx, p, &m, u, v, cmp.Or(f.KeyID, plan.keyID(v)), plan, asker); err != nil {
		return m, err
	}
	m.Model = v.model
	if f.Model == "" && httphost.Local(u) {
		ctx, cancel := context.WithTimeout(ctx, p.Probe)
		defer cancel()
		if m.models, _ = serverModels(ctx, loopbackClient(), m.Url); len(m.models) > 0 {
			m.Model = m.models[0]
		}
	}
	return chooseName(ctx, p, f, m, asker)
}

// nameKey chooses the key for a server: from the keys file, the environment, or the
// person.
func nameKey(ctx context.Context, p *program.Env, m *ModelChoice, u *url.URL, v vendor, id string, plan *KeysPlan, asker *ask.Asker) error {
	key, found := plan.keys.Lookup(id)
	switch {
	case found && key.IsPlaceholder():
		return failure.Usage("put the key there", "%s still has the placeholder %q where the key %q belongs", plan.from, config.Placeholder, id)
	case found && !key.Allows(u):
		return failure.Usage("", "the key %q in %s is bound to %s by its hosts", id, plan.from, strings.Join(key.Hosts, ", "))
	case found:
		m.KeyID = id
		return nil
	case id == "" && httphost.Local(u):
		return nil
	case id == "" && asker == nil:
		return failure.Usage("name an entry of the keys file with --api-key-id", "requests to %s need a key", u.Host)
	}
	m.KeyID = cmp.Or(id, SlugOf(u.Hostname(), "key"))
	switch {
	case plan.Path == "" && plan.from == "":
		return failure.Usage("`agents init` writes one, or name one with --api-keys", "there is no key %q: no keys file was found", m.KeyID)
	case plan.Path == "":
		return failure.Usage("add it there", "%s, the keys file in effect, has no key %q", plan.from, m.KeyID)
	}
	if _, m.key = envKey(p, v); m.key.Empty() && asker != nil {
		text, err := asker.Secret(ctx, "The key for "+u.Host)
		if err != nil {
			return err
		}
		if m.key, err = Key(text); err != nil {
			return err
		}
	}
	switch {
	case !m.key.Empty():
		return nil
	case len(v.env) > 0:
		return failure.Usage(fmt.Sprintf("set %s, or write the key into %s", strings.Join(v.env, " or "), plan.Path), "there is no key %q for %s", m.KeyID, u.Host)
	}
	return failure.Usage("write it into "+plan.Path, "there is no key %q for %s", m.KeyID, u.Host)
}
