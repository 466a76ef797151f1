package observe

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// minSecret is the length from which a value counts as a secret: shorter ones
// would take words out of ordinary text.
const minSecret = 8

// redacted stands where a secret was.
const redacted = "[secret]"

// Redact returns an observer that passes on to next what it is told, with
// "[secret]" in place of every occurrence of one of the secrets: in every text
// of the event, as the secret is, and as JSON and URLs spell it. The event that
// it was given is not changed. Secrets shorter than 8 bytes are left alone. A
// piece of an answer that may be the beginning of a secret is held back until
// the next event of its session, so that a secret split over pieces is found
// too. The observer must not be called concurrently with itself.
func Redact(secrets []string, next func(agent.Event)) func(agent.Event) {
	old := spellings(secrets)
	if len(old) == 0 {
		return next
	}
	r := &redactor{secrets: old, replace: replacer(old), next: next, held: map[string]agent.Event{}}
	return r.observe
}

// RedactEvent returns a function that gives an event without the secrets, as
// Redact does it, but for secrets that are split over pieces of an answer. It is
// nil if there are no secrets.
func RedactEvent(secrets []string) func(agent.Event) agent.Event {
	old := spellings(secrets)
	if len(old) == 0 {
		return nil
	}
	return (&redactor{secrets: old, replace: replacer(old)}).event
}

// RedactString is s with "[secret]" in place of every occurrence of one of the
// secrets, as Redact does it.
func RedactString(secrets []string, s string) string {
	old := spellings(secrets)
	if len(old) == 0 {
		return s
	}
	return replacer(old).Replace(s)
}

// spellings are the secrets in every form in which they are looked for, the
// longest first, so that a secret that contains another one goes as a whole.
func spellings(secrets []string) []string {
	var list []string
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < minSecret {
			continue
		}
		var plain bytes.Buffer
		enc := json.NewEncoder(&plain)
		enc.SetEscapeHTML(false)
		enc.Encode(s) // a string can always be encoded
		inJSON := strings.Trim(strings.TrimSpace(plain.String()), `"`)
		html, _ := json.Marshal(s)
		list = append(list, s, inJSON, strings.Trim(string(html), `"`),
			strings.ReplaceAll(inJSON, "/", `\/`), url.QueryEscape(s), url.PathEscape(s))
	}
	slices.SortFunc(list, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(list)
}

func replacer(old []string) *strings.Replacer {
	var pairs []string
	for _, s := range old {
		pairs = append(pairs, s, redacted)
	}
	return strings.NewReplacer(pairs...)
}

type redactor struct {
	secrets []string
	replace *strings.Replacer
	next    func(agent.Event)
	// held are ends of pieces that may be the beginning of a secret, by
	// session.
	held map[string]agent.Event
}

func (r *redactor) observe(e agent.Event) {
	held, ok := r.held[e.Session]
	if ok && (held.Kind != e.Kind || !piece(e.Kind)) {
		delete(r.held, e.Session)
		r.next(held)
		held.Text = ""
	}
	if !piece(e.Kind) {
		r.next(r.event(e))
		return
	}
	delete(r.held, e.Session)
	e.Text = held.Text + e.Text
	e = r.event(e)
	n := len(e.Text) - r.opening(e.Text)
	if n < len(e.Text) {
		rest := e
		rest.Text = e.Text[n:]
		r.held[e.Session] = rest
	}
	if e.Text = e.Text[:n]; n > 0 {
		r.next(e)
	}
}

// opening is the length of the longest end of s that a secret begins with.
func (r *redactor) opening(s string) int {
	longest := 0
	for _, secret := range r.secrets {
		for n := min(len(secret)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// event is a copy of e without secrets; it shares nothing that was changed.
func (r *redactor) event(e agent.Event) agent.Event {
	for _, s := range []*string{&e.Session, &e.Agent, &e.Parent, &e.Model, &e.CallID, &e.Tool, &e.Args, &e.Key, &e.Text, &e.Error, &e.System} {
		*s = r.replace.Replace(*s)
	}
	e.Argv = slices.Clone(e.Argv)
	for i := range e.Argv {
		e.Argv[i] = r.replace.Replace(e.Argv[i])
	}
	e.Specs = slices.Clone(e.Specs)
	for i := range e.Specs {
		s := &e.Specs[i]
		s.Name, s.Description, s.Source = r.replace.Replace(s.Name), r.replace.Replace(s.Description), r.replace.Replace(s.Source)
		s.Schema = r.bytes(s.Schema)
	}
	e.Messages = slices.Clone(e.Messages)
	for i := range e.Messages {
		e.Messages[i] = r.message(e.Messages[i])
	}
	if e.Message != nil {
		m := r.message(*e.Message)
		e.Message = &m
	}
	if e.Result != nil {
		res := r.result(*e.Result)
		e.Result = &res
	}
	if e.Spent != nil {
		s := *e.Spent
		s.Agents, s.Tools = redactKeys(r, s.Agents), redactKeys(r, s.Tools)
		e.Spent = &s
	}
	return e
}

func (r *redactor) message(m agent.Message) agent.Message {
	m.Parts = r.parts(m.Parts)
	m.Calls = slices.Clone(m.Calls)
	for i := range m.Calls {
		c := &m.Calls[i]
		c.ID, c.Name, c.Args = r.replace.Replace(c.ID), r.replace.Replace(c.Name), r.replace.Replace(c.Args)
		c.Extra = r.bytes(c.Extra)
	}
	m.Results = slices.Clone(m.Results)
	for i := range m.Results {
		m.Results[i] = r.result(m.Results[i])
	}
	return m
}

func (r *redactor) result(res agent.ToolResult) agent.ToolResult {
	res.CallID, res.Name = r.replace.Replace(res.CallID), r.replace.Replace(res.Name)
	res.Parts = r.parts(res.Parts)
	return res
}

func (r *redactor) parts(list []agent.Part) []agent.Part {
	list = slices.Clone(list)
	for i := range list {
		p := &list[i]
		p.Text, p.MIME, p.Name = r.replace.Replace(p.Text), r.replace.Replace(p.MIME), r.replace.Replace(p.Name)
		p.Data, p.Extra = r.bytes(p.Data), r.bytes(p.Extra)
	}
	return list
}

// bytes is b without secrets, and b itself if there are none.
func (r *redactor) bytes(b []byte) []byte {
	for _, s := range r.secrets {
		if bytes.Contains(b, []byte(s)) {
			return []byte(r.replace.Replace(string(b)))
		}
	}
	return b
}

// redactKeys is m without secrets in its keys: tools are counted under the names
// that models gave them.
func redactKeys[V any](r *redactor, m map[string]V) map[string]V {
	if m == nil {
		return nil
	}
	clean := make(map[string]V, len(m))
	for k, v := range m {
		clean[r.replace.Replace(k)] = v
	}
	return clean
}
