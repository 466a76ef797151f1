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
// so the memory that reading it takes. No model writes so much in one answer.
const maxCommas = 1 << 18

// checkJSON reports what is wrong with a piece of JSON. The functions below read
// only what passes it.
func checkJSON(data []byte) error {
	if bytes.Count(data, []byte{','}) > maxCommas {
		return errors.New("it has too many elements")
	}
	if json.Valid(data) {
		return nil
	}
	var raw json.RawMessage
	return json.Unmarshal(data, &raw)
}

// split cuts a JSON object or array at its commas and colons. The parts share
// the memory of raw.
func split(raw []byte) [][]byte {
	parts := make([][]byte, 0, min(16, 1+bytes.Count(raw, []byte{','})+bytes.Count(raw, []byte{':'})))
	depth, start := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth == 1 {
				start = i + 1
			}
		case '}', ']':
			depth--
			if last := bytes.TrimSpace(raw[start:i]); depth == 0 && len(last) > 0 {
				parts = append(parts, last)
			}
		case ',', ':':
			if depth == 1 {
				parts = append(parts, bytes.TrimSpace(raw[start:i]))
				start = i + 1
			}
		}
	}
	return parts
}

// An object holds the names and values of a JSON object in turn. It exists
// because servers send members in forms that no struct can take, and because
// encoding/json ignores the case of names.
type object [][]byte

// objectOf returns nil for a value that is not an object.
func objectOf(raw []byte) object {
	if firstByte(raw) != '{' {
		return nil
	}
	return split(raw)
}

// get returns the value of a member, the last one if there are several, or nil.
func (o object) get(name string) []byte {
	for i := len(o) - 2; i >= 0; i -= 2 {
		if key := o[i]; string(key[1:len(key)-1]) == name || bytes.IndexByte(key, '\\') >= 0 && str(key) == name {
			return o[i+1]
		}
	}
	return nil
}

// elements returns those of a JSON array; any other value except null is the
// only element.
func elements(raw []byte) [][]byte {
	switch firstByte(raw) {
	case 0, 'n':
		return nil
	case '[':
		return split(raw)
	}
	return [][]byte{raw}
}

// str returns the content of a JSON string, and "" for any other value.
func str(raw []byte) string {
	if firstByte(raw) != '"' {
		return ""
	}
	var t text
	t.add(raw)
	return t.rest()
}

// word returns the content of a JSON string or the digits of a number.
func word(raw []byte) string {
	if first := firstByte(raw); first == '-' || first >= '0' && first <= '9' {
		return string(raw)
	}
	return str(raw)
}

// number reads a number, which may stand in a string. It is never negative, and
// 0 for any other value.
func number(raw []byte) int {
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int(min(f, math.MaxInt32))
}

// firstByte is the first byte of JSON text, 0 if there is none.
func firstByte(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// maxCost is the highest price of one request that is believed: sums of such prices
// stay within an agent.Money.
const maxCost = 1e6 * agent.Dollar

// usageOf turns the usage of a server into agent's terms. Some servers count
// reasoning in the total and not in the completion.
func usageOf(u object) agent.Usage {
	in := number(u.get("prompt_tokens"))
	out := max(number(u.get("completion_tokens")), number(u.get("total_tokens"))-in)
	cached := max(number(objectOf(u.get("prompt_tokens_details")).get("cached_tokens")),
		number(u.get("cached_tokens")),           // Kimi
		number(u.get("prompt_cache_hit_tokens"))) // DeepSeek
	reasoning := number(objectOf(u.get("completion_tokens_details")).get("reasoning_tokens"))
	usage := agent.Usage{Requests: 1, InputTokens: in, CachedTokens: min(cached, in), OutputTokens: out, ReasoningTokens: min(reasoning, out)}
	// OpenRouter
	if cost, err := agent.ParseMoney(string(u.get("cost"))); err == nil && cost >= 0 && cost <= maxCost {
		usage.Cost, usage.Priced = cost, 1
	}
	return usage
}
