package openai

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// outputFormat adds response_format to settings, where the server knows schemas.
func outputFormat(settings []modelhttp.Field, f *facts, req *agent.Request) ([]modelhttp.Field, error) {
	if f.output != outputAlways && (f.output != outputAlone || len(req.Tools) > 0) {
		return settings, nil
	}
	schema, strict, err := modelhttp.OutputSchema(req)
	if schema == nil {
		return settings, err
	}
	value := fmt.Sprintf(`{"type":"json_schema","json_schema":{"name":"answer","strict":%t,"schema":%s}}`, strict, schema)
	return append(settings, modelhttp.Field{Name: "response_format", Value: value}), nil
}

// answerTool is the tool by which a model gives its answer. Nobody else sees it.
const answerTool = "final_answer"

// withAnswerTool returns req with the answer tool behind the others, where the server knows
// schemas of tools alone.
func (p *Provider) withAnswerTool(f *facts, req *agent.Request) (*agent.Request, bool) {
	if f.output != outputTool || p.ExtraBody["response_format"] != nil || slices.ContainsFunc(req.Tools, func(t agent.ToolSpec) bool { return t.Name == answerTool }) {
		return req, false
	}
	schema, _, _ := modelhttp.OutputSchema(req)
	if schema == nil {
		return req, false
	}
	own := *req
	own.Tools = append(slices.Clip(req.Tools), agent.ToolSpec{Name: answerTool, Schema: schema,
		Description: "Gives the final answer: the arguments are the JSON that is asked for. Call it once, alone, when the work is done."})
	return &own, true
}

// takeAnswer makes the call of the answer tool the text of the answer. Beside other calls
// it is too early, and left out.
func takeAnswer(resp *agent.Response, delta func(agent.Delta)) {
	m := &resp.Message
	i := slices.IndexFunc(m.Calls, func(c agent.ToolCall) bool { return c.Name == answerTool })
	if i < 0 {
		return
	}
	answer := m.Calls[i]
	m.Calls = slices.DeleteFunc(m.Calls, func(c agent.ToolCall) bool { return c.Name == answerTool })
	if len(m.Calls) > 0 {
		return
	}
	m.Parts = slices.DeleteFunc(m.Parts, func(p agent.Part) bool { return p.Kind == agent.PartText })
	text := cmp.Or(answer.Args, "{}")
	m.Parts, m.Calls = append(m.Parts, agent.Part{Kind: agent.PartText, Text: text, Extra: answer.Extra}), nil
	delta(agent.Delta{Kind: agent.DeltaText, Text: text})
}
