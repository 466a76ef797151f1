package mcpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
)

// capabilities is what the server may ask of us.
func (c *conn) capabilities() mcp.ClientCapabilities {
	var caps mcp.ClientCapabilities
	if len(c.opts.Roots) > 0 {
		caps.Roots = &struct {
			ListChanged bool `json:"listChanged,omitempty"`
		}{}
	}
	// Declared in any case: a server that asks and is declined says more to
	// the model than one that cannot ask.
	caps.Elicitation = &mcp.ElicitationCapability{Form: &struct{}{}}
	if c.opts.Elicit != nil {
		caps.Elicitation.URL = &struct{}{}
	}
	if c.opts.Sample != nil {
		caps.Sampling = &mcp.SamplingCapability{}
	}
	return caps
}

func (c *conn) clientOptions() []client.ClientOption {
	options := []client.ClientOption{
		client.WithElicitationHandler(requests{c}),
		client.WithDiscoverTimeout(c.server.startTimeout() / 2),
	}
	if len(c.opts.Roots) > 0 {
		options = append(options, client.WithRootsHandler(requests{c}))
	}
	if c.opts.Sample != nil {
		options = append(options, client.WithSamplingHandler(requests{c}))
	}
	return options
}

// requests answers what the server asks.
type requests struct{ c *conn }

// ListRoots implements client.RootsHandler.
func (r requests) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := &mcp.ListRootsResult{Roots: []mcp.Root{}}
	for _, root := range r.c.opts.Roots {
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, err
		}
		u := url.URL{Scheme: "file", Path: abs}
		result.Roots = append(result.Roots, mcp.Root{URI: u.String(), Name: filepath.Base(abs)})
	}
	return result, nil
}

// Elicit implements client.ElicitationHandler.
func (r requests) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	decline := &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}
	if r.c.opts.Elicit == nil {
		return decline, nil
	}
	ctx, k, cancel, err := r.c.asking(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	question := Elicitation{Server: r.c.server.Name, Message: request.Params.Message, URL: request.Params.URL, Call: k}
	if request.Params.RequestedSchema != nil && question.URL == "" {
		schema, err := json.Marshal(request.Params.RequestedSchema)
		if err != nil {
			return nil, err
		}
		question.Schema = schema
	}
	answer, err := r.c.opts.Elicit(ctx, question)
	if err != nil {
		return nil, err
	}
	result := &mcp.ElicitationResult{}
	switch answer.Action {
	case Accept:
		result.Action = mcp.ElicitationResponseActionAccept
		if len(answer.Content) > 0 {
			result.Content = answer.Content
		}
	case Cancel:
		result.Action = mcp.ElicitationResponseActionCancel
	default:
		return decline, nil
	}
	return result, nil
}

// CreateMessage implements client.SamplingHandler.
func (r requests) CreateMessage(ctx context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	if len(request.Tools) > 0 {
		return nil, errors.New("tools in a request for sampling are not supported")
	}
	ctx, k, cancel, err := r.c.asking(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	s := Sampling{
		Server: r.c.server.Name, System: request.SystemPrompt, MaxTokens: request.MaxTokens,
		Temperature: request.Temperature, StopSequences: request.StopSequences, Call: k,
	}
	for i, m := range request.Messages {
		parts, err := samplingParts(m.Content)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		s.Messages = append(s.Messages, agent.Message{Role: agent.Role(m.Role), Parts: parts})
	}
	sampled, err := r.c.opts.Sample(ctx, s)
	if err != nil {
		return nil, err
	}
	result := &mcp.CreateMessageResult{Model: sampled.Model, StopReason: stopReason(sampled.Finish)}
	result.Role = mcp.RoleAssistant
	result.Content = samplingContent(sampled.Message)
	if text, ok := result.Content.(mcp.TextContent); ok {
		var stopped bool
		if text.Text, stopped = stopAt(text.Text, request.StopSequences); stopped {
			result.Content, result.StopReason = text, "stopSequence"
		}
	}
	return result, nil
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
func samplingParts(message any) ([]agent.Part, error) {
	raw, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	items := []json.RawMessage{raw}
	if strings.HasPrefix(string(raw), "[") {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, err
		}
	}
	var parts []agent.Part
	for _, item := range items {
		var c content
		_ = json.Unmarshal(item, &c) // what is no object has no type
		switch c.Type {
		case "text", "image", "audio":
			parts = append(parts, contentParts(item)...)
		default:
			return nil, fmt.Errorf("content of type %q is not supported", clip(c.Type, 50))
		}
	}
	return parts, nil
}

// samplingContent is the one item that an answer may have: its text, or its
// first image or sound where there is none.
func samplingContent(m agent.Message) mcp.Content {
	text := m.Text()
	for _, p := range m.Parts {
		if text != "" || p.Kind != agent.PartMedia {
			continue
		}
		data := base64.StdEncoding.EncodeToString(p.Data)
		switch {
		case strings.HasPrefix(p.MIME, "image/"):
			return mcp.NewImageContent(data, p.MIME)
		case strings.HasPrefix(p.MIME, "audio/"):
			return mcp.NewAudioContent(data, p.MIME)
		}
	}
	return mcp.NewTextContent(text)
}

// maxAsked is how often a server may ask something during one call.
const maxAsked = 100

// asking finds the call during which the server asks something. The context ends
// with that call if there is no doubt which it is: nobody waits for the answer
// any more. Until done is called, the time of every call that may be the one
// stands still.
func (c *conn) asking(ctx context.Context) (asked context.Context, inv *agent.Invocation, done context.CancelFunc, err error) {
	k, known := ctx.Value(callKey{}).(*call)
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := []*call{k}
	if n := len(c.order); !known && n > 0 {
		k, known, waiting = c.order[n-1], n == 1, slices.Clone(c.order)
	}
	ctx, cancel := context.WithCancel(ctx)
	if k == nil {
		return ctx, nil, cancel, nil
	}
	if k.asked++; k.asked > maxAsked {
		cancel()
		return nil, nil, nil, fmt.Errorf("not answered: the server has asked %d times during this call", maxAsked)
	}
	stop := func() bool { return true }
	if known {
		stop = context.AfterFunc(k.ctx, cancel)
	}
	for _, w := range waiting {
		patienceOf(w.ctx).stop()
	}
	return ctx, k.inv, func() {
		stop()
		cancel()
		for _, w := range waiting {
			patienceOf(w.ctx).resume()
		}
	}, nil
}
