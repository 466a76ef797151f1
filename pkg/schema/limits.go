package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Limits of one comparison. The library compares every value with every part of the
// schema that applies to it, keeps an error for each that fails, calculates with
// numbers exactly, and cannot be interrupted; so what would take minutes or
// gigabytes is refused before it begins.
const (
	maxDigits   = 1000    // of the text of a number
	maxExponent = 400     // of a number; a float64 ends at 308
	maxValues   = 1 << 18 // of a document
	maxParts    = 1 << 14 // of a schema: as many as it has values
	maxPairs    = 1 << 23 // values of a document times parts of the schema

	// A value can meet the same part more than once only through references.
	minSteps      = 1 << 15
	maxSteps      = 1 << 20
	stepsPerValue = 64
)

// Rules of violations that are not of a schema.
const (
	ruleSyntax = "syntax"
	ruleNumber = "number"
	ruleSize   = "size"
	ruleSteps  = "steps"
)

// countValues counts the values of a JSON text without decoding them, or a few more.
func countValues(text []byte) int {
	n, inString := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// tooLarge returns a violation if a document of so many values is too much to
// compare with s.
func (s *Schema) tooLarge(values int) []Violation {
	most := min(maxValues, maxPairs/s.size)
	if values <= most {
		return nil
	}
	return []Violation{{Rule: ruleSize, Message: fmt.Sprintf("got more than %d values, too many to compare with the schema", most)}}
}

// hugeNumbers finds the numbers of v that are beyond the limits, in no order.
func hugeNumbers(v any, path []string) []Violation {
	var out []Violation
	switch v := v.(type) {
	case json.Number:
		_, exp, _ := strings.Cut(strings.ToLower(string(v)), "e")
		n, err := strconv.Atoi(exp)
		if exp != "" && (err != nil || n > maxExponent || n < -maxExponent) || len(v) > maxDigits {
			return []Violation{{jsondoc.JoinPointer(path...), ruleNumber, fmt.Sprintf("got %s, want at most %d digits and an exponent of at most %d", clip(string(v)), maxDigits, maxExponent)}}
		}
	case []any:
		for i, item := range v {
			out = append(out, hugeNumbers(item, append(path, strconv.Itoa(i)))...)
		}
	case map[string]any:
		for key, member := range v {
			out = append(out, hugeNumbers(member, append(path, key))...)
		}
	}
	return out
}

// A stepLimit ends comparisons with a schema whose references branch: a few lines
// can double the work at each reference. It also ends those with many patterns, each
// of which reads a whole text, when their context ends. As a vocabulary of the schema it is called
// for every part that a value passes. It serves one comparison at a time.
type stepLimit struct {
	mu   sync.Mutex
	left int             // steps of the comparison in progress
	done <-chan struct{} // of its context
}

// errSteps is the panic that ends a comparison at the limit; there is no other way.
var errSteps = errors.New("too many steps")

// newStepLimit returns a limit that c puts on what it compiles, or nil for a schema
// without references and patterns.
func newStepLimit(c *jsonschema.Compiler, doc []byte) *stepLimit {
	costly := func(key string) bool { return bytes.Contains(doc, []byte(key)) }
	if !costly(`Ref"`) && !costly(`ref"`) && !costly(`"pattern`) && !costly(`\u`) {
		return nil
	}
	l := &stepLimit{}
	c.AssertVocabs()
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "urn:agents:steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			return l, nil
		},
	})
	return l
}

// Validate implements jsonschema.SchemaExt.
func (l *stepLimit) Validate(*jsonschema.ValidatorContext, any) {
	l.left--
	select {
	case <-l.done:
		panic(errSteps)
	default:
		if l.left < 0 {
			panic(errSteps)
		}
	}
}

// compare compares a value that consists of so many values with the schema. ok is
// false if that takes too many steps or ctx ends.
func (s *Schema) compare(ctx context.Context, v any, values int) (ok bool, err error) {
	l := s.limit
	if l == nil {
		return true, s.compiled.Validate(v)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		if r := recover(); r != nil && r != any(errSteps) {
			panic(r)
		}
	}()
	l.done, l.left = ctx.Done(), min(minSteps+stepsPerValue*values, maxSteps)
	err = s.compiled.Validate(v)
	return true, err
}
