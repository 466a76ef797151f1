package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// The tools that a server with resources has in addition to its own. A tool of the
// server with the same name replaces them.
const (
	listResources = "list_resources"
	readResource  = "read_resource"
)

const maxResources = 10_000

// A resource is an entry of the list of resources or of their templates.
type resource struct {
	URI         string `json:"uri"`
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIME        string `json:"mimeType"`
}

// resourceTools are the tools of a server that has resources.
func (s *Toolset) resourceTools() []*Tool {
	own := func(name, description, schema string) *Tool {
		return &Tool{set: s, name: name, spec: agent.ToolSpec{
			Name: s.opts.name(s.server.Name, name), Description: description, Schema: json.RawMessage(schema),
			Source: "resources of MCP server " + s.server.Name, Effects: agent.EffectsNone,
		}}
	}
	list := own(listResources, "List the resources of the MCP server "+s.server.Name+": documents and data that it can give, each with its URI.",
		`{"type":"object","properties":{},"additionalProperties":false}`)
	list.call = func(ctx context.Context, c *conn, _ *callTimer, _ *agent.Invocation, _ json.RawMessage) (json.RawMessage, error) {
		entries, err := c.resources(ctx)
		if err != nil && len(entries) == 0 {
			return nil, err
		}
		return json.Marshal(entries)
	}
	list.parts = resourceList
	read := own(readResource, "Read a resource of the MCP server "+s.server.Name+". "+listResources+" lists them.",
		`{"type":"object","properties":{"uri":{"type":"string","description":"The URI of the resource."}},"required":["uri"],"additionalProperties":false}`)
	read.call, read.parts = read.callRead, resourceParts
	return []*Tool{list, read}
}

func (c *conn) resources(ctx context.Context) ([]resource, error) {
	items, err := c.pages(ctx, mcp.MethodResourcesList, "resources", maxResources)
	templates, templateErr := c.pages(ctx, mcp.MethodResourcesTemplatesList, "resourceTemplates", maxResources)
	var refused *rpcError
	if errors.As(templateErr, &refused) {
		templateErr = nil // many servers know no templates
	}
	var entries []resource
	for _, raw := range append(items, templates...) {
		var r resource
		if jsonrpc.Unmarshal(raw, &r) == nil && r.URI+r.URITemplate != "" {
			entries = append(entries, r)
		}
	}
	slices.SortStableFunc(entries, func(a, b resource) int {
		return cmp.Or(strings.Compare(a.URITemplate, b.URITemplate), strings.Compare(a.URI, b.URI))
	})
	return entries, errors.Join(err, templateErr)
}

// resourceList shows what the call of list_resources brought, a line each.
func resourceList(raw json.RawMessage) ([]agent.Part, error) {
	var entries []resource
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, r := range entries {
		fmt.Fprint(&b, cmp.Or(r.URI, r.URITemplate))
		if r.URI == "" {
			fmt.Fprint(&b, " (a template)")
		}
		for _, text := range []string{r.MIME, cmp.Or(r.Title, r.Name), r.Description} {
			if text != "" {
				fmt.Fprintf(&b, " · %s", strings.Join(strings.Fields(text), " "))
			}
		}
		b.WriteByte('\n')
	}
	return []agent.Part{agent.Text(b.String())}, nil
}

// callRead is the call of read_resource.
func (t *Tool) callRead(ctx context.Context, c *conn, timer *callTimer, inv *agent.Invocation, _ json.RawMessage) (json.RawMessage, error) {
	args, _ := inv.Args() // without an error, see Call
	uri, _ := jsonrpc.Text(args["uri"])
	if uri == "" {
		return nil, errors.New(`the argument "uri" is missing`)
	}
	return c.invoke(ctx, timer, inv, mcp.MethodResourcesRead, map[string]any{"uri": uri})
}

func resourceParts(raw json.RawMessage) ([]agent.Part, error) {
	var r struct {
		Contents []resourceContent `json:"contents"`
	}
	if err := jsonrpc.Unmarshal(raw, &r); err != nil {
		return []agent.Part{agent.Text(string(raw))}, misfit(err)
	}
	var parts []agent.Part
	for i := range r.Contents {
		parts = append(parts, r.Contents[i].parts()...)
	}
	return parts, nil
}

const maxPrompts = 1000

// A Prompt is a text with gaps that a server offers.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Arguments   []PromptArgument `json:"arguments"`
}

// A PromptArgument is a gap in a Prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// Prompts returns the server's prompts, sorted by name. It starts the server if
// need be. Prompts and an error may both come back.
func (s *Toolset) Prompts(ctx context.Context) ([]Prompt, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, _, cancel := newCallTimer(ctx, s.server.callTimeout())
	defer cancel()
	if c.caps.Prompts == nil {
		return nil, nil
	}
	items, err := c.pages(ctx, mcp.MethodPromptsList, "prompts", maxPrompts)
	if err != nil {
		err = s.named(fmt.Errorf("list its prompts: %w", err))
	}
	var prompts []Prompt
	for _, raw := range items {
		var p Prompt
		if decodeErr := jsonrpc.Unmarshal(raw, &p); decodeErr != nil || p.Name == "" {
			err = errors.Join(err, s.named(fmt.Errorf("a prompt cannot be read: %s", clip(string(raw), 200))))
			continue
		}
		prompts = append(prompts, p)
	}
	slices.SortStableFunc(prompts, func(a, b Prompt) int { return strings.Compare(a.Name, b.Name) })
	return prompts, err
}

// Prompt returns the messages of a prompt with args in its gaps.
func (s *Toolset) Prompt(ctx context.Context, name string, args map[string]string) ([]agent.Message, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, timer, cancel := newCallTimer(ctx, s.server.callTimeout())
	defer cancel()
	raw, err := c.invoke(ctx, timer, nil, mcp.MethodPromptsGet, map[string]any{"name": name, "arguments": args})
	if err != nil {
		return nil, s.named(fmt.Errorf("prompt %s: %w", name, err))
	}
	var result struct {
		Messages []struct {
			Role    agent.Role      `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := jsonrpc.Unmarshal(raw, &result); err != nil {
		return nil, s.named(fmt.Errorf("prompt %s: %w", name, err))
	}
	var messages []agent.Message
	for _, m := range result.Messages {
		if m.Role != agent.RoleUser && m.Role != agent.RoleAssistant {
			return nil, s.named(fmt.Errorf("prompt %s: a message has the role %q", name, clip(string(m.Role), 50)))
		}
		messages = append(messages, agent.Message{Role: m.Role, Parts: contentParts(m.Content)})
	}
	return messages, nil
}
