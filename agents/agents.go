// Package agents holds the agents that ship with the project, for copies by
// `agents new agent --from`.
package agents

import "embed"

// Files are the agents, each in a folder of its name, without their tests.
//
//go:embed */agent.json */scripted.json */script.json */toolkit.json */prompt.md */experts */scripted
var Files embed.FS
