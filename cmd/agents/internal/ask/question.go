package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/mcpclient"
)

// Answers is answer, or nil if there is no terminal.
func (h *Person) Answers() func(context.Context, agent.Event) (json.RawMessage, error) {
	if h == nil {
		return nil
	}
	return h.answer
}

// answer puts a question of a run to the person.
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
	if q.What == "approve" {
		e.Message = strings.TrimSpace(fmt.Sprintf("Permit %s %s?\n%s", q.Tool, q.Args, q.Text))
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
