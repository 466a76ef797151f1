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
	"strconv"
	"time"
)

// The limits of Settings, used where a field is 0.
const (
	DefaultRequestTimeout   = 10 * time.Minute
	DefaultMaxResponseBytes = 64 << 20
)

const (
	// idleTimeout limits the time without data within an answer, from its first piece on.
	idleTimeout = time.Minute
	// EndTimeout limits the wait for usage and the end of the stream after a complete answer.
	// The answer counts without them.
	EndTimeout = 2 * time.Second
)

// Settings say where a model is and how it is asked.
type Settings struct {
	// BaseURL is the URL to which the path of the protocol, such as /chat/completions, is
	// appended, unless it already ends with that path. A query string is kept. Empty means
	// the default of the protocol or flavor.
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
	// MaxResponseBytes limits an answer as it is sent, after decompression; 0
	// means 64 MiB.
	MaxResponseBytes int64
	// Client sends the requests; nil means one that all Providers share, with
	// the proxies of the environment. Its CheckRedirect is not used: only
	// redirects within the same host are followed.
	Client *http.Client
}

// Setting writes a member whose value is JSON already, unless it is empty or ExtraBody
// replaces or removes it.
func (w *Writer) Setting(name, value string) {
	if _, replaced := w.settings.ExtraBody[name]; !replaced && value != "" {
		w.Raw(name, value)
	}
}

// Limits writes MaxOutputTokens with a name, and Temperature.
func (w *Writer) Limits(maxTokens string) {
	s := w.settings
	if s.MaxOutputTokens > 0 {
		w.Setting(maxTokens, strconv.Itoa(s.MaxOutputTokens))
	}
	if s.Temperature != nil {
		w.Setting("temperature", strconv.FormatFloat(*s.Temperature, 'f', -1, 64))
	}
}

// Extra writes ExtraBody, sorted. The fixed names cannot be in it.
func (w *Writer) Extra(fixed []string) error {
	s := w.settings
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
