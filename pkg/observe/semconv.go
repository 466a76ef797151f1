package observe

// The names in spans. Those of gen_ai.* and error.* follow the semantic conventions for
// generative AI in open-telemetry/semantic-conventions-genai (model/gen-ai, in development);
// TestTelemetry in pkg/internal/suites compares them. The schema URL names the last release of
// OpenTelemetry's common conventions that included them; the new repository has no release.
// The contents of messages and tool calls, which the conventions leave to opt in, are not exported.
const (
	semconvSchema = "https://opentelemetry.io/schemas/1.41.0"

	attrOperation    = "gen_ai.operation.name"
	attrProvider     = "gen_ai.provider.name"
	attrConversation = "gen_ai.conversation.id"
	attrAgent        = "gen_ai.agent.name"
	attrModel        = "gen_ai.request.model"
	attrAnswered     = "gen_ai.response.model"
	attrFinish       = "gen_ai.response.finish_reasons"
	attrInput        = "gen_ai.usage.input_tokens" // with cached tokens
	attrCached       = "gen_ai.usage.cache_read.input_tokens"
	attrCacheWrite   = "gen_ai.usage.cache_creation.input_tokens"
	attrOutput       = "gen_ai.usage.output_tokens" // with reasoning tokens
	attrReasoning    = "gen_ai.usage.reasoning.output_tokens"
	attrTool         = "gen_ai.tool.name"
	attrCallID       = "gen_ai.tool.call.id"
	attrError        = "error.type"

	opAgent = "invoke_agent"
	opChat  = "chat"
	opTool  = "execute_tool"

	// Values of error.type beside those of agent.Status.
	errorTool    = "tool_error"
	errorUnknown = "_OTHER" // as the conventions have it: the end is not known

	// What the conventions have no name for.
	attrCost     = "agents.cost.usd"
	attrStatus   = "agents.status"
	attrKey      = "agents.call.key"
	attrReason   = "agents.retry.reason"
	attrWait     = "agents.retry.wait_ms"
	attrFallback = "agents.fallback"
	attrReceipt  = "agents.receipt"
	eventRetry   = "agents.retry"
)

// providerName is the gen_ai.provider.name of a flavor of model servers. Those that
// the conventions do not know keep their own name.
func providerName(flavor string) string {
	switch flavor {
	case "openai-v1":
		return "openai"
	case "mistral-v1":
		return "mistral_ai"
	case "kimi-v1":
		return "moonshot_ai"
	case "claude-v1", "anthropic":
		return "anthropic"
	case "openrouter-v1":
		return "openrouter"
	case "xai-v1":
		return "x_ai"
	case "gemini-v1":
		return "gcp.gen_ai"
	case "deepseek-v1":
		return "deepseek"
	}
	return flavor
}
