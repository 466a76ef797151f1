// Package modelhttp has what the protocols of models share: it sends one request over HTTP
// with its limits, and reads answers of any form.
//
//	x, err := modelhttp.Open(&p.Settings, "https://api.example.com/v1", "chat/completions")
//	…
//	resp, err := x.Run(ctx, body, answer)
//
// [Settings] are the fields that the Provider of each protocol has. An [Exchange] sends a
// body and reads the response into an [Answer], which each protocol implements. The library
// openai-go sends the requests, and this package reads the answers: the library refuses much
// of what servers other than OpenAI's send. [Object] and [Text] read JSON that follows no
// schema; [AppendString] and similar functions write requests.
package modelhttp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// The limits of Settings, used where a field is 0.
const (
	DefaultRequestTimeout   = 10 * time.Minute
	DefaultIdleTimeout      = time.Minute
	DefaultEndTimeout       = 2 * time.Second
	DefaultMaxResponseBytes = 64 << 20
)

// Settings say where a model is and how it is asked.
type Settings struct {
	// BaseURL is the URL to which the path of the protocol, such as /chat/completions, is
	// appended, unless it already ends with that path. A query string is kept. Empty means
	// the default of the protocol or flavour.
	BaseURL string
	// Model is the name of the model as the server knows it.
	Model string
	// Key returns the key that is sent; nil, or an empty key, means none. It
	// is a function so that printing a Provider shows no key. The key is sent
	// to BaseURL's host only and never appears in an error.
	Key func() string
	// Temperature, MaxOutputTokens and ReasoningEffort are sent if set.
	Temperature     *float64
	MaxOutputTokens int
	ReasoningEffort string
	// ExtraBody has additional fields of the request body. They replace
	// fields of the same name, and null removes one. The fields of the conversation
	// cannot be replaced.
	ExtraBody map[string]json.RawMessage
	// RequestTimeout limits one request from its start to the end of its
	// answer; 0 means 10 minutes. Until the first piece of the answer it is
	// the only limit: servers think long, and some do not stream.
	RequestTimeout time.Duration
	// IdleTimeout limits the time without data within an answer, from its first
	// piece on; 0 means 60 seconds.
	IdleTimeout time.Duration
	// EndTimeout limits the wait for usage and the end of the stream after a complete
	// answer; 0 means 2 seconds. The answer counts without them.
	EndTimeout time.Duration
	// MaxResponseBytes limits an answer as it is sent, after decompression; 0
	// means 64 MiB.
	MaxResponseBytes int64
	// Client sends the requests; nil means one that all Providers share, with
	// the proxies of the environment. Its CheckRedirect is not used: only
	// redirects within the same host are followed.
	Client *http.Client
}

// A Field is a member of a JSON object with its encoded value.
type Field struct{ Name, Value string }

// Settings writes the fields, except those that ExtraBody replaces or removes, and then
// ExtraBody, sorted. The fixed names cannot be in ExtraBody.
func (w *Writer) Settings(s *Settings, fields []Field, fixed ...string) error {
	for _, f := range fields {
		if _, replaced := s.ExtraBody[f.Name]; !replaced {
			w.Raw(f.Name, f.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.ExtraBody)) {
		value := s.ExtraBody[name]
		if slices.Contains(fixed, name) {
			return fmt.Errorf("extra body: %q cannot be replaced", name)
		}
		if !json.Valid(value) {
			return fmt.Errorf("extra body: the value of %q is not valid JSON", name)
		}
		if string(value) != "null" {
			w.Raw(name, string(value))
		}
	}
	return nil
}
