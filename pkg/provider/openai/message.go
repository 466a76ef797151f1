package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// Texts in place of empty ones, which many servers refuse.
const (
	noOutput   = "(no output)"
	noContent  = "(empty)"
	attachedIn = "(the result is attached to the next message)"
	// between separates tool results from a user message.
	between = "OK."
)

// An encoder appends messages to b.
type encoder struct {
	f    *facts
	b    []byte
	last string // the role of the message before
}

// begin opens a message.
func (e *encoder) begin(role string) {
	if role == "user" && e.last == "tool" && e.f.noUserAfterTool {
		e.text("assistant", between)
	}
	if e.b[len(e.b)-1] == '}' {
		e.b = append(e.b, ',')
	}
	e.b = appendMember(append(e.b, '{'), "role", role)
	e.last = role
}

func (e *encoder) text(role, text string) {
	e.begin(role)
	e.b = appendMember(e.b, "content", text)
	e.b = append(e.b, '}')
}

func (e *encoder) message(m *agent.Message) error {
	switch m.Role {
	case agent.RoleUser:
		e.user(m.Parts)
	case agent.RoleAssistant:
		e.assistant(m)
	case agent.RoleTool:
		e.results(m.Results)
	default:
		return fmt.Errorf("a message of the unknown role %q", m.Role)
	}
	return nil
}

func (e *encoder) user(parts []agent.Part) {
	if !hasMedia(parts) {
		e.text("user", cmp.Or(textOf(parts), noContent))
		return
	}
	e.begin("user")
	e.b = append(appendName(e.b, "content"), '[')
	for _, p := range parts {
		switch {
		case p.Kind == agent.PartText && p.Text != "":
			e.textPart(p.Text)
		case p.Kind == agent.PartMedia:
			e.media(p)
		}
	}
	e.b = append(e.b, ']', '}')
}

func (e *encoder) assistant(m *agent.Message) {
	e.begin("assistant")
	text := textOf(m.Parts)
	switch {
	case text != "":
		e.b = appendMember(e.b, "content", text)
	case len(m.Calls) > 0:
		e.b = appendRaw(e.b, "content", e.f.noText)
	default:
		e.b = appendMember(e.b, "content", noContent)
	}
	e.reasoning(m)
	if e.f.extra {
		for _, p := range m.Parts {
			if p.Kind == agent.PartText {
				e.extra(p.Extra)
			}
		}
	}
	if len(m.Calls) > 0 {
		e.calls(m.Calls)
	}
	e.b = append(e.b, '}')
}

func (e *encoder) calls(calls []agent.ToolCall) {
	e.b = append(appendName(e.b, "tool_calls"), '[')
	for i, c := range calls {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = appendMember(append(e.b, '{'), "id", e.callID(c.ID))
		e.b = append(e.b, `,"type":"function","function":{`...)
		e.b = appendMember(e.b, "name", toolName(c.Name))
		e.b = appendMember(e.b, "arguments", arguments(c.Args))
		e.b = append(e.b, '}')
		if e.f.extra {
			e.extra(c.Extra)
		}
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ']')
}

// results writes one message for each result. These can hold only text, so media
// follows in one user message after all of them: servers want the results of one
// turn together.
func (e *encoder) results(results []agent.ToolResult) {
	attached := false
	for _, r := range results {
		media := hasMedia(r.Parts)
		attached = attached || media
		text := textOf(r.Parts)
		if text == "" && media {
			text = attachedIn
		}
		e.begin("tool")
		e.b = appendMember(e.b, "tool_call_id", e.callID(r.CallID))
		e.b = appendMember(e.b, "content", cmp.Or(text, noOutput))
		e.b = append(e.b, '}')
	}
	if !attached {
		return
	}
	e.begin("user")
	e.b = append(appendName(e.b, "content"), '[')
	for _, r := range results {
		if !hasMedia(r.Parts) {
			continue
		}
		e.textPart(fmt.Sprintf("Attachment of the result of %s (%s):", e.callID(r.CallID), toolName(r.Name)))
		for _, p := range r.Parts {
			if p.Kind == agent.PartMedia {
				e.media(p)
			}
		}
	}
	e.b = append(e.b, ']', '}')
}

// A reasoningExtra is the Extra of a reasoning part: the member that the text
// came in, and the list reasoning_details.
type reasoningExtra struct {
	Name    string          `json:"name,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// reasoning sends the message's reasoning back where the flavour wants it.
func (e *encoder) reasoning(m *agent.Message) {
	rule := e.f.reasoning
	if rule.name == "" {
		return
	}
	var extra reasoningExtra
	var text strings.Builder
	for _, p := range m.Parts {
		if p.Kind != agent.PartReasoning {
			continue
		}
		text.WriteString(p.Text)
		if len(p.Extra) > 0 && json.Unmarshal(p.Extra, &extra) != nil {
			extra = reasoningExtra{} // another provider's; not for us
		}
	}
	name := rule.name
	if name == asReceived {
		name = cmp.Or(extra.Name, reasoningContent)
	}
	switch {
	case rule.details && len(extra.Details) > 0:
		e.b = appendRaw(e.b, "reasoning_details", extra.Details)
	case len(m.Calls) == 0:
	case text.Len() > 0:
		e.b = appendMember(e.b, name, text.String())
	case rule.required:
		e.b = appendMember(e.b, name, rule.instead)
	}
}

// An extraContent is the Extra of a text part or a call.
type extraContent struct {
	ExtraContent json.RawMessage `json:"extra_content"`
}

func (e *encoder) extra(raw json.RawMessage) {
	var x extraContent
	if len(raw) > 0 && json.Unmarshal(raw, &x) == nil && len(x.ExtraContent) > 0 {
		e.b = appendRaw(e.b, "extra_content", x.ExtraContent)
	}
}

func (e *encoder) textPart(text string) {
	e.beginPart("text")
	e.b = append(appendMember(e.b, "text", text), '}')
}

func (e *encoder) beginPart(kind string) {
	if e.b[len(e.b)-1] == '}' {
		e.b = append(e.b, ',')
	}
	e.b = appendMember(append(e.b, '{'), "type", kind)
}

// media writes an attachment in the form that its type has in the protocol.
func (e *encoder) media(p agent.Part) {
	kind, _, err := mime.ParseMediaType(p.MIME)
	if err != nil {
		kind = "application/octet-stream"
	}
	family, subtype, _ := strings.Cut(kind, "/")
	switch {
	case family == "image":
		e.beginPart("image_url")
		e.b = append(appendName(e.b, "image_url"), '{')
		e.dataURL("url", kind, p.Data)
		e.b = append(e.b, '}', '}')
	case family == "audio":
		e.beginPart("input_audio")
		e.b = append(appendName(e.b, "input_audio"), `{"data":"`...)
		e.b = base64.StdEncoding.AppendEncode(e.b, p.Data)
		e.b = append(e.b, '"')
		e.b = append(appendMember(e.b, "format", audioFormat(subtype)), '}', '}')
	case isText(family, subtype) && utf8.Valid(p.Data):
		e.textPart(cmp.Or(p.Name, "attachment") + ":\n" + string(p.Data))
	case kind != "application/pdf":
		// Servers refuse other types, and with them every later request.
		e.textPart(fmt.Sprintf("[%s: %d bytes of type %s, which cannot be shown]", cmp.Or(p.Name, "attachment"), len(p.Data), kind))
	case e.f.documentURL:
		e.beginPart("document_url")
		e.dataURL("document_url", kind, p.Data)
		e.b = append(e.b, '}')
	default:
		e.beginPart("file")
		e.b = append(appendName(e.b, "file"), '{')
		e.b = appendMember(e.b, "filename", cmp.Or(p.Name, "attachment."+subtype))
		e.dataURL("file_data", kind, p.Data)
		e.b = append(e.b, '}', '}')
	}
}

func (e *encoder) dataURL(name, kind string, data []byte) {
	e.b = append(appendName(e.b, name), `"data:`...)
	e.b = append(e.b, kind...)
	e.b = append(e.b, ";base64,"...)
	e.b = base64.StdEncoding.AppendEncode(e.b, data)
	e.b = append(e.b, '"')
}

func audioFormat(subtype string) string {
	switch subtype {
	case "wav", "x-wav", "wave", "vnd.wave":
		return "wav"
	case "mpeg", "mp3":
		return "mp3"
	}
	return subtype
}

// isText reports types that no server takes as a file and every model reads.
func isText(family, subtype string) bool {
	return family == "text" || family == "application" &&
		(subtype == "json" || subtype == "xml" || subtype == "yaml" || strings.HasSuffix(subtype, "+json") || strings.HasSuffix(subtype, "+xml"))
}

// callID is the id in the form that the server takes: the same for a call and
// its result, in every turn.
func (e *encoder) callID(id string) string {
	if !e.f.shortIDs || len(id) == 9 && strings.IndexFunc(id, notAlphanumeric) < 0 {
		return id
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(id))
	short := make([]byte, 9)
	for i := range short {
		short[i] = digits[int(sum[i])%len(digits)]
	}
	return string(short)
}

func notAlphanumeric(r rune) bool {
	return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
}

// toolName is the name of a call as servers accept it. A model may call a tool by
// an invalid name, and servers refuse a history with such a name.
func toolName(name string) string {
	clean := func(r rune) rune {
		if notAlphanumeric(r) && r != '_' && r != '-' {
			return '_'
		}
		return r
	}
	name = strings.Map(clean, name)
	return cmp.Or(name[:min(len(name), 64)], "unknown")
}

// arguments is the text of a call's arguments as servers accept it: many parse
// it, and refuse a history in which the JSON of one call is invalid.
func arguments(args string) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" || trimmed == null {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(args)) {
		return args
	}
	return string(append(appendMember([]byte{'{'}, "invalid_arguments", args), '}'))
}

func hasMedia(parts []agent.Part) bool {
	return slices.ContainsFunc(parts, func(p agent.Part) bool { return p.Kind == agent.PartMedia })
}

// textOf joins the text parts, without a copy where there is only one.
func textOf(parts []agent.Part) (text string) {
	for _, p := range parts {
		if p.Kind == agent.PartText {
			text += p.Text
		}
	}
	return text
}
