package companion

import "encoding/json"

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
