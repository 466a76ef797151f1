package openai

import (
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// maxCost is the highest price of one request that is believed: sums of such prices
// stay within an agent.Money.
const maxCost = 1e6 * agent.Dollar

// usageOf turns the usage of a server into agent's terms. Some servers count
// reasoning in the total and not in the completion.
func usageOf(u modelhttp.Object) agent.Usage {
	in := modelhttp.Number(u.Get("prompt_tokens"))
	out := max(modelhttp.Number(u.Get("completion_tokens")), modelhttp.Number(u.Get("total_tokens"))-in)
	cached := max(modelhttp.Number(modelhttp.ObjectOf(u.Get("prompt_tokens_details")).Get("cached_tokens")),
		modelhttp.Number(u.Get("cached_tokens")),           // Kimi
		modelhttp.Number(u.Get("prompt_cache_hit_tokens"))) // DeepSeek
	reasoning := modelhttp.Number(modelhttp.ObjectOf(u.Get("completion_tokens_details")).Get("reasoning_tokens"))
	usage := agent.Usage{Requests: 1, InputTokens: in, CachedTokens: min(cached, in), OutputTokens: out, ReasoningTokens: min(reasoning, out)}
	// OpenRouter
	if cost, err := agent.ParseMoney(string(u.Get("cost"))); err == nil && cost >= 0 && cost <= maxCost {
		usage.Cost, usage.Priced = cost, 1
	}
	return usage
}
