package openai

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// fixed are the fields that ExtraBody cannot replace: the rest of this package
// depends on them.
var fixed = []string{"model", "messages", "tools", "stream"}

// body is the body of a request. It is a function of the request and the
// Provider's fields only, so that a conversation which grows gives a body with the
// same beginning.
func (p *Provider) body(f *facts, req *agent.Request) ([]byte, error) {
	e := encoder{Writer: modelhttp.NewWriter(req, p.Model), f: f}
	e.Raw("stream", "true")
	if err := e.Settings(&p.Settings, p.settings(f, req), fixed...); err != nil {
		return nil, err
	}
	if err := e.Tools(req.Tools, `{"type":"function","function":{`, "parameters", "}}"); err != nil {
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

// settings are the optional fields, in the flavour's spelling.
func (p *Provider) settings(f *facts, req *agent.Request) []modelhttp.Field {
	settings := slices.Clone(f.ask)
	if p.MaxOutputTokens > 0 {
		settings = append(settings, modelhttp.Field{Name: f.maxTokens, Value: strconv.Itoa(p.MaxOutputTokens)})
	}
	if p.Temperature != nil {
		settings = append(settings, modelhttp.Field{Name: "temperature", Value: strconv.FormatFloat(*p.Temperature, 'f', -1, 64)})
	}
	if p.ReasoningEffort != "" {
		effort := string(modelhttp.AppendString(nil, p.ReasoningEffort))
		if f.effortObject {
			settings = append(settings, modelhttp.Field{Name: "reasoning", Value: `{"effort":` + effort + `}`})
		} else {
			settings = append(settings, modelhttp.Field{Name: "reasoning_effort", Value: effort})
		}
	}
	if f.output == outputAlways || f.output == outputAlone && len(req.Tools) == 0 {
		if schema, strict := modelhttp.OutputSchema(req); schema != nil {
			format := fmt.Sprintf(`{"type":"json_schema","json_schema":{"name":"answer","strict":%t,"schema":%s}}`, strict, schema)
			settings = append(settings, modelhttp.Field{Name: "response_format", Value: format})
		}
	}
	return settings
}
