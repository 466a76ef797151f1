package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// An encoder writes events as encoding/json would, without its reflection.
type encoder struct {
	b []byte
	// blob keeps the content of a large part and returns its name. nil keeps
	// everything in the line.
	blob func(content []byte) (string, error)
	err  error
}

// blobBytes is how large the content of a part may be in a line.
const blobBytes = 64 << 10

// event adds e without its closing brace.
func (w *encoder) event(e *agent.Event) {
	w.b = append(w.b, `{"time":"`...)
	w.b = e.Time.AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
	w.text("kind", string(e.Kind))
	w.text("session", e.Session)
	w.text("agent", e.Agent)
	w.optional("parent", e.Parent)
	w.int("depth", int64(e.Depth))
	w.int("turn", int64(e.Turn))
	w.optional("source", e.Source)
	w.int("context_tokens", int64(e.ContextTokens))
	w.optional("model", e.Model)
	if e.Message != nil {
		w.key("message")
		w.message(e.Message)
	}
	w.optional("finish", string(e.Finish))
	if e.Usage != nil {
		w.key("usage")
		w.usage(e.Usage)
	}
	w.int("tools", int64(e.Tools))
	w.optional("call_id", e.CallID)
	w.optional("tool", e.Tool)
	w.optional("args", e.Args)
	w.optional("key", e.Key)
	w.int("n", int64(e.N))
	list(w, "argv", e.Argv, func(s *string) { w.b = appendString(w.b, *s) })
	w.optional("digest", e.Digest)
	w.optional("system", e.System)
	list(w, "specs", e.Specs, w.spec)
	list(w, "messages", e.Messages, w.message)
	if e.Result != nil {
		w.key("result")
		w.result(e.Result)
	}
	w.optional("text", e.Text)
	w.optional("error", e.Error)
	w.optional("status", string(e.Status))
	if e.Spent != nil {
		w.key("spent")
		w.spent(e.Spent)
	}
	w.int("attempt", int64(e.Attempt))
	w.int("millis", e.Millis)
}

func (w *encoder) message(m *agent.Message) {
	w.open()
	w.text("role", string(m.Role))
	list(w, "parts", m.Parts, w.part)
	list(w, "calls", m.Calls, w.call)
	list(w, "results", m.Results, w.result)
	w.b = append(w.b, '}')
}

func (w *encoder) part(p *agent.Part) {
	text, data, blob := p.Text, p.Data, p.Blob
	switch {
	case blob != "" && w.err == nil:
		w.err = errors.New("the content of a part is not there, only " + blob)
	case w.blob == nil || w.err != nil:
	case p.Kind == agent.PartMedia && len(data) > blobBytes:
		blob, w.err = w.blob(data)
		data = nil
	case p.Kind != agent.PartMedia && len(text) > blobBytes:
		blob, w.err = w.blob([]byte(text))
		text = ""
	}
	w.open()
	w.text("kind", string(p.Kind))
	w.optional("text", text)
	w.optional("mime", p.MIME)
	if len(data) > 0 {
		w.key("data")
		w.b = append(w.b, '"')
		w.b = base64.StdEncoding.AppendEncode(w.b, data)
		w.b = append(w.b, '"')
	}
	w.optional("name", p.Name)
	w.raw("extra", p.Extra)
	w.optional("blob", blob)
	w.b = append(w.b, '}')
}

func (w *encoder) call(c *agent.ToolCall) {
	w.open()
	w.text("id", c.ID)
	w.text("name", c.Name)
	w.text("args", c.Args)
	w.raw("extra", c.Extra)
	w.b = append(w.b, '}')
}

func (w *encoder) result(r *agent.ToolResult) {
	w.open()
	w.text("call_id", r.CallID)
	w.text("name", r.Name)
	list(w, "parts", r.Parts, w.part)
	w.bool("failed", r.Failed)
	w.b = append(w.b, '}')
}

func (w *encoder) spec(s *agent.ToolSpec) {
	w.open()
	w.text("name", s.Name)
	w.text("description", s.Description)
	if len(s.Schema) == 0 {
		w.key("schema")
		w.b = append(w.b, "null"...)
	}
	w.raw("schema", s.Schema)
	w.optional("source", s.Source)
	w.optional("agent", s.Agent)
	w.optional("effects", string(s.Effects))
	list(w, "locks", s.Locks, func(s *string) { w.b = appendString(w.b, *s) })
	w.b = append(w.b, '}')
}

func (w *encoder) usage(u *agent.Usage) {
	w.open()
	w.key("requests")
	w.b = strconv.AppendInt(w.b, int64(u.Requests), 10)
	w.key("input_tokens")
	w.b = strconv.AppendInt(w.b, int64(u.InputTokens), 10)
	w.int("cached_tokens", int64(u.CachedTokens))
	w.key("output_tokens")
	w.b = strconv.AppendInt(w.b, int64(u.OutputTokens), 10)
	w.int("reasoning_tokens", int64(u.ReasoningTokens))
	if u.Cost != 0 && !math.IsNaN(u.Cost) && !math.IsInf(u.Cost, 0) {
		w.key("cost")
		w.b = strconv.AppendFloat(w.b, u.Cost, 'g', -1, 64)
	}
	w.int("priced", int64(u.Priced))
	w.b = append(w.b, '}')
}

func (w *encoder) spent(s *agent.Spent) {
	w.open()
	w.key("usage")
	w.usage(&s.Usage)
	if len(s.Agents) > 0 {
		w.key("agents")
		w.open()
		for _, slug := range slices.Sorted(maps.Keys(s.Agents)) {
			u := s.Agents[slug]
			w.key(slug)
			w.usage(&u)
		}
		w.b = append(w.b, '}')
	}
	if len(s.Tools) > 0 {
		w.key("tools")
		w.open()
		for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
			w.key(name)
			w.toolUsage(s.Tools[name])
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, '}')
}

func (w *encoder) toolUsage(u agent.ToolUsage) {
	w.open()
	w.key("calls")
	w.b = strconv.AppendInt(w.b, int64(u.Calls), 10)
	w.int("failed", int64(u.Failed))
	w.key("output_bytes")
	w.b = strconv.AppendInt(w.b, u.OutputBytes, 10)
	w.key("millis")
	w.b = strconv.AppendInt(w.b, u.Millis, 10)
	w.b = append(w.b, '}')
}

func (w *encoder) open() { w.b = append(w.b, '{') }

// key begins a member.
func (w *encoder) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = appendString(w.b, name)
	w.b = append(w.b, ':')
}

func (w *encoder) text(name, value string) {
	w.key(name)
	w.b = appendString(w.b, value)
}

// The members that follow are left out when they are empty.

func (w *encoder) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *encoder) int(name string, n int64) {
	if n != 0 {
		w.key(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

func (w *encoder) bool(name string, set bool) {
	if set {
		w.key(name)
		w.b = append(w.b, "true"...)
	}
}

// raw adds JSON as it came, but on one line.
func (w *encoder) raw(name string, value json.RawMessage) {
	if len(value) == 0 {
		return
	}
	w.key(name)
	buf := bytes.NewBuffer(w.b)
	if err := json.Compact(buf, value); err != nil && w.err == nil {
		w.err = fmt.Errorf("%s is no JSON: %w", name, err)
	}
	w.b = buf.Bytes()
}

func list[T any](w *encoder, name string, values []T, add func(*T)) {
	if len(values) == 0 {
		return
	}
	w.key(name)
	w.b = append(w.b, '[')
	for i := range values {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		add(&values[i])
	}
	w.b = append(w.b, ']')
}

// appendString adds s as JSON. What is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\t':
			b = append(b, `\t`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
