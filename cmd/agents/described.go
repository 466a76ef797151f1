package main

import (
	"encoding/json"

	"github.com/agents-exe/agents/pkg/agent"
)

// A description is what an executable says of itself; see docs/tools.md.
type description struct {
	Slug        string            `json:"slug"`
	Description string            `json:"description"`
	Args        []describedArg    `json:"args"`
	Empty       *describedMessage `json:"empty-result,omitempty"`
	MediaType   string            `json:"output-media-type,omitempty"`
	Effects     agent.Effects     `json:"effects,omitempty"`
	Locks       []string          `json:"locks,omitempty"`
	Timeout     float64           `json:"timeout-seconds,omitempty"`
}

type describedArg struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Type        string          `json:"type"`
	Backing     string          `json:"backing_type"`
	Arity       string          `json:"arity"`
	Mode        string          `json:"mode"`
	AllowDash   bool            `json:"allow_dash,omitempty"`
	Enum        json.RawMessage `json:"enum,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Items       json.RawMessage `json:"items,omitempty"`
}

type describedMessage struct {
	Tag      string `json:"tag"`
	Contents string `json:"contents"`
}
