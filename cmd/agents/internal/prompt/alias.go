package prompt

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/config"
)

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
