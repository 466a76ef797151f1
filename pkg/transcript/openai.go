package transcript

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// OpenAI writes the root session of events as the body of a chat completions
// request: {"messages":[…],"model":…,"tools":[…]}. It has the whole conversation,
// also what a compaction took out; sub-agents' sessions are not in it. The system
// prompt is that of the first turn, model and tools are those of the last.
// Reasoning stands in "reasoning_content".
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
			f := map[string]any{"name": s.Name, "description": s.Description}
			if len(s.Schema) > 0 {
				f["parameters"] = s.Schema
			}
			tools = append(tools, map[string]any{"type": "function", "function": f})
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
	for _, p := range t.Prompts {
		o.add(openAIMessage{Role: string(p.Role), Content: openAIContent(p.Parts)})
	}
	if t.Answer == nil || t.Answer.Message == nil {
		return
	}
	if t.Answer.Model != "" {
		o.model = t.Answer.Model
	}
	m := openAIMessage{Role: "assistant", Content: t.Answer.Message.Text()}
	for _, p := range t.Answer.Message.Parts {
		if p.Kind == agent.PartReasoning {
			m.Reasoning += p.Text
		}
	}
	for _, c := range t.Calls {
		var f foreignCall
		f.ID, f.Type, f.Function.Name, f.Function.Args = c.ID, "function", c.Name, c.Args
		m.Calls = append(m.Calls, encoded(f))
	}
	o.add(m)
	for _, c := range t.Calls {
		if c.Result != nil {
			o.add(openAIMessage{Role: "tool", CallID: c.ID, Content: openAIContent(c.Result.Parts)})
		}
	}
}

// openAIContent is a text, or parts if there is anything else.
func openAIContent(parts []agent.Part) any {
	var list []any
	text, mixed := "", false
	for _, p := range parts {
		switch p.Kind {
		case agent.PartText:
			text += p.Text
			list = append(list, map[string]any{"type": "text", "text": p.Text})
		case agent.PartMedia:
			mixed = true
			list = append(list, openAIMedia(p))
		}
	}
	if mixed {
		return list
	}
	return text
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
