// Package realagents tests coding agents that others wrote as sub-agents with a lent model, as
// `agents new agent --from` writes them: Codex, Claude Code, OpenCode, pi, Gemini CLI and Crush.
//
// `make test-agents` installs them from npm and runs the tests. Otherwise the tests are skipped.
// Crush is not installed, as its npm package downloads the program. It is tested if it has been
// built:
//
//	GOBIN=$PWD/build/realagents/bin go install github.com/charmbracelet/crush@37f36e93824e
//
// Their model is a server on this machine, and no request leaves it.
package realagents
