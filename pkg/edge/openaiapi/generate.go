package openaiapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// generateContent of Gemini (https://ai.google.dev/api/generate-content), for programs that want
// a model: see ProgramCall.

// A generateRequest has the parameters that have an effect on a model of another protocol. Stream
// is not in the body, but in the address.
type generateRequest struct {
	Stream   bool             `json:"-"`
	Contents json.RawMessage  `json:"contents"`
	System   *generateContent `json:"systemInstruction"`
	Tools    json.RawMessage  `json:"tools"`
	Choice   struct {
		Config struct {
			Mode string `json:"mode"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		Stop       []string        `json:"stopSequences"`
		Count      int             `json:"candidateCount"`
		MIME       string          `json:"responseMimeType"`
		Modalities []string        `json:"responseModalities"`
		Schema     json.RawMessage `json:"responseJsonSchema"`
		Typed      json.RawMessage `json:"responseSchema"`
	} `json:"generationConfig"`
	// Refused.
	Cached string `json:"cachedContent"`

	calls []agent.ToolCall // without a result so far
	made  int              // ids of calls that had none
}

type generateContent struct {
	Role  string          `json:"role"`
	Parts json.RawMessage `json:"parts"`
}

// A generatePart is a part of a content.
type generatePart struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought"`
	Inline  *struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
	File *struct{} `json:"fileData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Result *struct {
		ID       string                     `json:"id"`
		Name     string                     `json:"name"`
		Response map[string]json.RawMessage `json:"response"`
		Parts    json.RawMessage            `json:"parts"`
	} `json:"functionResponse"`
}

// model returns the request of a model.
func (r *generateRequest) model(n *items) (*agent.Request, error) {
	c := &r.Config
	switch mode := r.Choice.Config.Mode; {
	case len(c.Stop) > 0:
		return nil, unsupported("generationConfig.stopSequences", "they cannot be translated for the lent model")
	case c.Count > 1:
		return nil, unsupported("generationConfig.candidateCount", "a request has one answer")
	case r.Cached != "":
		return nil, unsupported("cachedContent", "the lent model has none; send the whole contents")
	case mode != "" && mode != "AUTO" && mode != "NONE" && mode != "MODE_UNSPECIFIED":
		return nil, unsupported("toolConfig", "a call cannot be required of the lent model; want AUTO or NONE")
	case slices.ContainsFunc(c.Modalities, func(m string) bool { return !strings.EqualFold(m, "text") }):
		return nil, unsupported("generationConfig.responseModalities", "the lent model answers with text")
	case given(c.Typed):
		return nil, unsupported("generationConfig.responseSchema", "want responseJsonSchema")
	}
	t := &thread{forModel: true}
	out := &agent.Request{}
	if r.System != nil {
		parts, err := r.parts(n, r.System.Parts, "systemInstruction.parts", nil)
		if err != nil {
			return nil, err
		}
		out.System = textOf(parts)
	}
	err := each(n, r.Contents, "contents", func(c *generateContent, param string) error { return r.add(n, t, c, param) })
	if err == nil {
		err = t.finish()
	}
	if err != nil {
		return nil, err
	}
	if out.Messages = t.messages; given(c.Schema) {
		out.Output = c.Schema
	} else if c.MIME == kindJSON {
		out.Output = json.RawMessage(`{"type":"object"}`)
	}
	return out, r.tools(n, out)
}

// tools adds the functions of the request to out.
func (r *generateRequest) tools(n *items, out *agent.Request) error {
	if !given(r.Tools) || r.Choice.Config.Mode == "NONE" {
		return nil
	}
	return each(n, r.Tools, "tools", func(t *map[string]json.RawMessage, param string) error {
		for kind, list := range *t {
			if kind != "functionDeclarations" {
				return unsupported(param, "tools of the type %.50q cannot be translated for the lent model", kind)
			}
			err := each(n, list, param+"."+kind, func(f *struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Schema      json.RawMessage `json:"parametersJsonSchema"`
				Typed       json.RawMessage `json:"parameters"`
			}, param string) error {
				if given(f.Typed) {
					return unsupported(param+".parameters", "want parametersJsonSchema")
				}
				if !given(f.Schema) {
					f.Schema = json.RawMessage(`{"type":"object"}`)
				}
				out.Tools = append(out.Tools, agent.ToolSpec{Name: f.Name, Description: f.Description, Schema: f.Schema})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// add adds a content to a thread.
func (r *generateRequest) add(n *items, t *thread, c *generateContent, param string) error {
	answer, results := agent.Message{Role: agent.RoleAssistant}, agent.Message{Role: agent.RoleTool}
	parts, err := r.parts(n, c.Parts, param+".parts", func(p *generatePart, param string) error {
		if k := p.Call; k != nil {
			if k.ID == "" {
				r.made++
				k.ID = fmt.Sprintf("call_%d", r.made)
			}
			if !given(k.Args) {
				k.Args = json.RawMessage("{}")
			}
			answer.Calls = append(answer.Calls, agent.ToolCall{ID: k.ID, Name: k.Name, Args: string(k.Args)})
			return nil
		}
		result, err := r.result(n, p, param)
		results.Results = append(results.Results, result)
		return err
	})
	if err != nil {
		return err
	}
	r.calls = append(r.calls, answer.Calls...)
	if c.Role == "model" {
		answer.Parts = parts
		t.add(answer)
		return nil
	}
	if len(results.Results) > 0 {
		t.add(results)
	}
	if len(parts) > 0 {
		t.user(parts...)
	}
	return nil
}

// result reads that of a call: without an id, it is of the first call of its name that has none.
func (r *generateRequest) result(n *items, p *generatePart, param string) (agent.ToolResult, error) {
	k := p.Result
	i := slices.IndexFunc(r.calls, func(c agent.ToolCall) bool { return c.ID == k.ID || k.ID == "" && c.Name == k.Name })
	if i >= 0 {
		k.ID = r.calls[i].ID
		r.calls = slices.Delete(r.calls, i, i+1)
	}
	result := agent.ToolResult{CallID: k.ID}
	said := []byte{}
	for _, key := range []string{"output", "error"} { // the members that the protocol defines
		if v, ok := k.Response[key]; ok && len(k.Response) == 1 {
			said, result.Failed = v, key == "error"
		}
	}
	var text string
	switch {
	case len(said) == 0:
		text = strings.TrimSpace(string(encode(k.Response)))
	case json.Unmarshal(said, &text) != nil:
		text = string(said)
	}
	more, err := r.parts(n, k.Parts, param+".functionResponse.parts", nil)
	result.Parts = append([]agent.Part{agent.Text(text)}, more...)
	return result, err
}

// parts reads the parts of a content. Calls and results are given to other; nil ignores them.
func (r *generateRequest) parts(n *items, raw json.RawMessage, param string, other func(p *generatePart, param string) error) (parts []agent.Part, err error) {
	if !given(raw) {
		return nil, nil
	}
	err = each(n, raw, param, func(p *generatePart, param string) error {
		switch {
		case p.Thought: // of another model
		case p.File != nil:
			return unsupported(param+".fileData", "the content must be in the request")
		case p.Inline != nil:
			data, err := base64.StdEncoding.DecodeString(p.Inline.Data)
			if err != nil {
				return invalid(param, "invalid_value", "%s: %v", param, err)
			}
			parts = append(parts, agent.Part{Kind: agent.PartMedia, MIME: p.Inline.MIME, Data: data})
		case (p.Call != nil || p.Result != nil) && other != nil:
			return other(p, param)
		case p.Text != "":
			parts = append(parts, agent.Text(p.Text))
		}
		return nil
	})
	return parts, err
}

// A generateOutput writes a response, or with a stream its pieces.
type generateOutput struct {
	*stream
	model string
	id    string
}

// response is the answer, or a piece of it.
func (o *generateOutput) response(reason any, parts ...object) object {
	if parts == nil {
		parts = []object{}
	}
	return object{"candidates": []object{{"index": 0, "content": object{"role": "model", "parts": parts}, "finishReason": reason}}, "modelVersion": o.model, "responseId": o.id}
}

func (o *generateOutput) text(piece string, again bool) {
	if again {
		piece = "\n\n" + piece
	}
	o.send("", o.response(nil, object{"text": piece}))
}

func (o *generateOutput) turn() {}

func (o *generateOutput) finish(r *reply) {
	var parts []object
	if !o.on && r.text != "" {
		parts = append(parts, object{"text": r.text})
	}
	for _, c := range r.calls {
		parts = append(parts, object{"functionCall": object{"id": c.id, "name": c.name, "args": c.input()}})
	}
	reason := "STOP"
	switch r.short {
	case cutShort:
		reason = "MAX_TOKENS"
	case withheld:
		reason = "SAFETY"
	}
	whole, u := o.response(reason, parts...), r.usage
	whole["usageMetadata"] = object{"promptTokenCount": u.InputTokens, "cachedContentTokenCount": u.CachedTokens, "candidatesTokenCount": u.OutputTokens - u.ReasoningTokens,
		"thoughtsTokenCount": u.ReasoningTokens, "totalTokenCount": u.InputTokens + u.OutputTokens}
	if !o.on {
		writeJSON(o.w, http.StatusOK, whole)
		return
	}
	o.send("", whole)
}

func (o *generateOutput) fail(err error) {
	if !o.begun {
		writeErrorAs(o.w, err, generateError)
		return
	}
	o.send("", generateError(asAPIError(err)))
}

// generateError returns an error in Google's form.
func generateError(e *apiError) object {
	status := map[int]string{http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusNotFound: "NOT_FOUND",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE"}[e.status]
	if status == "" {
		status = "INTERNAL"
		if e.status < 500 {
			status = "FAILED_PRECONDITION"
		}
	}
	return object{"error": object{"code": e.status, "message": e.Text, "status": status}}
}
