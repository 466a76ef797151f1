package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Limits of the arguments of one call.
const (
	MaxArgsBytes = 16 << 20
	MaxArgsDepth = 1000
)

// DecodeArgs decodes the arguments of a tool call strictly: one JSON object and
// nothing behind it, no key twice at any depth, within the limits, and only text
// that a tool can be given unchanged (valid UTF-8, no half of a surrogate pair).
// Keys keep their case, values their bytes. An empty string and null, which
// servers send for a call without arguments, are the empty object.
func DecodeArgs(s string) (map[string]json.RawMessage, error) {
	raw, _, err := decodeArgs(s)
	return raw, err
}

// decodeArgs is DecodeArgs, and the same as values: numbers as json.Number.
func decodeArgs(s string) (raw map[string]json.RawMessage, values map[string]any, err error) {
	switch strings.TrimSpace(s) {
	case "", "null", "{}":
		return map[string]json.RawMessage{}, map[string]any{}, nil
	}
	doc, err := jsondoc.Parse([]byte(s), jsondoc.Options{MaxBytes: MaxArgsBytes, MaxDepth: MaxArgsDepth, Strict: true, Shallow: true})
	if err != nil {
		return nil, nil, fmt.Errorf("the arguments are refused: %w", err)
	}
	values, ok := doc.Root.Value.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("the arguments must be one JSON object, not a JSON %s", doc.Root.Kind())
	}
	raw = make(map[string]json.RawMessage, len(doc.Root.Children))
	for _, n := range doc.Root.Children {
		raw[n.Name] = json.RawMessage(doc.Raw(n))
	}
	return raw, values, nil
}

// compactJSON returns the JSON text without white space between its tokens. The
// order of keys and the spelling of numbers stay.
func compactJSON(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", err
	}
	return b.String(), nil
}

// ArgText is the text that stands for a JSON value on a command line or in
// stdin: a string is its own content, a number or boolean its shortest JSON
// form, an array or object compact JSON. No precision is lost.
func ArgText(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "", errors.New("no value")
	}
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[':
		return compactJSON(raw)
	case 't', 'f', 'n':
		return string(raw), nil
	default:
		return shortNumber(string(raw)), nil
	}
}

// shortNumber is the shortest usual form of a JSON number, found in its digits
// and not by way of a float: 1.50 → 1.5, 2e3 → 2000, -0 → 0, 1e-9 → 1e-9.
func shortNumber(lit string) string {
	sign, rest := "", lit
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	mantissa, expText, _ := strings.Cut(strings.ToLower(rest), "e")
	whole, frac, _ := strings.Cut(mantissa, ".")
	exp := 0
	if expText != "" {
		n, err := strconv.Atoi(expText)
		if err != nil || n > 1<<20 || n < -1<<20 {
			return lit
		}
		exp = n
	}
	digits := strings.TrimLeft(whole+frac, "0")
	point := len(digits) - len(frac) + exp // where the decimal point stands in digits
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return "0"
	}
	switch {
	case point > len(digits) && (point <= 21 || expText == ""):
		return sign + digits + strings.Repeat("0", point-len(digits))
	case point > len(digits):
		return sign + scientific(digits, point-1)
	case point == len(digits):
		return sign + digits
	case point > 0:
		return sign + digits[:point] + "." + digits[point:]
	case point > -6:
		return sign + "0." + strings.Repeat("0", -point) + digits
	default:
		return sign + scientific(digits, point-1)
	}
}

func scientific(digits string, exp int) string {
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return digits + "e" + strconv.Itoa(exp)
}
