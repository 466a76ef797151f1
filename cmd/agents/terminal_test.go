package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

// openScreen runs a shell command in a new terminal, with `agents` in its PATH and
// nothing of ours in its environment but env.
func openScreen(t *testing.T, dir, command string, env ...string) *tmuxtest.Screen {
	t.Helper()
	return tmuxtest.Open(t, tmuxtest.Options{Dir: dir, Command: command, Env: env, Links: links(t)})
}

// links are the programs that this test binary is: see TestMain.
func links(t *testing.T) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"agents": self, "mcp-fake": self}
}

func TestInitAsksAPerson(t *testing.T) {
	dir := t.TempDir()
	editor := "#!/bin/sh\ntest -t 0 && test -t 1 && echo \"$@\" >edited\n"
	if err := os.WriteFile(filepath.Join(dir, "editor"), []byte(editor), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openScreen(t, dir, `agents init; echo "code $?"; ls -1; agents init --edit --agent-file agent.json; echo "again $?"`, "OPENAI_API_KEY=sk-secret", "EDITOR=./editor --with option")
	s.Await(`^Which agent\?\n(?s:.*)^number \[1\]:`)
	s.Press("7", "Enter")
	s.Await(`^want a number from 1 to 4$`)
	s.Press("Enter")
	s.Await(`^ ready to use\n   1  OpenAI \(OPENAI_API_KEY is set\)\n   2  a script: no model, no key, works offline\n with a key of yours\n   3  Mistral\n(?s:.*)^number \[1\]:`)
	s.Press("Enter")
	s.Await(`^Which model\? \[gpt-5\.6-luna\]:`)
	s.Press("gpt-x", "Enter")
	s.Await(`^write it\? yes or no \[yes\]:`)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("before the answer the folder holds %v (%v), want the editor alone", entries, err)
	}
	s.Press("Enter")
	s.Await(`^code 0$`)
	s.Await(`^editor$`) // and no file that it wrote: nobody asked for it
	s.Await(`^again 0$`)
	text := s.Text()
	for _, want := range []string{
		"This is what init writes:\n  tools/, with 9 files\n  .gitignore\n  agents-exe.keys, which only you can read\n  tools/lib/, with 8 files\n  agent.json\n",
		"  1  assistant    reads, edits, searches and runs commands in this folder,\n                  in a sandbox, and asks before it changes something\n  2  reviewer ",
		"another that speaks OpenAI's protocol\n", "note: it runs on OpenAI (OPENAI_API_KEY is set), model gpt-x", "\ntry: agents\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not show %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\nedited\n") {
		t.Errorf("the editor was opened without being asked for:\n%s", text)
	}
	if got := readAgent(t, filepath.Join(s.Dir, "agent.json")).Contents; got.ModelName != "gpt-x" || got.APIKeyID != "openai" {
		t.Errorf("agent.json = %+v, want model gpt-x with the key openai", got)
	}
	edited, err := os.ReadFile(filepath.Join(s.Dir, "edited"))
	if want := "--with option agent.json\n"; err != nil || string(edited) != want {
		t.Errorf("the editor was called with %q (%v), want %q and a terminal", edited, err, want)
	}
	if strings.Contains(text, "sk-secret") {
		t.Errorf("the terminal shows the key:\n%s", text)
	}
}

// What a stranger wrote is shown without acting on the terminal, and an answer other than
// yes trusts nothing.
// TestAChangeIsAskedAboutInPlace: at a terminal, a run shows what has changed, asks, and goes on.
func TestAChangeIsAskedAboutInPlace(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"found","flavor":"scripted","script":"script.json"}}`,
		"script.json": "{\"rules\":[\n{\"when\":{},\"answer\":{\"text\":\"answered\"}}\n]}",
	})
	s := openScreen(t, dir, `agents trust --yes >out; sed -i s/answered/changed/ script.json; run() { agents run --quiet -p x; echo "code $?"; }; run; run; run`)
	s.Await(`^.*agent.json: changed since it was trusted\n  changed: script script.json\n    - .*answered.*\n    \+ .*changed.*\ntrust it\? yes or no \[no\]:`)
	s.Press("no", "Enter")
	s.Await(`^error: agent.json differs from what was trusted:\n(?s:.*)^code 2\n(?s:.*)trust it\?`)
	s.Press("yes", "Enter")
	s.Await(`(?s)^changed\ncode 0\nchanged\ncode 0$`)
}

func TestTrustAsksAPerson(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"found","flavor":"scripted","script":"script.json","toolDirectory":"tools",
			"mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"x","executable":"sh","args":["-c","evil\u001b[2K\r  tool    harmless\n/home/you/agent.json: trusted"]}}]}}`,
		"script.json":                `{"rules":[{"when":{},"answer":{"text":"answered"}}]}`,
		"tools/a\x1b[31m\nforged.sh": "#!/bin/sh\ntouch ran\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := openScreen(t, dir, `agents trust; echo "code $?"; agents trust; echo "again $?"; agents run --quiet -p x; agents trust`)
	s.Await(`^trust it\? yes or no \[no\]:`)
	for _, forged := range []string{"(?m)^ *tool    harmless", "(?m)^/home/you", "(?m)^forged"} {
		if text := s.Text(); regexp.MustCompile(forged).MatchString(text) {
			t.Errorf("what was found forges a line:\n%s", text)
		}
	}
	if text := s.Text(); !strings.Contains(text, "sh -c evil") {
		t.Errorf("the terminal does not show the server's command line:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("something was executed before the answer")
	}
	s.Press("Enter")
	s.Await(`^error: trust: nothing was trusted$`)
	s.Await(`^code 2$`)
	s.Press("yes", "Enter")
	s.Await(`again 0$`)
	s.Await(`answered`)
	s.Await(`/agent.json: trusted$`)
}

func TestInitAsksForAKeyThatNobodySees(t *testing.T) {
	s := openScreen(t, t.TempDir(), `agents init; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
	s.Await(`^number \[1\]:`)
	s.Press("Enter")
	s.Await(`^   5  Anthropic: Claude$`)
	s.Await(`^number \[1\]:\n(?s:.*)^number \[1\]:`)
	s.Press("5", "Enter")
	s.Await(`^The key for api.anthropic.com \(it is not shown\):`)
	s.Press("Enter")
	s.Await(`^it is empty; Ctrl-C ends this without a change\nThe key for api.anthropic.com`)
	s.Press("sk-typed", "Enter")
	s.Await(`^Which model\? \[claude`)
	s.Press("Enter")
	s.Await(`^write it\? yes or no \[yes\]:`)
	s.Press("Enter")
	s.Await(`^code 0$`)
	s.Await(`^echo$`)
	if text := s.Text(); strings.Contains(text, "sk-typed") {
		t.Errorf("the terminal shows the key:\n%s", text)
	}
	keys, err := os.ReadFile(filepath.Join(s.Dir, "agents-exe.keys"))
	if err != nil || !strings.Contains(string(keys), `"value": "sk-typed"`) {
		t.Errorf("agents-exe.keys = %s (%v), want the key that was typed", keys, err)
	}
}

func TestInitThatIsInterruptedWritesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"at a question":        {[]string{"C-c"}, "error: nothing was written: interrupted"},
		"at the model":         {[]string{"Enter", "C-c"}, "error: nothing was written: interrupted"},
		"at the key":           {[]string{"Enter", "2", "Enter", "sk-half", "C-c"}, "error: nothing was written: interrupted"},
		"at the last question": {[]string{"Enter", "Enter", "C-c"}, "error: nothing was written: interrupted"},
		"no":                   {[]string{"Enter", "Enter", "no", "Enter"}, "error: nothing was written"},
		"end of the file":      {[]string{"C-d"}, "error: nothing was written: the input ended before an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openScreen(t, t.TempDir(), `agents init; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
			s.Await(`^number \[1\]:`)
			for i, key := range c.keys {
				switch { // what is typed ahead stands in front of its question
				case key == "sk-half":
					s.Await(`The key for`)
				case i == 1:
					s.Await(`^Which model should it use\?(?s:.*)^number \[1\]:`)
				case i == 2 && c.keys[1] == "Enter":
					s.Await(`^write it\?`)
				}
				s.Press(key)
			}
			s.Await(`^code (130|2)$`)
			s.Await(`^echo$`)
			if text := s.Text(); !strings.Contains(text, c.want) || strings.Contains(text, "sk-half") {
				t.Errorf("the terminal shows\n%s\nwant %q", text, c.want)
			}
			entries, err := os.ReadDir(s.Dir)
			if err != nil || len(entries) > 0 {
				t.Errorf("the folder holds %v (%v), want nothing", entries, err)
			}
		})
	}
}

func TestRunWithoutAPromptSaysWhatItWaitsFor(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"s.json"}}`,
		"s.json": `{"rules":[{"answer":{"text":"it answers"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := openScreen(t, dir, `agents run --no-session --agent-file a.json`)
	s.Await(`^note: type the prompt; Ctrl-D on a new line ends it$`)
	s.Press("hello", "Enter", "C-d")
	s.Await(`^it answers$`)
}

// A terminal that is dumb, such as the shell of an editor, shows control sequences as text.
func TestADumbTerminalGetsLines(t *testing.T) {
	s := openScreen(t, t.TempDir(), `export TERM=dumb; agents init --yes --quiet; agents run --prompt hello; echo "code $?"`)
	s.Await(`^code 0$`)
	if text := s.Text(); !strings.Contains(text, "\n→ bash_list_files\n") {
		t.Errorf("the progress was redrawn, or is missing:\n%s", text)
	}
}

// A person who starts what programs start learns what it waits for.
func TestProtocolsAtATerminal(t *testing.T) {
	t.Parallel()
	for command, note := range map[string]string{"mcp-server": "note: an MCP client starts this program", "run --channel": "note: --channel is for programs"} {
		t.Run(command, func(t *testing.T) {
			s := openScreen(t, t.TempDir(), "agents init --yes --quiet; agents "+command+`; echo "code $?"`)
			s.Await("^" + note)
			s.PressUntil("C-d", `^code \d+$`)
		})
	}
}
