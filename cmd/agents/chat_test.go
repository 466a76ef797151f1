package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

var _ = flag.Bool("update", false, "write the golden screens")

// A talk is a chat with the agent of testdata/chat in a terminal.
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

const chatCommand = `agents cli --agent-file agent.json; echo "code $?"`

// say sends a line and waits for a text, and for the empty line after it.
func (s talk) say(line, want string) {
	s.Type(line)
	s.Press("Enter")
	s.Await(`(?s)` + want + `.*^>\n*\z`)
}

// tell sends a message and waits for a text of the run and for its end.
func (s talk) tell(line, want string) { s.say(line, want+`.*\d turns? ·`) }

func TestChatScreens(t *testing.T) {
	for _, columns := range []int{40, 80, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			s := openTalk(t, columns, chatCommand)
			s.tell("look at the 日本語 file", `Done\.`)
			s.tell("headline", `editor.*the front p.*Done\.`)
			s.tell("report", `manual`)
			s.Type("touch it")
			s.Press("Enter")
			s.Await(`elp\?\n?>?$`)
			s.Golden(fmt.Sprintf("chat-question-%d", columns))
			s.tell("no not today", `not run`)
			s.say("/cost", `all +\d`)
			s.say("/agents", `writes headlines`)
			s.say("/tools", `waits for`)
			s.say("/coast", `"/cost"\?`)
			s.say("/help", `stop what is running`)
			s.Golden(fmt.Sprintf("chat-%d", columns))
			s.Press("C-d")
			s.Await(`^code 0$`)
		})
	}
}

// The run is stopped, and the conversation stays. What was said meanwhile is read with the
// next request, and a message during the last one begins a run.
func TestChatDuringARun(t *testing.T) {
	s := openTalk(t, 80, chatCommand)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	s.Type("and this")
	s.Press("Enter")
	s.Await(`^queued: and this$`)
	s.Resize(50, 20)
	s.Await(`^queued: and this$`)
	s.Resize(100, 30)
	s.Type("half of a line")
	s.Await(`^• helper  wait +calling .*\n  • bash_wait what=something .*\nqueued: and this\n> half of a line\n*\z`)
	if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Await(`(?s)^> and this\nYou said: and this\n.*turns ·.*^> half of a line`)
	if text := s.Text(); strings.Count(text, "queued:") != 0 || strings.Count(text, "half of") != 1 || strings.Count(text, "✓ bash_wait") != 1 {
		t.Errorf("what was redrawn stays:\n%s", text)
	}
	s.Press("C-c") // the line
	s.Await(`^>\n*\z`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	s.Press("C-c")
	s.Await(`(?s)^stopping; Ctrl-C again.*interrupted.*^>\n*\z`)
	s.tell("hello", `You said: hello`)
	s.Press("C-c")
	s.Await(`^Ctrl-C again leaves$`)
	s.Press("C-c")
	s.Await(`^code 0$`)
	s.Await("agents cli --session")
}

func TestChatEditing(t *testing.T) {
	state := t.TempDir()
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\ntest -t 0 && printf 'from the\\neditor' >\"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openTalk(t, 60, chatCommand+"; "+chatCommand, "XDG_STATE_HOME="+state, "VISUAL="+editor)
	s.Paste("one\ntwo\x1b[31m\tthree\n")
	s.Await(`^> one\n  two\[31m    three\n\n*\z`)
	s.Press("Enter")
	s.Await(`(?s)You said: one.*1 turn ·.*^>\n*\z`)
	s.Type(`first\`)
	s.Press("Enter")
	s.Type("second")
	s.Press("Enter")
	s.Await(`^> first\n  second\n`)
	s.Await(`(?s)You said: first\nsecond.*1 turn ·.*^>\n*\z`)
	s.Type("京都 اللغة café")
	s.Press("Left", "Left", "BSpace", "BSpace", "C-a", "X", "C-e", "Z", "Enter")
	s.Await(`(?s)^> X京都 اللغة féZ\n.*1 turn ·.*^>\n*\z`)
	s.Type("/edit")
	s.Press("Enter")
	s.Await(`^> from the\n  editor$`)
	s.Press("C-u", "BSpace", "C-u")
	s.Await(`^>\n*\z`)
	s.say("!printf '\\033[31mred'; exit 3", `red\n\[exit status 3\]`)
	s.Type("what is in @ag")
	s.Press("Tab", "Enter")
	s.Await(`You said: what is in @agent\.json`)
	s.Await(`^<file path="agent\.json">\n{`)
	s.Await(`(?s)<command line="printf.*1 turn ·.*^>\n*\z`)
	s.Type("/und")
	s.Press("Tab")
	s.Await(`^> /undo$`)
	s.Press("C-u", "C-d")
	s.Await(`(?s)^code 0\n.*^>\n*\z`)
	s.Press("Up")
	s.Await(`^> what is in @agent.json\n*\z`)
	s.Press("C-c")
	s.Type("京")
	s.Press("C-r")
	s.Await(`^> X京都 اللغة féZ\n*\z`)
	s.Press("C-c", "C-d")
	s.Await(`(?s)^code 0\n.*^code 0\n`)
	info, err := os.Stat(filepath.Join(state, "agents", "chat-history"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the history has the mode %v (%v), want 0600", info.Mode(), err)
	}
}

func TestChatTakesBackAndCopies(t *testing.T) {
	s := openTalk(t, 100, chatCommand+"; agents session list", "XDG_STATE_HOME="+t.TempDir())
	s.say("/undo", `there is no session yet`)
	s.tell("hello", `You said: hello`)
	s.Type("touch mark")
	s.Press("Enter")
	s.Await(`elp\?$`)
	s.tell("yes", `Done\.`)
	s.say("/undo", `taken back: touch mark\n  What these calls did is not undone:\n    bash_touch {"what":"mark"}`)
	if _, err := os.Stat(filepath.Join(s.Dir, "mark")); err != nil {
		t.Error("the file of the call that was taken back is gone")
	}
	s.say("/save talk.md", `talk\.md`)
	s.say("/save talk.md", `exists`)
	s.say("/fork", `a copy: session`)
	s.say("/undo", `taken back: hello`)
	s.tell("anew", `You said: anew`)
	s.say("/budget usd=1,turns=1", `each run: .*turns`)
	s.tell("look at it", `budget`)
	s.say("/budget turns=20", `turns 20`)
	s.say("/budget nonsense=1", `nonsense`)
	s.say("/model other", `other`)
	s.say("/agent nobody", `error: |no agent|nobody`)
	if err := os.WriteFile(filepath.Join(s.Dir, "agent.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.say("/model third", `agent\.json`)
	s.tell("still there?", `You said: still there\?`)
	s.Press("C-d")
	s.Await(`(?s)^code 0.*anew\n.*hello\n.*hello\n.*hello\n`)
	saved, err := os.ReadFile(filepath.Join(s.Dir, "talk.md"))
	if text := string(saved); err != nil || !strings.Contains(text, "You said: hello") || strings.Contains(text, "touch mark") {
		t.Errorf("talk.md = %s (%v), want the conversation without what was taken back", text, err)
	}
}

func TestChatShortensTheConversation(t *testing.T) {
	s := openTalk(t, 100, chatCommand, "XDG_STATE_HOME="+t.TempDir())
	s.tell("hello", `You said: hello`)
	s.tell("once more", `You said: once more`)
	s.say("/compact", `will be shortened before the next request`)
	s.tell("and now", `4 messages were summed up.*You said: .*and now`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}

// Between messages the session is closed, and the chat says what happened to it meanwhile.
func TestChatOfASessionThatAnotherProgramContinues(t *testing.T) {
	state := t.TempDir()
	s := openTalk(t, 100, chatCommand, "XDG_STATE_HOME="+state)
	s.tell("hello", `You said: hello`)
	other := agentsCommand(t, nil, "run", "--quiet", "--agent-file", "agent.json", "--continue", "-p", "meanwhile")
	other.Dir, other.Env = s.Dir, append(other.Env, "XDG_STATE_HOME="+state)
	if out, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.tell("hello again", `Another program has continued this session:.*--last\s+1.*You said: hello again`)
	s.tell("and again", `You said: and again`)
	if n := strings.Count(s.Text(), "Another program"); n != 1 {
		t.Errorf("that the session was continued is said %d times, want once", n)
	}
	s.Press("C-d")
	s.Await(`^code 0$`)
}

// A chat that was killed is continued where it was.
func TestChatAfterACrash(t *testing.T) {
	s := openTalk(t, 80, `sh -c 'echo $$ >pid; exec agents cli --agent-file agent.json'; stty sane; echo crashed; agents cli --agent-file agent.json --continue; echo "code $?"`, "XDG_STATE_HOME="+t.TempDir())
	s.tell("hello", `You said: hello`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(s.Dir, "waiting")); return err == nil })
	text, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	chat, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Await(`(?s)crashed.*the last run did not end; it continues\n.*^  • bash_wait`)
	if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Await(`(?s)crashed.*✓ bash_wait.*Done\..*turns? ·.*^>\n*\z`)
	s.tell("hello again", `You said: hello again`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}

// A second Ctrl-C ends the program at once, also when it is leaving.
func TestChatEndsAtOnce(t *testing.T) {
	for name, keys := range map[string][]string{"stopping": {"C-c"}, "leaving": {"C-d"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTalk(t, 80, chatCommand+"; stty -a | grep -ow -e -echo -e echo", "XDG_STATE_HOME="+t.TempDir())
			s.Type("stay")
			s.Press("Enter")
			s.Await(`^  • bash_stay`)
			waitFor(t, func() bool { _, err := os.Stat(filepath.Join(s.Dir, "staying")); return err == nil })
			s.Press(keys...)
			s.Press("C-c")
			s.Await("(?s)`agents cli --continue` continues.*^code 130\necho$")
		})
	}
}

// A tool that asks at the terminal has it to itself; the line that was begun stays.
func TestChatLendsTheTerminal(t *testing.T) {
	s := openTalk(t, 80, chatCommand)
	s.Type("ask name")
	s.Press("Enter")
	s.Await(`^name\? *\n*\z`)
	s.Type("Ann")
	s.Press("Enter")
	s.Await(`(?s)^name\? Ann\n✓ bash_ask.*Heard: it is Ann\n.*2 turns ·.*^>\n*\z`)
	s.tell("hello", `You said: hello`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}

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

func TestPersonWithoutACommand(t *testing.T) {
	s := openTalk(t, 80, `agents --agent-file agent.json; echo "code $?"; agents; echo "again $?"`)
	s.tell("hello", `You said: hello`)
	s.Press("C-d")
	s.Await(`^error: no command given$`)
	s.Await(`^again 2$`)
}

// newProxy returns the address of a proxy to a socket, and a function that cuts its
// connections.
func newProxy(t *testing.T, socket string) (address string, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
		open = nil
	}
	t.Cleanup(func() { _ = l.Close(); cut() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				_ = from.Close()
				continue
			}
			mu.Lock()
			open = append(open, from, to)
			mu.Unlock()
			go func() { _, _ = io.Copy(to, from) }()
			go func() { _, _ = io.Copy(from, to) }()
		}
	}()
	return l.Addr().String(), cut
}

// A run of a server is watched, spoken to and left running, and the conversation before it
// continues.
func TestChatAttaches(t *testing.T) {
	state := t.TempDir()
	s := openTalk(t, 100, "agents serve --quiet --agent-file agent.json --listen unix:private/s >served 2>&1 & while ! test -s served; do sleep 0.02; done; "+chatCommand+"; kill $!", "XDG_STATE_HOME="+state)
	s.say("/attach", `there is no run to attach to`)
	server := &remote.Server{URL: "unix:" + filepath.Join(s.Dir, "private", "s")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ws, err := server.Dial(ctx, "helper")
	if err != nil {
		t.Fatal(err)
	}
	held := channel.Open(ws, ws, agent.Start{Args: []byte(`{"prompt":"wait for it"}`)})
	for e, err := range held.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == agent.EventCallStarted {
			break
		}
	}
	ws.Abort()
	_ = held.Close() // the connection is gone

	s.say("hello", `You said: hello.*1 turn ·`)
	s.say("/attach", `helper, running\)  wait for it`)
	proxy, cut := newProxy(t, filepath.Join(s.Dir, "private", "s"))
	for _, end := range []string{"", "2 turns ·"} {
		if end != "" {
			s.say("/attach http://"+proxy, `helper, running\)  wait for it`)
		}
		s.Type("/attach 20")
		s.Press("Tab", "Enter")
		s.Await(`(?s)attached to .*> wait for it\nI wait\.\n.*  • bash_wait.*^helper>\n*\z`)
		if end == "" {
			s.Press("C-d")
			s.Await(`(?s)what you type goes to helper again\n>\n*\z`)
			if strings.Contains(s.Text(), "error") {
				t.Error("what the person wanted is an error")
			}
			continue
		}
		cut()
		s.Await(`(?s)was\s+lost.*connecting\s+again.*connected\s+to\s+http://\S+\s+again`)
		s.Type("and this")
		s.Press("Enter")
		s.Await(`^queued: and this$`)
		if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		s.Await(`(?s)✓ bash_wait.*> and this\nYou said: and this\n.*✓ .*(` + end + `).*detached.*^>\n*\z`)
	}
	s.tell("hello again", `You said: hello again`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}
