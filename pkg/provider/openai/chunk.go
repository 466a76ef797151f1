package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
)

// maxCommas bounds the number of elements that one piece of JSON can hold, and
// so the memory that decoding it takes. No model writes so much in one answer.
const maxCommas = 1 << 18

// maxCost is the highest price of one request that is believed, in US dollars: sums
// of such prices stay numbers that JSON can hold.
const maxCost = 1e6

// A chunk is one event of a stream, or a whole answer of a server that does not
// stream. Members which servers write in several forms are read later; an
// unexpected type leaves its member empty and does no other harm.
type chunk struct {
	Model   str             `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// The forms of an error without "error".
	Object  str             `json:"object"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

type choice struct {
	Index        number `json:"index"`
	Delta        *delta `json:"delta"`
	Message      *delta `json:"message"`
	FinishReason str    `json:"finish_reason"`
	Usage        *usage `json:"usage"` // Kimi
}

// A delta is a piece of a message, or a whole one.
type delta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	FunctionCall     *function       `json:"function_call"` // the form before tool_calls
	ExtraContent     json.RawMessage `json:"extra_content"`
}

type callDelta struct {
	Index        *number         `json:"index"`
	ID           str             `json:"id"`
	Function     *function       `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
	function                     // name and arguments without "function"
}

type function struct {
	Name      str             `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type usage struct {
	PromptTokens     number `json:"prompt_tokens"`
	CompletionTokens number `json:"completion_tokens"`
	TotalTokens      number `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens number `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens number `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CachedTokens         number   `json:"cached_tokens"`           // Kimi
	PromptCacheHitTokens number   `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cost                 *float64 `json:"cost"`                    // OpenRouter
}

// count turns u into agent's terms. Some servers count reasoning in the total
// and not in the completion.
func (u *usage) count() agent.Usage {
	out := agent.Usage{
		Requests:        1,
		InputTokens:     int(u.PromptTokens),
		OutputTokens:    int(max(u.CompletionTokens, u.TotalTokens-u.PromptTokens)),
		ReasoningTokens: int(u.CompletionDetails.ReasoningTokens),
	}
	cached := max(u.PromptDetails.CachedTokens, u.CachedTokens, u.PromptCacheHitTokens)
	out.CachedTokens = min(int(cached), out.InputTokens)
	out.ReasoningTokens = min(out.ReasoningTokens, out.OutputTokens)
	if u.Cost != nil && *u.Cost >= 0 && *u.Cost <= maxCost {
		out.Cost, out.Priced = *u.Cost, 1
	}
	return out
}

// decodeJSON decodes leniently: only text that is no JSON is an error.
func decodeJSON(data []byte, v any) error {
	if bytes.Count(data, []byte{','}) > maxCommas {
		return errors.New("it has too many elements")
	}
	err := json.Unmarshal(data, v)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return nil
	}
	return err
}

// A str is a string, or "" for whatever else stands in its place.
type str string

// UnmarshalJSON never fails.
func (s *str) UnmarshalJSON(data []byte) error {
	if firstByte(data) != '"' {
		*s = ""
		return nil
	}
	var t text
	t.add(data)
	*s = str(t.rest())
	return nil
}

// A number is not negative, and 0 for whatever is no number. It may stand in a
// string.
type number float64

// UnmarshalJSON never fails.
func (n *number) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	// Nearly all are whole. What reads the others takes a kilobyte of stack, which a
	// session would keep.
	if whole, err := strconv.ParseUint(text, 10, 31); err == nil {
		*n = number(whole)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0) {
		f = 0
	}
	*n = number(min(f, math.MaxInt32))
	return nil
}

// elements are those of a JSON array; anything else but null is the only one. Of
// too many there are none.
func elements(raw json.RawMessage) []json.RawMessage {
	switch firstByte(raw) {
	case 0, 'n':
		return nil
	case '[':
		var list []json.RawMessage
		if decodeJSON(raw, &list) != nil {
			return nil
		}
		return list
	}
	return []json.RawMessage{raw}
}
