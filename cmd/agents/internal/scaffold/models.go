package scaffold

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
)

type ModelChoice struct {
	Label  string // for a person
	Flavor string
	Url    string
	Model  string
	models []string // the server's, if it was asked
	Script string   // the file of a scripted model
	KeyID  string
	key    config.Secret // to be written; empty if it already exists
}

// A vendor is a service that needs a key.
type vendor struct {
	flavor openai.Flavor
	name   string
	env    []string
	keyID  string
	model  string // one to begin with, the newest of its family in the table of prices
}

// vendors are offered in this order.
var vendors = []vendor{
	{openai.OpenAI, "OpenAI", []string{"OPENAI_API_KEY"}, "openai", "gpt-5.6-luna"},
	{openai.Mistral, "Mistral", []string{"MISTRAL_API_KEY"}, "mistral", "mistral-medium-latest"},
	{openai.Kimi, "Moonshot AI: Kimi", []string{"MOONSHOT_API_KEY"}, "kimi", "kimi-k3"},
	{openai.Anthropic, "Anthropic: Claude", []string{"ANTHROPIC_API_KEY"}, "claude", "claude-sonnet-5-5"},
	{openai.OpenRouter, "OpenRouter", []string{"OPENROUTER_API_KEY"}, "openrouter", "openrouter/auto"},
	{openai.XAI, "xAI: Grok", []string{"XAI_API_KEY"}, "xai", "grok-4.5"},
	{openai.Gemini, "Google: Gemini", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "gemini", "gemini-3.6-flash"},
	{openai.DeepSeek, "DeepSeek", []string{"DEEPSEEK_API_KEY"}, "deepseek", "deepseek-flash"},
}

// keysName is the name of a keys file beside an agent file.
const keysName = "agents-exe.keys"

// A KeysPlan holds the keys and where a new one can be written.
type KeysPlan struct {
	keys *config.Keys
	from string // the file in effect, "" if there is none
	Path string // the file to write, "" if none can be added
	// global means that Path is the keys file of the user's own configuration, to which
	// a key can be added.
	global bool
}

// PlanGlobalKeys is PlanKeys for an agent of the user's own configuration.
func PlanGlobalKeys(p *program.Env, path string) (*KeysPlan, error) {
	plan := &KeysPlan{keys: &config.Keys{}, Path: path, global: true}
	if !program.Taken(path) {
		return plan, nil
	}
	return plan, plan.read(p, path, "read keys")
}

// read reads the keys file in effect. doing says what is done, for an error.
func (plan *KeysPlan) read(p *program.Env, path, doing string) error {
	keys, warnings, err := config.ReadKeys(path)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("%s: %w", doing, err), load.KeysHint(err))
	}
	p.Mention(warnings...)
	plan.keys, plan.from = keys, path
	return nil
}

// PlanKeys looks at the keys file that the agent file would be used with, which
// may not be there yet.
func PlanKeys(p *program.Env, c *config.Config, agentFile string) (*KeysPlan, error) {
	absolute, err := filepath.Abs(agentFile)
	if err != nil {
		return nil, failure.NothingRan(err, "")
	}
	choice := c.KeysFile(absolute)
	plan := &KeysPlan{keys: &config.Keys{}, Path: filepath.Join(filepath.Dir(agentFile), keysName)}
	named := p.Global.APIKeys != "" || p.Getenv(config.EnvKeysFile) != ""
	if named {
		plan.Path = choice.Path
	}
	if !choice.Found {
		return plan, nil
	}
	if err := plan.read(p, choice.Path, "read keys ("+choice.Why+")"); err != nil {
		return nil, err
	}
	// A file beside the agent file only takes precedence over those of the
	// user's own configuration.
	if here, err := filepath.Abs(keysName); err != nil || named || program.Taken(plan.Path) || choice.Path == here {
		plan.Path = ""
	}
	return plan, nil
}

// ScriptedChoice is the model that always works.
func ScriptedChoice() ModelChoice {
	return ModelChoice{Label: "a script: no model, no key, works offline", Flavor: agentfile.FlavorScripted}
}

// findModels finds the models that an agent could use here, the best guess first and
// the scripted one last.
func findModels(ctx context.Context, p *program.Env, plan *KeysPlan) []ModelChoice {
	var found []ModelChoice
	for _, v := range vendors {
		m := ModelChoice{Flavor: string(v.flavor), Url: v.flavor.URL(), Model: v.model, KeyID: plan.keyID(v)}
		if key, ok := plan.keys.Lookup(m.KeyID); ok && !key.IsPlaceholder() {
			if u, err := url.Parse(m.Url); err == nil && key.Allows(u) {
				m.Label = fmt.Sprintf("%s (key %q in %s)", v.name, m.KeyID, plan.from)
				found = append(found, m)
			}
			continue
		}
		name, key := envKey(p, v)
		switch {
		case name == "":
		case plan.Path == "" && plan.from == "":
			p.Note("%s is set, but there is no keys file; `agents init` writes one", name)
		case plan.Path == "":
			p.Note("%s is set, but %s, which is in effect, has no key %q; add it there to use %s", name, plan.from, v.keyID, v.name)
		default:
			m.Label, m.key = fmt.Sprintf("%s (%s is set)", v.name, name), key
			found = append(found, m)
		}
	}
	return append(append(found, findServers(ctx, p)...), ScriptedChoice())
}

// envKey is the key of a vendor in the environment.
func envKey(p *program.Env, v vendor) (name string, key config.Secret) {
	for _, name := range v.env {
		value := strings.TrimSpace(p.Getenv(name))
		if value == "" {
			continue
		}
		if !isKey(value) {
			p.Note("%s is set, but its value holds white space or control characters, so it is not a key", name)
			continue
		}
		return name, config.NewSecret(value)
	}
	return "", config.Secret{}
}

// isKey reports whether a text can be sent as a key.
func isKey(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// Key checks a key that was typed.
func Key(text string) (config.Secret, error) {
	if !isKey(text) {
		return config.Secret{}, failure.Usage("", "nothing was written: a key is not empty and has no white space and no control characters")
	}
	return config.NewSecret(text), nil
}

// service returns the service that a key with this id is for. Ids are the names of flavors, such as
// anthropic and claude.
func service(id string) (v vendor, ok bool) {
	flavor, err := openai.ParseFlavor(id)
	i := slices.IndexFunc(vendors, func(v vendor) bool { return v.flavor.URL() == flavor.URL() })
	if err != nil || i < 0 {
		return vendor{}, false
	}
	return vendors[i], true
}

// KeyHosts are the hosts of the service that a key with this id is for, none if it is not known.
func KeyHosts(id string) []string {
	v, ok := service(id)
	u, err := url.Parse(v.flavor.URL())
	if !ok || err != nil {
		return nil
	}
	return []string{u.Host}
}

// keyID is the id of the service's key: that in the keys file, or else the one to write.
func (plan *KeysPlan) keyID(v vendor) string {
	ids := plan.keys.IDs()
	if i := slices.IndexFunc(ids, func(id string) bool { of, ok := service(id); return ok && of.keyID == v.keyID }); i >= 0 && !slices.Contains(ids, v.keyID) {
		return ids[i]
	}
	return v.keyID
}

// findServers asks the servers of this machine for their models, concurrently.
func findServers(ctx context.Context, p *program.Env) []ModelChoice {
	ctx, cancel := context.WithTimeout(ctx, p.Probe)
	defer cancel()
	client := loopbackClient()
	defer client.CloseIdleConnections()
	found := make([]ModelChoice, len(p.Servers))
	var wg sync.WaitGroup
	for i, s := range p.Servers {
		wg.Go(func() {
			base := fmt.Sprintf("http://127.0.0.1:%d/v1", s.Port)
			models, err := serverModels(ctx, client, base)
			if err != nil || len(models) == 0 {
				return
			}
			m := ModelChoice{Flavor: string(s.Flavor), Url: base, Model: models[0], models: models}
			m.Label = fmt.Sprintf("%s on this machine (%s%s)", s.Name, m.Model, andMore(models))
			found[i] = m
		})
	}
	wg.Wait()
	return slices.DeleteFunc(found, func(m ModelChoice) bool { return m.Flavor == "" })
}

func andMore(models []string) string {
	if len(models) == 1 {
		return ""
	}
	return fmt.Sprintf(" and %d more", len(models)-1)
}

// loopbackClient uses no proxy.
func loopbackClient() *http.Client { return &http.Client{Transport: &http.Transport{}} }

// serverModels asks a server for its models, without a key.
func serverModels(ctx context.Context, client *http.Client, base string) ([]string, error) {
	return (&openai.Provider{Settings: modelhttp.Settings{BaseURL: base, Client: client}}).Models(ctx)
}
