package companion

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
