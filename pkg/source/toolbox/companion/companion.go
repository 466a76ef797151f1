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
