package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/provider/openai"
)

// A modelChoice is what a new agent may run on.
type modelChoice struct {
	label  string // for a person
	flavor string
	url    string
	model  string
	models []string // the server's, if it was asked
	script string   // the file of a scripted model
	keyID  string
	key    config.Secret // to be written; empty if it is there already
}

// A vendor is a service with keys.
type vendor struct {
	flavor openai.Flavor
	name   string
	env    []string
	keyID  string
	model  string // one to begin with
}

// vendors are offered in this order.
var vendors = []vendor{
	{openai.OpenAI, "OpenAI", []string{"OPENAI_API_KEY"}, "openai", "gpt-5-mini"},
	{openai.Mistral, "Mistral", []string{"MISTRAL_API_KEY"}, "mistral", "mistral-medium-latest"},
	{openai.Kimi, "Kimi", []string{"MOONSHOT_API_KEY"}, "kimi", "kimi-latest"},
	{openai.Claude, "Claude", []string{"ANTHROPIC_API_KEY"}, "claude", "claude-sonnet-4-5"},
	{openai.OpenRouter, "OpenRouter", []string{"OPENROUTER_API_KEY"}, "openrouter", "openrouter/auto"},
	{openai.XAI, "xAI", []string{"XAI_API_KEY"}, "xai", "grok-4"},
	{openai.Gemini, "Gemini", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "gemini", "gemini-2.5-flash"},
	{openai.DeepSeek, "DeepSeek", []string{"DEEPSEEK_API_KEY"}, "deepseek", "deepseek-chat"},
}

// A localServer is a model server where it is usually found on this machine.
type localServer struct {
	flavor openai.Flavor
	name   string
	port   int
}

// localServers are looked for by init.
var localServers = []localServer{
	{openai.Ollama, "Ollama", 11434},
	{openai.LlamaCpp, "llama.cpp", 8080},
	{openai.LMStudio, "LM Studio", 1234},
	{openai.VLLM, "vLLM", 8000},
}

// probeTime is the probe of a program.
const probeTime = 700 * time.Millisecond

// keysName is the name of a keys file beside an agent file.
const keysName = "agents-exe.keys"

// A keysPlan says where keys are and whether one can be added.
type keysPlan struct {
	keys *config.Keys
	from string // the file in effect, "" if there is none
	path string // the file to write, "" if none can be added
}

// planKeys looks at the keys file that the agent file would be used with, which
// may not be there yet.
func (p *program) planKeys(c *config.Config, agentFile string) (*keysPlan, error) {
	absolute, err := filepath.Abs(agentFile)
	if err != nil {
		return nil, nothingRan(err, "")
	}
	choice := c.KeysFile(absolute)
	plan := &keysPlan{keys: &config.Keys{}, path: filepath.Join(filepath.Dir(agentFile), keysName)}
	named := p.global.apiKeys != "" || p.getenv(config.EnvKeysFile) != ""
	if named {
		plan.path = choice.Path
	}
	if !choice.Found {
		return plan, nil
	}
	keys, warnings, err := config.ReadKeys(choice.Path)
	if err != nil {
		return nil, nothingRan(fmt.Errorf("read keys (%s): %w", choice.Why, err), keysHint(err))
	}
	if !p.global.quiet {
		p.warn(warnings)
	}
	plan.keys, plan.from = keys, choice.Path
	// A file beside the agent file goes before those of the user's own
	// configuration, and before nothing else.
	if here, err := filepath.Abs(keysName); err != nil || named || taken(plan.path) || choice.Path == here {
		plan.path = ""
	}
	return plan, nil
}

// scriptedChoice is the choice that always works.
func scriptedChoice() modelChoice {
	return modelChoice{label: "a scripted demo: no model, no key, works offline", flavor: agentfile.FlavorScripted}
}

// findModels are the models that an agent here could use, the best guess first
// and the scripted one last.
func (p *program) findModels(ctx context.Context, plan *keysPlan) []modelChoice {
	var found []modelChoice
	for _, v := range vendors {
		m := modelChoice{flavor: string(v.flavor), url: v.flavor.URL(), model: v.model, keyID: v.keyID}
		if key, ok := plan.keys.Lookup(v.keyID); ok && !key.IsPlaceholder() {
			if u, err := url.Parse(m.url); err == nil && key.Allows(u) {
				m.label = fmt.Sprintf("%s (key %q in %s)", v.name, v.keyID, plan.from)
				found = append(found, m)
			}
			continue
		}
		name, key := p.envKey(v)
		switch {
		case name == "":
		case plan.path == "" && plan.from == "":
			p.note("%s is set, but there is no keys file; `agents init` writes one", name)
		case plan.path == "":
			p.note("%s is set, but %s, which is in effect, has no key %q; add it there to use %s", name, plan.from, v.keyID, v.name)
		default:
			m.label, m.key = fmt.Sprintf("%s (%s is set)", v.name, name), key
			found = append(found, m)
		}
	}
	return append(append(found, p.findServers(ctx)...), scriptedChoice())
}

// envKey is the key of a vendor in the environment.
func (p *program) envKey(v vendor) (name string, key config.Secret) {
	for _, name := range v.env {
		value := strings.TrimSpace(p.getenv(name))
		if value == "" {
			continue
		}
		if !isKey(value) {
			p.note("%s is set, but its value holds white space or control characters, so it is no key", name)
			continue
		}
		return name, config.NewSecret(value)
	}
	return "", config.Secret{}
}

// isKey says whether a text can be sent as a key.
func isKey(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// findServers asks the servers of this machine for their models, all at once.
func (p *program) findServers(ctx context.Context) []modelChoice {
	ctx, cancel := context.WithTimeout(ctx, p.probe)
	defer cancel()
	client := loopbackClient()
	defer client.CloseIdleConnections()
	found := make([]modelChoice, len(p.servers))
	var wg sync.WaitGroup
	for i, s := range p.servers {
		wg.Go(func() {
			base := fmt.Sprintf("http://127.0.0.1:%d/v1", s.port)
			models, err := serverModels(ctx, client, base)
			if err != nil || len(models) == 0 {
				return
			}
			m := modelChoice{flavor: string(s.flavor), url: base, model: models[0], models: models}
			m.label = fmt.Sprintf("%s on this machine (%s%s)", s.name, m.model, andMore(models))
			found[i] = m
		})
	}
	wg.Wait()
	return slices.DeleteFunc(found, func(m modelChoice) bool { return m.flavor == "" })
}

func andMore(models []string) string {
	if len(models) == 1 {
		return ""
	}
	return fmt.Sprintf(" and %d more", len(models)-1)
}

// loopbackClient asks no proxy and follows nobody elsewhere.
func loopbackClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// serverModels asks a server for its models. Those that only make vectors of
// text come last.
func serverModels(ctx context.Context, client *http.Client, base string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil {
		return nil, fmt.Errorf("its list of models: %w", err)
	}
	var chat, other []string
	for _, m := range list.Data {
		switch {
		case m.ID == "" || strings.ContainsFunc(m.ID, unicode.IsControl):
		case strings.Contains(strings.ToLower(m.ID), "embed"):
			other = append(other, m.ID)
		default:
			chat = append(chat, m.ID)
		}
	}
	return append(chat, other...), nil
}

// taken says whether there is anything at path, even a link to nothing.
func taken(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// onThisMachine says whether a URL is of a server here, which needs no key.
func onThisMachine(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
