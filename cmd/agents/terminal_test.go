package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A screen is a real terminal (of tmux) in which a shell runs the program.
type screen struct {
	t      *testing.T
	dir    string // where it runs
	socket string
}

// openScreen runs a shell command in a new terminal and a new folder, with
// `agents` in its PATH and nothing of ours in its environment but env.
func openScreen(t *testing.T, dir, command string, env ...string) *screen {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux, whose terminals this test types into")
	}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agents", "mcp-fake"} { // see TestMain
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := &screen{t: t, dir: dir, socket: filepath.Join(t.TempDir(), "s")}
	env = append(env, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "LANG=C.UTF-8")
	cmd := s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", "-c", s.dir, "sh", "-c",
		"trap : INT; "+command+"; trap '' INT; exec sleep 900") // the screen stays, whatever keys still arrive
	cmd.Env = append(env, "TERM=xterm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = s.tmux("kill-server").Run() })
	return s
}

// tmux runs a command of tmux. The path of a socket must be short, so it is
// relative to the folder.
func (s *screen) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Base(s.socket)}, args...)...)
	cmd.Dir = filepath.Dir(s.socket)
	return cmd
}

// text is all that the terminal shows.
func (s *screen) text() string {
	out, err := s.tmux("capture-pane", "-p", "-S", "-").CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux capture-pane: %v\n%s", err, out)
	}
	return string(out)
}

// await waits until the terminal shows a text that the pattern fits.
func (s *screen) await(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(`(?m)` + pattern)
	defer func() {
		if s.t.Failed() {
			s.t.Logf("waited for %s; the terminal shows\n%s", pattern, s.text())
		}
	}()
	waitFor(s.t, func() bool { return re.MatchString(s.text()) })
}

// press sends keys by the names that tmux has for them.
func (s *screen) press(keys ...string) {
	s.t.Helper()
	if out, err := s.tmux(append([]string{"send-keys"}, keys...)...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux send-keys: %v\n%s", err, out)
	}
}

// pressUntil waits until the terminal shows a text, and presses a key every second
// until it does: a shell that is busy may lose one.
func (s *screen) pressUntil(key, pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(`(?m)` + pattern)
	last := time.Now()
	waitFor(s.t, func() bool {
		shown := re.MatchString(s.text())
		if !shown && time.Since(last) > time.Second {
			s.press(key)
			last = time.Now()
		}
		return shown
	})
}

func TestInitAsksAPerson(t *testing.T) {
	dir := t.TempDir()
	editor := "#!/bin/sh\ntest -t 0 && test -t 1 && echo \"$@\" >edited\n"
	if err := os.WriteFile(filepath.Join(dir, "editor"), []byte(editor), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openScreen(t, dir, `agents init; echo "code $?"`, "OPENAI_API_KEY=sk-secret", "EDITOR=./editor --with option")
	s.await(`^  1  OpenAI \(OPENAI_API_KEY is set\)$`)
	s.await(`^number \[1\]:`)
	s.press("7", "Enter")
	s.await(`^want a number from 1 to 3$`)
	s.press("Enter")
	s.await(`^Which model\? \[gpt-5-mini\]:`)
	s.press("gpt-x", "Enter")
	s.await(`^code 0$`)
	text := s.text()
	for _, want := range []string{
		"  2  a scripted demo: no model, no key, works offline", "  3  another server",
		"\nagent.json\n", `try: agents run --prompt "What is in this folder?"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not show %q:\n%s", want, text)
		}
	}
	if got := readAgent(t, filepath.Join(s.dir, "agent.json")).Contents; got.ModelName != "gpt-x" || got.APIKeyID != "openai" {
		t.Errorf("agent.json = %+v, want model gpt-x with the key openai", got)
	}
	edited, err := os.ReadFile(filepath.Join(s.dir, "edited"))
	if want := "--with option agent.json\n"; err != nil || string(edited) != want {
		t.Errorf("the editor was called with %q (%v), want %q and a terminal", edited, err, want)
	}
	if strings.Contains(text, "sk-secret") {
		t.Errorf("the terminal shows the key:\n%s", text)
	}
}

// What a stranger wrote is shown without acting on the terminal, and an answer other than
// yes trusts nothing.
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
	s.await(`^trust it\? yes or no \[no\]:`)
	for _, forged := range []string{"(?m)^ *tool    harmless", "(?m)^/home/you", "(?m)^forged"} {
		if text := s.text(); regexp.MustCompile(forged).MatchString(text) {
			t.Errorf("what was found forges a line:\n%s", text)
		}
	}
	if text := s.text(); !strings.Contains(text, "sh -c evil") {
		t.Errorf("the terminal does not show the server's command line:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("something was executed before the answer")
	}
	s.press("Enter")
	s.await(`^error: trust: nothing was trusted$`)
	s.await(`^code 2$`)
	s.press("yes", "Enter")
	s.await(`again 0$`)
	s.await(`answered`)
	s.await(`/agent.json: trusted$`)
}

func TestInitAsksForAKeyThatNobodySees(t *testing.T) {
	s := openScreen(t, t.TempDir(), `agents init; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
	s.await(`^  2  another server$`)
	s.press("2", "Enter")
	s.await(`^What kind of server\?$`)
	s.await(`^  1  claude-v1$`)
	s.press("1", "Enter")
	s.await(`^Its base URL \[https://api.anthropic.com/v1\]:`)
	s.press("api.anthropic.com", "Enter")
	s.await(`^want http:// or https://, a host, and no name or password in it$`)
	s.press("Enter")
	s.await(`^The key for api.anthropic.com \(it is not shown\):`)
	s.press("sk-typed", "Enter")
	s.await(`^Which model\? \[claude`)
	s.press("Enter")
	s.await(`^code 0$`)
	s.await(`^echo$`)
	if text := s.text(); strings.Contains(text, "sk-typed") {
		t.Errorf("the terminal shows the key:\n%s", text)
	}
	keys, err := os.ReadFile(filepath.Join(s.dir, "agents-exe.keys"))
	if err != nil || !strings.Contains(string(keys), `"value": "sk-typed"`) {
		t.Errorf("agents-exe.keys = %s (%v), want the key that was typed", keys, err)
	}
}

func TestInitThatIsInterruptedWritesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"at a question":   {[]string{"C-c"}, "error: nothing was written: interrupted"},
		"at the key":      {[]string{"2", "Enter", "1", "Enter", "Enter", "sk-half", "C-c"}, "error: nothing was written: interrupted"},
		"end of the file": {[]string{"C-d"}, "error: nothing was written: the input ended before an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openScreen(t, t.TempDir(), `agents init; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
			s.await(`^number \[1\]:`)
			for i, key := range c.keys {
				if key == "sk-half" {
					s.await(`The key for`)
				}
				// What is typed ahead stands in front of its question.
				if i > 0 && key == "Enter" && c.keys[i-1] == "Enter" {
					s.await(`Its base URL`)
				}
				s.press(key)
			}
			s.await(`^code (130|2)$`)
			s.await(`^echo$`)
			if text := s.text(); !strings.Contains(text, c.want) || strings.Contains(text, "sk-half") {
				t.Errorf("the terminal shows\n%s\nwant %q", text, c.want)
			}
			entries, err := os.ReadDir(s.dir)
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
	s.await(`^note: type the prompt; Ctrl-D on a new line ends it$`)
	s.press("hello", "Enter", "C-d")
	s.await(`^it answers$`)
}

// A terminal that is dumb, such as the shell of an editor, shows control sequences as text.
func TestADumbTerminalGetsLines(t *testing.T) {
	s := openScreen(t, t.TempDir(), `export TERM=dumb; agents init --yes --quiet; agents run --prompt hello; echo "code $?"`)
	s.await(`^code 0$`)
	if text := s.text(); !strings.Contains(text, "\n→ bash_list_files\n") {
		t.Errorf("the progress was redrawn, or is missing:\n%s", text)
	}
}

// A person who starts what programs start learns what it waits for.
func TestProtocolsAtATerminal(t *testing.T) {
	for command, note := range map[string]string{"mcp-server": "note: an MCP client starts this program", "run --channel": "note: --channel is for programs"} {
		t.Run(command, func(t *testing.T) {
			s := openScreen(t, t.TempDir(), "agents init --yes --quiet; agents "+command+`; echo "code $?"`)
			s.await("^" + note)
			s.pressUntil("C-d", `^code \d+$`)
		})
	}
}
