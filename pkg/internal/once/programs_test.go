//go:build linux

package once

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/session"
)

// A program is a coding agent, how it is started without a terminal, and how its documentation
// says that an interrupted run is resumed.
type program struct {
	name, file    string // file is below build/realagents/node_modules
	shell, key    string // the tool for commands, and its argument; both are empty for agents
	start, resume []string
	resumed       string // for the page
	config, text  string // a file below HOME; SERVER in it is replaced by the address of the model
	env           []string
}

var programs = []program{
	{name: "agents", resumed: "agents run --session ID"},
	{name: "codex", file: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", shell: "exec_command", key: "cmd",
		start:   []string{"exec", "--skip-git-repo-check", "go"},
		resume:  []string{"exec", "--skip-git-repo-check", "resume", "--last", "continue"},
		resumed: "codex exec resume --last continue",
		config:  ".codex/config.toml", text: `model = "m"
model_provider = "lent"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false
[model_providers.lent]
name = "lent"
base_url = "SERVER/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[features]
multi_agent = false
[analytics]
enabled = false
`},
	{name: "opencode", file: "opencode-linux-x64/bin/opencode", shell: "bash", key: "command",
		start:   []string{"run", "--auto", "-m", "lent/m", "go"},
		resume:  []string{"run", "--auto", "-m", "lent/m", "--continue", "continue"},
		resumed: "opencode run --continue continue",
		config:  ".config/opencode/opencode.json", text: `{"autoupdate": false, "share": "disabled", "snapshot": false, "permission": "allow",
  "model": "lent/m", "small_model": "lent/m", "enabled_providers": ["lent"],
  "provider": {"lent": {"npm": "@ai-sdk/openai-compatible", "name": "lent", "options": {"baseURL": "SERVER/v1", "apiKey": "none"},
    "models": {"m": {"name": "m", "tool_call": true, "limit": {"context": 128000, "output": 8192}}}}}}`,
		env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"}},
	{name: "pi", file: ".bin/pi", shell: "bash", key: "command",
		start:   []string{"--provider", "lent", "--model", "m", "-p", "go"},
		resume:  []string{"--provider", "lent", "--model", "m", "--continue", "-p", "continue"},
		resumed: "pi --continue -p continue",
		config:  ".pi/agent/models.json", text: `{"providers": {"lent": {"baseUrl": "SERVER/v1", "api": "openai-completions", "apiKey": "OPENAI_API_KEY", "models": [{"id": "m"}]}}}`,
		env: []string{"PI_OFFLINE=1", "PI_TELEMETRY=0"}},
	{name: "gemini-cli", file: "@google/gemini-cli/bundle/gemini.js", shell: "run_shell_command", key: "command",
		start:   []string{"--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", "go"},
		resume:  []string{"--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "--resume", "latest", "-p", "continue"},
		resumed: "gemini --resume latest -p continue",
		config:  ".gemini/settings.json", text: `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}, "telemetry": {"enabled": false}}`,
		env: []string{"GOOGLE_GEMINI_BASE_URL=SERVER", "GEMINI_TELEMETRY_ENABLED=false", "GEMINI_CLI_NO_RELAUNCH=true"}},
	{name: "crush", file: "../bin/crush", shell: "bash", key: "command",
		start:   []string{"run", "--quiet", "go"},
		resume:  []string{"run", "--quiet", "--continue", "continue"},
		resumed: "crush run --continue continue",
		config:  ".config/crush/crush.json", text: `{"options": {"disable_metrics": true, "disable_provider_auto_update": true, "disable_default_providers": true},
  "providers": {"lent": {"type": "openai-compat", "base_url": "SERVER/v1", "api_key": "none",
    "models": [{"id": "m", "name": "m", "context_window": 128000, "default_max_tokens": 8192}, {"id": "other", "name": "other", "context_window": 128000, "default_max_tokens": 8192}]}},
  "models": {"large": {"provider": "lent", "model": "m"}, "small": {"provider": "lent", "model": "m"}}}`,
		env: []string{"CRUSH_DISABLE_METRICS=1", "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1"}},
}

// path returns the program's executable, and skips the test where there is none.
func (p program) path(t *testing.T) string {
	t.Helper()
	file := os.Getenv("AGENTS_TEST_AGENTS")
	if file == "" {
		t.Skip("this test needs the built program: run `make bench-once`")
	}
	if p.file != "" {
		file = filepath.Join("../../../build/realagents/node_modules", p.file)
	}
	file, err := filepath.Abs(file)
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Skipf("%s is not installed: %v", p.name, err)
	}
	return file
}

// call returns the tool and the arguments by which the model makes an action, or looks whether
// it took effect.
func (p program) call(w *world, a action, check bool) (name, args string) {
	if p.shell == "" {
		if !check {
			return "bash_" + a.Name, string(a.Args)
		}
		encoded, _ := json.Marshal(a) // it was JSON
		return "bash_" + checkTool, string(encoded)
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	line := quote(filepath.Join(w.dir, "tools/act"))
	if check {
		line += " " + checkTool
	}
	args = line + " " + a.Name + " " + quote(string(a.Args))
	fields := map[string]string{p.key: args, "description": "makes the action"}
	if p.key == "cmd" {
		delete(fields, "description")
	}
	encoded, _ := json.Marshal(fields) // strings always encode
	return p.shell, string(encoded)
}

// prepare writes what the program needs into the folder of the task.
func (p program) prepare(w *world) error {
	names := []string{"act"}
	if p.shell == "" {
		names = []string{checkTool}
		for _, a := range w.task.actions {
			names = append(names, a.Name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(w.dir, "tools", name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	file, text := "agent.json", fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"clerk","flavor":"openai-compatible","modelName":"m","modelUrl":"%s/v1","toolDirectory":"tools","loopLimit":false}}`, w.url)
	if p.shell != "" {
		file, text = filepath.Join("home", p.config), strings.ReplaceAll(p.text, "SERVER", w.url)
	}
	file = filepath.Join(w.dir, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// args returns the arguments of the next start: a new run unless the model has been asked.
func (p program) args(w *world) []string {
	began := w.asked()
	if p.shell != "" {
		if began {
			return p.resume
		}
		return p.start
	}
	sessions := filepath.Join(w.dir, "sessions")
	args := []string{"run", "--quiet", "--agent-file", filepath.Join(w.dir, "agent.json"), "--session-dir", sessions}
	list, err := session.List(session.Filter{}, sessions)
	if err == nil && len(list) > 0 && len(list[0].Prompt) > 0 {
		return append(args, "--session", list[0].ID)
	}
	_ = os.RemoveAll(sessions) // nothing was recorded
	return append(args, "-p", "go")
}

// ended says whether the run needs no further start though the last one was killed: the session
// of agents has its end, and only the answer was not printed.
func (p program) ended(w *world) bool {
	list, err := session.List(session.Filter{}, filepath.Join(w.dir, "sessions"))
	return p.shell == "" && err == nil && len(list) > 0 && list[0].Status != ""
}
