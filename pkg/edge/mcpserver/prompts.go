package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// A Prompt is a template that a person picks in a client.
type Prompt struct {
	Name, Description string
	Args              []PromptArg
	// Text is the user message that args make, which have the required ones.
	Text func(args map[string]string) (string, error)
	// Messages, if it is not nil, makes the messages instead.
	Messages func(args map[string]string) ([]Message, error)
}

// A Message is one of a Prompt, of the user or the assistant: a part, or the content of the
// resource with a URI.
type Message struct {
	Assistant bool
	Part      agent.Part
	Resource  string
}

// A PromptArg is an argument of a Prompt.
type PromptArg struct {
	Name, Description string
	Required          bool
}

// SetPrompts replaces the prompts. Names must differ. Clients are notified only of
// changes that they can see.
func (s *Server) SetPrompts(prompts []Prompt) {
	byName := make(map[string]Prompt, len(prompts))
	list := make([]server.ServerPrompt, len(prompts))
	for i, p := range prompts {
		byName[p.Name] = p
		list[i] = server.ServerPrompt{Prompt: p.described(), Handler: s.prompt(p.Name)}
	}
	s.mu.Lock()
	before := s.prompts
	s.prompts = byName
	s.mu.Unlock()
	if !maps.EqualFunc(before, byName, func(a, b Prompt) bool {
		return a.Description == b.Description && slices.Equal(a.Args, b.Args)
	}) {
		s.mcp.SetPrompts(list...)
	}
}

func (p Prompt) described() mcp.Prompt {
	d := mcp.Prompt{Name: p.Name, Description: p.Description}
	for _, a := range p.Args {
		d.Arguments = append(d.Arguments, mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return d
}

// prompt answers a request for the prompt of a name, whose arguments were checked.
func (s *Server) prompt(name string) server.PromptHandlerFunc {
	return func(ctx context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		s.mu.Lock()
		p, ok := s.prompts[name]
		s.mu.Unlock()
		if !ok {
			return nil, fmt.Errorf("the prompt %s is gone", name)
		}
		args, ask, err := s.promptArgs(ctx, p, r.Params)
		if ask != nil || err != nil {
			return ask, err
		}
		if p.Messages == nil {
			text, err := p.Text(args)
			if err != nil {
				return nil, err
			}
			message := mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(s.opts.Hide(text)))
			return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{message}), nil
		}
		messages, err := p.Messages(args)
		if err != nil {
			return nil, wrong(ctx, s.opts.Hide(err.Error()))
		}
		result := mcp.NewGetPromptResult(p.Description, nil)
		for _, m := range messages {
			contents := s.contents([]agent.Part{m.Part})
			if m.Resource != "" {
				resource, err := s.embedded(ctx, m.Resource)
				if err != nil {
					return nil, wrong(ctx, s.opts.Hide(err.Error()))
				}
				contents = []mcp.Content{mcp.NewEmbeddedResource(resource)}
			}
			role := mcp.RoleUser
			if m.Assistant {
				role = mcp.RoleAssistant
			}
			for _, c := range contents {
				result.Messages = append(result.Messages, mcp.NewPromptMessage(role, c))
			}
		}
		return result, nil
	}
}

// promptArgs are the arguments of a prompt. From 2026-07-28 on the client is asked for
// required ones that are missing.
func (s *Server) promptArgs(ctx context.Context, p Prompt, params mcp.GetPromptParams) (map[string]string, *mcp.GetPromptResult, error) {
	args := maps.Clone(params.Arguments)
	if args == nil {
		args = map[string]string{}
	}
	ask := server.NewInputRequestBuilder("")
	missing := ""
	for _, a := range p.Args {
		if _, ok := args[a.Name]; ok || !a.Required {
			continue
		}
		var said struct {
			Action  string
			Content map[string]string
		}
		if raw, err := json.Marshal(params.InputResponses[a.Name]); err == nil && json.Unmarshal(raw, &said) == nil && said.Action == "accept" {
			args[a.Name] = said.Content[a.Name]
			continue
		}
		missing = a.Name
		schema := map[string]any{"type": "object", "required": []string{a.Name},
			"properties": map[string]any{a.Name: map[string]any{"type": "string", "description": a.Description}}}
		ask.Elicit(a.Name, mcp.ElicitationParams{Message: fmt.Sprintf("The prompt %s needs %s.", p.Name, a.Name), RequestedSchema: schema})
	}
	switch r := requestFrom(ctx); {
	case missing == "":
		return args, nil, nil
	case len(params.InputResponses) > 0 || r == nil || r.conn.session.capabilities(ctx).Elicitation == nil:
		return nil, nil, wrong(ctx, "params.arguments: "+missing+" is missing")
	}
	return nil, ask.PromptResult(), nil
}

// checkPrompt validates a request for a prompt, for which the library has no errors.
func (s *Server) checkPrompt(m *message) *jsonrpc.Error {
	name, ok := jsonrpc.Text(m.params["name"])
	if !ok {
		return invalidParams("params.name: it must be a string")
	}
	s.mu.Lock()
	p, ok := s.prompts[name]
	s.mu.Unlock()
	if !ok {
		return invalidParams("unknown prompt: %s", name)
	}
	var args map[string]json.RawMessage
	if raw := m.params["arguments"]; raw != nil && json.Unmarshal(raw, &args) != nil {
		return invalidParams("params.arguments: it must be an object")
	}
	for key, raw := range args {
		if _, ok := jsonrpc.Text(raw); !ok {
			return invalidParams("params.arguments: %s must be a string", key)
		}
	}
	for _, a := range p.Args {
		if _, ok := args[a.Name]; a.Required && !ok && !m.modern { // otherwise the client is asked
			return invalidParams("params.arguments: %s is missing", a.Name)
		}
	}
	return nil
}
