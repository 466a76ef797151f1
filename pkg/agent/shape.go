package agent

import (
	"context"
	"encoding/json"
)

// MaxContext limits the context of a run, in bytes.
const MaxContext = 1 << 20

// A Shape is a JSON Schema with what compares values with it.
type Shape struct {
	Schema json.RawMessage
	// Check says what of a value does not fit. It is safe for concurrent use.
	Check func(ctx context.Context, value json.RawMessage) error
}

// An Output is what the answers of an agent must be.
type Output struct {
	// Schema is the JSON Schema of an answer, and Instructions, behind the system
	// prompt, tell the model about it.
	Schema       json.RawMessage
	Instructions string
	// Accept returns the text that counts as the answer, or what is wrong with it, which the
	// model reads.
	Accept func(ctx context.Context, answer string) (string, error)
}
