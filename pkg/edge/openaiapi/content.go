package openaiapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A contentPart is a part of a message, in chat completions or responses.
type contentPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"` // {"url":…}, or the address itself
	Audio    struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	File json.RawMessage `json:"file"` // a filePart, which responses have in the part itself
	filePart
}

type filePart struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

// parseContent reads the content of a message: a text, or a list of parts. param is its
// place in the request.
func parseContent(n *items, raw json.RawMessage, param string) ([]agent.Part, error) {
	if !given(raw) {
		return nil, nil
	}
	var whole string
	if json.Unmarshal(raw, &whole) == nil {
		if whole == "" {
			return nil, nil
		}
		return []agent.Part{agent.Text(whole)}, nil
	}
	if first := bytes.TrimSpace(raw); len(first) > 0 && first[0] != '[' {
		return nil, invalid(param, "invalid_type", "%s: want a string or a list of parts", param)
	}
	var parts []agent.Part
	err := each(n, raw, param, func(c *contentPart, param string) error {
		part, err := c.part(param)
		if err == nil && (part.Kind == agent.PartMedia || part.Text != "") {
			parts = append(parts, part)
		}
		return err
	})
	return parts, err
}

func (c *contentPart) part(param string) (agent.Part, error) {
	switch c.Type {
	case "text", "input_text", "output_text":
		return agent.Text(c.Text), nil
	case "refusal":
		return agent.Text(c.Refusal), nil
	case "image_url", "input_image":
		var address struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(c.ImageURL, &address.URL) != nil {
			_ = json.Unmarshal(c.ImageURL, &address) // then there is no URL, which dataURL refuses
		}
		return dataURL(address.URL, "", param+".image_url")
	case "input_audio":
		kind := "audio/" + c.Audio.Format
		if c.Audio.Format == "mp3" {
			kind = "audio/mpeg"
		}
		return dataURL("data:"+kind+";base64,"+c.Audio.Data, "", param)
	case "file":
		if json.Unmarshal(c.File, &c.filePart) != nil {
			return agent.Part{}, invalid(param, "invalid_value", "%s: want file.file_data", param)
		}
		fallthrough
	case "input_file":
		data := c.Data
		if data != "" && !strings.HasPrefix(data, "data:") { // base64 alone is accepted too
			data = "data:;base64," + data
		}
		return dataURL(data, c.Name, param)
	}
	return agent.Part{}, unsupported(param+".type", "parts of the type %.50q are not supported", c.Type)
}

// dataURL is the content of a data URL. Nothing is fetched for a client: it could reach
// what only the server can.
func dataURL(address, name, param string) (agent.Part, error) {
	rest, ok := strings.CutPrefix(address, "data:")
	kind, text, ok2 := strings.Cut(rest, ";base64,")
	if !ok || !ok2 {
		return agent.Part{}, unsupported(param, "the content must be in the request, as a data URL with base64; addresses and ids of files are not supported")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return agent.Part{}, invalid(param, "invalid_value", "%s: %v", param, err)
	}
	if kind == "" {
		kind = http.DetectContentType(data)
	}
	return agent.Part{Kind: agent.PartMedia, MIME: kind, Data: data, Name: name}, nil
}

func textOf(parts []agent.Part) string { return agent.Message{Parts: parts}.Text() }

// A clientTool is a tool of a request: in chat completions its function is an object of
// its own.
type clientTool struct {
	Type     string    `json:"type"`
	Function *function `json:"function"`
	function
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// maxTools is more than any model takes.
const maxTools = 1000

// toolSpecs returns the tools of a request. choice is its tool_choice: if that requires a call,
// forced are the tools of which one must be called, and no tools are offered.
func toolSpecs(n *items, tools, choice json.RawMessage) (specs, forced []agent.ToolSpec, err error) {
	specs, err = allTools(n, tools)
	if err != nil {
		return nil, nil, err
	}
	var named struct {
		Type     string    `json:"type"`
		Name     string    `json:"name"`
		Function *function `json:"function"`
	}
	switch string(bytes.TrimSpace(choice)) {
	case "", "null", `"auto"`:
		return specs, nil, nil
	case `"none"`:
		return nil, nil, nil
	case `"required"`:
		if len(specs) == 0 {
			return nil, nil, invalid("tool_choice", "invalid_value", "tool_choice: a call is required, and there are no tools")
		}
		return nil, specs, nil
	}
	if json.Unmarshal(choice, &named) != nil || named.Type != "function" {
		return nil, nil, unsupported("tool_choice", "want auto, none, required, or a function")
	}
	if named.Function != nil {
		named.Name = named.Function.Name
	}
	i := slices.IndexFunc(specs, func(s agent.ToolSpec) bool { return s.Name == named.Name })
	if i < 0 {
		return nil, nil, invalid("tool_choice", "invalid_value", "tool_choice: tools has no function %.100q", named.Name)
	}
	return nil, specs[i : i+1], nil
}

// callSchema returns the schema of an answer that is a call of one of tools: the arguments of
// the call, or with several tools its name and arguments.
func callSchema(tools []agent.ToolSpec) json.RawMessage {
	var choices []object
	for _, t := range tools {
		var schema object
		if json.Unmarshal(t.Schema, &schema) != nil {
			return t.Schema // which is refused
		}
		if schema["description"] == nil && t.Description != "" {
			schema["description"] = t.Description
		}
		if len(tools) == 1 {
			return encode(schema)
		}
		if schema["$id"] == nil { // so that its references hold
			schema["$id"] = "https://tools.invalid/" + t.Name
		}
		choices = append(choices, object{"type": "object", "properties": object{"name": object{"const": t.Name}, "arguments": schema},
			"required": []string{"name", "arguments"}, "additionalProperties": false})
	}
	return encode(object{"description": "a call of one of these tools", "type": "object", "anyOf": choices})
}

func allTools(n *items, tools json.RawMessage) (specs []agent.ToolSpec, err error) {
	if !given(tools) {
		return nil, nil
	}
	err = each(n, tools, "tools", func(t *clientTool, param string) error {
		switch {
		case len(specs) == maxTools:
			return invalid("tools", "too_many_items", "tools: there are more than %d", maxTools)
		case t.Type != "function":
			return unsupported(param+".type", "tools of the type %.50q are not supported: the agent has tools of its own; want function", t.Type)
		}
		f := t.function
		if t.Function != nil {
			f = *t.Function
		}
		if !given(f.Parameters) {
			f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		specs = append(specs, agent.ToolSpec{Name: f.Name, Description: f.Description, Schema: f.Parameters})
		return nil
	})
	return specs, err
}
