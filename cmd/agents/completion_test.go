package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/complete"
)

// candidatesOf is what completes a command line that ends at the cursor.
func candidatesOf(t *testing.T, args ...string) (kind string, values []string) {
	t.Helper()
	p, stdout, stderr := testProgramHere()
	if err := root(p).Run(t.Context(), append([]string{"agents", "completion", "candidates"}, args...)); err != nil || stderr.Len() > 0 {
		t.Fatalf("candidates %q: %v\n%s", args, err, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	for _, line := range lines[1:] {
		value, _, _ := strings.Cut(line, "\t")
		values = append(values, value)
	}
	return lines[0], values
}

func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for name, text := range map[string]string{
		"agents-exe.cfg.json": `{"agentsFiles":["one.json","my two.json"],"promptAliases":{"mine":{"description":"d","template":"{{content}}","inputMode":"stdin"}}}`,
		"one.json":            `{"tag":"OpenAIAgentDescription","contents":{"slug":"one","announce":"first\nsecond","flavor":"scripted","script":"s"}}`,
		"my two.json":         `{"tag":"OpenAIAgentDescription","contents":{"slug":"two","flavor":"scripted","script":"s"}}`,
		"three.json":          `{"tag":"OpenAIAgentDescription","contents":{"slug":"three","flavor":"scripted","script":"s"}}`,
		"tooled.json":         `{"tag":"OpenAIAgentDescription","contents":{"slug":"tooled","flavor":"scripted","script":"s","toolDirectory":"box"}}`,
		"remote.json":         `{"tag":"OpenAIAgentDescription","contents":{"slug":"remote","flavor":"scripted","script":"s","mcpServers":{"tracker":{"url":"https://mcp.example.com"},"files":{"command":"x"}}}}`,
		"box/notes.txt":       "",
		"both.yaml":           "tag: OpenAIAgentDescription\ncontents: {slug: ann, announce: a, flavor: scripted, script: s}\n---\ntag: OpenAIAgentDescription\ncontents: {slug: ben, flavor: scripted, script: s}\n",
	} {
		if err := os.MkdirAll("box", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("box/good", nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, values := candidatesOf(t, "words", "run", "--agent", ""); len(values) > 0 {
		t.Errorf("agents of a cfg file that is not trusted: %q", values)
	}
	p, _, _ := testProgramHere()
	if err := root(p).Run(t.Context(), []string{"agents", "trust", "--yes"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		kind string
		want []string // "+X" means: X among others
	}{
		{"agents c", "words", []string{"check", "cli", "completion"}},
		{"agents ", "words", []string{"+run", "+init", "+man", "+tool"}},
		{"agents", "words", []string{"+run"}},
		{"agents tool ", "words", []string{"call", "describe", "test"}},
		{"agents tool call --agent-file tooled.json ", "words", []string{"box/good"}},
		{"agents tool call --agent-file tooled.json ./", "files", nil},
		{"agents replay ", "words", []string{"latest"}},
		{"agents replay ./", "files", nil},
		{"agents keys rm ", "words", nil}, // its ID is not that of a session
		{"agents mcp login --agent-file remote.json ", "words", []string{"tracker"}},
		{"agents mcp ", "words", []string{"list", "login", "logout"}},
		{"agents tool d", "words", []string{"describe"}},
		{"agents completion ", "words", []string{"bash", "fish", "zsh"}},
		{"agents check --too", "words", []string{"--tools"}},
		{"agents check --a", "words", []string{"--agent", "--agent-file", "--allow", "--api-keys", "--approval", "--ask"}},
		{"agents run -", "words", []string{"+--prompt", "+-p", "+--quiet", "+--help"}},
		{"agents --quiet run --out", "words", []string{"--output", "--output-schema"}},
		{"agents run --output ", "words", []string{"json", "jsonl", "jsonl-whole", "text"}},
		{"agents run --output=js", "words", []string{"json", "jsonl", "jsonl-whole"}},
		{"agents run --output json --color a", "words", []string{"always", "auto"}},
		{"agents new tool x --lang ", "words", []string{"bash", "go", "node", "python"}},
		{"agents init --flavor o", "words", []string{"ollama", "openai-compatible", "openai-v1", "openrouter-v1"}},
		{"agents init --flavor scr", "words", []string{"scripted"}},
		{"agents run --agent ", "words", []string{"one", "two"}},
		{"agents --agent o", "words", []string{"one"}},
		{"agents run --agent-file three.json --agent ", "words", []string{"three"}},
		{"agents run --agent-file both.yaml --agent ", "words", []string{"ann", "ben"}},
		{"agents run --agent-file 'my two.json' --agent=", "words", []string{"two"}},
		{`agents run --agent-file "my two.json" --agent `, "words", []string{"two"}},
		{`agents run --agent-file my\ two.json --agent `, "words", []string{"two"}},
		{"agents --agent-file nowhere.json run --agent ", "words", nil},
		{"agents run --alias ", "words", []string{"code-review", "explain", "mine", "summarize", "translate"}},
		{"agents run --agent-file ", "files", nil},
		{"agents run --agent-file=thr", "files", nil},
		{"agents run -f ", "files", nil},
		{"agents run --media ", "files", nil},
		{"agents new tool x --dir ", "folders", nil},
		{"agents toolbox ", "folders", nil},
		{"agents run --prompt ", "words", nil},
		{"agents run --prompt --out", "words", nil},
		{"agents run --timeout ", "words", nil},
		{"agents run --nowhere=", "words", nil},
		{"agents tool call ", "files", nil},
		{"agents tool call -- ", "files", nil},
		{"agents tool call x --ar", "words", []string{"--arg"}},
		{"agents new agent ", "words", nil},
		{"agents run -- --out", "words", nil},
	} {
		t.Run(c.line, func(t *testing.T) {
			kind, got := candidatesOf(t, "line", c.line)
			var missing []string
			for _, w := range c.want {
				if some, ok := strings.CutPrefix(w, "+"); ok && !slices.Contains(got, some) {
					missing = append(missing, some)
				}
			}
			among := len(c.want) > 0 && strings.HasPrefix(c.want[0], "+")
			if kind != c.kind || len(missing) > 0 || !among && !slices.Equal(got, c.want) {
				t.Errorf("candidates = %s %q, want %s %q", kind, got, c.kind, c.want)
			}
			if slices.Contains(got, "candidates") {
				t.Error("what the scripts call is offered to people")
			}
		})
	}
	if kind, got := candidatesOf(t, "words", "run", "--agent-file", "my two.json", "--agent", ""); kind != "words" || !slices.Equal(got, []string{"two"}) {
		t.Errorf("candidates of words = %s %q, want two", kind, got)
	}
}

func TestCompletionShowsNoControlCharacters(t *testing.T) {
	if got, want := complete.OneLine("a\nb\x1b", "x\ty\u009bz"), "ab\txyz"; got != want {
		t.Errorf("oneLine = %q, want %q", got, want)
	}
	if got, want := complete.OneLine("a", "\n"), "a"; got != want {
		t.Errorf("oneLine = %q, want %q", got, want)
	}
}

// TestCompletionInRealShells presses the tab key.
func TestCompletionInRealShells(t *testing.T) {
	shells := map[string]struct{ start, rc, text string }{
		"bash": {"bash --rcfile rc.bash -i", "rc.bash", "PS1='ready> '\nsource <(agents completion bash)\n"},
		"zsh":  {"ZDOTDIR=. zsh -i", ".zshrc", "PS1='ready> '\nautoload -U compinit\ncompinit -u -D\nsource <(agents completion zsh)\n"},
		"fish": {"fish --no-config -i -C 'source rc.fish'", "rc.fish", "function fish_prompt; echo 'ready> '; end\nfunction fish_greeting; end\nagents completion fish | source\n"},
	}
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{
				"solo.json":   `{"tag":"OpenAIAgentDescription","contents":{"slug":"lonely-agent","announce":"likes: colons","flavor":"scripted","script":"s"}}`,
				"only one":    "x",
				"lone/inside": "x",
				shell.rc:      shell.text,
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := openScreen(t, dir, shell.start)
			s.Await(`^ready> *\n*\z`)
			for _, c := range []struct{ typed, want string }{
				{"agents echo", `agents echo-prompt`},
				{"agents echo-prompt --sep40 - --fil", `--file`},
				{"agents run --output=t", `--output=text`},
				{"agents --color alw", `--color always`},
				{"agents run --agent-file so", `--agent-file solo.json`},
				{"agents run --agent-file=so", `--agent-file=solo.json`},
				{"agents run --agent-file solo.json --agent ", `--agent lonely-agent`},
				{"agents run --file onl", `--file only\\ one`},
				{"agents new tool x --dir lo", `--dir lone/`},
				{"agents tool call so", `call solo.json`},
			} {
				s.Press("-l", c.typed)
				s.Await(`^ready> ` + strings.TrimSpace(c.typed) + ` *\n*\z`)
				s.Press("Tab")
				s.Await(`^ready> .*` + c.want + `[^\n]*\n*\z`)
				s.Press("C-c")
				s.PressUntil("C-c", `^ready> *\n*\z`)
			}
		})
	}
}
