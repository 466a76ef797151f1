package modelhttp

import "github.com/agents-exe/agents/pkg/agent"

// maxCost is the highest price of one request that is believed: sums of such prices
// stay within an agent.Money.
const maxCost = 1e6 * agent.Dollar

// completed returns the usage that a server reported, with estimates in place of the tokens
// that it did not report, or reported as zero or less: see Number. answer is nil if there is
// no complete answer.
func completed(u agent.Usage, req *agent.Request, answer *agent.Message) agent.Usage {
	estimate := agent.EstimateUsage(req, answer)
	u.Requests = max(u.Requests, 1)
	if u.InputTokens == 0 {
		u.InputTokens, u.Estimated = estimate.InputTokens, 1
	}
	if u.OutputTokens == 0 && answer != nil {
		u.OutputTokens, u.Estimated = estimate.OutputTokens, 1
	}
	return u
}

// UsageOf turns the usage of a server into agent's terms. in and out are what the protocol
// calls the two sides: "prompt" and "completion", or "input" and "output". Some servers
// count reasoning in the total and not in the output.
func UsageOf(u Object, in, out string) agent.Usage {
	input := Number(u.Get(in + "_tokens"))
	output := max(Number(u.Get(out+"_tokens")), Number(u.Get("total_tokens"))-input)
	details := ObjectOf(u.Get(in + "_tokens_details"))
	cached := max(Number(details.Get("cached_tokens")),
		Number(u.Get("cached_tokens")),           // Kimi
		Number(u.Get("prompt_cache_hit_tokens"))) // DeepSeek
	reasoning := Number(ObjectOf(u.Get(out + "_tokens_details")).Get("reasoning_tokens"))
	usage := agent.Usage{Requests: 1, InputTokens: input, CachedTokens: min(cached, input), OutputTokens: output, ReasoningTokens: min(reasoning, output)}
	usage.CacheWriteTokens = min(Number(details.Get("cache_write_tokens")), input-usage.CachedTokens)
	// OpenRouter
	if cost, err := agent.ParseMoney(string(u.Get("cost"))); err == nil && cost >= 0 && cost <= maxCost {
		usage.Cost, usage.Priced = cost, 1
	}
	return usage
}
