package openai

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// outputFormat adds response_format to settings, where the server knows schemas. All
// known servers require an object there.
func outputFormat(settings []field, f *facts, req *agent.Request) ([]field, error) {
	if len(req.Output) == 0 || f.output == outputNever || f.output == outputAlone && len(req.Tools) > 0 {
		return settings, nil
	}
	var schema map[string]any
	if json.Unmarshal(req.Output, &schema) != nil || schema["type"] != "object" {
		return settings, nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, req.Output); err != nil {
		return nil, fmt.Errorf("the schema of the answer: %w", err)
	}
	value := fmt.Sprintf(`{"type":"json_schema","json_schema":{"name":"answer","strict":%t,"schema":%s}}`, strict(schema), text.Bytes())
	return append(settings, field{"response_format", value}), nil
}

// strict reports whether a schema is one that servers can enforce: every object lists all
// its properties as required and permits no others.
func strict(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if !strict(item) {
				return false
			}
		}
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
