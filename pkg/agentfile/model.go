package agentfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
	"github.com/agents-exe/agents/pkg/provider/script"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/provider/textcall"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
)

// The values of toolProtocol beside "functions".
const (
	protocolScript = "script"
	protocolText   = "text"
)

// FlavorScripted is the flavor of agents whose model is a script.
const FlavorScripted = "scripted"

// model gives the agent of n its model, or says why it cannot have it.
func (l *loader) model(n *Node) bool {
	s := n.File.Spec
	if s.Step != "" {
		return l.stepModel(n)
	}
	own, hasKey := l.ownKey(s)
	named := ModelChoice{s.Flavor, s.ModelURL, s.ModelName}
	all, one := l.opts.Models[""], l.opts.Models[s.Slug]
	n.choice = ModelChoice{cmp.Or(one.Flavor, all.Flavor), cmp.Or(one.URL, all.URL), cmp.Or(one.Name, all.Name)}
	s.Flavor, s.ModelURL, s.ModelName = cmp.Or(n.choice.Flavor, s.Flavor), cmp.Or(n.choice.URL, s.ModelURL), cmp.Or(n.choice.Name, s.ModelName)
	if named != (ModelChoice{s.Flavor, s.ModelURL, s.ModelName}) {
		s.Price = nil // it is that of another model
	}
	if n.choice.Flavor != "" {
		s.Protocol = "" // it is that of another server
	}
	n.Agent.Model = s.ModelName
	if l.opts.NoModels {
		return true
	}
	if l.opts.Model != nil {
		if p := l.opts.Model(n.File); p != nil {
			n.Agent.Provider = s.protocol(p, openai.Flavor(s.Flavor))
			return true
		}
	}
	var p agent.Provider
	if s.Flavor == FlavorScripted {
		p = l.scripted(n)
	} else {
		p = l.openai(n, own, hasKey)
	}
	if p == nil {
		return false
	}
	n.Agent.Provider = s.protocol(&provider.Retry{Provider: &prices.Provider{Provider: p, Price: l.price(s)}}, openai.Flavor(n.Agent.Flavor))
	return true
}

// inText reports whether the model calls tools in its text.
func (s *Spec) inText() bool {
	return s.ToolProtocol == protocolScript || s.ToolProtocol == protocolText
}

// protocol is p, with calls as toolProtocol and textCalls say.
func (s *Spec) protocol(p agent.Provider, flavor openai.Flavor) agent.Provider {
	switch s.ToolProtocol {
	case protocolScript:
		d := script.Dialect{}
		if len(s.ScriptMarkers) == 2 {
			d = script.Dialect{Start: s.ScriptMarkers[0], End: s.ScriptMarkers[1]}
		}
		p = &textcall.Provider{Provider: p, Dialect: d}
	case protocolText:
		p = &textcall.Provider{Provider: p, Dialect: textcall.JSON{}}
	}
	if s.TextCalls != nil && *s.TextCalls || s.TextCalls == nil && flavor.TextCalls() && !s.inText() {
		p = &unparsed.Provider{Provider: p}
	}
	return p
}

// price finds what the model of s costs, when it is first asked for.
func (l *loader) price(s *Spec) func() *prices.Price {
	return sync.OnceValue(func() *prices.Price { return s.PriceOf(l.opts.Prices) })
}

// PriceOf is what the model of s costs, by own or the built-in table; nil if that is not known.
func (s *Spec) PriceOf(own prices.Table) *prices.Price {
	if s.Price != nil {
		return s.Price
	}
	u, err := url.Parse(serverURL(s))
	if err != nil || s.Flavor == FlavorScripted {
		return nil
	}
	if m, ok := prices.Lookup(own, u.Host, s.ModelName); ok {
		return &m.Price
	}
	return nil
}

// ownKey is the key in the environment variable that apiKeyEnv names. It is bound to
// the server that the file itself names.
func (l *loader) ownKey(s *Spec) (config.Key, bool) {
	value := strings.TrimSpace(toolenv.Lookup(l.opts.Environ, s.APIKeyEnv))
	if s.APIKeyEnv == "" || value == "" {
		return config.Key{}, false
	}
	key := config.Key{ID: "$" + s.APIKeyEnv, Value: config.NewSecret(value), Hosts: []string{""}}
	l.tree.secrets = append(l.tree.secrets, key.Value)
	if u, err := url.Parse(serverURL(s)); err == nil {
		key.Hosts[0] = net.JoinHostPort(u.Hostname(), config.Port(u))
	}
	return key, true
}

// serverURL is the address of the model's server, "" if it is not known.
func serverURL(s *Spec) string {
	if flavor, err := openai.ParseFlavor(s.Flavor); err == nil {
		return cmp.Or(s.ModelURL, flavor.URL())
	}
	return s.ModelURL
}

// checkModels reports models that are chosen for agents that are not there, or that are
// programs.
func (l *loader) checkModels(path string) {
	for _, slug := range slices.Sorted(maps.Keys(l.opts.Models)) {
		c := l.opts.Models[slug]
		choice := cmp.Or(c.causes("modelName"), c.causes("modelUrl"), c.causes("flavor"))
		if len(l.slugs) > 0 && slug != "" && !slices.Contains(l.slugs, slug) {
			l.report(Problem{Severity: Fatal, Code: CodeModel, File: path, Choice: choice, Message: fmt.Sprintf(
				"a model is chosen for %q, and no agent of this tree has that slug; there are %s", slug, strings.Join(l.slugs, ", "))})
		}
		for _, n := range l.tree.Nodes {
			p := Problem{Severity: Fatal, Code: CodeModel, File: n.File.Path, Choice: choice, Message: fmt.Sprintf("agent %s takes its steps with a program (step) and has no model", n.Agent.Slug)}
			if slug == "" {
				p.Severity, p.Message = Warning, p.Message+"; this does not change it"
			}
			if n.File.Spec.Step != "" && (slug == "" || slug == n.Agent.Slug) {
				l.report(p)
			}
		}
	}
}

// broken reports what makes n unusable.
func (l *loader) broken(n *Node, code Code, key, format string, args ...any) {
	l.modelProblem(n, n.unusable(), code, key, format, args...)
}

// modelProblem reports a problem with a key of n: at its place in the file, or as that of
// the choice that replaced it or made it necessary.
func (l *loader) modelProblem(n *Node, severity Severity, code Code, key, format string, args ...any) {
	p := n.File.problem(severity, code, n.File.at(key), format, args...)
	if p.Choice = n.choice.causes(key); p.Choice != "" {
		if p.Line, p.Col, p.Key = 0, 0, ""; p.Choice != key {
			p.Message = key + ": " + p.Message
		}
	}
	l.report(p)
}

// causes returns which part of the choice a problem with a key of the file comes from.
func (c *ModelChoice) causes(key string) string {
	server := key == "modelUrl" || key == "modelName" || key == "apiKeyId" || key == "apiKeyEnv"
	switch {
	case key == "modelName" && c.Name != "":
		return key
	case server && c.URL != "":
		return "modelUrl"
	case (server || key == "flavor" || key == "script") && c.Flavor != "":
		return "flavor"
	}
	return ""
}

// unusable is the severity of what makes n unusable.
func (n *Node) unusable() Severity { return unusable(n.stack[1:]) }

func (l *loader) scripted(n *Node) agent.Provider {
	if n.File.Spec.Script == "" {
		l.broken(n, CodeScript, "script", "it is missing: the flavor %s needs one", FlavorScripted)
		return nil
	}
	path, ok := l.resolve(n, n.File.at("script"), n.File.Spec.Script, n.unusable())
	if !ok {
		return nil
	}
	data, err := readRegular(path, scripted.MaxBytes)
	if err != nil {
		l.broken(n, CodeScript, "script", "%s: %s", path, plain(err))
		return nil
	}
	if !l.take(KindScript, path, data) {
		return nil
	}
	script, err := scripted.Parse(path, data)
	if err != nil {
		l.scriptProblems(n, err)
		return nil
	}
	n.Agent.Flavor = FlavorScripted
	if n.Agent.Model == "" {
		n.Agent.Model = FlavorScripted
	}
	return &scripted.Provider{Script: script}
}

// scriptProblems reports each mistake in a script at its place.
func (l *loader) scriptProblems(n *Node, err error) {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		if p, ok := errors.AsType[*scripted.Problem](err); ok {
			l.report(Problem{Severity: n.unusable(), Code: CodeScript, File: p.File, Line: p.Line, Col: p.Column, Key: p.Key, Message: p.Message})
		} else {
			l.broken(n, CodeScript, "script", "%s", err)
		}
	}
}

func (l *loader) openai(n *Node, key config.Key, hasKey bool) agent.Provider {
	s := n.File.Spec
	flavor, err := openai.ParseFlavor(s.Flavor)
	if err != nil {
		l.broken(n, CodeFlavor, "flavor", "%s", noFlavor(s.Flavor))
		return nil
	}
	base := serverURL(s)
	if base == "" {
		l.broken(n, CodeURL, "modelUrl", "it is missing, and the flavor %s has no server of its own", flavor)
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		l.broken(n, CodeURL, "modelUrl", "%q is not a usable URL; want http:// or https:// and a host", withoutUser(base))
		return nil
	}
	if s.ModelName == "" {
		l.broken(n, CodeSchema, "modelName", "it is missing: the server needs the name of a model")
		return nil
	}
	protocol := s.modelProtocol(flavor, u)
	if field := s.fixed(protocol); field != "" {
		l.broken(n, CodeSchema, "extraBody", "it cannot replace %s", field)
		return nil
	}
	if password, ok := u.User.Password(); ok {
		l.tree.secrets = append(l.tree.secrets, config.NewSecret(password))
	}
	if !hasKey {
		key, hasKey = l.opts.Keys.Lookup(s.APIKeyID)
	}
	if !l.checkKey(n, u, key, hasKey) {
		return nil
	}
	var reveal func() string
	if hasKey && key.Allows(u) {
		reveal = key.Value.Reveal
	}
	n.Agent.Flavor = string(flavor.At(u))
	p := s.provider(protocol, flavor, u, modelhttp.Settings{
		BaseURL: base, Model: s.ModelName, Key: reveal,
		Temperature: s.Temperature, MaxOutputTokens: s.MaxOutputTokens, ReasoningEffort: s.ReasoningEffort,
		ExtraBody: s.ExtraBody, RequestTimeout: seconds(s.RequestTimeoutSeconds),
	})
	if claude, ok := p.(*anthropic.Provider); ok && claude.RefusesTemperature() {
		l.modelProblem(n, Warning, CodeModel, "temperature", "the model %s refuses a temperature other than 1: it thinks (see reasoningEffort), or is newer than Claude Opus 4.6", s.ModelName)
	}
	return p
}

// withoutUser is the text of a URL, which need not be a valid one, without the user
// and password in it.
func withoutUser(url string) string {
	at := strings.LastIndexByte(url, '@')
	if at < 0 {
		return url
	}
	scheme := ""
	if i := strings.Index(url[:at], "//"); i >= 0 {
		scheme = url[:i+2]
	}
	return scheme + "…" + url[at:]
}

// seconds turns a number of seconds into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// checkKey reports whether n's model can be asked with the key, if one was found. A
// model on this machine may do without; for any other a missing key is fatal wherever
// in the tree it is, so that nothing runs before it is found missing.
func (l *loader) checkKey(n *Node, u *url.URL, key config.Key, found bool) bool {
	s := n.File.Spec
	id, name, by := s.APIKeyID, "apiKeyId", "its hosts"
	if s.APIKeyEnv != "" && (id == "" || found && key.ID != id) {
		id, name, by = "$"+s.APIKeyEnv, "apiKeyEnv", "modelUrl"
	}
	problem := func(severity Severity, code Code, format string, args ...any) {
		l.modelProblem(n, severity, code, name, format, args...)
	}
	switch {
	case found && key.IsPlaceholder():
		problem(Fatal, CodeKey, "%s still has the placeholder %q where the key %q belongs", l.opts.KeysFile, config.Placeholder, id)
	case found && key.Allows(u), id == "" && httphost.Local(u):
		return true
	case found && httphost.Local(u):
		problem(Note, CodeHost, "the key %q is bound to %s by %s; requests to this machine (%s) go without it", id, strings.Join(key.Hosts, ", "), by, u.Host)
		return true
	case httphost.Local(u) && strings.HasPrefix(id, "$"):
		problem(Note, CodeKeyEnv, "the environment variable %s is not set; requests to this machine (%s) go without a key", s.APIKeyEnv, u.Host)
		return true
	case httphost.Local(u):
		problem(Note, CodeKey, "there is no key %q; requests to this machine (%s) go without one", id, u.Host)
		return true
	case found:
		problem(Fatal, CodeHost, "the key %q is bound to %s by %s and is not sent to %s", id, strings.Join(key.Hosts, ", "), by, u.Host)
	case id == "":
		problem(Fatal, CodeKey, "it is missing: requests to %s need a key", u.Host)
	case strings.HasPrefix(id, "$"):
		problem(Fatal, CodeKeyEnv, "the environment variable %s is not set, and requests to %s need a key", s.APIKeyEnv, u.Host)
	case l.opts.KeysFile == "":
		problem(Fatal, CodeKey, "there is no key %q: no keys file was found", id)
	default:
		problem(Fatal, CodeKey, "there is no key %q in %s%s", id, l.opts.KeysFile, among(l.opts.Keys.IDs()))
	}
	return false
}

func among(ids []string) string {
	if len(ids) == 0 {
		return ", which has none"
	}
	return "; there are " + strings.Join(ids, ", ")
}

// findWorkDir sets the directory in which n's tools run.
func (l *loader) findWorkDir(n *Node) bool {
	n.workDir = l.opts.WorkDir
	name := n.File.Spec.ToolWorkingDirectory
	if name == "" {
		return true
	}
	dir, ok := l.resolve(n, n.File.at("toolWorkingDirectory"), name, n.unusable())
	if !ok {
		return false
	}
	n.workDir = dir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		l.broken(n, CodePath, "toolWorkingDirectory", "%s is not a folder", dir)
		return false
	}
	return true
}

// The values of protocol: what the server of a model speaks.
const (
	protocolChat      = "chat"
	protocolResponses = "responses"
	protocolAnthropic = "anthropic"
)

// modelProtocol is what the server of the model at u speaks. OpenAI's own server is asked
// by its own protocol. Of the two flavors of Anthropic's server, Claude, which agents-exe
// has too, is its compatible endpoint.
func (s *Spec) modelProtocol(flavor openai.Flavor, u *url.URL) string {
	switch {
	case s.Protocol != "":
		return s.Protocol
	case flavor == openai.OpenAI && strings.EqualFold(u.Hostname(), "api.openai.com"):
		return protocolResponses
	case flavor == openai.Anthropic:
		return protocolAnthropic
	}
	return protocolChat
}

// fixed returns a member of requests that is in extraBody and cannot be replaced, "" if
// there is none.
func (s *Spec) fixed(protocol string) string {
	names := openai.Fixed
	switch protocol {
	case protocolResponses:
		names = responses.Fixed
	case protocolAnthropic:
		names = anthropic.Fixed
	}
	for name := range s.ExtraBody {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// provider is the model behind its protocol.
func (s *Spec) provider(protocol string, flavor openai.Flavor, u *url.URL, settings modelhttp.Settings) agent.Provider {
	switch protocol {
	case protocolResponses:
		return &responses.Provider{Settings: settings, OutputAlone: !flavor.At(u).OutputWithTools()}
	case protocolAnthropic:
		return &anthropic.Provider{Settings: settings, ContextTokens: s.ContextTokens}
	}
	return &openai.Provider{Flavor: flavor, Settings: settings}
}

// withSettings is a copy of a model with settings of its own to change; nil if p is no
// model behind a protocol.
func withSettings(p agent.Provider) (agent.Provider, *modelhttp.Settings) {
	switch p := p.(type) {
	case *anthropic.Provider:
		own := *p
		return &own, &own.Settings
	case *responses.Provider:
		own := *p
		return &own, &own.Settings
	case *openai.Provider:
		own := *p
		return &own, &own.Settings
	}
	return nil, nil
}

// paragraph lists the helpers of an agent for its model.
func paragraph(experts []expert) string {
	if len(experts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("You can ask these agents for help. Each call is a new conversation: they know nothing but your prompt.\n")
	for _, e := range experts {
		spec := e.Spec()
		fmt.Fprintf(&b, "- %s (tool %s): %s\n", e.slug, spec.Name, strings.TrimSpace(spec.Description))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
