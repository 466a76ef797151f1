package tui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

// A chat is `agents cli` with the agent of cmd/agents/testdata/chat.
type chat struct{ *tmuxtest.Screen }

const chatCommand = `agents cli --agent-file agent.json; echo "code $?"`

// openChat runs a command in a copy of the agent's folder.
func openChat(t *testing.T, columns, rows int, command string, env ...string) chat {
	t.Helper()
	build(t)
	home := t.TempDir()
	dir := filepath.Join(home, "work")
	if err := os.CopyFS(dir, os.DirFS("../../../cmd/agents/testdata/chat")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that failed
		for _, l := range servers(home) {
			kill(l.PID)
		}
	})
	s := tmuxtest.Open(t, tmuxtest.Options{Command: command, Dir: dir, Columns: columns, Rows: rows,
		Env:   append([]string{"HOME=" + home, "TERM=xterm-256color", "TMPDIR=" + t.TempDir()}, env...),
		Links: map[string]string{"agents": filepath.Join(bin, "agents")}})
	return chat{s}
}

// say sends a line and waits for a text after it, and for the input to be empty.
func (s chat) say(line, want string) {
	s.Type(line)
	s.Press("Enter")
	s.Await(`(?s)^> ` + regexp.QuoteMeta(line) + `\n.*` + want + `.*^── [^\n]*\n>\n`)
}

// tell sends a message and waits for a text of the run and for its end.
func (s chat) tell(line, want string) {
	s.Type(line)
	s.Press("Enter")
	s.Await(`(?s)^> ` + regexp.QuoteMeta(line) + `\n.*` + want + `.*^── helper · (2/2 · )?done[^\n]*\n>\n`)
}

func TestChatScreens(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ columns, rows int }{{40, 36}, {80, 24}, {120, 40}} {
		t.Run(fmt.Sprint(size.columns), func(t *testing.T) {
			t.Parallel()
			s := openChat(t, size.columns, size.rows, chatCommand)
			s.Await(`^── helper · /help`)
			s.tell("look at the 日本語 file", `Done\.`)
			s.tell("headline", `editor.*Done\.`)
			s.tell("report", `manual`)
			s.Type("touch it")
			s.Press("Enter")
			s.Await(`^yes, no`)
			golden(t, s.Screen, fmt.Sprintf("chat-question-%d", size.columns))
			s.tell("no not today", `not run.*Done\.`)
			s.say("/cost", `all +\d`)
			s.say("/agents", `writes headlines`)
			s.say("/tools", `waits for`)
			s.say("/coast", `"/cost"\?`)
			s.say("/help", `nothing is\s+typed`)
			golden(t, s.Screen, fmt.Sprintf("chat-%d", size.columns))
			s.Press("C-d")
			s.Await(`^code 0$`)
		})
	}
}

// The run is stopped, and the conversation stays. What was said meanwhile is read with the
// next request.
func TestChatDuringARun(t *testing.T) {
	t.Parallel()
	s := openChat(t, 80, 30, chatCommand)
	s.Await(`^── helper`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	s.Type("and this")
	s.Press("Enter")
	s.Await(`^> and this \(read with the next request\)$`)
	s.Type("half of a line")
	s.Await(`^• helper  wait +calling .*\n  • bash_wait what=something .*\n> and this .*\n> half of a line$`)
	if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Await(`(?s)^> and this\n\nYou said: and this\n.*done.*^> half of a line$`)
	s.Press("C-c") // the line
	s.Await(`^>\n`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	s.Press("C-c")
	s.Await(`(?s)interrupted.*the conversation is kept.*^>\n`)
	s.tell("hello", `You said: hello`)
	s.Type("stay")
	s.Press("Enter")
	s.Await(`^  • bash_stay`)
	s.Press("C-c")
	s.Await(`^the run is stopped`)
	s.Press("C-c")
	s.Await(`(?s)bash_stay.*interrupted.*^── helper · stopped`)
	s.Type("exit")
	s.Press("Enter")
	s.Await("(?s)`agents cli --session \\S+` continues this conversation\n.*^code 0$")
}

func TestChatEditing(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\ntest -t 0 && printf 'from the\\neditor' >\"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openChat(t, 60, 30, chatCommand+"; "+chatCommand, "XDG_STATE_HOME="+state, "VISUAL="+editor)
	s.Await(`^── helper`)
	s.Type(`first\`)
	s.Press("Enter")
	s.Type("second")
	s.Press("Enter")
	s.Await(`(?s)You said: first\nsecond.*^── helper · done.*\n>\n`)
	s.Type("/edit")
	s.Press("Enter")
	s.Await(`^> from the\n(> )?  editor|^> from the\n> editor`)
	s.Press("C-c")
	s.Await(`^>\n`)
	s.say("!printf '\\033[31mred'; exit 3", `red\n\[exit status 3\]`)
	s.Type("what is in @ag")
	s.Press("Tab")
	s.Await(`^> what is in @agent\.json`)
	s.Press("Enter")
	s.Await(`(?s)You said: what is in @agent\.json.*<command line="printf.*<file path="agent\.json">.*^── helper · done`)
	s.Type("/und")
	s.Press("Tab")
	s.Await(`^> /undo`)
	s.Press("C-u", "C-d")
	s.Await(`(?s)^code 0\n.*^── helper`)
	s.Press("Up")
	s.Await(`^> what is in @agent.json`)
	s.Press("C-c", "C-r")
	s.Type("red")
	s.Await(`(?s)^> !printf.*^search: red`)
	s.Press("C-r", "C-r", "Escape")
	s.Await(`^>\n`)
	s.Press("C-d")
	s.Await(`(?s)^code 0\n.*^code 0\n`)
	info, err := os.Stat(filepath.Join(state, "agents", "chat-history"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the history has the mode %v (%v), want 0600", info.Mode(), err)
	}
}

func TestChatTakesBackAndCopies(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 40, chatCommand+"; agents session list", "XDG_STATE_HOME="+t.TempDir())
	s.Await(`^── helper`)
	s.say("/undo", `there is no session yet`)
	s.tell("hello", `You said: hello`)
	s.Type("touch mark")
	s.Press("Enter")
	s.Await(`^yes, no`)
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
	s.say("look at it", `asked for its answer`)
	s.say("/budget turns=20", `turns 20`)
	s.say("/budget nonsense=1", `nonsense`)
	s.say("/model other", `^  other$`)
	s.say("/agent nobody", `there is no agent "nobody"`)
	s.tell("still there?", `You said: still there\?`)
	s.say("/compact", `will be shortened before the next request`)
	s.tell("and now", `were summed up.*You said: .*and now`)
	s.say("/new", `a new conversation with helper`)
	s.tell("fresh", `You said: fresh`)
	if err := os.WriteFile(filepath.Join(s.Dir, "agent.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.say("/model third", `did not start`)
	s.tell("still there?", `You said: still there\?`)
	s.Press("C-d")
	s.Await(`(?s)^code 0.*fresh\n.*anew\n.*hello\n.*hello\n.*hello\n`)
	saved, err := os.ReadFile(filepath.Join(s.Dir, "talk.md"))
	if text := string(saved); err != nil || !strings.Contains(text, "You said: hello") || strings.Contains(text, "touch mark") {
		t.Errorf("talk.md = %s (%v), want the conversation without what was taken back", text, err)
	}
}

// What a call changed is put back with its message, if the person says so.
func TestChatPutsFilesBack(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 40, "sed -i 's/\"slug\": \"helper\",/&\"checkpoints\": true,/' agent.json; "+chatCommand, "XDG_STATE_HOME="+t.TempDir())
	s.Await(`^── helper`)
	s.tell("hello", `You said: hello`)
	s.Type("touch mark")
	s.Press("Enter")
	s.Await(`^yes, no`)
	s.tell("yes", `Done\.`)
	s.Type("/undo")
	s.Press("Enter")
	s.Await(`(?s)put these files back\?.*^> take back the message and put the files back`)
	s.Press("Escape")
	s.Await(`(?s)remove +mark\n.*^>\n`)
	if _, err := os.Stat(filepath.Join(s.Dir, "mark")); err != nil {
		t.Errorf("the file is gone without an answer: %v", err)
	}
	s.Type("/undo")
	s.Press("Enter")
	s.Await(`(?s)put these files back\?.*^> take back the message and put the files back`)
	s.Press("Enter")
	s.Await(`(?s)1 file put back\n.*taken back: touch mark\n.*^>\n`)
	if _, err := os.Stat(filepath.Join(s.Dir, "mark")); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	s.say("/undo", `taken back: hello`)
	s.Press("C-d")
	s.Await(`^code 0`)
}

// A run outlives the interface, and the conversation is continued where it was.
func TestChatAfterACrash(t *testing.T) {
	t.Parallel()
	s := openChat(t, 80, 30, `sh -c 'echo $$ >pid; exec agents cli --agent-file agent.json'; stty sane; echo crashed; agents cli --agent-file agent.json --continue; echo "code $?"`)
	s.Await(`^── helper`)
	s.tell("hello", `You said: hello`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	text, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	kill(pid)
	s.Await(`(?s)crashed.*^> wait\n.*^  • bash_wait`)
	if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Await(`(?s)crashed.*✓ bash_wait.*Done\..*^── helper · done.*\n>\n`)
	s.tell("hello again", `You said: hello again`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}

// Ctrl-Z returns to the shell, idle and during a run, and fg to a terminal that works.
func TestChatIsSuspended(t *testing.T) {
	t.Parallel()
	s := openChat(t, 80, 30, `HISTFILE= PS1='shell> ' bash --norc`)
	s.Await(`^shell> $|^shell>$`)
	s.Type("agents cli --agent-file agent.json")
	s.Press("Enter")
	s.Await(`^── helper`)
	s.Press("C-z")
	s.Await(`(?s)Stopped.*^shell>`)
	s.Type("fg")
	s.Press("Enter")
	s.Await(`(?s)^shell> fg\n.*^── helper`) // until then the shell has the terminal, and Enter would be a newline
	s.tell("hello", `You said: hello`)
	s.Type("wait")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	s.Press("C-z")
	s.Await(`(?s)Stopped.*Stopped.*^shell>`)
	if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Type("fg")
	s.Press("Enter")
	s.Await(`(?s)✓ bash_wait.*^── helper · done`)
	s.tell("hello again", `You said: hello again`)
	s.Type("ask name")
	s.Press("Enter")
	s.Await(`(?s)✓ bash_ask.*needs the terminal for itself.*Heard:`)
	s.Press("C-d")
	s.Await("continues this conversation\n(?s).*^shell>")
}

// A screen that is closed before it is drawn leaves no trace: what follows is printed, and the
// interface can be left.
func TestChatScreenIsClosedAtOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"C-t", "C-s"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := openChat(t, 80, 30, chatCommand)
			s.Await(`^── helper · /help`)
			for range 3 {
				s.Press(key, key)
				s.Type("hello")
				s.Press("Enter")
				s.Await(`(?s)You said: hello\n.*^── helper · done[^\n]*\n>\n`)
				s.say("/new", `a new conversation`)
				s.Await(`^── helper · /help`) // what was said may stand above the old live region for a moment
			}
			s.Press(key, key, "C-d")
			s.Await(`^code 0$`)
		})
	}
}

// A run of a server is watched and directed.
func TestChatAttaches(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 30, "agents serve --quiet --no-token --agent-file agent.json --listen 127.0.0.1:0 >served 2>&1 & while ! grep -q serving served; do sleep 0.02; done; "+chatCommand+"; kill $!")
	s.Await(`^── helper`)
	served, err := os.ReadFile(filepath.Join(s.Dir, "served"))
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://\S+`).FindString(string(served))
	s.say("/model fast", `^  fast$`)
	s.Type("wait for it")
	s.Press("Enter")
	s.Await(`^  • bash_wait`)
	s.Type("/attach " + url)
	s.Press("Enter")
	s.Await(`(?s)runs of http.*nothing found`)
	s.Press("Escape")
	s.Await(`^ctrl\+c stop`)
	s.Type("/attach")
	s.Press("Enter")
	s.Await(`running +helper +wait for it`)
	s.Press("Escape")
	s.Await(`^ctrl\+c stop`)
	s.Press("C-c")
	s.Await(`(?s)interrupted.*^>\n`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}

// A conversation that is not kept goes on all the same, and one in a folder of its own is found
// there.
func TestChatWithFlagsOfSessions(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 30, "agents cli --agent-file agent.json --no-session; agents cli --agent-file agent.json --session-dir kept; agents cli --agent-file agent.json --session-dir kept --continue")
	s.Await(`^── helper`)
	s.tell("first", `You said: first`)
	s.tell("second", `You said: second`)
	s.Press("C-d")
	s.Await(`(?s)second.*^── helper · /help`)
	s.tell("third", `You said: third`)
	s.Press("C-d")
	s.Await("(?s)`agents cli --session \\S+ --session-dir kept` continues.*^── 1/1 helper.*^> third.*^── helper · done")
	s.tell("fourth", `You said: fourth`)
	if text := s.Text(); strings.Count(text, "continues this") != 1 {
		t.Errorf("a conversation that is not kept can be continued:\n%s", text)
	}
}

// A server that cannot load its agents speaks with the program's own words and exit code.
func TestChatWithoutAnAgent(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 30, `agents cli; echo "code $?"; agents cli --agent-file nothing.json; echo "and $?"; agents cli --record rec --agent-file agent.json </dev/null; agents cli --agent-file agent.json --yes --model x --budget turns=5`)
	s.Await(`(?s)no agent file found.*^code 2$.*nothing\.json.*^and 2$`)
	s.Await(`^── helper`)
	s.Type("touch this")
	s.Press("Enter")
	s.Await(`(?s)✓ bash_touch.*Done\..*^── helper · done`)
	s.Press("C-d")
	s.Await("continues this conversation")
}

// TestTheInterfaceAsksAboutChanges: its server has no terminal to ask at.
func TestTheInterfaceAsksAboutChanges(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 30, `agents trust --yes >/dev/null 2>&1; echo >>agent.json; agents; echo "code $?"; agents; echo "again $?"`)
	s.Await(`(?s)agent\.json: changed since it was trusted.*^trust it\? yes or no \[no\]:`)
	s.Press("Enter")
	s.Await(`(?s)^error: agent\.json differs from what was trusted:.*^code 2$.*^trust it\?`)
	s.Type("yes")
	s.Press("Enter")
	s.Await(`^── helper`)
	s.Press("C-d")
	s.Await(`^again 0$`)
}

// The models that the agent's server offers are listed in the interface, in plain lines and by a
// command. If the server does not answer, only those with a price are.
func TestModelsOfTheServerAreOffered(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	broken := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.Method != http.MethodGet || r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer the-key" {
			t.Errorf("%s %s with Authorization %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
		if broken.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"llama-one"},{"id":"text-embed"},{"id":"llama-two"}]}`)
	}))
	defer server.Close()
	s := openChat(t, 110, 30, "PS1='$ ' ENV= sh -i", "MODEL_KEY=the-key")
	file := fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"local","flavor":"openai-compatible","modelUrl":%q,"modelName":"llama-one","apiKeyEnv":"MODEL_KEY","announce":"a","systemPrompt":["b"]}}`, server.URL+"/v1")
	if err := os.WriteFile(filepath.Join(s.Dir, "local.json"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	host := regexp.QuoteMeta(strings.TrimPrefix(server.URL, "http://"))
	offered := `llama-one  ` + host + `, offered\n *llama-two  ` + host + `, offered\n *text-embed  ` + host + `, offered\n`
	s.Await(`^\$`)
	run := func(line, want string) {
		t.Helper()
		s.Type("clear; " + line)
		s.Press("Enter")
		s.Await(`(?s)\A\s*` + want)
	}
	run("agents prices --agent-file local.json --online 2>/dev/null | head -n 3", offered+`\$`)
	run(`echo /model | agents cli --quiet --plain --agent-file local.json 2>/dev/null | head -n 5`, `.*llama-one\n *`+offered)
	before := asked.Load()
	run("agents cli --agent-file local.json", `.*── local`)
	if n := asked.Load(); n != before {
		t.Errorf("the server was asked for its models %d times before the list was opened", n-before)
	}
	s.Type("/model")
	s.Press("Enter")
	s.Await(`(?s)models.*llama-one  ` + host + `, offered\n.*llama-two`)
	s.Press("Down", "Enter")
	s.Await(`^  llama-two$`)
	s.Type("/model text-embed")
	s.Press("Enter")
	s.Await(`^  text-embed$`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		running := len(servers(filepath.Dir(s.Dir)))
		if running == 2 { // the first, and that of the last model
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d servers run after /model was entered twice", running)
		}
	}
	broken.Store(true)
	s.Type("/model")
	s.Press("Enter")
	s.Await(`(?s)models.*claude-sonnet-5-5`)
	s.Press("Escape")
	s.Await(`^── local`)
	s.Press("C-d")
	s.Await(`^\$\n`)
	run("agents prices --agent-file local.json --online gpt-5-mini 2>&1", `[^\n]*list the models of `+host+`: HTTP 500[^\n]*\n *gpt-5-mini`)
}

// If a file below the agent file has changed, agents asks about it before the interface starts,
// because it cannot ask on the terminal afterwards.
func TestAChangedTreeIsAskedAboutInPlace(t *testing.T) {
	t.Parallel()
	s := openChat(t, 100, 40, "PS1='$ ' ENV= sh -i")
	s.Await(`^\$`)
	s.Type("clear; agents trust --yes >trusted && agents cli")
	s.Press("Enter")
	s.Await(`(?s)^── helper.*^>\n`)
	s.Press("C-d")
	s.Await(`^\$\n`)
	f, err := os.OpenFile(filepath.Join(s.Dir, "script.json"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s.Type("clear; agents cli")
	s.Press("Enter")
	s.Await(`(?s)changed: script script\.json.*yes or no`)
	s.Type("yes")
	s.Press("Enter")
	s.Await(`(?s)^── helper.*^>\n`)
	s.Press("C-d")
	s.Await(`^\$\n`)
}

// A serial line and some containers have terminals without a size.
func TestChatAtATerminalWithoutASize(t *testing.T) {
	t.Parallel()
	s := openChat(t, 80, 24, "stty rows 0 cols 0; "+chatCommand)
	s.Await(`^── helper · /help`)
	s.tell("hello", `You said: hello`)
	s.Resize(60, 24)
	s.Await(`^── helper · done.{43}$`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}

// Without a shell nobody could continue a program that is suspended: it goes on.
func TestSuspendWithoutAShell(t *testing.T) {
	t.Parallel()
	s := openChat(t, 80, 24, chatCommand)
	s.Await(`^── helper · /help`)
	s.Press("C-z")
	s.Await(`^cannot suspend here`)
	s.tell("hello", `You said: hello`)
	s.Type("stay")
	s.Press("Enter")
	s.Await(`^  • bash_stay`)
	s.Press("C-z")
	s.Await(`^cannot suspend here`)
	s.Press("C-c")
	s.Await(`^the run is stopped`)
	s.Press("C-c")
	s.Await(`(?s)bash_stay.*interrupted.*^── helper · stopped`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}
