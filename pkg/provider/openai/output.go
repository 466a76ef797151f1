package openai

import (
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// outputFormat adds response_format to settings, where the server knows schemas.
func outputFormat(settings []modelhttp.Field, f *facts, req *agent.Request) ([]modelhttp.Field, error) {
	if f.output == outputNever || f.output == outputAlone && len(req.Tools) > 0 {
		return settings, nil
	}
	schema, strict, err := modelhttp.OutputSchema(req)
	if schema == nil {
		return settings, err
	}
	value := fmt.Sprintf(`{"type":"json_schema","json_schema":{"name":"answer","strict":%t,"schema":%s}}`, strict, schema)
	return append(settings, modelhttp.Field{Name: "response_format", Value: value}), nil
}
