package agentfile

import (
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
)

// The values of protocol: what the server of a model speaks.
const (
	protocolChat      = "chat"
	protocolAnthropic = "anthropic"
)

// modelProtocol is what the server of the model speaks. The flavor "anthropic" is the one
// name of Anthropic's server that means its own protocol; ClaudeV1, of agents-exe, means
// its compatible endpoint.
func (s *Spec) modelProtocol() string {
	switch {
	case s.Protocol != "":
		return s.Protocol
	case strings.EqualFold(s.Flavor, "anthropic"):
		return protocolAnthropic
	}
	return protocolChat
}

// provider is the model behind its protocol.
func (s *Spec) provider(flavor openai.Flavor, settings modelhttp.Settings) agent.Provider {
	switch s.modelProtocol() {
	case protocolAnthropic:
		return &anthropic.Provider{Settings: settings, ContextTokens: s.ContextTokens}
	}
	return &openai.Provider{Flavor: flavor, Settings: settings}
}

// withSettings is a copy of a model with settings of its own to change; nil if p is no
// model behind a protocol.
func withSettings(p agent.Provider) (agent.Provider, *modelhttp.Settings) {
	switch p := p.(type) {
	case *anthropic.Provider:
		own := *p
		return &own, &own.Settings
	case *openai.Provider:
		own := *p
		return &own, &own.Settings
	}
	return nil, nil
}
