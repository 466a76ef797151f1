package scaffold

import (
	"context"
	_ "embed"
	"path/filepath"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
)

// codingTool is the tool of a coding agent; @AGENT@ is which.
//
//go:embed files/coding-agent.sh
var codingTool string

// codingFile is the agent file of a coding agent: a script that passes the prompt to the tool, which
// is lent the model that is chosen or, without one, those of the agent that calls it.
const (
	codingFile = `{
  "$schema": "` + schemaURL + `agent.schema.json",
  "tag": "OpenAIAgentDescription",
  "contents": {
    "slug": "@SLUG@",
    "announce": "has @TITLE@ do a task with the files of the working directory. It knows nothing but the prompt",
    "flavor": "scripted",
    "price": {"input": 0, "output": 0},
    "script": "@SCRIPT@",
    "models": {"lent": {@MODEL@}},
    "lend": ["lent", {"tool": "bash_@TOOL@"}],
    "toolDirectory": "@TOOLS@",
    "builtinToolboxes": [{"tag": "FinishToolbox"}],
    "approval": "@APPROVAL@",
    "sandbox": "workspace"
  }
}
`
	codingScript = `{
  "$schema": "` + schemaURL + `script.schema.json",
  "rules": [
    {"when": {"role": "user", "prompt": "^\\[The budget of this run is nearly spent"}, "answer": {"text": "${result.bash_@TOOL@:-The budget was nearly spent before there was an answer.}"}},
    {"when": {"role": "user"}, "answer": {"calls": [{"tool": "bash_@TOOL@", "args": {"task": "${prompt}"}}]}},
    {"when": {"failed": true}, "answer": {"calls": [{"tool": "reject", "args": {"text": "${result.0}"}}]}},
    {"answer": {"text": "${result.0}"}}
  ]
}
`
)

// codingAgents are the names of the coding agents that others wrote, and what people call them.
func codingAgents() map[string]string {
	return map[string]string{"codex": "Codex", "claude-code": "Claude Code", "opencode": "OpenCode", "pi": "pi", "gemini": "Gemini CLI", "crush": "Crush", "goose": "goose"}
}

// coding adds the files of a coding agent.
func (c *shippedCopy) coding(title string) {
	model := `"flavor": "` + agentfile.FlavorCaller + `"`
	if c.Model.Url != "" {
		model = strings.Join(strings.Fields(strings.TrimSuffix(c.modelLines(), ",\n")), " ")
	}
	script := c.Files + "/script.json"
	fill := strings.NewReplacer("@SLUG@", c.Slug, "@TITLE@", title, "@SCRIPT@", script, "@MODEL@", model, "@TOOL@", strings.ReplaceAll(c.From, "-", "_"),
		"@TOOLS@", c.Tools, `    "approval": "@APPROVAL@",`+"\n", approvalLine(c.Approval), "@AGENT@", c.From)
	c.add(filepath.Base(c.File), fill.Replace(codingFile))
	c.add(script, fill.Replace(codingScript))
	c.add(c.Tools+"/"+c.From, fill.Replace(codingTool))
}

// approvalLine is the line of an agent file about approval, if there is one.
func approvalLine(approval string) string {
	if approval != "" {
		approval = `    "approval": "` + approval + "\",\n"
	}
	return approval
}

// Modelless is what the agent does without a model.
func (a *Agent) Modelless() string {
	if codingAgents()[a.From] != "" {
		return "it uses a model of the agent that calls it"
	}
	return "it plays a script"
}

// Borrows reports whether a runs only below an agent that lends it a model.
func (a *Agent) Borrows() bool {
	return codingAgents()[a.From] != "" && a.Model.Flavor == agentfile.FlavorScripted
}

// CheckCoding says whether the program of a coding agent that was written is missing, or has a
// version that is not tested. The program runs as in CommandHelp, for its version.
func (a *Agent) CheckCoding(ctx context.Context, p *program.Env) {
	if codingAgents()[a.From] == "" {
		return
	}
	tool, err := filepath.Abs(filepath.Join(filepath.Dir(a.File), a.Tools, a.From))
	if err != nil {
		return
	}
	said, _ := confined(ctx, p, 20*time.Second, tool, "check")
	for line := range strings.Lines(said) {
		p.Note("%s", strings.TrimSpace(line))
	}
}
