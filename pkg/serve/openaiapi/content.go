package openaiapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
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
func parseContent(raw json.RawMessage, param string) ([]agent.Part, error) {
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
	var list []contentPart
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, invalid(param, "invalid_type", "%s: want a string or a list of parts", param)
	}
	var parts []agent.Part
	for i, c := range list {
		part, err := c.part(fmt.Sprintf("%s[%d]", param, i))
		if err != nil {
			return nil, err
		}
		if part.Kind == agent.PartMedia || part.Text != "" {
			parts = append(parts, part)
		}
	}
	return parts, nil
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
		return dataURL(address.URL, "", param)
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

// textOf joins the text of parts.
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

// toolSpecs are the tools of a request. choice is its tool_choice.
func toolSpecs(tools []json.RawMessage, choice json.RawMessage) ([]agent.ToolSpec, error) {
	offered := true
	switch string(bytes.TrimSpace(choice)) {
	case "", "null", `"auto"`:
	case `"none"`:
		offered = false
	default:
		return nil, unsupported("tool_choice", "the agent decides which tools it calls: want auto or none")
	}
	var specs []agent.ToolSpec
	for i, raw := range tools {
		param := fmt.Sprintf("tools[%d]", i)
		var t clientTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, invalid(param, "invalid_type", "%s: %v", param, err)
		}
		if t.Type != "function" {
			return nil, unsupported(param+".type", "tools of the type %.50q are not supported: the agent has tools of its own; want function", t.Type)
		}
		f := t.function
		if t.Function != nil {
			f = *t.Function
		}
		if !given(f.Parameters) {
			f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		specs = append(specs, agent.ToolSpec{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	}
	if !offered {
		return nil, nil
	}
	return specs, nil
}
