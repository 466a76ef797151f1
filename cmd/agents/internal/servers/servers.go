// Package servers has the flags of the commands that serve agents to other programs. `agents`
// contains no more of these commands: it starts agents-serve to do the work.
package servers

import (
	"slices"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
)

// The defaults of the flags. They are those of packages pkg/edge/serve and pkg/edge/mcpserver, which
// `agents` does not link.
const (
	DefaultRuns        = 64
	DefaultQueue       = 256
	DefaultQueueTime   = 60 * time.Second
	DefaultConnections = 4096
	DefaultGrace       = 30 * time.Second
	DefaultLinger      = 10 * time.Second
	DefaultTaskAfter   = 10 * time.Second
	// DefaultKeep is how long the sessions of clients are kept, for session.ParseKeep.
	DefaultKeep = "90d"
)

// Agents are the flags of `agents serve`.
type Agents struct {
	Listen  string
	Tokens  string
	NoToken bool
	Origins []string
	runs.Flags
	// AgentOf is a session whose agent is served alone; "" is none.
	AgentOf string
	// KeepSessions limits the sessions of clients that are kept: see session.ParseKeep.
	KeepSessions string
	// Resume continues the runs that an earlier server left.
	Resume bool
	// The limits: see serve.Options.
	Runs, TokenRuns, Queue int
	QueueTime              time.Duration
	Connections            int
	Grace                  time.Duration
	UntilIdle              bool
	Open                   bool // the page, in the browser
}

type MCP struct {
	Expose string // agents or tools
	// Sessions are served as well.
	Sessions bool
	Compat   bool
	Plain    bool
	Linger   time.Duration
	// TaskAfter is when a call continues as a task.
	TaskAfter time.Duration
	HTTP      string
	Tokens    string
	NoToken   bool
	Watch     bool
	runs.Flags
}

var exposed = []string{"agents", "tools", "sessions"}

// AddExposed takes a value of --expose: agents or tools, and also sessions.
func (f *MCP) AddExposed(value string) error {
	switch {
	case value == "sessions":
		f.Sessions = true
	case slices.Contains(exposed, value):
		f.Expose = value
	default:
		return &command.ChoiceError{Values: exposed}
	}
	return nil
}
