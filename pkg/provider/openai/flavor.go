package openai

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// A Flavor names a family of servers that speak the chat completions protocol,
// each with its own variations. ParseFlavor returns the one with a name.
type Flavor string

// The flavors.
const (
	OpenAI     Flavor = "openai-v1"
	Mistral    Flavor = "mistral-v1"
	Kimi       Flavor = "kimi-v1"
	Claude     Flavor = "claude-v1" // Anthropic's compatible endpoint
	Anthropic  Flavor = "anthropic" // the same, where its own protocol is not used
	OpenRouter Flavor = "openrouter-v1"
	XAI        Flavor = "xai-v1"
	Gemini     Flavor = "gemini-v1" // Google's compatible endpoint
	DeepSeek   Flavor = "deepseek-v1"
	Ollama     Flavor = "ollama"
	VLLM       Flavor = "vllm"
	LlamaCpp   Flavor = "llamacpp"
	LMStudio   Flavor = "lmstudio"
	Compatible Flavor = "openai-compatible" // any other server of the protocol
)

// facts are the differences between flavors. Everything else is the same for all.
type facts struct {
	flavor Flavor
	// names are further spellings, in lower case.
	names []string
	// url is the base URL where none is given. hosts are the server's own
	// names (a leading dot matches all names with this end), by which it is
	// recognized with a flavor that only means the protocol.
	url   string
	hosts []string
	// maxTokens is the name of the field that limits the output.
	maxTokens string
	// effortObject: the effort is {"reasoning":{"effort":…}} instead of
	// "reasoning_effort".
	effortObject bool
	// ask makes the server count tokens in a stream. It is empty for servers that
	// always do and refuse these fields.
	ask []field
	// reasoning says how the text of a model's reasoning is sent back.
	reasoning reasoningRule
	// extra: extra_content must be sent back.
	extra bool
	// noText is the content of a message that has calls and no text. Chat
	// templates of local servers print null as "None".
	noText string
	// maxID limits call ids, in bytes; 0 is no limit. Some proxies hide data of their own in
	// long ids, so ids go back unchanged where nothing is known.
	maxID int
	// shortIDs: call ids must be nine letters and digits.
	shortIDs bool
	// noUserAfterTool: the server requires an assistant message between tool
	// results and a user message.
	noUserAfterTool bool
	// documentURL: a PDF is a document_url part instead of a file part.
	documentURL bool
	// videoURL: the server takes videos, as video_url parts. Others refuse the request.
	videoURL bool
	// textCalls: the server may leave calls in the text.
	textCalls bool
	// refused says which schemas of tools the server refuses.
	refused modelhttp.Refusals
	// output says with which requests the schema of the answer is sent.
	output outputRule
}

// An outputRule says how the schema of the answer is sent: as response_format, or as the schema
// of a tool by which the model answers. With response_format, local servers force every answer
// to follow the schema, so the model could not call a tool, and Gemini refuses some requests
// with both. Other servers do not support it, or ignore it.
type outputRule int

const (
	outputNever  outputRule = iota
	outputAlone             // as response_format without tools, otherwise as a tool
	outputAlways            // as response_format
	outputTool              // as a tool
)

// A field is a member of a request with its JSON.
type field struct{ name, value string }

// A reasoningRule says how reasoning is sent back: with every message that has
// calls, since servers check the whole history and since a message that was sent
// must not change.
type reasoningRule struct {
	// name is the member of the message; "" means never, asReceived the one in
	// which the server sent it.
	name string
	// required: a message with calls is refused without the member, so that
	// instead is sent where there was no reasoning.
	required bool
	instead  string
	// details: the list reasoning_details is sent back too, with every message.
	details bool
}

const (
	asReceived          = "*"
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
	reasoningContent    = "reasoning_content"
	null                = "null"
	emptyString         = `""`
)

var (
	askUsage = []field{{"stream_options", `{"include_usage":true}`}}
	askCost  = []field{askUsage[0], {"usage", `{"include":true}`}}
	echo     = reasoningRule{name: asReceived, details: true}
)

// table has one row for each flavor and never changes. The last is Compatible.
var table = []facts{
	{flavor: OpenAI, names: []string{"openaiv1", "openai"},
		url: "https://api.openai.com/v1", hosts: []string{"api.openai.com", ".openai.azure.com"},
		refused: modelhttp.RefusedByOpenAI, maxID: 40, output: outputAlways, maxTokens: maxCompletionTokens, ask: askUsage, noText: null},
	// Mistral refuses every member that it does not know.
	{flavor: Mistral, names: []string{"mistralv1", "mistral"},
		url: "https://api.mistral.ai/v1", hosts: []string{".mistral.ai"},
		output: outputAlways, maxTokens: maxTokens, noText: emptyString, shortIDs: true, noUserAfterTool: true, documentURL: true},
	// Kimi treats an empty reasoning_content as a missing one.
	{flavor: Kimi, names: []string{"kimiv1", "kimi", "moonshot"},
		url: "https://api.moonshot.ai/v1", hosts: []string{".moonshot.ai", ".moonshot.cn", "api.kimi.com"},
		videoURL: true, output: outputTool, maxTokens: maxCompletionTokens, ask: askUsage, noText: emptyString,
		reasoning: reasoningRule{name: reasoningContent, required: true, instead: " "}},
	{flavor: Claude, names: []string{"claudev1", "claude"},
		url: "https://api.anthropic.com/v1", hosts: []string{"api.anthropic.com"},
		refused: modelhttp.RefusedByAnthropic, output: outputTool, maxTokens: maxTokens, ask: askUsage, noText: null},
	{flavor: Anthropic, url: "https://api.anthropic.com/v1", refused: modelhttp.RefusedByAnthropic, output: outputTool, maxTokens: maxTokens, ask: askUsage, noText: null},
	{flavor: OpenRouter, names: []string{"openrouterv1", "openrouter"},
		url: "https://openrouter.ai/api/v1", hosts: []string{"openrouter.ai"},
		refused: modelhttp.RefusedByOpenAI, videoURL: true, output: outputAlways, maxTokens: maxTokens, effortObject: true, ask: askCost, noText: null,
		reasoning: reasoningRule{name: "reasoning", details: true}},
	{flavor: XAI, names: []string{"xaiv1", "xai", "grok"},
		url: "https://api.x.ai/v1", hosts: []string{".x.ai"},
		output: outputAlways, maxTokens: maxCompletionTokens, ask: askUsage, noText: null},
	// Gemini requires the signatures of its thoughts with the calls.
	{flavor: Gemini, names: []string{"geminiv1", "gemini", "google"},
		url: "https://generativelanguage.googleapis.com/v1beta/openai", hosts: []string{"generativelanguage.googleapis.com", "aiplatform.googleapis.com", "-aiplatform.googleapis.com"},
		refused: modelhttp.RefusedByGemini, output: outputAlone, maxTokens: maxTokens, ask: askUsage, noText: null, extra: true},
	{flavor: DeepSeek, names: []string{"deepseekv1", "deepseek"},
		url: "https://api.deepseek.com/v1", hosts: []string{"api.deepseek.com"},
		output: outputTool, maxTokens: maxTokens, ask: askUsage, noText: emptyString,
		reasoning: reasoningRule{name: reasoningContent, required: true}},
	{flavor: Ollama, url: "http://localhost:11434/v1",
		output: outputAlone, maxTokens: maxTokens, ask: askUsage, noText: emptyString, reasoning: echo, textCalls: true},
	{flavor: VLLM, url: "http://localhost:8000/v1",
		videoURL: true, output: outputAlone, maxTokens: maxTokens, ask: askUsage, noText: emptyString, reasoning: echo, textCalls: true},
	{flavor: LlamaCpp, names: []string{"llama.cpp", "llama-cpp"}, url: "http://localhost:8080/v1",
		output: outputAlone, maxTokens: maxTokens, ask: askUsage, noText: emptyString, reasoning: echo, textCalls: true},
	{flavor: LMStudio, names: []string{"lm-studio"}, url: "http://localhost:1234/v1",
		output: outputAlone, maxTokens: maxTokens, ask: askUsage, noText: emptyString, reasoning: echo, textCalls: true},
	{flavor: Compatible, names: []string{"compatible"},
		refused: modelhttp.RefusedByOpenAI, maxTokens: maxTokens, ask: askUsage, noText: emptyString, extra: true, reasoning: echo},
}

// ParseFlavor returns the Flavor with the given name. Case does not matter; the
// spellings of agent files (OpenAIv1, MistralV1, KimiV1, ClaudeV1) are accepted
// besides the values of the constants. The error for an unknown name lists the
// known ones.
func ParseFlavor(name string) (Flavor, error) {
	lower := strings.ToLower(name)
	for _, f := range table {
		if lower == string(f.flavor) || slices.Contains(f.names, lower) {
			return f.flavor, nil
		}
	}
	return "", fmt.Errorf("unknown flavor %q; known are %s", name, strings.Join(Flavors(), ", "))
}

// Flavors lists the names of all flavors, sorted.
func Flavors() []string {
	var names []string
	for _, f := range table {
		names = append(names, string(f.flavor))
	}
	slices.Sort(names)
	return names
}

// URL returns the base URL of the flavor's own servers, "" if there are none.
func (f Flavor) URL() string { return factsOf(f).url }

// TextCalls reports whether servers of the flavor run models whose form of calls they may
// not know, and then leave calls in the text of answers.
func (f Flavor) TextCalls() bool { return factsOf(f).textCalls }

// OutputWithTools reports whether servers of the flavor take the schema of the answer
// together with tools.
func (f Flavor) OutputWithTools() bool { return factsOf(f).output == outputAlways }

// At returns the flavor of the server at a URL. With OpenAI and Compatible, which agent
// files use for all servers of the protocol, it is the flavor of the host, if the host is
// known.
func (f Flavor) At(u *url.URL) Flavor { return factsAt(f, u).flavor }

func factsOf(flavor Flavor) *facts {
	for i := range table {
		if table[i].flavor == flavor {
			return &table[i]
		}
	}
	return &table[len(table)-1]
}

// factsAt returns the facts of a flavor at a URL. Many agent files use OpenAIv1 for
// the protocol; so with OpenAI and Compatible the host decides, and an unknown
// host is a Compatible server.
func factsAt(flavor Flavor, u *url.URL) *facts {
	if flavor != OpenAI && flavor != Compatible {
		return factsOf(flavor)
	}
	host := strings.ToLower(u.Hostname())
	for i := range table {
		for _, h := range table[i].hosts {
			if host == h || strings.ContainsAny(h[:1], ".-") && strings.HasSuffix(host, h) {
				return &table[i]
			}
		}
	}
	return factsOf(Compatible)
}
