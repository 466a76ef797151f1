package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// maxQuestions is how many requests of a server are answered at the same time.
const maxQuestions = 16

// incoming handles a message of the server that is not an answer; k is the call on whose
// stream it came, or nil. Roots are sent at once, before a call that may depend on
// them; other answers take their time in the background, until ctx ends.
func (c *conn) incoming(ctx context.Context, k *call, m *jsonrpc.Message) {
	if m.ID == nil {
		c.notified(m)
		return
	}
	answer := func(ctx context.Context) {
		result, err := c.question(ctx, k, m.Method, m.Params)
		var bad *jsonrpc.Error
		if err != nil && !errors.As(err, &bad) {
			bad = jsonrpc.Errorf(jsonrpc.InternalError, "%v", err)
		}
		if err := c.transport.post(ctx, jsonrpc.Answer(m.ID, result, bad)); err != nil && ctx.Err() == nil {
			c.opts.log(fmt.Sprintf("the answer to a request of the server was not delivered: %v", c.failure(ctx, err)))
		}
	}
	if m.Method == string(mcp.MethodListRoots) {
		answer(ctx)
		return
	}
	c.mu.Lock()
	busy := c.questions == maxQuestions
	if !busy {
		c.questions++
	}
	c.mu.Unlock()
	if busy {
		_ = c.transport.post(ctx, jsonrpc.Answer(m.ID, nil, jsonrpc.Errorf(jsonrpc.InternalError, "not answered: the client answers %d requests already", maxQuestions)))
		return
	}
	c.spawn(ctx, func(ctx context.Context) {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.questions--
		}()
		answer(ctx)
	})
}

// question answers what the server asks, during k unless that is nil.
func (c *conn) question(ctx context.Context, k *call, method string, params json.RawMessage) (any, error) {
	switch {
	case method == string(mcp.MethodPing):
		return struct{}{}, nil
	case method == string(mcp.MethodListRoots) && len(c.opts.Roots) > 0:
		return c.roots()
	case method == string(mcp.MethodElicitationCreate):
		return c.elicit(ctx, k, params)
	case method == string(mcp.MethodSamplingCreateMessage) && c.opts.Sample != nil:
		return c.sample(ctx, k, params)
	}
	return nil, jsonrpc.Errorf(mcp.METHOD_NOT_FOUND, "method not found: %s", clip(method, 100))
}

func (c *conn) roots() (any, error) {
	var list []map[string]string
	for _, root := range c.opts.Roots {
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, err
		}
		path := filepath.ToSlash(abs)
		if filepath.VolumeName(path) != "" {
			path = "/" + path // file:///C:/…
		}
		u := url.URL{Scheme: "file", Path: path}
		list = append(list, map[string]string{"uri": u.String(), "name": filepath.Base(abs)})
	}
	return map[string]any{"roots": list}, nil
}

func (c *conn) elicit(ctx context.Context, k *call, params json.RawMessage) (any, error) {
	if c.opts.Elicit == nil {
		return map[string]any{"action": Decline}, nil
	}
	var q struct {
		Message string          `json:"message"`
		URL     string          `json:"url"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}
	if err := jsonrpc.Unmarshal(params, &q); err != nil {
		return nil, misfit(err)
	}
	if q.URL == "" && len(q.Schema) == 0 {
		return nil, errors.New("the question has neither a requestedSchema nor a url")
	}
	ctx, inv, done, err := c.asking(ctx, k)
	if err != nil {
		return nil, err
	}
	defer done()
	question := Elicitation{Server: c.server.Name, Message: q.Message, URL: q.URL, Call: inv}
	if q.URL == "" {
		question.Schema = q.Schema
	}
	answer, err := c.opts.Elicit(ctx, question)
	if err != nil {
		return nil, err
	}
	result := map[string]any{"action": Decline}
	switch answer.Action {
	case Accept:
		result["action"] = Accept
		if len(answer.Content) > 0 {
			result["content"] = answer.Content
		}
	case Cancel:
		result["action"] = Cancel
	}
	return result, nil
}

func (c *conn) sample(ctx context.Context, k *call, params json.RawMessage) (any, error) {
	var q struct {
		Messages []struct {
			Role    agent.Role      `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		System      string            `json:"systemPrompt"`
		MaxTokens   int               `json:"maxTokens"`
		Temperature float64           `json:"temperature"`
		Stop        []string          `json:"stopSequences"`
		Tools       []json.RawMessage `json:"tools"`
	}
	if err := jsonrpc.Unmarshal(params, &q); err != nil {
		return nil, misfit(err)
	}
	if len(q.Tools) > 0 {
		return nil, errors.New("tools in a request for sampling are not supported")
	}
	ctx, inv, done, err := c.asking(ctx, k)
	if err != nil {
		return nil, err
	}
	defer done()
	s := Sampling{Server: c.server.Name, System: q.System, MaxTokens: q.MaxTokens, Temperature: q.Temperature, StopSequences: q.Stop, Call: inv}
	for i, m := range q.Messages {
		parts, err := samplingParts(m.Content)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		s.Messages = append(s.Messages, agent.Message{Role: m.Role, Parts: parts})
	}
	sampled, err := c.opts.Sample(ctx, s)
	if err != nil {
		return nil, err
	}
	content, reason := samplingContent(sampled.Message), stopReason(sampled.Finish)
	if text, ok := content["text"].(string); ok {
		var stopped bool
		if content["text"], stopped = stopAt(text, q.Stop); stopped {
			reason = "stopSequence"
		}
	}
	return map[string]any{"role": "assistant", "content": content, "model": sampled.Model, "stopReason": reason}, nil
}

// stopAt cuts text before the first of the sequences. It is done here because
// many models refuse to do it.
func stopAt(text string, sequences []string) (cut string, stopped bool) {
	end := len(text)
	for _, s := range sequences {
		if i := strings.Index(text, s); s != "" && i >= 0 && i < end {
			end, stopped = i, true
		}
	}
	return text[:end], stopped
}

func stopReason(f agent.Finish) string {
	if f == agent.FinishLength {
		return "maxTokens"
	}
	return "endTurn"
}

// samplingParts reads the content of a message: one item or several.
func samplingParts(raw json.RawMessage) ([]agent.Part, error) {
	items := []json.RawMessage{raw}
	if strings.HasPrefix(string(raw), "[") {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, err
		}
	}
	var parts []agent.Part
	for _, item := range items {
		var c content
		_ = jsonrpc.Unmarshal(item, &c) // other values have no type
		switch c.Type {
		case "text", "image", "audio":
			parts = append(parts, contentParts(item)...)
		default:
			return nil, fmt.Errorf("content of type %q is not supported", clip(c.Type, 50))
		}
	}
	return parts, nil
}

// samplingContent is the one item that an answer may have: its text, or its first image
// or sound where there is none.
func samplingContent(m agent.Message) map[string]any {
	text := m.Text()
	for _, p := range m.Parts {
		kind, _, _ := strings.Cut(p.MIME, "/")
		if text == "" && p.Kind == agent.PartMedia && (kind == "image" || kind == "audio") {
			return map[string]any{"type": kind, "data": p.Data, "mimeType": p.MIME} // as base64
		}
	}
	return map[string]any{"type": "text", "text": text}
}
