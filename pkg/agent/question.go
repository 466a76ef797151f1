package agent

import (
	"encoding/json"
	"strings"
)

// Asker returns who asks a question.
func (e *Event) Asker() string {
	from := "agent " + strings.Join(e.Path, " > ")
	if e.What == "elicit" && e.Tool != "" {
		return e.Tool + " of " + from
	}
	return from
}

// Form returns the JSON Schema of a form for a question that is not about a call: that of an MCP
// server, or one with the property "answer", which is one of the Choices, or a text.
func (e *Event) Form() json.RawMessage {
	if e.What == "elicit" {
		return e.Schema
	}
	property := map[string]any{"type": "string"}
	if len(e.Choices) > 0 {
		property["enum"] = e.Choices
	}
	form, _ := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"answer": property}, "required": []string{"answer"}}) // strings always encode
	return form
}

// Filled returns the answer to a question whose Form has been filled in, if action is "accept".
// Other actions are "decline" and "cancel". The error is ErrNobody if there is no answer.
func (e *Event) Filled(action string, content json.RawMessage) (json.RawMessage, error) {
	if e.What == "elicit" {
		return json.Marshal(struct {
			Action  string          `json:"action"`
			Content json.RawMessage `json:"content,omitempty"`
		}{action, content})
	}
	var form struct {
		Answer json.RawMessage `json:"answer"`
	}
	if action != "accept" || json.Unmarshal(content, &form) != nil || len(form.Answer) == 0 {
		return nil, ErrNobody
	}
	return form.Answer, nil
}
