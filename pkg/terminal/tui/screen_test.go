package tui_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

var update = flag.Bool("update", false, "write the golden screens")

// bin is the folder with the programs, made by the first test that needs it.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if bin != "" {
		_ = os.RemoveAll(bin)
	}
	os.Exit(code)
}

// makePrograms makes agents and agents-tui in bin.
var makePrograms = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "tui-bin-")
	if err != nil {
		return err
	}
	bin = dir
	build := exec.Command("go", "build", "-o", bin, "../../../cmd/agents", "../../../cmd/agents-tui")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// files are a team: lead asks facts and then style, whose tool a person must allow.
var files = map[string]string{
	"lead.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"lead","flavor":"scripted","script":"scripts/lead.json","announce":"leads a team","toolDirectory":"experts","permissions":[{"verdict":"ask","tool":"bash_count"}]}}`,
	"scripts/lead.json": `{"rules":[
		{"when":{"role":"user","prompt":"long"},"answer":{"text":"${prompt}"}},
		{"when":{"role":"user","prompt":"deep"},"answer":{"calls":[{"tool":"expert_style","args":{"prompt":"deep"}}]}},
		{"when":{"role":"user"},"answer":{"text":"I ask both experts.","calls":[{"tool":"expert_facts","args":{"prompt":"Check the facts."}}]}},
		{"when":{"tool":"expert_facts"},"answer":{"calls":[{"tool":"expert_style","args":{"prompt":"Judge the style."}}]}},
		{"when":{"role":"tool"},"answer":{"text":"# Report\n\nBoth agree: the letter **can be sent**, even in 日本語 and in עברית.\n\n- facts: right\n- style: fine\n\n| expert | verdict |\n|---|---|\n| facts | right |\n| style | fine |\n"}}]}`,
	"scripts/facts.json": `{"rules":[{"answer":{"text":"The facts are right."}}]}`,
	"scripts/style.json": `{"rules":[
		{"when":{"role":"user","prompt":"deep"},"answer":{"calls":[{"tool":"expert_judge","args":{"prompt":"judge"}}]}},
		{"when":{"tool":"expert_judge"},"answer":{"text":"judged"}},
		{"when":{"role":"user"},"answer":{"text":"I count first.","calls":[{"tool":"bash_count","args":{"text":"hello world"}}]}},
		{"answer":{"text":"The style is *fine*: ${lastMessage} letters."}}]}`,
	"experts/facts.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"facts","flavor":"scripted","script":"../scripts/facts.json","announce":"checks facts","receipt":"none"}}`,
	"experts/style.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"style","flavor":"scripted","script":"../scripts/style.json","announce":"judges style","receipt":"none","toolDirectory":"../tools"}}`,
	"tools/judge.json":   `{"tag":"OpenAIAgentDescription","contents":{"slug":"judge","flavor":"scripted","script":"../scripts/judge.json","announce":"judges","receipt":"none","toolDirectory":"../counting"}}`,
	"scripts/judge.json": `{"rules":[
		{"when":{"role":"user","prompt":"judge"},"answer":{"text":"I count for the judgement.","calls":[{"tool":"bash_count","args":{"text":"x"}}]}},
		{"when":{"role":"user","prompt":"again"},"answer":{"text":"Another judgement."}},
		{"answer":{"text":"The first judgement."}}]}`,
	"tools/count":    count,
	"counting/count": count,
}

const count = "#!/bin/sh\ncase $1 in describe) echo '{\"slug\":\"count\",\"description\":\"Counts.\",\"args\":[{\"name\":\"text\",\"description\":\"a text\",\"type\":\"string\"}]}';; run) echo 11;; esac\n"

// build makes the programs.
func build(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux, whose terminals this test types into")
	}
	if err := makePrograms(); err != nil {
		t.Fatal(err)
	}
}

// open starts agents tui with arguments in a terminal.
func open(t *testing.T, columns, rows int, home string, args string) *tmuxtest.Screen {
	t.Helper()
	build(t)
	dir := filepath.Join(home, "work")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // of a test that failed
		for _, l := range servers(home) {
			kill(l.PID)
		}
	})
	return tmuxtest.Open(t, tmuxtest.Options{
		Command: "agents --agent-file lead.json tui " + args + "; echo \"code $?\"", Dir: dir, Columns: columns, Rows: rows,
		Env:   []string{"HOME=" + home, "TERM=xterm-256color", "TMPDIR=" + t.TempDir()},
		Links: map[string]string{"agents": filepath.Join(bin, "agents")},
	})
}

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func servers(home string) []remote.Local {
	return remote.Locals(filepath.Join(home, ".local", "state", "agents", "servers"))
}

// golden compares the terminal with a file. While it becomes lower, the live region may begin
// with empty lines.
func golden(t *testing.T, s *tmuxtest.Screen, name string) {
	t.Helper()
	got := regexp.MustCompile("\n+── (lead|helper)").ReplaceAllString(tmuxtest.Normal(s.Text(), nil), "\n── $1")
	path := filepath.Join("testdata", "screens", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the terminal shows\n%s\nwant, as in %s (-update writes it)\n%s", got, path, want)
	}
}

func TestScreens(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ columns, rows int }{{40, 36}, {80, 36}, {200, 50}} {
		t.Run(fmt.Sprint(size.columns), func(t *testing.T) {
			t.Parallel()
			s := open(t, size.columns, size.rows, t.TempDir(), "")
			s.Await(`^── lead · /help`)
			s.Type("Check letter.txt")
			s.Press("Enter")
			s.Await(`yes, no, session`)
			s.Type("yes")
			s.Press("Enter")
			s.Await(`^── lead · done`)
			golden(t, s, fmt.Sprintf("answer-%d", size.columns))
			s.Press("C-t")
			s.Await(`^── to lead`)
			s.Press("Down", "Down")
			s.Await(`^── to style`)
			golden(t, s, fmt.Sprintf("tree-%d", size.columns))
			s.Press("Escape")
			s.Await(`^── lead · done`)
			s.Type("?")
			s.Await(`^── keys`)
			golden(t, s, fmt.Sprintf("keys-%d", size.columns))
			s.Press("Escape")
			s.Await(`^── lead · done`)
			s.Press("C-d")
			s.Await(`^code 0`)
			if text := s.Text(); strings.Count(text, "can be sent") != 1 || strings.Contains(text, "to lead") {
				t.Errorf("after leaving, the terminal shows\n%s", text)
			}
		})
	}
}

func TestTheConversationOfASubAgentContinuesAlone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := open(t, 80, 36, home, "")
	s.Await(`^── lead · /help`)
	s.Type("go deep")
	s.Press("Enter")
	s.Await(`lead > style > judge wants to call bash_count:`)
	s.Await(`yes, no, session`)
	s.Type("yes")
	s.Press("Enter")
	s.Await(`^── lead · done`)
	s.Press("C-t")
	s.Await(`^── to lead`)
	s.Press("Down", "Down")
	s.Await(`^── to judge`)
	s.Await(`The first judgement`)
	s.Press("C-f")
	s.Await(`^── continue a copy of judge after the turn`)
	s.Press("Up", "Enter")
	s.Await(`^── 2/2 judge ─`)
	s.Type("again")
	s.Press("Enter")
	s.Await(`^Another judgement`)
	s.Await(`^── judge · 2/2 · done`)
	s.Press("C-d")
	s.Await(`^code 0`)
	_, forked, _ := strings.Cut(s.Text(), "── 2/2 judge")
	if !strings.Contains(forked, "> judge") || !strings.Contains(forked, "I count for the judgement") || strings.Contains(forked, "The first judgement") {
		t.Errorf("the copy has not the turn alone:\n%s", s.Text())
	}
}

func TestALongAnswerIsWholeInTheScrollback(t *testing.T) {
	t.Parallel()
	s := open(t, 60, 20, t.TempDir(), "")
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("long line %d of the text", i))
	}
	s.Await(`^── lead · /help`)
	s.Paste(strings.Join(lines, "\n\n"))
	s.Await(`line 99`)
	s.Press("Enter")
	s.Await(`(?s)^long line 0 of.*^long line 99 of the text\n── lead · done`)
	s.Resize(50, 24)
	s.Type("the input")
	s.Await(`^> the input`)
	text := s.Text()
	for i, line := range lines {
		if n := strings.Count(text, line+"\n"); n != 2 && i > 0 { // the prompt and the answer
			t.Errorf("%q is %d times in the scrollback, want 2\n%s", line, n, text)
			break
		}
	}
}

func TestARunOutlivesTheTerminal(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := open(t, 100, 30, home, "")
	s.Await(`^── lead · /help`)
	s.Type("Check letter.txt")
	s.Press("Enter")
	s.Await(`yes, no, session`)
	s.Press("C-d")
	s.Await(`^lead continues to run: agents tui --attach \S+\n`)
	s.Await(`^code 0`)
	again := open(t, 100, 30, home, "--attach")
	again.Await(`question +lead  Check letter.txt`)
	again.Press("Enter")
	again.Await(`lead > style wants to call bash_count:`)
	again.Await(`yes, no, session`)
	again.Type("no")
	again.Press("Enter")
	again.Await(`^── lead · done`)
}

func TestADeadServerIsReportedAndReplaced(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := open(t, 100, 30, home, "")
	s.Await(`^── lead · /help`)
	s.Type("Check letter.txt")
	s.Press("Enter")
	s.Await(`yes, no, session`)
	for _, l := range servers(home) {
		kill(l.PID)
	}
	s.Await(`the server has ended`)
	s.Press("Enter")
	s.Await(`(?s:wants to call.*wants to call.*yes, no, session)`)
	s.Type("yes")
	s.Press("Enter")
	s.Await(`^── lead · done`)
}
