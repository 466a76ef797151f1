package prompt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/urfave/cli/v3"
)

// Opening is the prompt, and the messages that come before it: those of
// --mcp-prompt except the last, to which the other flags add.
func (f *Flags) Opening(ctx context.Context, p *program.Env, l *load.Tree) (prompt agent.Message, before []agent.Message, err error) {
	if f.MCP.Name == "" {
		prompt, err = f.Message(ctx, p, l)
		return prompt, nil, err
	}
	messages, err := l.Prompt(ctx, f.MCP.Name, f.MCP.args)
	var wrong *agentfile.PromptError
	switch {
	case errors.As(err, &wrong):
		return prompt, nil, failure.Usage("", "--mcp-prompt: %w", err)
	case err != nil && ctx.Err() != nil:
		return prompt, nil, err
	case err != nil:
		return prompt, nil, failure.NothingRan(fmt.Errorf("--mcp-prompt: %w", err), "")
	}
	if len(f.Script) > 0 || len(f.Media) > 0 {
		if prompt, err = f.added(ctx, p); err != nil {
			return prompt, nil, err
		}
	}
	if len(prompt.Parts) > 0 {
		messages = append(messages, prompt)
	}
	messages = together(messages)
	last := len(messages) - 1
	if messages[last].Role != agent.RoleUser {
		return prompt, nil, failure.Usage("say with --prompt what is to be done", "--mcp-prompt: %s ends with words of the model and asks nothing", f.MCP.Name)
	}
	return messages[last], messages[:last], nil
}

// added is what the flags add to a prompt of a server.
func (f *Flags) added(ctx context.Context, p *program.Env) (agent.Message, error) {
	m := agent.Message{Role: agent.RoleUser}
	if len(f.Script) > 0 {
		text, err := f.Script.Render(ctx, p)
		if err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, agent.Text(text))
	}
	media, err := Attachments(ctx, f.Media)
	m.Parts = append(m.Parts, media...)
	return m, err
}

// Flags are the flags of a prompt and its attachments.
type Flags struct {
	Script Script
	Media  []string
	Alias  string
	MCP    mcpPrompt
}

func (f *Flags) Given() bool {
	return len(f.Script) > 0 || len(f.Media) > 0 || f.Alias != "" || f.MCP.Name != ""
}

// Message is the prompt with what is attached to it.
func (f *Flags) Message(ctx context.Context, p *program.Env, l *load.Tree) (agent.Message, error) {
	text, err := f.Script.Render(ctx, p)
	if err != nil {
		return agent.Message{}, err
	}
	if f.Alias != "" {
		if text, err = applyAlias(f.Alias, l.Config.File.Aliases, f.Script, text); err != nil {
			return agent.Message{}, err
		}
	}
	media, err := Attachments(ctx, f.Media)
	if err != nil {
		return agent.Message{}, err
	}
	message := agent.UserText(text)
	message.Parts = append(message.Parts, media...)
	return message, nil
}

// BuiltinAliases exist without a cfg file, which may redefine them.
var BuiltinAliases = map[string]config.Alias{
	"translate":   {Description: "translate into English", Template: "Please translate the following text into English:\n\n{{content}}"},
	"summarize":   {Description: "summarize a text", Template: "Please give a concise summary of the following:\n\n{{content}}"},
	"code-review": {Description: "review code", Template: "Please review this code for bugs, security problems and style:\n\n```{{language}}\n{{content}}\n```", Input: config.AliasFile},
	"explain":     {Description: "explain code", Template: "Please explain in plain English what this code does:\n\n```{{language}}\n{{content}}\n```", Input: config.AliasFile},
}

// applyAlias puts the prompt into the template of an alias. content is what the
// prompt script made.
func applyAlias(name string, aliases map[string]config.Alias, script Script, content string) (string, error) {
	all := maps.Clone(BuiltinAliases)
	maps.Copy(all, aliases)
	alias, ok := all[name]
	if !ok {
		var known []string
		for _, n := range slices.Sorted(maps.Keys(all)) {
			known = append(known, fmt.Sprintf("%s (%s)", n, all[n].Description))
		}
		return "", failure.Usage("promptAliases in agents-exe.cfg.json defines more", "--alias: there is no alias %q; there are %s", name, strings.Join(known, ", "))
	}
	file := script.firstFile()
	if alias.Input == config.AliasFile && file == "" {
		return "", failure.Usage("", "--alias %s needs a file: name one with --file", name)
	}
	return FillAlias(alias, file, content, nil), nil
}

// FillAlias is the text of an alias about content, which is from file. more are the
// values of other placeholders.
func FillAlias(alias config.Alias, file, content string, more map[string]string) string {
	base := ""
	if file != "" && file != "-" {
		base = filepath.Base(file)
	}
	pairs := []string{
		"{{content}}", strings.TrimSuffix(content, "\n"),
		"{{filename}}", base,
		"{{language}}", languages[strings.ToLower(filepath.Ext(base))],
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		pairs = append(pairs, "{{"+name+"}}", more[name])
	}
	// One pass, so that inserted text is not expanded.
	return strings.NewReplacer(pairs...).Replace(alias.Template)
}

func (s Script) firstFile() string {
	for _, item := range s {
		if item.kind == "file" {
			return item.text
		}
	}
	return ""
}

// languages are the names of languages, as Markdown has them, by file name
// extension.
var languages = map[string]string{
	".bash": "bash", ".c": "c", ".cc": "cpp", ".clj": "clojure", ".cpp": "cpp", ".cs": "csharp", ".css": "css",
	".erl": "erlang", ".ex": "elixir", ".exs": "elixir", ".fs": "fsharp", ".go": "go", ".h": "c", ".hpp": "cpp",
	".hs": "haskell", ".html": "html", ".java": "java", ".js": "javascript", ".json": "json", ".kt": "kotlin",
	".lua": "lua", ".md": "markdown", ".ml": "ocaml", ".php": "php", ".pl": "perl", ".py": "python", ".r": "r",
	".rb": "ruby", ".rs": "rust", ".sass": "sass", ".scala": "scala", ".scss": "scss", ".sh": "bash", ".sql": "sql",
	".swift": "swift", ".toml": "toml", ".ts": "typescript", ".tsx": "tsx", ".vim": "vim", ".xml": "xml",
	".yaml": "yaml", ".yml": "yaml", ".zig": "zig", ".zsh": "zsh",
}

type mcpPrompt struct {
	Name string
	args map[string]string
}

// Arguments reads the arguments of the command: the words of the prompt, or what
// belongs to --mcp-prompt.
func (f *Flags) Arguments(c *cli.Command) error {
	m := &f.MCP
	if m.Name == "" {
		return f.Script.Words(c)
	}
	m.args = map[string]string{}
	for _, arg := range c.Args().Slice() {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return failure.Usage("", "--mcp-prompt: %q: want NAME=VALUE", arg)
		}
		if _, twice := m.args[name]; twice {
			return failure.Usage("", "--mcp-prompt: the argument %s is there twice", name)
		}
		m.args[name] = value
	}
	return nil
}

// together makes one message of those of one role that follow each other: many
// models require alternating roles.
func together(messages []agent.Message) []agent.Message {
	var joined []agent.Message
	for _, m := range messages {
		last := len(joined) - 1
		if last < 0 || joined[last].Role != m.Role {
			m.Parts = slices.Clone(m.Parts)
			joined = append(joined, m)
			continue
		}
		parts := joined[last].Parts
		if n := len(parts); n > 0 && parts[n-1].Kind == agent.PartText && !strings.HasSuffix(parts[n-1].Text, "\n") {
			parts[n-1].Text += "\n"
		}
		joined[last].Parts = append(parts, m.Parts...)
	}
	return joined
}
