package openai

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A Flavor names a family of servers that speak the chat completions protocol,
// each with habits of its own. ParseFlavor gives the one that belongs to a name.
type Flavor string

// The flavours.
const (
	OpenAI     Flavor = "openai-v1"
	Mistral    Flavor = "mistral-v1"
	Kimi       Flavor = "kimi-v1"
	Claude     Flavor = "claude-v1"
	OpenRouter Flavor = "openrouter-v1"
	XAI        Flavor = "xai-v1"
	Gemini     Flavor = "gemini-v1"
	DeepSeek   Flavor = "deepseek-v1"
	Ollama     Flavor = "ollama"
	VLLM       Flavor = "vllm"
	LlamaCpp   Flavor = "llamacpp"
	LMStudio   Flavor = "lmstudio"
	// Compatible is any other server of the protocol.
	Compatible Flavor = "openai-compatible"
)

// facts are what differs from one flavour to the next. Whatever is not here is
// the same for all.
type facts struct {
	flavor Flavor
	// names are further spellings, in lower case.
	names []string
	// url is the base URL where none is given; hosts are the server's own
	// names, by which a file that says OpenAIv1 or openai-compatible is
	// recognised.
	url   string
	hosts []string
	// maxTokens is the name of the field that limits the output.
	maxTokens string
	// effort is the name of the field for the reasoning effort;
	// "reasoning.effort" is a field within an object.
	effort string
	// usage is what makes the server count tokens in a stream; "" where it
	// does so unasked and refuses to be asked.
	usage string
	// reasoning says where the text of a model's reasoning goes when it is
	// sent back with its tool calls.
	reasoning reasoningRule
	// extra says that what came as extra_content is wanted back.
	extra bool
	// noText is the content of a message that has calls and no text. Chat
	// templates of local servers print null as "None".
	noText string
	// shortIDs: call ids are nine letters and digits and nothing else.
	shortIDs bool
	// noUserAfterTool: between tool results and a user message the server
	// wants to see the assistant.
	noUserAfterTool bool
	// documentURL: a PDF is a document_url part instead of a file part.
	documentURL bool
}

// A reasoningRule says how reasoning is sent back.
type reasoningRule struct {
	// field is the field of the message; "" means never, asItCame the field
	// in which the server sent it.
	field string
	// required: a message with calls is refused without the field, even if
	// there was no reasoning.
	required bool
	// details: the list reasoning_details goes back too, with every message.
	details bool
}

const (
	asItCame   = "*"
	askUsage   = `"stream_options":{"include_usage":true}`
	askCost    = askUsage + `,"usage":{"include":true}`
	maxTokens  = "max_tokens"
	maxTokens2 = "max_completion_tokens"
	effort     = "reasoning_effort"
	null       = "null"
	emptyText  = `""`
)

// table has one row for each flavour. Compatible is the last.
func table() []facts {
	return []facts{
		{flavor: OpenAI, names: []string{"openaiv1", "openai"}, url: "https://api.openai.com/v1", hosts: []string{"api.openai.com", ".openai.azure.com"},
			maxTokens: maxTokens2, effort: effort, usage: askUsage, noText: null},
		{flavor: Mistral, names: []string{"mistralv1", "mistral"}, url: "https://api.mistral.ai/v1", hosts: []string{"api.mistral.ai", "codestral.mistral.ai"},
			maxTokens: maxTokens, effort: effort, noText: emptyText, shortIDs: true, noUserAfterTool: true, documentURL: true},
		{flavor: Kimi, names: []string{"kimiv1", "kimi", "moonshot"}, url: "https://api.moonshot.ai/v1", hosts: []string{"api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"},
			maxTokens: maxTokens2, effort: effort, usage: askUsage, noText: emptyText,
			reasoning: reasoningRule{field: "reasoning_content", required: true}},
		{flavor: Claude, names: []string{"claudev1", "claude", "anthropic"}, url: "https://api.anthropic.com/v1", hosts: []string{"api.anthropic.com"},
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: null},
		{flavor: OpenRouter, names: []string{"openrouterv1", "openrouter"}, url: "https://openrouter.ai/api/v1", hosts: []string{"openrouter.ai"},
			maxTokens: maxTokens, effort: "reasoning.effort", usage: askCost, noText: null, extra: true,
			reasoning: reasoningRule{field: "reasoning", details: true}},
		{flavor: XAI, names: []string{"xaiv1", "xai", "grok"}, url: "https://api.x.ai/v1", hosts: []string{"api.x.ai"},
			maxTokens: maxTokens2, effort: effort, usage: askUsage, noText: null},
		{flavor: Gemini, names: []string{"geminiv1", "gemini", "google"}, url: "https://generativelanguage.googleapis.com/v1beta/openai", hosts: []string{"generativelanguage.googleapis.com", ".aiplatform.googleapis.com"},
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: null, extra: true},
		{flavor: DeepSeek, names: []string{"deepseekv1", "deepseek"}, url: "https://api.deepseek.com/v1", hosts: []string{"api.deepseek.com"},
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: emptyText,
			reasoning: reasoningRule{field: "reasoning_content", required: true}},
		{flavor: Ollama, url: "http://localhost:11434/v1",
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: emptyText, reasoning: reasoningRule{field: asItCame}},
		{flavor: VLLM, url: "http://localhost:8000/v1",
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: emptyText, reasoning: reasoningRule{field: asItCame}},
		{flavor: LlamaCpp, names: []string{"llama.cpp", "llama-cpp"}, url: "http://localhost:8080/v1",
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: emptyText, reasoning: reasoningRule{field: "reasoning_content"}},
		{flavor: LMStudio, names: []string{"lm-studio"}, url: "http://localhost:1234/v1",
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: emptyText, reasoning: reasoningRule{field: asItCame}},
		{flavor: Compatible, names: []string{"compatible"},
			maxTokens: maxTokens, effort: effort, usage: askUsage, noText: emptyText, extra: true, reasoning: reasoningRule{field: asItCame}},
	}
}

// ParseFlavor returns the Flavor with the given name. Case does not matter, and
// the spellings of agent files (OpenAIv1, MistralV1, KimiV1, ClaudeV1) are known
// beside the names of the constants. The error for an unknown name lists the
// known ones.
func ParseFlavor(name string) (Flavor, error) {
	lower := strings.ToLower(name)
	for _, f := range table() {
		if lower == string(f.flavor) || slices.Contains(f.names, lower) {
			return f.flavor, nil
		}
	}
	return "", fmt.Errorf("unknown flavor %q; known are %s", name, strings.Join(Flavors(), ", "))
}

// Flavors lists the names of all flavours, sorted.
func Flavors() []string {
	var names []string
	for _, f := range table() {
		names = append(names, string(f.flavor))
	}
	slices.Sort(names)
	return names
}

// factsFor are the facts of a flavour at a URL. Many files say OpenAIv1 and mean
// the protocol; so at a host that is not OpenAI's own the host decides, and an
// unknown host is a Compatible server.
func factsFor(flavor Flavor, u *url.URL) facts {
	rows := table()
	own := rows[len(rows)-1]
	for _, f := range rows {
		if f.flavor == flavor {
			own = f
		}
	}
	if u == nil || own.flavor != OpenAI && own.flavor != Compatible {
		return own
	}
	host := strings.ToLower(u.Hostname())
	for _, f := range rows {
		for _, h := range f.hosts {
			if host == h || strings.HasPrefix(h, ".") && strings.HasSuffix(host, h) {
				return f
			}
		}
	}
	return rows[len(rows)-1]
}
