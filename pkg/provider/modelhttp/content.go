package modelhttp

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// Texts in place of empty ones, which many servers refuse.
const (
	NoOutput  = "(no output)"
	NoContent = "(empty)"
)

// The limits of the tool calls of one answer.
const (
	MaxCalls = 1 << 14
	MaxName  = 256 // bytes; a longer name is not that of a tool
	maxID    = 256 // bytes; a longer id is replaced
)

// sizeOf estimates the size of the body of a request, so that it is allocated once.
func sizeOf(req *agent.Request) int {
	size := 256 + len(req.System)
	add := func(parts []agent.Part) {
		size += 50
		for _, p := range parts {
			size += 50 + len(p.Text) + len(p.Data)*4/3
		}
	}
	for _, t := range req.Tools {
		size += 100 + len(t.Description) + len(t.Schema)
	}
	for _, m := range req.Messages {
		add(m.Parts)
		for _, c := range m.Calls {
			size += 150 + len(c.Args)
		}
		for _, r := range m.Results {
			add(r.Parts)
		}
	}
	return size + size/8 // room for escapes
}

// ToolCall returns a call that a model wrote, with an id and a name of limited length. Models
// can write names and ids of any length. Invalid UTF-8 in arguments is not repaired: the
// call is refused when they are decoded.
func ToolCall(id, name string, args []byte) agent.ToolCall {
	t := agent.ToolCall{ID: id, Name: name, Args: string(args)}
	if len(t.ID) > maxID {
		t.ID = fmt.Sprintf("call_%x", sha256.Sum256([]byte(t.ID)))
	}
	if len(t.Name) > MaxName {
		t.Name = strings.ToValidUTF8(t.Name[:MaxName-len("…")], "") + "…"
	}
	return t
}

// ShortID returns id if it has at most so many bytes, and otherwise a shorter one that depends
// only on id. Servers refuse longer ids, which a conversation may have from other servers.
func ShortID(id string, most int) string {
	if len(id) <= most {
		return id
	}
	return fmt.Sprintf("call_%x", sha256.Sum256([]byte(id)))[:min(most, 37)]
}

// TooManyCalls returns the error for an answer with more than MaxCalls calls.
func TooManyCalls() error {
	return &agent.ModelError{Message: fmt.Sprintf("the answer has more than %d tool calls (the limit of one answer)", MaxCalls)}
}

// ToolName returns the name of a call in a form that servers accept. A model may call a tool
// by an invalid name, and servers refuse a history with such a name.
func ToolName(name string) string {
	clean := func(r rune) rune {
		if !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '-') {
			return '_'
		}
		return r
	}
	name = strings.Map(clean, name)
	return cmp.Or(name[:min(len(name), 64)], "unknown")
}

// Arguments returns the arguments of a call in a form that servers accept: many parse
// them, and refuse a history in which the JSON of one call is invalid.
func Arguments(args string) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" || trimmed == "null" {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(args)) {
		return args
	}
	var w Writer
	w.Open()
	w.Member("invalid_arguments", args)
	w.Close("}")
	return string(w.B)
}

// HasMedia reports whether there is a media part.
func HasMedia(parts []agent.Part) bool {
	return slices.ContainsFunc(parts, func(p agent.Part) bool { return p.Kind == agent.PartMedia })
}

// TextOf joins the text parts, without a copy where there is only one.
func TextOf(parts []agent.Part) (text string) {
	for _, p := range parts {
		if p.Kind == agent.PartText {
			text += p.Text
		}
	}
	return text
}

// MediaType is the type of a media part without parameters, and its two halves.
func MediaType(p agent.Part) (kind, family, subtype string) {
	kind, _, err := mime.ParseMediaType(p.MIME)
	if err != nil {
		kind = "application/octet-stream"
	}
	family, subtype, _ = strings.Cut(kind, "/")
	return kind, family, subtype
}

// MediaText returns the text that is sent for a media part of a type that the protocol does
// not support: its text, or a note that it cannot be shown. Servers refuse such types, and
// with them every later request.
func MediaText(p agent.Part) string {
	kind, family, subtype := MediaType(p)
	if isText(family, subtype) && utf8.Valid(p.Data) {
		return cmp.Or(p.Name, "attachment") + ":\n" + string(p.Data)
	}
	return fmt.Sprintf("[%s: %d bytes of type %s, which cannot be shown]", cmp.Or(p.Name, "attachment"), len(p.Data), kind)
}

// isText reports types that no server takes as a file and every model reads.
func isText(family, subtype string) bool {
	return family == "text" || family == "application" &&
		(subtype == "json" || subtype == "xml" || subtype == "yaml" || strings.HasSuffix(subtype, "+json") || strings.HasSuffix(subtype, "+xml"))
}

// MustJSON encodes the Extra of a part or a call. That cannot fail: it is made of strings and
// of JSON that was decoded before.
func MustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

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
