package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const (
	attachedIn = "(the result is attached to the next message)"
	// between separates tool results from a user message.
	between = "OK."
)

type encoder struct {
	modelhttp.Writer
	f    *facts
	last string // the role of the message before
}

func (e *encoder) begin(role string) {
	if role == "user" && e.last == "tool" && e.f.noUserAfterTool {
		e.text("assistant", between)
	}
	e.Open()
	e.Member("role", role)
	e.last = role
}

func (e *encoder) text(role, text string) {
	e.begin(role)
	e.Member("content", text)
	e.Close("}")
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
	if !modelhttp.HasMedia(parts) {
		e.text("user", cmp.Or(modelhttp.TextOf(parts), modelhttp.NoContent))
		return
	}
	e.begin("user")
	e.List("content")
	for _, p := range parts {
		switch {
		case p.Kind == agent.PartText && p.Text != "":
			e.textPart(p.Text)
		case p.Kind == agent.PartMedia:
			e.media(p)
		}
	}
	e.Close("]}")
}

func (e *encoder) assistant(m *agent.Message) {
	e.begin("assistant")
	text := modelhttp.TextOf(m.Parts)
	switch {
	case text != "":
		e.Member("content", text)
	case len(m.Calls) > 0:
		e.Raw("content", e.f.noText)
	default:
		e.Member("content", modelhttp.NoContent)
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
	e.Close("}")
}

func (e *encoder) calls(calls []agent.ToolCall) {
	e.List("tool_calls")
	for _, c := range calls {
		e.Open()
		e.Member("id", e.callID(c.ID))
		e.Close(`,"type":"function","function":{`)
		e.Member("name", modelhttp.ToolName(c.Name))
		e.Member("arguments", modelhttp.Arguments(c.Args))
		e.Close("}")
		if e.f.extra {
			e.extra(c.Extra)
		}
		e.Close("}")
	}
	e.Close("]")
}

// results writes one message for each result. These can hold only text, so media
// follows in one user message after all of them: servers want the results of one
// turn together.
func (e *encoder) results(results []agent.ToolResult) {
	attached := false
	for _, r := range results {
		media := modelhttp.HasMedia(r.Parts)
		attached = attached || media
		text := modelhttp.TextOf(r.Parts)
		if text == "" && media {
			text = attachedIn
		}
		e.begin("tool")
		e.Member("tool_call_id", e.callID(r.CallID))
		e.Member("content", cmp.Or(text, modelhttp.NoOutput))
		e.Close("}")
	}
	if !attached {
		return
	}
	e.begin("user")
	e.List("content")
	for _, r := range results {
		if !modelhttp.HasMedia(r.Parts) {
			continue
		}
		e.textPart(fmt.Sprintf("Attachment of the result of %s (%s):", e.callID(r.CallID), modelhttp.ToolName(r.Name)))
		for _, p := range r.Parts {
			if p.Kind == agent.PartMedia {
				e.media(p)
			}
		}
	}
	e.Close("]}")
}

// A reasoningExtra is the Extra of a reasoning part: the member that the text
// came in, and the list reasoning_details.
type reasoningExtra struct {
	Name    string          `json:"name,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// reasoning sends the message's reasoning back where the flavor wants it.
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
		e.Raw("reasoning_details", string(extra.Details))
	case len(m.Calls) == 0:
	case text.Len() > 0:
		e.Member(name, text.String())
	case rule.required:
		e.Member(name, rule.instead)
	}
}

// An extraContent is the Extra of a text part or a call.
type extraContent struct {
	ExtraContent json.RawMessage `json:"extra_content"`
}

func (e *encoder) extra(raw json.RawMessage) {
	var x extraContent
	if len(raw) > 0 && json.Unmarshal(raw, &x) == nil && len(x.ExtraContent) > 0 {
		e.Raw("extra_content", string(x.ExtraContent))
	}
}

func (e *encoder) textPart(text string) {
	e.OpenType("text")
	e.Member("text", text)
	e.Close("}")
}

func (e *encoder) media(p agent.Part) {
	kind, family, subtype := modelhttp.MediaType(p)
	switch {
	case family == "image", family == "video" && e.f.videoURL:
		e.OpenType(family + "_url")
		e.Object(family + "_url")
		e.DataURL("url", kind, p.Data)
		e.Close("}}")
	case family == "audio":
		e.OpenType("input_audio")
		e.Object("input_audio")
		e.Base64("data", "", p.Data)
		e.Member("format", audioFormat(subtype))
		e.Close("}}")
	case kind != "application/pdf":
		e.textPart(modelhttp.MediaText(p))
	case e.f.documentURL:
		e.OpenType("document_url")
		e.DataURL("document_url", kind, p.Data)
		e.Close("}")
	default:
		e.OpenType("file")
		e.Object("file")
		e.Member("filename", cmp.Or(p.Name, "attachment."+subtype))
		e.DataURL("file_data", kind, p.Data)
		e.Close("}}")
	}
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

// callID is the id in the form that the server takes: the same for a call and
// its result, in every turn.
func (e *encoder) callID(id string) string {
	if e.f.maxID > 0 {
		id = modelhttp.ShortID(id, e.f.maxID)
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if !e.f.shortIDs || len(id) == 9 && strings.Trim(id, digits) == "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	short := make([]byte, 9)
	for i := range short {
		short[i] = digits[int(sum[i])%len(digits)]
	}
	return string(short)
}
