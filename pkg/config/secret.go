package config

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

// hidden is printed in place of a secret.
const hidden = "[secret]"

// A Secret is text that does not print itself: fmt, encoding/json and log/slog
// show "[secret]" for it, inside other values too. The zero value is empty.
type Secret struct {
	// A pointer, as fmt prints unexported fields without asking for a method.
	text *secretText
}

// A secretText is shared by all copies of a Secret.
type secretText struct {
	value atomic.Pointer[string] // nil: not fetched yet
	turn  chan struct{}          // holds one element while a caller fetches the value
}

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	s := later()
	s.fill(text)
	return s
}

// later returns a Secret whose text is fetched later.
func later() Secret { return Secret{&secretText{turn: make(chan struct{}, 1)}} }

// fill gives a Secret the text, which all copies of it then have.
func (s Secret) fill(text string) { s.text.value.Store(&text) }

// Reveal returns the text, for code that does not print it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	if text := s.text.value.Load(); text != nil {
		return *text
	}
	return ""
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.text == nil }

// String returns "[secret]".
func (s Secret) String() string { return hidden }

// GoString returns "[secret]".
func (s Secret) GoString() string { return hidden }

// Format writes "[secret]", whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText returns "[secret]"; encoding/json uses it for keys of maps.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON returns "[secret]" as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// LogValue returns "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
