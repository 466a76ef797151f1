package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of the arguments of one call.
const (
	MaxArgsBytes = 16 << 20
	MaxArgsDepth = 1000
)

// DecodeArgs decodes the arguments of a tool call strictly: one JSON object and
// nothing behind it, no key twice at any depth, at most MaxArgsBytes and
// MaxArgsDepth, and only text that a tool can be given unchanged (valid UTF-8,
// no half of a surrogate pair). Keys keep their case, values their bytes. An
// empty string and null, which servers send for a call without arguments, are
// the empty object.
func DecodeArgs(s string) (map[string]json.RawMessage, error) {
	switch strings.TrimSpace(s) {
	case "", "null":
		return map[string]json.RawMessage{}, nil
	}
	if len(s) > MaxArgsBytes {
		return nil, fmt.Errorf("the arguments are %d bytes long; the limit is %d", len(s), MaxArgsBytes)
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("the arguments are not valid UTF-8")
	}
	if err := checkSurrogates(s); err != nil {
		return nil, err
	}
	if err := checkTokens(s); err != nil {
		return nil, err
	}
	args := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(s), &args); err != nil {
		return nil, fmt.Errorf("the arguments are no JSON object: %w", err)
	}
	return args, nil
}

// level is an object or array that checkTokens is inside of.
type level struct {
	keys  map[string]bool // nil in an array
	isKey bool            // the next token is a key
}

// checkTokens walks the JSON text once and finds what encoding/json lets pass.
func checkTokens(s string) error {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var stack []level
	for {
		tok, err := dec.Token()
		if err == io.EOF && len(stack) == 0 {
			return errors.New("the arguments are empty")
		}
		if err != nil {
			return fmt.Errorf("the arguments are no valid JSON (at byte %d): %w", dec.InputOffset(), plainJSONError(err))
		}
		top := len(stack) - 1
		if delim, ok := tok.(json.Delim); ok {
			switch delim {
			case '{', '[':
				if top < 0 && delim == '[' {
					return errors.New("the arguments are a JSON array; they must be one object")
				}
				if len(stack) == MaxArgsDepth {
					return fmt.Errorf("the arguments are nested more than %d deep", MaxArgsDepth)
				}
				if top >= 0 && stack[top].keys != nil {
					stack[top].isKey = true
				}
				next := level{}
				if delim == '{' {
					next = level{keys: map[string]bool{}, isKey: true}
				}
				stack = append(stack, next)
				continue
			}
			stack = stack[:top]
			if len(stack) == 0 {
				break
			}
			continue
		}
		if top < 0 {
			return fmt.Errorf("the arguments are a JSON %s; they must be one object", jsonType(tok))
		}
		if stack[top].keys == nil {
			continue
		}
		if !stack[top].isKey {
			stack[top].isKey = true
			continue
		}
		key := tok.(string)
		if stack[top].keys[key] {
			return fmt.Errorf("the arguments name %s twice", strconv.Quote(key))
		}
		stack[top].keys[key] = true
		stack[top].isKey = false
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("there is text behind the arguments' JSON object (at byte %d)", dec.InputOffset())
	}
	return nil
}

func plainJSONError(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

func jsonType(tok json.Token) string {
	switch tok.(type) {
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	default:
		return "null"
	}
}

// checkSurrogates refuses an escaped half of a surrogate pair, which
// encoding/json would silently replace.
func checkSurrogates(s string) error {
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if s[i+1] != 'u' {
			i++
			continue
		}
		r, ok := escapedRune(s[i:])
		if !ok {
			continue // malformed; the decoder says so
		}
		i += 5
		switch {
		case r >= 0xDC00 && r <= 0xDFFF:
			return fmt.Errorf("the arguments hold half of a surrogate pair (\\u%04x at byte %d)", r, i-5)
		case r >= 0xD800 && r <= 0xDBFF:
			low, ok := escapedRune(s[i+1:])
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return fmt.Errorf("the arguments hold half of a surrogate pair (\\u%04x at byte %d)", r, i-5)
			}
			i += 6
		}
	}
	return nil
}

// escapedRune reads the \uXXXX that s starts with.
func escapedRune(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	return rune(n), err == nil
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
