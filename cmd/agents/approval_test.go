package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// writingAgent is a folder with an agent that calls a tool with effects for each of some
// texts, one turn after the other, and answers with all results.
func writingAgent(t *testing.T, more string, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	rules := []string{}
	for i, text := range texts {
		arg, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		when := `{"role":"user"}`
		if i > 0 {
			when = `{"turn":` + strconv.Itoa(i+1) + `}`
		}
		rules = append(rules, `{"when":`+when+`,"answer":{"calls":[{"tool":"bash_write","args":{"text":`+string(arg)+`}}]}}`)
	}
	rules = append(rules, `{"when":{},"answer":{"text":"the tool said ${result.0}"}}`)
	writeFiles(t, dir, map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","toolDirectory":"tools"` + more + `}}`,
		"script.json": `{"rules":[` + strings.Join(rules, ",\n") + `]}`,
		"tools/write": "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"write\",\"description\":\"d\",\"effects\":\"once\",\"args\":[{\"name\":\"text\",\"description\":\"d\",\"backing_type\":\"string\",\"arity\":\"single\",\"mode\":\"dashdashequal\"}]}'; exit 0; }\necho \"$2\" >>written\necho done\n",
	})
	return dir
}

// written are the lines that the tool of writingAgent wrote.
func written(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "written"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "--text=", "")
}

const helpPrompt = `^\[y\]es, \[n\]o, \[s\]ession, \[c\]all, \[f\]older or \[h\]elp\?`

func TestACallIsAskedAboutOnce(t *testing.T) {
	dir := writingAgent(t, "", "a\x1b[31m", "a\x1b[31m", "b")
	s := openScreen(t, dir, `agents run --agent-file agent.json -p go; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
	s.Await(`^agent root wants to call bash_write:\n  \| text = "a\\u001b\[31m"\nwhy: +the tool may change something, so a person is asked first\nchanged:  the first call`)
	s.Await(helpPrompt)
	s.Press("y")
	s.Await(`^agent root wants to call bash_write:\n  \| text = "b"\nwhy: .*\nchanged:  text was "a\\u001b\[31m"`)
	s.Await(helpPrompt + `\s*\z`)
	s.Press("no, not b", "Enter")
	s.Await(`^the tool said .*not run: refused by policy: a person denied it: not b`)
	s.Await(`^code 0$`)
	s.Await(`^echo$`)
	if got := written(t, dir); got != "a\x1b[31m\na\x1b[31m\n" {
		t.Errorf("the tool wrote %q", got)
	}
}

func TestAnswersForASessionAndForAFolder(t *testing.T) {
	t.Parallel()
	for answer, c := range map[string]struct{ asksSession, asksFolder bool }{
		"session": {false, true},
		"folder":  {false, false},
		"yes":     {true, true},
	} {
		t.Run(answer, func(t *testing.T) {
			dir := writingAgent(t, "", "a")
			s := openScreen(t, dir, `run() { agents run --quiet --agent-file agent.json -p go "$@" && echo "code $?"; }; run; echo; read x; run --continue; read x; run; echo end`, "XDG_STATE_HOME="+t.TempDir())
			s.Await(helpPrompt)
			s.Press(answer, "Enter")
			s.Await(`^code 0\n\n`)
			for i, asks := range []bool{c.asksSession, c.asksFolder} {
				s.Press("Enter")
				if asks {
					s.Await(helpPrompt + `\s*\z`)
					s.Press("yes", "Enter")
				}
				s.Await(`(?s)` + strings.Repeat(`code 0.*`, i+2))
			}
			s.Await(`^end$`)
			if got := written(t, dir); got != "a\na\na\n" {
				t.Errorf("the tool wrote %q", got)
			}
		})
	}
}

// TestQuestionsOfADeepAgent: what is asked about at depth 2, in another process, reaches
// the terminal of the root and names the whole path; its answer is remembered there.
func TestACallOfADeepAgentIsAskedAboutAtTheRoot(t *testing.T) {
	dir := writingAgent(t, "", "a", "a")
	writeFiles(t, dir, map[string]string{
		"outer.json":   `{"tag":"OpenAIAgentDescription","contents":{"slug":"outer","flavor":"scripted","script":"outer.script","extraAgents":[{"slug":"middle","path":"middle.json"}]}}`,
		"outer.script": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"expert_middle","args":{"prompt":"go"}}]}},{"when":{},"answer":{"text":"outer: ${result.0}"}}]}`,
		"middle.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"middle","flavor":"scripted","script":"mid.script","toolDirectory":"nested"}}`,
		"mid.script":   `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_root","args":{"prompt":"go"}}]}},{"when":{},"answer":{"text":"middle: ${result.0}"}}]}`,
		"nested/inner": "#!/bin/sh\nexec agents --agent-file agent.json \"$@\"\n",
	})
	s := openScreen(t, dir, `agents run --agent-file outer.json -p go; echo "code $?"`)
	s.Await(`^agent outer > middle > root wants to call bash_write:\n  \| text = "a"`)
	s.Await(helpPrompt)
	s.Press("y", "Enter")
	s.Await(`^outer: middle: the tool said done`)
	s.Await(`^code 0$`)
	if got := written(t, dir); got != "a\na\n" {
		t.Errorf("the tool wrote %q", got)
	}
}

func TestOnlyAPersonAnswersForAHumanRule(t *testing.T) {
	dir := writingAgent(t, `,"permissions":[{"verdict":"ask","tool":"bash_write","reviewer":"human","reason":"look at it"}]`, "a")
	s := openScreen(t, dir, `AGENTS_TTY=off agents run --quiet --yes --agent-file agent.json -p go; echo "code $?"; agents run --yes --agent-file agent.json -p go; echo "again $?"`)
	s.Await(`^the tool said .*look at it.*nobody can\s+be asked`)
	s.Await(`^code 0$`)
	s.Await(`^why: +look at it`)
	s.Await(`^\[y\]es, \[n\]o or \[h\]elp\?`)
	s.Press("yes", "Enter")
	s.Await(`^the tool said done`)
	if got := written(t, dir); got != "a\n" {
		t.Errorf("the tool wrote %q", got)
	}
}

func TestAQuestionThatIsWithdrawn(t *testing.T) {
	dir := writingAgent(t, "", "a")
	s := openScreen(t, dir, `agents run --agent-file agent.json -p go; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
	s.Await(helpPrompt)
	s.Press("C-c")
	s.Await(`^\(the question was withdrawn\)`)
	s.Await(`^code 130$`)
	s.Await(`^echo$`)
	if got := written(t, dir); got != "" {
		t.Errorf("the tool wrote %q", got)
	}
}

// TestRedirectedStreamsDoNotSwitchApprovalOff: the question goes to the controlling terminal.
func TestRedirectedStreamsDoNotSwitchApprovalOff(t *testing.T) {
	dir := writingAgent(t, "", "a")
	s := openScreen(t, dir, `agents run --agent-file agent.json -p go </dev/null >out 2>err; echo "code $?"; cat out`)
	s.Await(helpPrompt)
	s.Press("n")
	s.Await(`^why not\?`)
	s.Press("not now", "Enter")
	s.Await(`^code 0\nthe tool said .*a person denied it: not now`)
	if got := written(t, dir); got != "" {
		t.Errorf("the tool wrote %q", got)
	}
}

// TestATerminalDoesNotWaitForAnother: a question that nobody answers is in the way of nothing
// at another terminal.
func TestATerminalDoesNotWaitForAnother(t *testing.T) {
	dir := writingAgent(t, "", "a")
	run := `agents run --quiet --agent-file agent.json -p go; echo "code $?"`
	first := openScreen(t, dir, run, "XDG_RUNTIME_DIR="+dir)
	first.Await(helpPrompt)
	second := openScreen(t, dir, run, "XDG_RUNTIME_DIR="+dir)
	second.Await(helpPrompt)
	second.Press("y")
	second.Await(`^code 0$`)
	first.Press("n", "Enter")
	first.Await(`^why not\?`)
	first.Press("Enter")
	first.Await(`^code 0$`)
	if got := written(t, dir); got != "a\n" {
		t.Errorf("the tool wrote %q", got)
	}
}

func TestARunWithoutAPersonSaysWhatRanUnasked(t *testing.T) {
	for _, c := range []struct {
		more string
		args []string
		says bool
	}{
		{says: true},
		{args: []string{"--yes"}},
		{args: []string{"--approval", "never"}},
		{more: `,"approval":"never"`},
		{more: `,"permissions":[{"verdict":"allow","tool":"*"}]`},
	} {
		dir := writingAgent(t, c.more, "a", "b")
		cmd := agentsCommand(t, nil, append([]string{"run", "--agent-file", "agent.json", "--no-session", "-p", "go"}, c.args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := strings.Contains(string(out), "note: 2 calls ran without a question"); got != c.says {
			t.Errorf("%s %s: it says so: %v, want %v\n%s", c.more, c.args, got, c.says, out)
		}
	}
}
