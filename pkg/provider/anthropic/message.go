package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/redact"
)

// An encoder appends to b.
type encoder struct {
	b     []byte
	cache bool // mark what is cached
}

// open opens an object in a list.
func (e *encoder) open() {
	if e.b[len(e.b)-1] == '}' {
		e.b = append(e.b, ',')
	}
	e.b = append(e.b, '{')
}

// block opens a block of content.
func (e *encoder) block(kind string) {
	e.open()
	e.b = modelhttp.AppendMember(e.b, "type", kind)
}

// mark makes the block that b ends in the end of what the server caches.
func (e *encoder) mark() {
	if e.cache {
		e.b = append(e.b[:len(e.b)-1], `,"cache_control":{"type":"ephemeral"}}`...)
	}
}

// text writes a block of text. The server refuses one without a word in it.
func (e *encoder) text(s string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	e.block("text")
	e.b = append(modelhttp.AppendMember(e.b, "text", s), '}')
}

// messages writes the conversation. Two of its messages are marked as ends of what is
// cached: the last of this request, and the last of the request before, up to which the
// server has cached it. A request for a summary is not continued.
func (e *encoder) messages(req *agent.Request) error {
	last, before := ends(req.Messages)
	if req.Summary {
		last = -1
	}
	e.b = append(modelhttp.AppendName(e.b, "messages"), '[')
	if len(req.Messages) > 0 && req.Messages[0].Role == agent.RoleAssistant {
		e.message("user", func() error { return nil }) // the first must be the user's
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		role := "user"
		if m.Role == agent.RoleAssistant {
			role = "assistant"
		}
		err := e.message(role, func() error {
			switch m.Role {
			case agent.RoleUser:
				e.parts(m.Parts)
			case agent.RoleAssistant:
				e.assistant(m)
			case agent.RoleTool:
				e.results(m.Results)
			default:
				return fmt.Errorf("a message of the unknown role %q", m.Role)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if i == last || i == before {
			e.b = e.b[:len(e.b)-len("]}")]
			e.mark()
			e.b = append(e.b, "]}"...)
		}
	}
	e.b = append(e.b, ']')
	return nil
}

// ends are the indices of the last message that is not the model's, and of the last one
// before the model's answer to which it is added; -1 where there is none.
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

// message writes a message with the blocks that content writes.
func (e *encoder) message(role string, content func() error) error {
	e.open()
	e.b = modelhttp.AppendMember(e.b, "role", role)
	e.b = append(modelhttp.AppendName(e.b, "content"), '[')
	start := len(e.b)
	if err := content(); err != nil {
		return err
	}
	if len(e.b) == start {
		e.text(modelhttp.NoContent)
	}
	e.b = append(e.b, ']', '}')
	return nil
}

// parts writes text and attachments.
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

// assistant writes what the model said and thought, in its order, then its calls.
func (e *encoder) assistant(m *agent.Message) {
	for _, p := range m.Parts {
		switch p.Kind {
		case agent.PartText:
			e.text(p.Text)
		case agent.PartReasoning:
			e.reasoning(p)
		}
	}
	for _, c := range m.Calls {
		e.block("tool_use")
		e.b = modelhttp.AppendMember(e.b, "id", callID(c.ID))
		e.b = modelhttp.AppendMember(e.b, "name", modelhttp.ToolName(c.Name))
		e.b = append(modelhttp.AppendRaw(e.b, "input", modelhttp.Arguments(c.Args)), '}')
	}
}

// A reasoningExtra is the Extra of a reasoning part: the signature of the text, or the
// whole block where there is no text, as with redacted_thinking.
type reasoningExtra struct {
	Signature json.RawMessage `json:"signature,omitempty"`
	Block     json.RawMessage `json:"block,omitempty"`
}

// reasoning sends a thought back as it came. One whose text has changed since, because
// there was a secret in it, or that another provider wrote, would be refused.
func (e *encoder) reasoning(p agent.Part) {
	var extra reasoningExtra
	if len(p.Extra) == 0 || json.Unmarshal(p.Extra, &extra) != nil || strings.Contains(p.Text, redact.Mark) {
		return
	}
	switch {
	case modelhttp.FirstByte(extra.Block) == '{':
		if e.b[len(e.b)-1] == '}' {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, extra.Block...)
	case modelhttp.FirstByte(extra.Signature) == '"':
		e.block("thinking")
		e.b = modelhttp.AppendMember(e.b, "thinking", p.Text)
		e.b = append(modelhttp.AppendRaw(e.b, "signature", extra.Signature), '}')
	}
}

// results writes the results of all calls of a turn into one message, as the server
// requires.
func (e *encoder) results(results []agent.ToolResult) {
	for _, r := range results {
		e.block("tool_result")
		e.b = modelhttp.AppendMember(e.b, "tool_use_id", callID(r.CallID))
		e.b = append(modelhttp.AppendName(e.b, "content"), '[')
		start := len(e.b)
		e.parts(r.Parts)
		if len(e.b) == start {
			e.text(modelhttp.NoOutput)
		}
		e.b = append(e.b, ']')
		if r.Failed {
			e.b = modelhttp.AppendRaw(e.b, "is_error", "true")
		}
		e.b = append(e.b, '}')
	}
}

// callID is an id in the characters that the server accepts, which are those of names.
func callID(id string) string { return modelhttp.ToolName(id) }

// media writes an attachment.
func (e *encoder) media(p agent.Part) {
	kind, _, _ := modelhttp.MediaType(p)
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	switch kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		e.block("image")
	case "application/pdf":
		e.block("document")
		e.b = modelhttp.AppendMember(e.b, "title", cmp.Or(p.Name, "attachment.pdf"))
	default:
		e.text(modelhttp.MediaText(p))
		return
	}
	e.b = append(modelhttp.AppendName(e.b, "source"), `{"type":"base64"`...)
	e.b = modelhttp.AppendMember(e.b, "media_type", kind)
	e.b = append(e.b, `,"data":"`...)
	e.b = base64.StdEncoding.AppendEncode(e.b, p.Data)
	e.b = append(e.b, `"}}`...)
}
