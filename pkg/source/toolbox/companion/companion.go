// Package companion defines the protocol between agents and the program agents-toolbox, which
// serves toolboxes that need large libraries. agents starts it with the name of a toolbox as
// its only argument and a [Request] in the environment variable [Variable].
package companion

import "encoding/json"

// Program is the name of the program. It is installed beside agents.
const Program = "agents-toolbox"

// Variable is the environment variable with the Request: its settings may be secret, so
// they are not an argument.
const Variable = "AGENTS_TOOLBOX"

// Version is the version of the Request.
const Version = 1

// A Request contains the settings of the toolbox that the program serves.
type Request struct {
	Version  int             `json:"version"`
	Settings json.RawMessage `json:"settings"` // of the toolbox
}

// OpenAPI are the settings of the toolbox "openapi".
type OpenAPI struct {
	// Name begins the names of the tools: "openapi_openapi".
	Name string
	// Document is the path or the URL of the document.
	Document string
	// BaseURL is where the paths begin; "" means where the document says.
	BaseURL   string
	PostgREST bool
	// Methods are those that become tools of a PostgREST server; none means those that only
	// read.
	Methods []string
	Filter  json.RawMessage
	// Headers, Key and Secrets are sent to the server of BaseURL, or without one that of
	// Document, and to no other.
	Headers map[string]string
	// Key is sent as the document requires.
	Key     string
	Secrets []json.RawMessage
	// AllowPrivate permits addresses of this machine and of private networks.
	AllowPrivate   bool
	TimeoutSeconds float64 // of a request; 0 is a minute
	MaxBytes       int     // of a response; 0 is 1 MiB
}

// How a SQLite toolbox may use its database.
const (
	ReadOnly  = "read-only"
	ReadWrite = "read-write"
	Versioned = "versioned"
)

// SQLite are the settings of `agents-toolbox sqlite`.
type SQLite struct {
	Toolbox     string `json:"toolbox"` // its name
	Description string `json:"description"`
	Access      string `json:"access"`
	Path        string `json:"path"` // of the database
	// Versions is the folder for the versions of a versioned database, and Sharing says which
	// calls use the same one: "global", "conversation", "turn" or "tool-call".
	Versions string `json:"versions"`
	Sharing  string `json:"sharing"`
	// The limits of one call.
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	MaxRows        int     `json:"maxRows"`
	MaxBytes       int     `json:"maxBytes"`
}
