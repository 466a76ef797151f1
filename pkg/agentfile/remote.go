package agentfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/cachefile"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/a2aclient"
	"github.com/agents-exe/agents/pkg/source/remote"
)

// TagRemote is the tag of an agent that `agents serve` offers elsewhere.
const TagRemote = "RemoteAgent"

// TagA2A is the tag of an agent elsewhere that speaks the Agent2Agent protocol.
const TagA2A = "A2AAgent"

// isOther reports whether a tag names an agent that is not an agent file.
func isOther(tag string) bool { return tag == TagRemote || tag == TagA2A || tag == TagACP }

// A Remote says where such an agent is.
type Remote struct {
	URL      string `json:"url"`
	Agent    string `json:"agent"` // its slug
	APIKeyID string `json:"apiKeyId"`
	Expected

	passive
	expect agent.Expect
	a2a    *a2aclient.Agent // of an agent with TagA2A
	server *remote.Server   // of the others
	known  *remote.Description
	at     Problem // where it is named
}

// How long the description of a remote agent counts: after fresh the server is asked
// again, and stale ends the use of an old one where it does not answer.
const (
	freshRemote  = time.Hour
	staleRemote  = 30 * 24 * time.Hour
	remoteAnswer = 10 * time.Second // for the server to describe its agents
	maxRemote    = 1 << 20
)

// tagOf is the tag of a file, "" if it has none or is not JSON.
func tagOf(data []byte) string {
	var envelope struct {
		Tag string `json:"tag"`
	}
	_ = json.Unmarshal(data, &envelope)
	return envelope.Tag
}

// otherFile reads a file whose tag names an agent that is not an agent file, and reports whether
// it does.
func (l *loader) otherFile(n *Node, path string, data []byte) bool {
	if data = asJSON(path, data); !isOther(tagOf(data)) {
		return false
	}
	var file struct {
		Schema   string          `json:"$schema"`
		Tag      string          `json:"tag"`
		Contents json.RawMessage `json:"contents"`
	}
	at := Problem{Severity: LeftOut, Code: CodeSchema, File: path, Schema: schemaOf(tagOf(data))}
	if at.Message = decodeAgent(data, &file, true); at.Message != "" {
		l.report(at)
		return true
	}
	l.other(n, file.Tag, file.Contents, true, at)
	return true
}

// other adds such an agent to n. strict refuses unknown keys; at is the place for problems.
func (l *loader) other(n *Node, tag string, contents json.RawMessage, strict bool, at Problem) {
	var r Remote
	var a ACPAgent
	to := any(&r)
	if tag == TagACP {
		to = &a
	}
	switch at.Message = decodeAgent(contents, to, strict); {
	case at.Message != "":
		l.report(at)
	case tag == TagACP:
		l.acp(n, a, at)
	default:
		l.remote(n, tag, r, at)
	}
}

// decodeAgent decodes a file or its contents, and returns what is wrong with it.
func decodeAgent(data []byte, to any, strict bool) (wrong string) {
	if len(data) == 0 {
		return "contents: it is missing"
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	err := dec.Decode(to)
	if err == nil {
		return ""
	}
	wrong = strings.TrimPrefix(err.Error(), "json: ")
	key, unknown := strings.CutPrefix(wrong, "unknown field ")
	if !unknown {
		return wrong
	}
	return "unknown key " + key + closest.Hint(strings.Trim(key, `"`), keysOf(to))
}

// schemaOf returns the name of the schema of files with a tag.
func schemaOf(tag string) string {
	if tag == TagACP {
		return "acp-agent"
	}
	return "remote-agent"
}

// remote adds an agent of a server to n. at is where problems are.
func (l *loader) remote(n *Node, tag string, r Remote, at Problem) {
	r.at = at
	fail := func(code Code, format string, args ...any) {
		at.Code, at.Message = code, fmt.Sprintf(format, args...)
		l.report(at)
	}
	u, err := url.Parse(r.URL)
	key, found := l.opts.Keys.Lookup(r.APIKeyID)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		fail(CodeURL, "url: %q is not a usable URL; want http:// or https:// and a host", withoutUser(r.URL))
		return
	case !toolname.Valid(r.Agent):
		fail(CodeSchema, "agent: %q cannot be the slug of an agent", r.Agent)
		return
	case found && !key.Allows(u):
		fail(CodeHost, "the key %q may only be sent to its hosts (%s), not to %s", r.APIKeyID, strings.Join(key.Hosts, ", "), u.Host)
		return
	case !found && !httphost.Local(u) && !l.opts.NoModels:
		fail(CodeKey, "there is no key %q, and requests to %s need one: apiKeyId names it%s", r.APIKeyID, u.Host, among(l.opts.Keys.IDs()))
		return
	}
	var token func() string
	if found {
		token = l.value(key)
	}
	if tag == TagA2A {
		r.a2a = &a2aclient.Agent{URL: r.URL, Token: token, Name: toolname.Join("expert", r.Agent), Slug: r.Agent}
	} else {
		r.server = &remote.Server{URL: r.URL, Token: token}
	}
	r.expect = l.expect(n, r.Expected, r.at)
	n.add(&r)
}

func (r *Remote) survey(s *surveyor, n *Node) {
	s.lock.Servers[n.lockKey(s.dir, "agent "+r.Agent)] = LockedServer{URL: r.URL}
}

func (r *Remote) far() bool { return true }

// describe asks the server what its agent does. If it does not answer, what it said before
// counts.
func (r *Remote) describe(ctx context.Context, l *loader, _ *Node) {
	kept := cachefile.Dir{Suffix: ".agent", Version: "agent 1", MaxBytes: maxRemote, MaxAge: freshRemote}
	if l.opts.Folders.Cache != "" && l.lock == nil {
		kept.Path = filepath.Join(l.opts.Folders.Cache, "remote")
	}
	key := r.URL + " " + r.Agent
	if r.a2a != nil {
		key = "a2a " + key
	}
	load := func() bool {
		text, ok := kept.Load(key)
		r.known = &remote.Description{}
		return ok && json.Unmarshal(text, r.known) == nil
	}
	if !l.opts.Check && load() {
		return
	}
	limited, cancel := context.WithTimeoutCause(ctx, remoteAnswer, fmt.Errorf("no answer within %s", remoteAnswer))
	defer cancel()
	known, err := r.ask(limited)
	kept.MaxAge = staleRemote
	r.at.Code = CodeStart
	switch {
	case err == nil:
		r.known = known
		if text, err := json.Marshal(known); err == nil {
			kept.Store(key, text)
		}
		return
	case limited.Err() != nil:
		err = context.Cause(limited)
	}
	r.at.Message = fmt.Sprintf("agent %s at %s: %s", r.Agent, withoutUser(r.URL), err)
	if r.at.Severity = Warning; !load() {
		r.at.Severity, r.known = LeftOut, nil
	}
}

// ask asks the agent itself.
func (r *Remote) ask(ctx context.Context) (*remote.Description, error) {
	if r.a2a == nil {
		return r.server.Describe(ctx, r.Agent)
	}
	_, text, err := r.a2a.Describe(ctx)
	return &remote.Description{Name: r.Agent, Description: text, Schema: r.a2a.Spec().Schema}, err
}

// open returns the agent as a tool, if it is known what it does.
func (r *Remote) open(l *loader, _ *Node) []agent.Tool {
	if r.at.Message != "" {
		l.report(r.at)
	}
	switch {
	case r.known == nil:
		return nil
	case r.a2a != nil:
		r.a2a.Description = r.known.Description
		return []agent.Tool{expertOf(schema.Checked(r.a2a), r.Agent, r.expect)}
	}
	return []agent.Tool{expertOf(&remote.Agent{Server: r.server, Description: r.known, Name: toolname.Join("expert", r.Agent)}, r.Agent, r.expect)}
}
