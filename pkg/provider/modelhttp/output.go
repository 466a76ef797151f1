package modelhttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
)

// OutputSchema returns the schema of the answer, compact, if its type is object, which all
// known servers require. It has no combinators at its top, which they refuse as in schemas of
// tools: see Refusals. isStrict reports whether every object in it lists all its properties as
// required and permits no others.
func OutputSchema(req *agent.Request) (compact []byte, isStrict bool) {
	var schema map[string]any
	var text bytes.Buffer
	if json.Unmarshal(req.Output, &schema) != nil || schema["type"] != "object" || json.Compact(&text, req.Output) != nil {
		return nil, false
	}
	fitted, changed, err := Refusals{}.Fit(agent.ToolSpec{Schema: text.Bytes()})
	if err != nil {
		return nil, false
	}
	if changed != nil {
		schema = nil // json.Unmarshal would add to it
		_ = json.Unmarshal(fitted.Schema, &schema)
	}
	return fitted.Schema, strict(schema)
}

// strict reports whether every object in a schema lists all its properties as required and
// permits no others.
func strict(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !strict(item) })
	case map[string]any:
		properties, isObject := v["properties"].(map[string]any)
		required, _ := v["required"].([]any)
		if v["type"] == "object" && (!isObject || v["additionalProperties"] != false || len(required) != len(properties)) {
			return false
		}
		for _, item := range v {
			if !strict(item) {
				return false
			}
		}
	}
	return true
}

// AnswerTool is the name of the tool by which a model gives its answer if the server cannot
// enforce the schema. Only the model sees it.
const AnswerTool = "final_answer"

// WithAnswerTool returns req with the answer tool after the other tools, and without the
// schema of the answer, which becomes the schema of the tool. It returns req itself if its
// schema is missing or not that of an object, or if it has a tool of that name.
func WithAnswerTool(req *agent.Request) *agent.Request {
	schema, _ := OutputSchema(req)
	if schema == nil || slices.ContainsFunc(req.Tools, func(t agent.ToolSpec) bool { return t.Name == AnswerTool }) {
		return req
	}
	own := *req
	own.Output = nil
	own.Tools = append(slices.Clip(req.Tools), agent.ToolSpec{Name: AnswerTool, Schema: schema,
		Description: "Gives the final answer: the arguments are the JSON that is asked for. Call it once, alone, when the work is done."})
	return &own
}

// TakeAnswer replaces a call of the answer tool with the text of the answer. If there are other
// calls, the answer comes too early, and its call is removed. delta may be nil.
func TakeAnswer(m *agent.Message, delta func(agent.Delta)) {
	isAnswer := func(c agent.ToolCall) bool { return c.Name == AnswerTool }
	i := slices.IndexFunc(m.Calls, isAnswer)
	if i < 0 {
		return
	}
	answer := m.Calls[i]
	m.Calls = slices.DeleteFunc(m.Calls, isAnswer)
	if len(m.Calls) > 0 {
		return
	}
	m.Parts = slices.DeleteFunc(m.Parts, func(p agent.Part) bool { return p.Kind == agent.PartText })
	text := cmp.Or(answer.Args, "{}")
	m.Parts, m.Calls = append(m.Parts, agent.Text(text)), nil
	if delta != nil {
		delta(agent.Delta{Kind: agent.DeltaText, Text: text})
	}
}
