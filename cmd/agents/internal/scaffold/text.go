package scaffold

import (
	"strings"

	"github.com/agents-exe/agents/docs"
)

// Text returns what a DeveloperToolbox writes and shows: see developer.Options.
func Text(kind, name string) string {
	switch kind + " " + name {
	case "spec bash-tools":
		page, _ := docs.Read("tools") // it is embedded
		return string(page)
	case "tool bash":
		return BashTool
	case "tool python":
		return PythonTool
	case "tool agents_tool.py":
		return PythonLibrary
	case "tool agents_tool.sh":
		return ShellLibrary
	case "tool node":
		return NodeTool
	case "agent ollama":
		return agentText("@SLUG@", ModelChoice{Flavor: "ollama", Url: "http://127.0.0.1:11434/v1", Model: "qwen3"}, "", "tools")
	}
	for _, v := range vendors {
		if kind == "agent" && strings.EqualFold(v.keyID, name) {
			return agentText("@SLUG@", ModelChoice{Flavor: string(v.flavor), Url: v.flavor.URL(), Model: v.model, KeyID: v.keyID}, "", "tools")
		}
	}
	return ""
}
