package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
)

// fixed are the fields that ExtraBody cannot replace: the rest of this package
// depends on them.
var fixed = []string{"model", "messages", "tools", "stream"}

// body is the body of a request. It is a function of the request and the
// Provider's fields only, so that a conversation which grows gives a body with the
// same beginning.
func (p *Provider) body(f *facts, req *agent.Request) ([]byte, error) {
	e := encoder{f: f, b: make([]byte, 0, sizeOf(req))}
	e.b = append(e.b, '{')
	e.b = appendMember(e.b, "model", p.Model)
	e.b = appendRaw(e.b, "stream", "true")
	settings, err := outputFormat(p.settings(f), f, req)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		if _, replaced := p.ExtraBody[s.name]; !replaced {
			e.b = appendRaw(e.b, s.name, s.value)
		}
	}
	if err := e.extraBody(p.ExtraBody); err != nil {
		return nil, err
	}
	if err := e.tools(req.Tools); err != nil {
		return nil, err
	}
	e.b = append(appendName(e.b, "messages"), '[')
	if req.System != "" {
		e.text("system", req.System)
	}
	for i := range req.Messages {
		if err := e.message(&req.Messages[i]); err != nil {
			return nil, err
		}
	}
	return append(e.b, ']', '}'), nil
}

// settings are the optional fields, in the flavour's spelling.
func (p *Provider) settings(f *facts) []field {
	settings := slices.Clone(f.ask)
	if p.MaxOutputTokens > 0 {
		settings = append(settings, field{f.maxTokens, strconv.Itoa(p.MaxOutputTokens)})
	}
	if p.Temperature != nil {
		settings = append(settings, field{"temperature", strconv.FormatFloat(*p.Temperature, 'f', -1, 64)})
	}
	if p.ReasoningEffort != "" {
		effort := string(appendString(nil, p.ReasoningEffort))
		if f.effortObject {
			settings = append(settings, field{"reasoning", `{"effort":` + effort + `}`})
		} else {
			settings = append(settings, field{"reasoning_effort", effort})
		}
	}
	return settings
}

func (e *encoder) extraBody(extra map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		value := extra[name]
		if slices.Contains(fixed, name) {
			return fmt.Errorf("extra body: %q cannot be replaced", name)
		}
		if !json.Valid(value) {
			return fmt.Errorf("extra body: the value of %q is not valid JSON", name)
		}
		if string(value) != null {
			e.b = appendRaw(e.b, name, value)
		}
	}
	return nil
}

func (e *encoder) tools(tools []agent.ToolSpec) error {
	if len(tools) == 0 {
		return nil
	}
	e.b = append(appendName(e.b, "tools"), '[')
	for i, t := range tools {
		if !json.Valid(t.Schema) {
			return fmt.Errorf("the schema of tool %s is not valid JSON", t.Name)
		}
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, `{"type":"function","function":{`...)
		e.b = appendMember(e.b, "name", t.Name)
		e.b = appendMember(e.b, "description", t.Description)
		e.b = appendRaw(e.b, "parameters", t.Schema)
		e.b = append(e.b, '}', '}')
	}
	e.b = append(e.b, ']')
	return nil
}

// sizeOf estimates the size of a body, so that it is allocated once.
func sizeOf(req *agent.Request) int {
	size := 256 + len(req.System)
	add := func(parts []agent.Part) {
		size += 50
		for _, p := range parts {
			size += 50 + len(p.Text) + len(p.Data)*4/3
		}
	}
	for _, t := range req.Tools {
		size += 100 + len(t.Description) + len(t.Schema)
	}
	for _, m := range req.Messages {
		add(m.Parts)
		for _, c := range m.Calls {
			size += 150 + len(c.Args)
		}
		for _, r := range m.Results {
			add(r.Parts)
		}
	}
	return size + size/8 // room for escapes
}
