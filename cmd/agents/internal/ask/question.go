package ask

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/mcpclient"
)

func (h *Person) answer(ctx context.Context, q agent.Event) (json.RawMessage, error) {
	e := mcpclient.Elicitation{Server: "agent " + strings.Join(q.Path, " > "), Message: q.Text, Schema: q.Schema}
	if q.What == "elicit" {
		if q.Tool != "" {
			e.Server = q.Tool + " of " + e.Server
		}
		a, err := h.elicit(ctx, e)
		if err != nil {
			return nil, err
		}
		return json.Marshal(struct {
			Action  mcpclient.Action `json:"action"`
			Content json.RawMessage  `json:"content,omitempty"`
		}{a.Action, a.Content})
	}
	e.Schema = choiceSchema(q)
	a, err := h.elicit(ctx, e)
	if err != nil {
		return nil, err
	}
	var content struct {
		Answer json.RawMessage `json:"answer"`
	}
	if a.Action != mcpclient.Accept || json.Unmarshal(a.Content, &content) != nil || len(content.Answer) == 0 {
		return nil, agent.ErrNobody
	}
	return content.Answer, nil
}

// choiceSchema is the form of a question that is one of its choices, or a text.
func choiceSchema(q agent.Event) json.RawMessage {
	property := map[string]any{"type": "string"}
	if len(q.Choices) > 0 {
		property["enum"] = q.Choices
	}
	schema, _ := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"answer": property}, "required": []string{"answer"}}) // strings always encode
	return schema
}
