package openai

import (
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// Fixed are the members that ExtraBody cannot replace: the rest of this package depends on
// them. The slice must not be changed.
var Fixed = []string{"model", "messages", "tools", "stream"}

// body is the body of a request. It is a function of the request and the
// Provider's fields only, so that a conversation which grows gives a body with the
// same beginning.
func (p *Provider) body(f *facts, req *agent.Request) ([]byte, error) {
	e := encoder{Writer: modelhttp.NewWriter(req, &p.Settings), f: f}
	e.Raw("stream", "true")
	e.settings(&p.Settings, req)
	if err := e.Extra(Fixed); err != nil {
		return nil, err
	}
	if err := e.Tools(req.Tools, modelhttp.ToolForm{Begin: `{"type":"function","function":{`, Schema: "parameters", End: "}}"}, f.refused); err != nil {
		return nil, err
	}
	e.List("messages")
	if req.System != "" {
		e.text("system", req.System)
	}
	for i := range req.Messages {
		if err := e.message(&req.Messages[i]); err != nil {
			return nil, err
		}
	}
	e.Close("]}")
	return e.B, nil
}

func (e *encoder) settings(s *modelhttp.Settings, req *agent.Request) {
	for _, field := range e.f.ask {
		e.Setting(field.name, field.value)
	}
	e.Limits(e.f.maxTokens)
	if s.ReasoningEffort != "" {
		effort := string(modelhttp.AppendString(nil, s.ReasoningEffort))
		if e.f.effortObject {
			e.Setting("reasoning", `{"effort":`+effort+`}`)
		} else {
			e.Setting("reasoning_effort", effort)
		}
	}
	if e.f.output == outputAlways || e.f.output == outputAlone && len(req.Tools) == 0 {
		if schema, strict := modelhttp.OutputSchema(req); schema != nil {
			e.Setting("response_format", fmt.Sprintf(`{"type":"json_schema","json_schema":{"name":"answer","strict":%t,"schema":%s}}`, strict, schema))
		}
	}
}
