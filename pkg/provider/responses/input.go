package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// An extra is the Extra of a part or a call: where it was in the answer of a server.
type extra struct {
	// Host is the server. Items of another are not sent: it cannot read them.
	Host string `json:"host"`
	// At is the position of the item in the answer.
	At int `json:"at"`
	// ID and Phase are those of a message or a call.
	ID    string `json:"id,omitempty"`
	Phase string `json:"phase,omitempty"`
	// After: another message came before, so that the text begins with between, which is not
	// part of the item.
	After bool `json:"after,omitempty"`
	// Item is any other item, byte for byte as the server sent it: as a string, since JSON
	// within JSON may be written anew when it is stored.
	Item string `json:"item,omitempty"`
}

// between is what the texts of two messages of one answer have between them.
const between = "\n\n"

// maxID limits the ids of calls in the protocol, in bytes.
const maxID = 64

// An encoder writes a request to a host.
type encoder struct {
	modelhttp.Writer
	host string
}

func (e *encoder) message(role, text string) {
	e.Open()
	e.Member("role", role)
	e.Member("content", text)
	e.Close("}")
}

func (e *encoder) add(m *agent.Message) error {
	switch m.Role {
	case agent.RoleUser:
		if !modelhttp.HasMedia(m.Parts) {
			e.message("user", cmp.Or(modelhttp.TextOf(m.Parts), modelhttp.NoContent))
			return nil
		}
		e.Open()
		e.Member("role", "user")
		e.content("content", m.Parts)
		e.Close("}")
	case agent.RoleAssistant:
		e.assistant(m)
	case agent.RoleTool:
		for _, r := range m.Results {
			e.result(r)
		}
	default:
		return fmt.Errorf("a message of the unknown role %q", m.Role)
	}
	return nil
}

// A sent is a part or a call of an assistant message, to be sent as an item.
type sent struct {
	extra
	part *agent.Part
	call *agent.ToolCall
}

// assistant writes the items of an answer in the order in which they came. The ids of
// messages and calls refer to the reasoning before them, so that they are sent with all of
// it or not at all.
func (e *encoder) assistant(m *agent.Message) {
	var items []sent
	own, text := true, false
	add := func(s sent, raw json.RawMessage) {
		if json.Unmarshal(raw, &s.extra) != nil || s.Host != e.host {
			s.extra = extra{After: s.After}
		}
		own = own && s.Host != "" && (s.part == nil || s.part.Kind != agent.PartReasoning || readable(s.Item))
		items = append(items, s)
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Kind == agent.PartReasoning:
		case p.Kind == agent.PartText && p.Text != "":
			text = true
		default:
			continue
		}
		add(sent{part: p}, p.Extra)
	}
	for i := range m.Calls {
		add(sent{call: &m.Calls[i]}, m.Calls[i].Extra)
	}
	if own {
		slices.SortStableFunc(items, func(a, b sent) int { return cmp.Compare(a.At, b.At) })
	}
	for _, s := range items {
		if !own {
			s.extra = extra{Phase: s.Phase, After: s.After}
		}
		e.item(s)
	}
	if !text && len(m.Calls) == 0 {
		e.message("assistant", modelhttp.NoContent)
	}
}

func (e *encoder) item(s sent) {
	text := ""
	if s.part != nil {
		if text = s.part.Text; s.After {
			text = strings.TrimPrefix(text, between)
		}
	}
	switch {
	case s.call != nil:
		e.OpenType("function_call")
		e.Optional("id", s.ID)
		e.Member("call_id", modelhttp.ShortID(s.call.ID, maxID))
		e.Member("name", modelhttp.ToolName(s.call.Name))
		e.Member("arguments", modelhttp.Arguments(s.call.Args))
		e.Close("}")
	case s.part.Kind == agent.PartReasoning:
		if s.Item != "" {
			e.Element(s.Item)
		}
	case s.ID == "":
		e.Open()
		e.Member("role", "assistant")
		e.Optional("phase", s.Phase)
		e.Member("content", text)
		e.Close("}")
	default:
		e.OpenType("message")
		e.Member("id", s.ID)
		e.Member("role", "assistant")
		e.Member("status", "completed")
		e.Optional("phase", s.Phase)
		e.List("content")
		e.OpenType("output_text")
		e.Member("text", text)
		e.Close(`,"annotations":[]}]}`)
	}
}

// readable reports whether a server can read an item that it sent before. One that stores
// nothing cannot look up reasoning by its id: there must be content in it, encrypted or not.
func readable(item string) bool {
	o := modelhttp.ObjectOf([]byte(item))
	return o != nil && (modelhttp.Str(o.Get("type")) != kindReasoning ||
		modelhttp.Str(o.Get("encrypted_content")) != "" || len(modelhttp.Elements(o.Get("content"))) > 0)
}

// result writes the output of a call: text, or a list if there is media in it.
func (e *encoder) result(r agent.ToolResult) {
	e.OpenType("function_call_output")
	e.Member("call_id", modelhttp.ShortID(r.CallID, maxID))
	if modelhttp.HasMedia(r.Parts) {
		e.content("output", r.Parts)
	} else {
		e.Member("output", cmp.Or(modelhttp.TextOf(r.Parts), modelhttp.NoOutput))
	}
	e.Close("}")
}

func (e *encoder) content(name string, parts []agent.Part) {
	e.List(name)
	for _, p := range parts {
		switch {
		case p.Kind == agent.PartText && p.Text != "":
			e.text(p.Text)
		case p.Kind == agent.PartMedia:
			e.media(p)
		}
	}
	e.Close("]")
}

func (e *encoder) text(text string) {
	e.OpenType("input_text")
	e.Member("text", text)
	e.Close("}")
}

func (e *encoder) media(p agent.Part) {
	kind, family, _ := modelhttp.MediaType(p)
	switch {
	case family == "image":
		e.OpenType("input_image")
		e.Member("detail", "auto")
		e.DataURL("image_url", kind, p.Data)
	case kind == "application/pdf":
		e.OpenType("input_file")
		e.Member("filename", cmp.Or(p.Name, "attachment.pdf"))
		e.DataURL("file_data", kind, p.Data)
	default:
		e.text(modelhttp.MediaText(p))
		return
	}
	e.Close("}")
}
