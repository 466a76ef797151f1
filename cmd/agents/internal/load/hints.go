package load

import (
	"cmp"
	"errors"
	"os"

	"github.com/agents-exe/agents/pkg/agentfile"
)

func KeysHint(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "`agents keys set ID` keeps a key; `agents schema keys` documents the file"
	}
	return ""
}

// ProblemHint returns the next step for a problem, "" if there is none.
func ProblemHint(p agentfile.Problem) string {
	switch p.Code {
	case agentfile.CodeKey:
		return "add it with `agents keys set ID` or to the keys file that `agents paths` shows, or name another file with --api-keys"
	case agentfile.CodeKeySource:
		return "try its command by hand, or replace it with `agents keys set ID`"
	case agentfile.CodeKeyEnv:
		return "set the variable, or name a key of the keys file with apiKeyId"
	case agentfile.CodeHost:
		return "correct modelUrl, or hosts in the keys file"
	case agentfile.CodeWritable:
		return "remove the write permission of others: chmod o-w"
	case agentfile.CodeSchema, agentfile.CodeUnknown, agentfile.CodeFlavor, agentfile.CodeURL:
		if p.Choice != "" {
			return "`agents run --help` documents the flags"
		}
		return "`agents schema " + cmp.Or(p.Schema, "agent") + "` documents every key"
	case agentfile.CodeScript:
		return "`agents help scripted-model` documents scripts"
	case agentfile.CodeNotAgent:
		return "move the file out of the tool directory, or give it the tag " + agentfile.Tag
	case agentfile.CodeCycle:
		return "name the agent in extraAgents instead, which may be a cycle"
	case agentfile.CodeCollision:
		return "give one of them another slug"
	case agentfile.CodeTool:
		return "run the tool by hand with the one argument describe"
	case agentfile.CodePath:
		return "paths are relative to the folder of the agent file"
	case agentfile.CodeServer:
		return "`agents help agent-files` describes the keys of MCP servers"
	case agentfile.CodeProgram:
		return "`go install github.com/agents-exe/agents/cmd/...@latest` installs it beside agents"
	case agentfile.CodeStart:
		return "start the server by hand to see its output"
	case agentfile.CodeLock:
		return "`agents lock` writes it; `agents help lock` describes it"
	case agentfile.CodeSet:
		return "each ${NAME} in systemPrompt and announce takes its value from --set NAME=VALUE"
	case agentfile.CodeSlug:
		return "write the target's own slug"
	}
	return ""
}
