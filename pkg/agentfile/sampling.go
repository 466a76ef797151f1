package agentfile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/textcall"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

// sample asks n's model for an MCP server of n, as an agent of its own: without
// tools, with the server's messages only, in a session under the call during which
// the server asks. So it is observed, counted and limited like a sub-agent.
func (n *Node) sample(ctx context.Context, s mcpclient.Sampling) (mcpclient.Sampled, error) {
	if s.Call == nil {
		return mcpclient.Sampled{}, errors.New("a server can ask the model only during a call")
	}
	last := len(s.Messages) - 1
	if last < 0 || s.Messages[last].Role != agent.RoleUser {
		return mcpclient.Sampled{}, errors.New("the last message must be one of the user")
	}
	for i, m := range s.Messages {
		if m.Role != agent.RoleUser && m.Role != agent.RoleAssistant {
			return mcpclient.Sampled{}, fmt.Errorf("message %d has the role %q", i+1, m.Role)
		}
	}
	sampler := &agent.Agent{
		Slug: toolname.Join("mcp", s.Server), System: s.System, Opening: s.Messages[:last],
		Model: n.Agent.Model, Provider: limited(n.Agent.Provider, s),
	}
	out, err := s.Call.Run(ctx, sampler, s.Messages[last])
	finish := agent.FinishStop
	if errors.Is(err, agent.ErrLength) {
		finish, err = agent.FinishLength, nil
	}
	return mcpclient.Sampled{Message: out.Message, Model: n.Agent.Model, Finish: finish}, err
}

// limited returns p with the settings of s. The server's temperature counts only if
// the agent file has one: many models accept none.
func limited(p agent.Provider, s mcpclient.Sampling) agent.Provider {
	if all, ok := p.(*provider.Fallback); ok {
		own := &provider.Fallback{Models: slices.Clone(all.Models)}
		for i := range own.Models {
			own.Models[i].Provider = limited(own.Models[i].Provider, s)
		}
		return own
	}
	if outer, ok := p.(*unparsed.Provider); ok { // a server's request has no tools
		p = outer.Provider
	}
	if outer, ok := p.(*textcall.Provider); ok {
		p = outer.Provider
	}
	retry, ok := p.(*provider.Retry)
	if !ok {
		return p
	}
	priced, ok := retry.Provider.(*prices.Provider)
	if !ok {
		return p
	}
	model, own := withSettings(priced.Provider)
	if model == nil {
		return p
	}
	if s.MaxTokens > 0 && (own.MaxOutputTokens == 0 || s.MaxTokens < own.MaxOutputTokens) {
		own.MaxOutputTokens = s.MaxTokens
	}
	if s.Temperature > 0 && own.Temperature != nil {
		own.Temperature = &s.Temperature
	}
	again := *retry
	again.Provider = &prices.Provider{Provider: model, Price: priced.Price}
	return &again
}
