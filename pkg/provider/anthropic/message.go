package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

type encoder struct {
	modelhttp.Writer
	host  string
	cache bool // mark what is cached
}

// mark sets a cache breakpoint at the last block of b.
func (e *encoder) mark() {
	if e.cache {
		e.B = append(e.B[:len(e.B)-1], `,"cache_control":{"type":"ephemeral"}}`...)
	}
}

// text writes a block of text, unless it is blank: the server refuses blank blocks.
func (e *encoder) text(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	e.OpenType("text")
	e.Member("text", s)
	e.Close("}")
}

// messages writes the conversation, with cache breakpoints after two messages: the last of
// this request, and the last of the previous request, up to which the server has cached the
// conversation. A request for a summary sets no new breakpoint, as nothing continues it.
func (e *encoder) messages(req *agent.Request) error {
	last, before := ends(req.Messages)
	if req.Summary {
		last = -1
	}
	e.List("messages")
	if len(req.Messages) > 0 && req.Messages[0].Role == agent.RoleAssistant {
		e.begin("user") // the first must be the user's
		e.end(false)
	}
	for i := range req.Messages {
		switch m := &req.Messages[i]; m.Role {
		case agent.RoleUser:
			e.begin("user")
			e.parts(m.Parts)
		case agent.RoleAssistant:
			e.begin("assistant")
			e.assistant(m)
		case agent.RoleTool:
			e.begin("user")
			e.results(m.Results)
		default:
			return fmt.Errorf("a message of the unknown role %q", m.Role)
		}
		e.end(i == last || i == before)
	}
	e.Close("]")
	return nil
}

// ends returns the index of the last message that is not the model's, and the index of the
// last such message of the previous request; -1 means none.
func ends(messages []agent.Message) (last, before int) {
	previous := func(i int) int {
		for i--; i >= 0 && messages[i].Role == agent.RoleAssistant; i-- {
		}
		return i
	}
	last = previous(len(messages))
	i := last
	for i >= 0 && messages[i].Role != agent.RoleAssistant {
		i--
	}
	return last, previous(max(i, 0))
}

func (e *encoder) begin(role string) {
	e.Open()
	e.Member("role", role)
	e.List("content")
}

// end closes a message. It must not be empty.
func (e *encoder) end(mark bool) {
	if e.B[len(e.B)-1] == '[' {
		e.text(modelhttp.NoContent)
	}
	if mark {
		e.mark()
	}
	e.Close("]}")
}

func (e *encoder) parts(parts []agent.Part) {
	for _, p := range parts {
		switch p.Kind {
		case agent.PartText:
			e.text(p.Text)
		case agent.PartMedia:
			e.media(p)
		}
	}
}

// A callExtra is the Extra of a call that parts of the message follow: the number of those
// before it.
type callExtra struct {
	After *int `json:"after"`
}

// assistant writes the text, thinking and calls of the model in their original order.
func (e *encoder) assistant(m *agent.Message) {
	calls := m.Calls
	for i, p := range m.Parts {
		for len(calls) > 0 {
			var extra callExtra
			if len(calls[0].Extra) == 0 || json.Unmarshal(calls[0].Extra, &extra) != nil || extra.After == nil || *extra.After > i {
				break
			}
			e.calls(calls[:1])
			calls = calls[1:]
		}
		switch p.Kind {
		case agent.PartText:
			e.text(p.Text)
		case agent.PartReasoning:
			e.reasoning(p)
		}
	}
	e.calls(calls)
}

func (e *encoder) calls(calls []agent.ToolCall) {
	for _, c := range calls {
		e.OpenType("tool_use")
		e.Member("id", callID(c.ID))
		e.Member("name", modelhttp.ToolName(c.Name))
		e.Raw("input", modelhttp.Arguments(c.Args))
		e.Close("}")
	}
}

// A reasoningExtra is the Extra of a reasoning part: the signature of the text, or the
// whole block where there is no text, as with redacted_thinking, and the host that sent it.
// Older sessions have no host.
type reasoningExtra struct {
	Host      string          `json:"host"`
	Signature json.RawMessage `json:"signature,omitempty"`
	Block     json.RawMessage `json:"block,omitempty"`
}

// reasoning sends a block of thinking back unchanged. It omits what the server would refuse:
// text that was changed to hide a secret, and reasoning of another provider or host.
func (e *encoder) reasoning(p agent.Part) {
	var extra reasoningExtra
	if len(p.Extra) == 0 || json.Unmarshal(p.Extra, &extra) != nil || strings.Contains(p.Text, redact.Mark) || extra.Host != "" && extra.Host != e.host {
		return
	}
	switch {
	case modelhttp.FirstByte(extra.Block) == '{':
		e.Element(string(extra.Block))
	case modelhttp.FirstByte(extra.Signature) == '"':
		e.OpenType("thinking")
		e.Member("thinking", p.Text)
		e.Raw("signature", string(extra.Signature))
		e.Close("}")
	}
}

// results writes the results of all calls of a turn into one message, as the server
// requires.
func (e *encoder) results(results []agent.ToolResult) {
	for _, r := range results {
		e.OpenType("tool_result")
		e.Member("tool_use_id", callID(r.CallID))
		e.List("content")
		start := len(e.B)
		e.parts(r.Parts)
		if len(e.B) == start {
			e.text(modelhttp.NoOutput)
		}
		e.Close("]")
		if r.Failed {
			e.Raw("is_error", "true")
		}
		e.Close("}")
	}
}

// callID returns an id with the characters and the length that the server accepts, the same
// as in names.
func callID(id string) string { return modelhttp.ToolName(modelhttp.ShortID(id, 64)) }

func (e *encoder) media(p agent.Part) {
	kind, _, _ := modelhttp.MediaType(p)
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	switch kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		e.OpenType("image")
	case "application/pdf":
		e.OpenType("document")
		e.Member("title", cmp.Or(p.Name, "attachment.pdf"))
	default:
		e.text(modelhttp.MediaText(p))
		return
	}
	e.Object("source")
	e.Member("type", "base64")
	e.Member("media_type", kind)
	e.Base64("data", "", p.Data)
	e.Close("}}")
}
