// Package realagents tests coding agents that others wrote as tools of an agent that lends them a
// model: Codex, Claude Code, OpenCode and pi, started by the scripts of examples/coding-agents.
//
// `make test-agents` installs them from npm and runs the tests. Otherwise the tests are skipped.
// Their model is a server on this machine, and no request leaves it.
package realagents
