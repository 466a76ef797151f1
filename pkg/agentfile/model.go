package agentfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
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

// The flavors of models that no server of their own answers.
const (
	FlavorScripted = "scripted" // a script does
	FlavorCaller   = "caller"   // a model that an agent above lends does: see agent.Loan
)

// model gives the agent of n its models, or says why it cannot have them.
func (l *loader) model(n *Node) bool {
	s := n.File.Spec
	n.Agent.LendTools = s.Lend.tools()
	if s.Step != "" {
		return l.stepModel(n)
	}
	if !l.fallback(n) {
		return false
	}
	all, one := l.opts.Models[""], l.opts.Models[s.Slug]
	n.choice = ModelChoice{cmp.Or(one.Flavor, all.Flavor), cmp.Or(one.URL, all.URL), cmp.Or(one.Name, all.Name)}
	if n.choice != (ModelChoice{}) {
		n.fallback = nil
	}
	if m, ok := s.Models[n.choice.Name]; ok && n.choice == (ModelChoice{Name: n.choice.Name}) {
		m.name = n.choice.Name
		s.Model, n.choice = m, ModelChoice{}
	}
	for _, m := range n.Models() {
		l.ownKey(m)
	}
	named := ModelChoice{s.Flavor, s.ModelURL, s.ModelName}
	s.Flavor, s.ModelURL, s.ModelName = cmp.Or(n.choice.Flavor, s.Flavor), cmp.Or(n.choice.URL, s.ModelURL), cmp.Or(n.choice.Name, s.ModelName)
	if named != (ModelChoice{s.Flavor, s.ModelURL, s.ModelName}) {
		s.Price = nil // it is that of another model
	}
	if n.choice.Flavor != "" {
		s.Protocol = "" // it is that of another server
	}
	n.Agent.Model, n.Agent.ContextTokens = s.ModelName, s.ContextTokens
	for _, m := range n.fallback {
		n.Agent.ContextTokens = min(cmp.Or(n.Agent.ContextTokens, agent.DefaultContextTokens), cmp.Or(m.ContextTokens, agent.DefaultContextTokens))
	}
	if l.opts.NoModels {
		return true
	}
	if l.opts.Model != nil {
		if p := l.opts.Model(n.File); p != nil {
			n.Agent.Provider = s.protocol(p, openai.Flavor(s.Flavor), s.TextCalls)
			return l.lend(n, func(*Model) *provider.Model { return &provider.Model{Model: s.ModelName, Provider: p} })
		}
	}
	var models []provider.Model
	ok := true
	for _, m := range n.Models() {
		if p := l.modelOf(n, m); p != nil {
			models = append(models, *p)
		} else {
			ok = false
		}
	}
	if !ok {
		return false
	}
	first := models[0]
	n.Agent.Model, n.Agent.Flavor, n.Agent.Provider = first.Model, first.Flavor, first.Provider
	n.Agent.Borrows = slices.ContainsFunc(models, func(m provider.Model) bool { return m.Flavor == FlavorCaller })
	if len(models) > 1 {
		n.Agent.Provider = &provider.Fallback{Models: models}
	}
	return l.lend(n, func(m *Model) *provider.Model { return l.modelOf(n, m) })
}

// modelOf returns a model of n, or says why it cannot be asked.
func (l *loader) modelOf(n *Node, m *Model) *provider.Model {
	named := &provider.Model{Name: m.title(), Model: m.ModelName}
	if m.Flavor == FlavorCaller { // the lender repeats requests, and knows the price
		named.Flavor, named.Provider = FlavorCaller, n.File.Spec.protocol(agent.Borrowed{Wish: m.ModelName}, "", m.TextCalls)
		return named
	}
	if m.Flavor == FlavorScripted {
		named.Flavor, named.Model, named.Provider = FlavorScripted, cmp.Or(m.ModelName, FlavorScripted), l.scripted(n, m)
	} else {
		named.Flavor, named.Provider = l.openai(n, m)
	}
	if named.Provider == nil {
		return nil
	}
	priced := &prices.Provider{Provider: named.Provider, Price: sync.OnceValue(func() *prices.Price { return m.PriceOf(l.opts.Prices) }),
		Public: func() *prices.Price { return m.publicPrice(l.opts.Prices) }}
	named.Provider = n.File.Spec.protocol(&provider.Retry{Provider: priced}, openai.Flavor(named.Flavor), m.TextCalls)
	return named
}

// inText reports whether the model calls tools in its text.
func (s *Spec) inText() bool {
	return s.ToolProtocol == protocolScript || s.ToolProtocol == protocolText
}

// protocol is p, with calls as toolProtocol and textCalls say.
func (s *Spec) protocol(p agent.Provider, flavor openai.Flavor, textCalls *bool) agent.Provider {
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
	if textCalls != nil && *textCalls || textCalls == nil && flavor.TextCalls() && !s.inText() {
		p = &unparsed.Provider{Provider: p}
	}
	return p
}

// PriceOf is what m costs, by own or the built-in table; nil if that is not known.
func (m *Model) PriceOf(own prices.Table) *prices.Price {
	if m.Price != nil {
		return m.Price
	}
	if known := m.listed(own); known != nil {
		return &known.Price
	}
	return nil
}

// publicPrice returns the price from the built-in table, or nil if the user has set another one:
// what a user pays is not told to others.
func (m *Model) publicPrice(own prices.Table) *prices.Price {
	if known := m.listed(own); known != nil && known.File == "" && m.Price == nil {
		return &known.Price
	}
	return nil
}

func (m *Model) listed(own prices.Table) *prices.Model {
	u, err := url.Parse(m.ServerURL())
	if err != nil || m.Flavor == FlavorScripted || m.Flavor == FlavorCaller {
		return nil
	}
	known, _ := prices.Lookup(own, u.Host, m.ModelName)
	return known
}

// ownKey finds the key in the environment variable that apiKeyEnv names. It is bound to
// the server that the file itself names.
func (l *loader) ownKey(m *Model) {
	value := strings.TrimSpace(toolenv.Lookup(l.opts.Environ, m.APIKeyEnv))
	if m.APIKeyEnv == "" || value == "" {
		return
	}
	m.own = &config.Key{ID: "$" + m.APIKeyEnv, Value: config.NewSecret(value), Hosts: []string{""}}
	l.tree.secrets = append(l.tree.secrets, m.own.Value)
	if u, err := url.Parse(m.ServerURL()); err == nil {
		m.own.Hosts[0] = net.JoinHostPort(u.Hostname(), config.Port(u))
	}
}

// ServerURL is the base URL of the model's server: modelUrl, or else that of the flavor. It is ""
// if there is none.
func (m *Model) ServerURL() string {
	if flavor, err := openai.ParseFlavor(m.Flavor); err == nil {
		return cmp.Or(m.ModelURL, flavor.URL())
	}
	return m.ModelURL
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
	key = key[strings.LastIndexByte(key, '/')+1:]
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

func (l *loader) scripted(n *Node, m *Model) agent.Provider {
	if m.Script == "" {
		l.broken(n, CodeScript, m.at("script"), "it is missing: the flavor %s needs one", FlavorScripted)
		return nil
	}
	path, ok := l.resolve(n, n.File.at(m.at("script")), m.Script, n.unusable())
	if !ok {
		return nil
	}
	data, err := readRegular(path, scripted.MaxBytes)
	if err != nil {
		l.broken(n, CodeScript, m.at("script"), "%s: %s", path, plain(err))
		return nil
	}
	if !l.take(KindScript, path, data) {
		return nil
	}
	script, err := scripted.Parse(path, data)
	if err != nil {
		l.scriptProblems(n, m, err)
		return nil
	}
	return &scripted.Provider{Script: script}
}

// scriptProblems reports each mistake in a script at its place.
func (l *loader) scriptProblems(n *Node, m *Model, err error) {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		if p, ok := errors.AsType[*scripted.Problem](err); ok {
			l.report(Problem{Severity: n.unusable(), Code: CodeScript, File: p.File, Line: p.Line, Col: p.Column, Key: p.Key, Message: p.Message})
		} else {
			l.broken(n, CodeScript, m.at("script"), "%s", err)
		}
	}
}

// openai returns a model behind a protocol, and the kind of its server.
func (l *loader) openai(n *Node, m *Model) (string, agent.Provider) {
	flavor, err := openai.ParseFlavor(m.Flavor)
	if err != nil {
		l.broken(n, CodeFlavor, m.at("flavor"), "%s", noFlavor(m.Flavor))
		return "", nil
	}
	base := m.ServerURL()
	if base == "" {
		l.broken(n, CodeURL, m.at("modelUrl"), "it is missing, and the flavor %s has no server of its own", flavor)
		return "", nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		l.broken(n, CodeURL, m.at("modelUrl"), "%q is not a usable URL; want http:// or https:// and a host", withoutUser(base))
		return "", nil
	}
	if m.ModelName == "" {
		l.broken(n, CodeSchema, m.at("modelName"), "it is missing: the server needs the name of a model")
		return "", nil
	}
	protocol := m.modelProtocol(flavor, u)
	if field := m.fixed(protocol); field != "" {
		l.broken(n, CodeSchema, m.at("extraBody"), "it cannot replace %s", field)
		return "", nil
	}
	if password, ok := u.User.Password(); ok {
		l.tree.secrets = append(l.tree.secrets, config.NewSecret(password))
	}
	key, hasKey := l.opts.Keys.Lookup(m.APIKeyID)
	if m.own != nil {
		key, hasKey = *m.own, true
	}
	if !l.checkKey(n, m, u, key, hasKey) {
		return "", nil
	}
	var reveal func() string
	if hasKey && key.Allows(u) {
		reveal = l.value(key)
	}
	p := m.provider(protocol, flavor, u, modelhttp.Settings{
		BaseURL: base, Model: m.ModelName, Key: reveal,
		Temperature: m.Temperature, MaxOutputTokens: m.MaxOutputTokens, ReasoningEffort: m.ReasoningEffort,
		ExtraBody: m.ExtraBody, RequestTimeout: seconds(m.RequestTimeoutSeconds),
	})
	if claude, ok := p.(*anthropic.Provider); ok && claude.RefusesTemperature() {
		l.modelProblem(n, Warning, CodeModel, m.at("temperature"), "the model %s refuses a temperature other than 1: it thinks (see reasoningEffort), or is newer than Claude Opus 4.6", m.ModelName)
	}
	return string(flavor.At(u)), p
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

// checkKey reports whether a model of n can be asked with the key, if one was found. A
// model on this machine may do without; for any other a missing key is fatal wherever
// in the tree it is, so that nothing runs before it is found missing.
func (l *loader) checkKey(n *Node, m *Model, u *url.URL, key config.Key, found bool) bool {
	id, name, by := m.APIKeyID, "apiKeyId", "its hosts"
	if m.APIKeyEnv != "" && (id == "" || found && key.ID != id) {
		id, name, by = "$"+m.APIKeyEnv, "apiKeyEnv", "modelUrl"
	}
	problem := func(severity Severity, code Code, format string, args ...any) {
		l.modelProblem(n, severity, code, m.at(name), format, args...)
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
		problem(Note, CodeKeyEnv, "the environment variable %s is not set; requests to this machine (%s) go without a key", m.APIKeyEnv, u.Host)
		return true
	case httphost.Local(u):
		problem(Note, CodeKey, "there is no key %q; requests to this machine (%s) go without one", id, u.Host)
		return true
	case found:
		problem(Fatal, CodeHost, "the key %q is bound to %s by %s and is not sent to %s", id, strings.Join(key.Hosts, ", "), by, u.Host)
	case id == "":
		problem(Fatal, CodeKey, "it is missing: requests to %s need a key", u.Host)
	case strings.HasPrefix(id, "$"):
		problem(Fatal, CodeKeyEnv, "the environment variable %s is not set, and requests to %s need a key", m.APIKeyEnv, u.Host)
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

// The values of protocol: what the server of a model speaks.
const (
	protocolChat      = "chat"
	protocolResponses = "responses"
	protocolAnthropic = "anthropic"
)

// modelProtocol is what the server of the model at u speaks. OpenAI's own server is asked
// by its own protocol. Of the two flavors of Anthropic's server, Claude, which agents-exe
// has too, is its compatible endpoint.
func (m *Model) modelProtocol(flavor openai.Flavor, u *url.URL) string {
	switch {
	case m.Protocol != "":
		return m.Protocol
	case flavor == openai.OpenAI && strings.EqualFold(u.Hostname(), "api.openai.com"):
		return protocolResponses
	case flavor == openai.Anthropic:
		return protocolAnthropic
	}
	return protocolChat
}

// fixed returns a member of requests that is in extraBody and cannot be replaced, "" if
// there is none.
func (m *Model) fixed(protocol string) string {
	names := openai.Fixed
	switch protocol {
	case protocolResponses:
		names = responses.Fixed
	case protocolAnthropic:
		names = anthropic.Fixed
	}
	for name := range m.ExtraBody {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// provider is the model behind its protocol.
func (m *Model) provider(protocol string, flavor openai.Flavor, u *url.URL, settings modelhttp.Settings) agent.Provider {
	switch protocol {
	case protocolResponses:
		return &responses.Provider{Settings: settings, OutputAlone: !flavor.At(u).OutputWithTools()}
	case protocolAnthropic:
		return &anthropic.Provider{Settings: settings, ContextTokens: m.ContextTokens}
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
