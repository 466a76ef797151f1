// Package realagents tests coding agents that others wrote as sub-agents with a lent model, as
// `agents new agent --from` writes them: Codex, Claude Code, OpenCode, pi and Gemini CLI.
//
// `make test-agents` installs them from npm and runs the tests. Otherwise the tests are skipped.
// Their model is a server on this machine, and no request leaves it.
package realagents
