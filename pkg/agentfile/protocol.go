package agentfile

import (
	"net/url"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
)

// The values of protocol: what the server of a model speaks.
const (
	protocolChat      = "chat"
	protocolResponses = "responses"
	protocolAnthropic = "anthropic"
)

// modelProtocol is what the server of the model at u speaks. OpenAI's own server is asked
// by its own protocol. Of the two flavors of Anthropic's server, Claude, which agents-exe
// has too, is its compatible endpoint.
func (s *Spec) modelProtocol(flavor openai.Flavor, u *url.URL) string {
	switch {
	case s.Protocol != "":
		return s.Protocol
	case flavor == openai.OpenAI && strings.EqualFold(u.Hostname(), "api.openai.com"):
		return protocolResponses
	case flavor == openai.Anthropic:
		return protocolAnthropic
	}
	return protocolChat
}

// fixed returns a member of requests that is in extraBody and cannot be replaced, "" if
// there is none.
func (s *Spec) fixed(protocol string) string {
	names := openai.Fixed
	switch protocol {
	case protocolResponses:
		names = responses.Fixed
	case protocolAnthropic:
		names = anthropic.Fixed
	}
	for name := range s.ExtraBody {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// provider is the model behind its protocol.
func (s *Spec) provider(protocol string, flavor openai.Flavor, u *url.URL, settings modelhttp.Settings) agent.Provider {
	switch protocol {
	case protocolResponses:
		return &responses.Provider{Settings: settings, OutputAlone: !flavor.At(u).OutputWithTools()}
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
	case *responses.Provider:
		own := *p
		return &own, &own.Settings
	case *openai.Provider:
		own := *p
		return &own, &own.Settings
	}
	return nil, nil
}
