package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

var _ = flag.Bool("update", false, "write the golden screens")

// A talk is a chat in plain lines with the agent of testdata/chat in a terminal. That of the
// interface is tested in pkg/terminal/tui.
type talk struct{ *tmuxtest.Screen }

// openTalk starts a chat in a copy of the agent's folder.
func openTalk(t *testing.T, columns int, command string, env ...string) talk {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/chat")); err != nil {
		t.Fatal(err)
	}
	s := tmuxtest.Open(t, tmuxtest.Options{Dir: dir, Command: command, Columns: columns, Rows: 30, Links: links(t), Env: env})
	s.Await(`^>$`)
	return talk{s}
}

// say sends a line and waits for a text, and for the empty line after it.
func (s talk) say(line, want string) {
	s.Type(line)
	s.Press("Enter")
	s.Await(`(?s)` + want + `.*^>\n*\z`)
}

// tell sends a message and waits for a text of the run and for its end.
func (s talk) tell(line, want string) { s.say(line, want+`.*\d turns? ·`) }

func TestChatInPlainLines(t *testing.T) {
	s := openTalk(t, 80, `agents cli --plain --agent-file agent.json; echo "code $?"; TERM=dumb agents cli --agent-file agent.json; echo "code $?"`)
	s.tell("hello", `You said: hello`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^→ bash_wait`)
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(s.Dir, "waiting")); return err == nil })
	s.Press("C-c")
	s.Await(`(?s)interrupted ·.*^>\n*\z`)
	s.Type("touch it")
	s.Press("Enter")
	s.Await(`elp\?$`)
	s.tell("yes", `Done\.`)
	s.say("!echo from the shell", `from the shell`)
	s.Type("see @agent.json")
	s.Press("Enter")
	s.Await(`(?s)<command line="echo from.*<file path="agent.json">.*1 turn ·.*^>\n*\z`)
	s.Press("C-d")
	s.Await(`(?s)^code 0$.*^>\n*\z`)
	s.Press("C-c")
	s.Await(`^code 130$`)
}

// Ctrl-C ends a run that waits for an answer; the terminal is as before, and the chat continues.
func TestChatInPlainLinesIsStoppedAtAQuestion(t *testing.T) {
	s := openTalk(t, 80, `agents cli --plain --agent-file agent.json; echo "code $?"`)
	for range 2 {
		s.Type("touch it")
		s.Press("Enter")
		s.Await(`elp\?\n*\z`)
		s.Press("C-c")
		s.Await(`(?s)the question was withdrawn.*interrupted ·.*^>\n*\z`)
		s.tell("hello", `> hello\n.*You said: hello`)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "it")); err == nil {
		t.Error("the call was made although the run was stopped")
	}
	s.Press("C-d")
	s.Await(`^code 0$`)
}

func TestPersonWithoutACommand(t *testing.T) {
	s := openTalk(t, 80, `agents --agent-file agent.json; echo "code $?"; agents; echo "again $?"`)
	s.tell("hello", `You said: hello`)
	s.Press("C-d")
	s.Await(`^error: no agent file found$`)
	s.Await(`^again 2$`)
}

func TestWithoutAnAgentOneIsOffered(t *testing.T) {
	s := tmuxtest.Open(t, tmuxtest.Options{Dir: t.TempDir(), Command: `agents; echo "code $?"; agents`, Columns: 80, Rows: 30, Links: links(t)})
	s.Await(`^write one\? yes or no \[yes\]:`)
	s.Type("no")
	s.Press("Enter")
	s.Await(`(?s)^error: no agent file found\n.*^code 2$.*^write one\?`)
	s.Press("Enter")
	s.Await(`^Which agent\?$`)
}
