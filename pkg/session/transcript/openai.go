package transcript

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// OpenAI writes the root session of events as the body of a chat completions
// request: {"messages":[…],"model":…,"tools":[…]}. It has the whole conversation,
// including what a compaction removed, without sub-agents' sessions. The system
// prompt is that of the first turn, model and tools are those of the last.
// Reasoning is in "reasoning_content".
func OpenAI(w io.Writer, events iter.Seq2[agent.Event, error]) error {
	out := &openAI{w: bufio.NewWriter(w)}
	out.text(`{"messages":[`)
	for t, err := range Turns(events) {
		if err != nil {
			return err
		}
		out.turn(t)
	}
	out.text("]")
	if out.model != "" {
		out.text(`,"model":` + string(encoded(out.model)))
	}
	if len(out.specs) > 0 {
		var tools []any
		for _, s := range out.specs {
			tools = append(tools, exportedFunction(s))
		}
		out.text(`,"tools":` + string(encoded(tools)))
	}
	out.text("}\n")
	return out.w.Flush()
}

// openAI writes messages; bufio keeps the first error.
type openAI struct {
	w     *bufio.Writer
	n     int
	model string
	specs []agent.ToolSpec
}

func (o *openAI) text(s string) { _, _ = o.w.WriteString(s) }

type openAIMessage struct {
	Role      string            `json:"role"`
	Content   any               `json:"content"`
	Reasoning string            `json:"reasoning_content,omitempty"`
	Calls     []json.RawMessage `json:"tool_calls,omitempty"`
	CallID    string            `json:"tool_call_id,omitempty"`
}

func (o *openAI) add(m openAIMessage) {
	if o.n > 0 {
		o.text(",")
	}
	o.n++
	o.text("\n" + string(encoded(m)))
}

func (o *openAI) turn(t *Turn) {
	if t.Setup != nil {
		if t.Setup.System != "" && o.n == 0 {
			o.add(openAIMessage{Role: "system", Content: t.Setup.System})
		}
		if t.Setup.Specs != nil {
			o.specs = t.Setup.Specs
		}
	}
	for _, p := range t.told() {
		o.add(openAIMessage{Role: string(p.Role), Content: openAIContent(p.Parts)})
	}
	if t.Answer == nil || t.Answer.Message == nil {
		return
	}
	if t.Answer.Model != "" {
		o.model = t.Answer.Model
	}
	m := openAIMessage{Role: "assistant", Content: t.Answer.Message.Text(), Reasoning: reasoning(t.Answer.Message)}
	for _, c := range t.Calls {
		m.Calls = append(m.Calls, encodedCall(c.ToolCall))
	}
	o.add(m)
	for _, c := range t.Calls {
		if c.Result != nil {
			o.add(openAIMessage{Role: "tool", CallID: c.ID, Content: openAIContent(c.Result.Parts)})
		}
	}
}

// openAIContent returns a string, or a list of parts if one is not text.
func openAIContent(parts []agent.Part) any {
	text, list := contents(parts, func(s string) any { return map[string]any{"type": "text", "text": s} }, openAIMedia)
	if list != nil {
		return list
	}
	return text
}

// contents is parts as a text or, if one of them is media, as a list of what text
// and media make of each.
func contents(parts []agent.Part, text func(string) any, media func(agent.Part) any) (joined string, list []any) {
	mixed := false
	for _, p := range parts {
		switch p.Kind {
		case agent.PartText:
			joined += p.Text
			list = append(list, text(p.Text))
		case agent.PartMedia:
			mixed = true
			list = append(list, media(p))
		}
	}
	if !mixed {
		return joined, nil
	}
	return joined, list
}

func openAIMedia(p agent.Part) any {
	data := base64.StdEncoding.EncodeToString(p.Data)
	switch format, isAudio := strings.CutPrefix(p.MIME, "audio/"); {
	case strings.HasPrefix(p.MIME, "image/"):
		return map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:" + p.MIME + ";base64," + data}}
	case isAudio:
		return map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": data, "format": format}}
	default:
		return map[string]any{"type": "file", "file": map[string]any{"filename": p.Name, "file_data": "data:" + p.MIME + ";base64," + data}}
	}
}

// A chatCall is a tool call of a chat completions message.
type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
}

func encodedCall(c agent.ToolCall) json.RawMessage {
	call := chatCall{ID: c.ID, Type: "function"}
	call.Function.Name, call.Function.Args = c.Name, c.Args
	return encoded(call)
}

func reasoning(m *agent.Message) (text string) {
	for _, p := range m.Parts {
		if p.Kind == agent.PartReasoning {
			text += p.Text
		}
	}
	return text
}

// encoded returns v as JSON. All values in v must be encodable.
func encoded(v any) json.RawMessage {
	data, err := jsondoc.Encode(v, "")
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}
