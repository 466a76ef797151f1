package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// Fixed are the members that ExtraBody cannot replace. The slice must not be changed.
var Fixed = []string{"model", "messages", "system", "tools", "stream"}

// body is the body of a request to a host. It is a function of the request and the Provider's
// fields only, so that a conversation which grows gives a body with the same beginning,
// except for the marks in its last messages.
func (p *Provider) body(host string, req *agent.Request) ([]byte, error) {
	m := modelOf(p.Model)
	_, own := p.ExtraBody["cache_control"]
	e := encoder{Writer: modelhttp.NewWriter(req, &p.Settings), host: host, cache: !own}
	e.Raw("stream", "true")
	if err := e.settings(p, m, req); err != nil {
		return nil, err
	}
	if err := e.Extra(Fixed); err != nil {
		return nil, err
	}
	if err := e.Tools(req.Tools, modelhttp.ToolForm{Begin: "{", Schema: "input_schema", End: "}"}, modelhttp.RefusedByAnthropic); err != nil {
		return nil, err
	}
	if n := len(e.B) - len("]"); e.B[n] == ']' && len(req.Tools) > 0 {
		e.B = e.B[:n]
		e.mark()
		e.Close("]")
	}
	if strings.TrimSpace(req.System) != "" {
		e.List("system")
		e.text(req.System)
		e.mark()
		e.Close("]")
	}
	if err := e.messages(req); err != nil {
		return nil, err
	}
	e.Close("}")
	return e.B, nil
}

// settings writes the settings in the form that the model supports.
func (e *encoder) settings(p *Provider, m model, req *agent.Request) error {
	maxTokens := p.maxTokens(m)
	thinking, effort, err := p.thinking(m, maxTokens)
	if err != nil {
		return err
	}
	if p.MaxOutputTokens <= 0 {
		e.Setting("max_tokens", strconv.Itoa(maxTokens))
	}
	e.Limits("max_tokens")
	e.Setting("thinking", thinking)
	var output modelhttp.Writer
	output.Open()
	output.Optional("effort", effort)
	if schema := outputSchema(m, req); schema != nil {
		output.Raw("format", `{"type":"json_schema","schema":`+string(schema)+"}")
	}
	if len(output.B) > 1 {
		e.Setting("output_config", string(output.B)+"}")
	}
	return nil
}

// thinking returns the value of "thinking" and the effort. Models that are not adaptive get
// a number of tokens, which is less than max_tokens. With block_binding, the server drops
// thinking of a conversation that was shortened since; without it, the server would refuse
// the request.
func (p *Provider) thinking(m model, maxTokens int) (thinking, effort string, err error) {
	effort = strings.ToLower(p.ReasoningEffort)
	switch {
	case effort == "" && !m.alwaysThinks():
		return "", "", nil
	case effort == "none":
		return `{"type":"disabled"}`, "", nil
	case m.adaptive():
		if effort == "minimal" {
			effort = "low"
		}
		thinking = `{"type":"adaptive","display":"summarized"`
		if m.bindsThoughts() {
			thinking += `,"block_binding":{"prefix_mismatch_behavior":"drop_block"}`
		}
		return thinking + "}", effort, nil
	}
	budget := 0
	switch effort {
	case "minimal":
		budget = 1024
	case "low":
		budget = 4096
	case "medium":
		budget = 8192
	case "high":
		budget = 16_384
	case "xhigh", "max":
		budget = 32_768
	default:
		return "", "", fmt.Errorf("the model %s does not support the reasoning effort %q; want none, minimal, low, medium, high, xhigh or max", p.Model, effort)
	}
	budget = min(budget, maxTokens*3/4)
	if budget < 1024 { // the server's minimum
		return "", "", nil
	}
	return fmt.Sprintf(`{"type":"enabled","budget_tokens":%d}`, budget), "", nil
}

// outputSchema returns the schema of the answer if the server can enforce it, otherwise nil.
// The server refuses schemas with other keywords
// (https://platform.claude.com/docs/en/build-with-claude/structured-outputs).
func outputSchema(m model, req *agent.Request) []byte {
	text, strict := modelhttp.OutputSchema(req)
	var schema any
	if !m.claude || m.version < 405 || !strict || json.Unmarshal(text, &schema) != nil || !enforceable(schema) {
		return nil
	}
	return text
}

// enforceable reports whether the server supports all keywords of a schema.
func enforceable(schema any) bool {
	switch v := schema.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !enforceable(item) })
	case map[string]any:
		for name, value := range v {
			switch name {
			case "properties":
				named, _ := value.(map[string]any)
				for _, property := range named {
					if !enforceable(property) {
						return false
					}
				}
			case "items", "anyOf":
				if !enforceable(value) {
					return false
				}
			case "type", "required", "additionalProperties", "enum", "const", "description", "title", "$schema":
			default:
				return false
			}
		}
	}
	return true
}
