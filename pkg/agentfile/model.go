package agentfile

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/scripted"
)

// FlavorScripted is the flavor of agents whose model is a script.
const FlavorScripted = "scripted"

// provider gives the agent of n its model, or says why it cannot have it.
func (l *loader) provider(n *Node) bool {
	if l.opts.NoModels {
		return true
	}
	if l.opts.Model != nil {
		if p := l.opts.Model(n.File); p != nil {
			n.Agent.Provider = p
			return true
		}
	}
	var p agent.Provider
	if n.File.Spec.Flavor == FlavorScripted {
		p = l.scripted(n)
	} else {
		p = l.openai(n)
	}
	if p == nil {
		return false
	}
	n.Agent.Provider = &provider.Retry{Provider: p}
	return true
}

// broken reports what keeps n from having a model: fatal for the root, and the
// end of n alone elsewhere.
func (l *loader) broken(n *Node, code Code, key, format string, args ...any) {
	severity := LeftOut
	if n.depth == 0 {
		severity = Fatal
	}
	l.report(n.File.problem(severity, code, n.File.at(key), format, args...))
}

func (l *loader) scripted(n *Node) agent.Provider {
	path, ok := l.resolve(n, n.File.at("script"), n.File.Spec.Script)
	if !ok {
		return nil
	}
	data, err := readRegular(path, scripted.MaxBytes)
	if err != nil {
		l.broken(n, CodeScript, "script", "%s: %s", path, plain(err))
		return nil
	}
	script, err := scripted.Parse(path, data)
	if err != nil {
		l.scriptProblems(n, err)
		return nil
	}
	if n.Agent.Model == "" {
		n.Agent.Model = FlavorScripted
	}
	return &scripted.Provider{Script: script}
}

// scriptProblems reports each mistake in a script where it stands.
func (l *loader) scriptProblems(n *Node, err error) {
	severity := LeftOut
	if n.depth == 0 {
		severity = Fatal
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		var p *scripted.Problem
		if errors.As(err, &p) {
			l.report(Problem{Severity: severity, Code: CodeScript, File: p.File, Line: p.Line, Col: p.Column, Key: p.Key, Message: p.Message})
		} else {
			l.broken(n, CodeScript, "script", "%s", err)
		}
	}
}

func (l *loader) openai(n *Node) agent.Provider {
	s := n.File.Spec
	flavor, err := openai.ParseFlavor(s.Flavor)
	if err != nil {
		l.broken(n, CodeFlavor, "flavor", "%s", noFlavor(s.Flavor))
		return nil
	}
	base := s.ModelURL
	if base == "" {
		base = flavor.URL()
	}
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
	for _, field := range []string{"model", "messages", "tools", "stream"} {
		if _, ok := s.ExtraBody[field]; ok {
			l.broken(n, CodeSchema, "extraBody", "it cannot replace %s", field)
			return nil
		}
	}
	key, ok := l.key(n, u)
	if !ok {
		return nil
	}
	return &openai.Provider{
		Flavor: flavor, BaseURL: base, Model: s.ModelName, Key: key,
		Temperature: s.Temperature, MaxOutputTokens: s.MaxOutputTokens, ReasoningEffort: s.ReasoningEffort,
		ExtraBody: s.ExtraBody, RequestTimeout: seconds(s.RequestTimeoutSeconds),
	}
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

// key finds the key of n's model. A model on this machine may do without; for
// any other a missing key is fatal wherever in the tree it is, so that nothing
// runs before it is found missing.
func (l *loader) key(n *Node, u *url.URL) (func() string, bool) {
	id := n.File.Spec.APIKeyID
	keys := l.opts.Keys
	pointer := n.File.at("apiKeyId")
	entry, found := keys.Lookup(id)
	switch {
	case found && entry.IsPlaceholder():
		l.report(n.File.problem(Fatal, CodeKey, pointer, "%s still has the placeholder %q where the key %q belongs", l.opts.KeysFile, config.Placeholder, id))
		return nil, false
	case found && !entry.Allows(u):
		l.report(n.File.problem(Fatal, CodeHost, pointer, "the key %q is bound to %s by its hosts and is not sent to %s", id, strings.Join(entry.Hosts, ", "), u.Host))
		return nil, false
	case found:
		return entry.Value.Reveal, true
	case loopback(u) && id == "":
		return nil, true
	case loopback(u):
		l.report(n.File.problem(Note, CodeKey, pointer, "there is no key %q; requests to this machine (%s) go without one", id, u.Host))
		return nil, true
	case id == "":
		l.report(n.File.problem(Fatal, CodeKey, pointer, "it is missing: requests to %s need a key", u.Host))
	case l.opts.KeysFile == "":
		l.report(n.File.problem(Fatal, CodeKey, pointer, "there is no key %q: no keys file was found", id))
	default:
		l.report(n.File.problem(Fatal, CodeKey, pointer, "there is no key %q in %s%s", id, l.opts.KeysFile, among(keys.IDs())))
	}
	return nil, false
}

func among(ids []string) string {
	if len(ids) == 0 {
		return ", which has none"
	}
	return "; there are " + strings.Join(ids, ", ")
}

func loopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") || ip != nil && ip.IsLoopback()
}

// workDir is the directory in which n's tools run.
func (l *loader) workDir(n *Node) (string, bool) {
	if n.File.Spec.ToolWorkingDirectory == "" {
		return l.opts.WorkDir, true
	}
	dir, ok := l.resolve(n, n.File.at("toolWorkingDirectory"), n.File.Spec.ToolWorkingDirectory)
	if !ok {
		return "", false
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		l.broken(n, CodePath, "toolWorkingDirectory", "%s is no folder", dir)
		return "", false
	}
	return dir, true
}

// paragraph tells a model which helpers it has.
func paragraph(subs []*agent.Subagent) string {
	if len(subs) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("You can ask these agents for help. Each call is a new conversation: they know nothing but your prompt.\n")
	for _, s := range subs {
		fmt.Fprintf(&b, "- %s (tool %s): %s\n", s.Agent.Slug, s.Name, strings.TrimSpace(s.Agent.Announce))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
