package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	work.Sandboxed(os.Args)
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"XDG_STATE_HOME": dir, "XDG_CACHE_HOME": filepath.Join(dir, "cache"), "HOME": dir, "TEMPORAL_CONFIG_FILE": filepath.Join(dir, "none"), "TEMPORAL_ADDRESS": "", envStore: "", envKey: ""} {
		os.Setenv(name, value)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A safe is a buffer for several goroutines.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func environment(in io.Reader, out, stderr io.Writer) *program.Env {
	return &program.Env{In: in, Out: out, Err: stderr, Getenv: os.Getenv, Environ: os.Environ(), KillAfter: time.Minute}
}

// do runs a command.
func do(ctx context.Context, in string, args ...string) (code int, out, stderr string) {
	var o, e safe
	code = run(ctx, environment(strings.NewReader(in), &o, &e), append([]string{"agents-fleet"}, args...))
	return code, o.String(), e.String()
}

// until waits for something that is about to happen.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// agentFile writes an agent whose model does what the prompt says: calls the tool wait or asks for
// the permission to call touch.
func agentFile(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "clerk", "flavor": "scripted", "script": "script.json", "announce": "a", "systemPrompt": "s", "toolDirectory": "tools", "permissions": [{"verdict": "ask", "tool": "bash_touch"}]}}`,
		"script.json": `{"rules": [
			{"name": "over", "when": {"role": "tool"}, "answer": {"text": "done: ${lastMessage}"}},
			{"name": "wait", "when": {"role": "user", "prompt": "^wait"}, "answer": {"calls": [{"tool": "bash_wait", "args": {}}]}},
			{"name": "order", "when": {"role": "user", "prompt": "^order"}, "answer": {"calls": [{"tool": "bash_order", "args": {"prompt": "x"}}]}},
			{"name": "touch", "when": {"role": "user", "prompt": "^touch"}, "answer": {"calls": [{"tool": "bash_touch", "args": {}}]}},
			{"name": "slow", "when": {"role": "user", "prompt": "^slow"}, "delayMillis": 600000, "answer": {"text": "at last"}},
			{"name": "other", "answer": {"text": "hello, ${lastMessage}"}}]}`,
		"tools/order": order,
		"tools/wait":  tool("wait", "touch "+filepath.Join(dir, "waiting")+"; sleep 600"),
		"tools/touch": tool("touch", "echo touched$AGENTS_FLEET_PASSWORD_URL$TEMPORAL_TLS_CLIENT_KEY_DATA"),
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "agent.json")
}

// order is an agent that asks a person for several things, and answers with the reply.
const order = `#!/bin/sh
if [ "$1" = describe ]; then
	echo '{"slug": "order", "description": "d", "channel": 1, "args": [{"name": "prompt", "description": "p", "backing_type": "string", "arity": "single", "mode": "stdin"}]}'
	exit
fi
n=0
say() {
	n=$((n + 1))
	echo "{\"seq\":$n,\"time\":\"2026-01-02T03:04:05Z\",\"session\":\"F\",\"agent\":\"order\",$1}"
}
read -r start
say '"kind":"session"'
say '"kind":"message","message":{"role":"user","parts":[{"kind":"text","text":"x"}]}'
say '"kind":"question","question":"q1","what":"elicit","path":["order"],"text":"Your order?","schema":{"type":"object","required":["count","size"],"properties":{"count":{"type":"integer","minimum":1},"size":{"type":"string","enum":["small","large"]},"gift":{"type":"boolean"}}}'
until read -r line && [ "${line#*reply}" != "$line" ]; do :; done
say "\"kind\":\"end\",\"status\":\"ok\",\"text\":\"$(printf %s "$line" | sed 's/.*"answer"://; s/["\\]//g')\",\"total\":{}"
`

func tool(name, script string) string {
	return "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{\"slug\": \"" + name + "\", \"description\": \"d\", \"args\": []}'; exit; fi\n" + script + "\n"
}

// One server and one worker serve all commands.
func TestCommands(t *testing.T) {
	dir := filepath.Join(os.Getenv("XDG_STATE_HOME"), "agents", "fleet")
	dev := filepath.Join(dir, runningFile)
	keyFile := filepath.Join(t.TempDir(), "key") // which the other commands find too
	if err := os.WriteFile(keyFile, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENTS_FLEET_PASSWORD_URL", "leak") // no tool may read what the program is configured with
	ctx, stop := context.WithCancel(t.Context())
	var out, stderr safe
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, environment(strings.NewReader(""), &out, &stderr), []string{"agents-fleet", "dev", "--listen", "127.0.0.1:0", "--key", keyFile})
	}()
	until(t, "the start of the worker", func() bool { return strings.Contains(stderr.String(), "taking runs") || len(ended) > 0 })
	if info, err := os.Stat(dev); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(out.String(), "Temporal server: 127.0.0.1:") {
		t.Fatalf("dev: %v, %v, %s%s", info, err, out.String(), stderr.String())
	}
	file := agentFile(t)
	limited := make(chan string, 1)
	go func() {
		code, _, stderr := do(t.Context(), "", "run", "--queue", "nobody", "--agent-file", file, "--prompt", "x", "--timeout", "1s")
		limited <- fmt.Sprint(code, " ", stderr)
	}()
	left := make(chan string, 1)
	go func() { left <- attachToAWorkerThatIsGone(t, file, strings.Fields(out.String())[2]) }()
	t.Run("run prints the answer", func(t *testing.T) {
		if code, out, stderr := do(t.Context(), "", "run", "--agent-file", file, "--prompt", "Ada"); code != 0 || out != "hello, Ada\n" || !strings.Contains(stderr, "1 turn") {
			t.Errorf("run: %d, %q, %q", code, out, stderr)
		}
	})
	t.Run("submit and attach", func(t *testing.T) { testSubmit(t, file) })
	t.Run("a time limit", func(t *testing.T) {
		code, out, stderr := do(t.Context(), "", "run", "--agent-file", file, "--prompt", "wait", "--timeout", "2s")
		if code != 5 || out != "" || !strings.Contains(stderr, "error: run agent clerk: the time limit of the run passed\nhint: raise --timeout\n") {
			t.Errorf("run: %d, %q, %q", code, out, stderr)
		}
	})
	t.Run("cancel", func(t *testing.T) { testCancel(t, file) })
	t.Run("channel", func(t *testing.T) { testChannel(t, file) })
	t.Run("questions", func(t *testing.T) { testQuestions(t, file) })
	t.Run("prune", func(t *testing.T) { testPrune(t, filepath.Join(dir, "store"), keyFile) })
	t.Run("terminate", func(t *testing.T) { testTerminate(t, file) })
	t.Run("a queue without a worker", func(t *testing.T) {
		if got := <-limited; !strings.HasPrefix(got, "5 ") || !strings.Contains(got, "warning: no worker takes work from the queue nobody") || !strings.Contains(got, "the time limit of the run passed") {
			t.Errorf("run: %s", got)
		}
	})
	if got := <-left; !strings.Contains(got, "has waited for a worker for more than 10s: none is running, or all are busy") {
		t.Errorf("attach: %s", got)
	}
	t.Run("a second dev", func(t *testing.T) {
		if code, _, stderr := do(t.Context(), "", "dev", "--listen", "127.0.0.1:0"); code != 2 || !strings.Contains(stderr, "another `agents-fleet dev` uses this folder") {
			t.Errorf("dev: %d, %q", code, stderr)
		}
	})
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("dev ends with %d, %s", code, stderr.String())
	}
	if _, err := os.Stat(dev); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", dev, err)
	}
	if code, _, stderr := do(t.Context(), "", "list"); code != 2 || !strings.Contains(stderr, "error: no Temporal server is configured\nhint: `agents-fleet dev`") {
		t.Errorf("list: %d, %q", code, stderr)
	}
}

func testSubmit(t *testing.T, file string) {
	code, id, stderr := do(t.Context(), "Bob\n", "submit", "--agent-file", file)
	id = strings.TrimSpace(id)
	if code != 0 || id == "" {
		t.Fatalf("submit: %d, %q, %q", code, id, stderr)
	}
	code, out, _ := do(t.Context(), "", "attach", id, "--output", "jsonl")
	var last agent.Event
	n := int64(0)
	for line := range strings.Lines(out) {
		n++
		if err := json.Unmarshal([]byte(line), &last); err != nil || last.Seq != n {
			t.Errorf("line %d is %s", n, line)
		}
	}
	if code != 0 || last.Kind != agent.EventEnd || last.Text != "hello, Bob" {
		t.Errorf("attach: %d, %+v", code, last)
	}
	code, out, _ = do(t.Context(), "", "attach", id, "--output", "json")
	var result struct {
		Answer, Outcome, Session string
		Turns                    int
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || result.Answer != "hello, Bob" || result.Outcome != "ok" || result.Session != id || result.Turns != 1 {
		t.Errorf("attach --output json: %d, %s, %v", code, out, err)
	}
	until(t, "the run is listed", func() bool {
		_, out, _ := do(t.Context(), "", "list", "--json")
		return strings.Contains(out, `"id":"`+id+`","agent":"clerk","outcome":"ok"`)
	})
	if code, _, stderr := do(t.Context(), "", "attach", id, "--store", filepath.Join(os.Getenv("XDG_STATE_HOME"), "agents", "fleet", "store")); code != 1 || !strings.Contains(stderr, "read event 1") {
		t.Errorf("attach without the key: %d, %q", code, stderr)
	}
	for _, c := range []string{"attach", "cancel"} {
		if code, _, stderr := do(t.Context(), "", c, "nothing"); code != 2 || !strings.Contains(stderr, "hint: `agents-fleet list`") {
			t.Errorf("%s: %d, %q", c, code, stderr)
		}
	}
}

// A run that waits is left by one who attaches, and ended by cancel or with `run`.
func testCancel(t *testing.T, file string) {
	waiting := filepath.Join(filepath.Dir(file), "waiting")
	started := func() {
		until(t, "the call starts", func() bool { _, err := os.Stat(waiting); return err == nil })
		if err := os.Remove(waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(waiting); err != nil { // of the run before
		t.Fatal(err)
	}
	_, id, _ := do(t.Context(), "", "submit", "--agent-file", file, "--prompt", "wait")
	id = strings.TrimSpace(id)
	started()
	ctx, leave := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer leave()
	if code, _, stderr := do(ctx, "", "attach", id); code != 130 || !strings.Contains(stderr, "the run has not ended") {
		t.Errorf("attach: %d, %q", code, stderr)
	}
	if code, _, stderr := do(t.Context(), "", "cancel", id); code != 0 {
		t.Errorf("cancel: %d, %q", code, stderr)
	}
	if code, _, stderr := do(t.Context(), "", "attach", id); code != 130 || !strings.Contains(stderr, "cancel") {
		t.Errorf("attach: %d, %q", code, stderr)
	}
	until(t, "a second cancel says that the run has ended", func() bool { // the server knows it after the record
		code, _, stderr := do(t.Context(), "", "cancel", id)
		return code == 0 && stderr == "note: run "+id+" has already ended\n"
	})
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		defer interrupt()
		until(t, "the call starts", func() bool { _, err := os.Stat(waiting); return err == nil })
	}()
	if code, _, stderr := do(ctx, "", "run", "--agent-file", file, "--prompt", "wait"); code != 130 || !strings.Contains(stderr, "run agent clerk") {
		t.Errorf("run: %d, %q", code, stderr)
	}
}

// A person at a terminal types a number, a choice and nothing, and leaves a question, which
// the next person who attaches answers.
func testQuestions(t *testing.T, file string) {
	person, terminal := openTerminal(t)
	stdin := os.Stdin
	os.Stdin = terminal
	defer func() { os.Stdin = stdin }()
	var shown safe
	go io.Copy(&shown, person)
	at := func(ctx context.Context, args ...string) (int, string) {
		var out, stderr safe
		p := environment(strings.NewReader(""), &out, &stderr)
		p.InTerm, p.ErrTerm = true, true
		return run(ctx, p, append([]string{"agents-fleet"}, args...)), out.String() + stderr.String()
	}
	_, id, _ := do(t.Context(), "", "submit", "--agent-file", file, "--prompt", "order")
	id = strings.TrimSpace(id)
	left, leave := context.WithCancel(t.Context())
	go func() {
		until(t, "the question", func() bool { return strings.Contains(shown.String(), "answer, decline or cancel?") })
		leave()
	}()
	if code, text := at(left, "attach", id); code != 130 || !strings.Contains(text, "the run has not ended") {
		t.Errorf("attach: %d, %s", code, text)
	}
	go func() {
		for _, step := range []struct{ question, answer string }{
			{"withdrawn)", ""}, {"cancel?", "answer"}, {"count, a whole number", "many"}, {"want a whole number", "3"}, {"2  large", "2"}, {"empty leaves it out", ""}, {`{"count": 3, "size": "large"}`, "send"},
		} {
			before := shown.String()
			until(t, step.question, func() bool {
				_, text, _ := strings.Cut(shown.String(), "withdrawn")
				return strings.Contains("withdrawn"+text, step.question)
			})
			if step.question != "withdrawn)" {
				fmt.Fprintln(person, step.answer)
				until(t, "the echo of "+step.answer, func() bool { return len(shown.String()) > len(before) })
			}
		}
	}()
	if code, text := at(t.Context(), "attach", id); code != 0 || !strings.Contains(text, "done: {action:accept,content:{count:3,size:large}}") {
		t.Errorf("attach: %d, %s\n%s", code, text, shown.String())
	}
}

// openTerminal opens a terminal and returns the person's side and the program's side.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	person = open("/dev/ptmx")
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return person, open(fmt.Sprintf("/dev/pts/%d", n))
}

// A run that ended long ago is removed; those of today stay.
func testPrune(t *testing.T, location, keyFile string) {
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	key, err := connect.ReadKey(keyFile)
	if err == nil {
		s, err = store.Encrypt(s, key.Bytes[:])
	}
	if err != nil {
		t.Fatal(err)
	}
	const id = "20200102-030405-abcdefghij"
	end := `{"kind":"end","session":"` + id + `","agent":"clerk","status":"ok","time":"2020-01-02T03:05:00Z"}`
	if err := s.Append(t.Context(), id, 0, [][]byte{[]byte(end)}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBlob(t.Context(), s, store.SharedOwner(id), []byte("an agent")); err != nil {
		t.Fatal(err)
	}
	line := id + "  " + time.Date(2020, 1, 2, 3, 5, 0, 0, time.UTC).Local().Format(time.DateTime) + "  ok  clerk\n"
	for _, tt := range []struct{ args, want string }{
		{"prune --older-than 30d --dry-run", line + "would remove 1 run, and the agents' folders of 1 day\n"},
		{"prune --older-than 30d", line + "removed 1 run, and the agents' folders of 1 day\n"},
		{"prune --older-than 2h", "removed 0 runs, and the agents' folders of 0 days\n"},
	} {
		if code, out, stderr := do(t.Context(), "", strings.Fields(tt.args)...); code != 0 || out != tt.want || stderr != "" {
			t.Errorf("%s: %d, %q, %q, want %q", tt.args, code, out, stderr, tt.want)
		}
	}
	if err := s.Append(t.Context(), id, 0, [][]byte{[]byte("{}")}); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(other, []byte(strings.Repeat("6b", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := do(t.Context(), "", "prune", "--older-than", "30d", "--store", location, "--key", other); code != 1 || !strings.Contains(stderr, "warning: "+id+" stays: decrypt event 1") || !strings.Contains(out, "removed 0 runs") {
		t.Errorf("prune with another key: %d, %q, %q", code, out, stderr)
	}
}

// The keys file is read. Tools do not get the settings of the server and the store.
func TestLoading(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(`{"keys":[{"id":"openai","value":"sk-1"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fleet{Env: environment(nil, io.Discard, io.Discard)}
	f.Environ = []string{"PATH=/bin", "TEMPORAL_TLS_CLIENT_KEY_DATA=secret", "AGENTS_FLEET_STORE=postgres://u:secret@h/d"}
	o, err := f.loading(keys)
	if err != nil || !slices.Equal(o.Environ, []string{"PATH=/bin"}) {
		t.Errorf("tools see %q, %v", o.Environ, err)
	}
	if key, ok := o.Keys.Lookup("openai"); !ok || key.Value.Reveal() != "sk-1" || !strings.HasPrefix(o.Folders.Cache, os.Getenv("XDG_CACHE_HOME")) {
		t.Errorf("the options are %+v", o)
	}
	if _, err := f.loading(keys + "x"); err == nil {
		t.Error("a keys file that does not exist is no error")
	}
}

// A program starts a run, answers its question or does not, and reads the end.
func testChannel(t *testing.T, file string) {
	for _, tt := range []struct{ input, answer, want string }{
		{"", `{"decision":"allow"}`, "done: touched\n"},
		{"", "", "nobody can be asked"},
		{"Eve", `{"decision":"allow"}`, "hello, Eve\n"},
	} {
		end, code, stderr := hold(t, file, tt.input, json.RawMessage(tt.answer))
		if code != 0 || end.Status != agent.StatusOK || !strings.Contains(end.Text+"\n", tt.want) || stderr != "" {
			t.Errorf("run --channel: %d, %+v, %s, want %q", code, end, stderr, tt.want)
		}
	}
	code, text, errors := do(t.Context(), `{"kind":"start","channel":1,"args":{"prompt":"x"},"session":"S"}`+"\n", "run", "--channel", "--agent-file", file)
	if code != 2 || !strings.Contains(text, `"kind":"end"`) || !strings.Contains(text, "does not continue sessions") || errors != "" {
		t.Errorf("a session: %d, %s, %s", code, text, errors)
	}
}

// hold holds a run, and answers its question after it has sent the input.
func hold(t *testing.T, file, input string, answer json.RawMessage) (end agent.Event, code int, errors string) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	var stderr safe
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), environment(in, out, &stderr), []string{"agents-fleet", "run", "--channel", "--agent-file", file})
		out.Close()
	}()
	conn := channel.Open(fromChild, toChild, agent.Start{Args: json.RawMessage(`{"prompt":"touch it"}`)})
	defer conn.Close()
	for e, err := range conn.Events() {
		if err != nil {
			t.Fatalf("%v, %s", err, stderr.String())
		}
		if e.Kind == agent.EventQuestion {
			if e.What != "approve" || e.Tool != "bash_touch" {
				t.Errorf("the question is %+v", e)
			}
			if input != "" {
				m := agent.UserText(input)
				_ = conn.Direct(agent.Directive{Message: &m}) // Events has the error
			}
			_ = conn.Reply(e.Question, answer)
		}
		end = e
	}
	return end, <-ended, stderr.String()
}

func TestWrongCommandLines(t *testing.T) {
	file := agentFile(t)
	for _, tt := range []struct{ args, want string }{
		{"", "no command given"},
		{"fly", `there is no command "fly"`},
		{"submit --prompt x", `"agent-file" not set`},
		{"submit --prompt x --agent-file /none", "/none"},
		{"submit --agent-file " + file, "the prompt is empty"},
		{"submit --prompt x --agent-file " + file + " more", `unexpected argument "more"`},
		{"submit --prompt x --timeout -1s --agent-file " + file, "it must be positive"},
		{"submit --prompt x --media " + file + "x --agent-file " + file, "no such file"},
		{"submit --prompt x --budget gold=1 --agent-file " + file, "gold"},
		{"run --prompt x --output xml --agent-file " + file, "must be one of text, json, jsonl"},
		{"attach", "the id of a run, as `agents-fleet list` shows it, is missing"},
		{"list --address 127.0.0.1:1", "connect to the Temporal server at 127.0.0.1:1"},
		{"worker --metrics here", "--metrics: "},
		{"prune", `"older-than" not set`},
		{"prune --older-than 59m", "it must be at least an hour ago"},
		{"prune --older-than x", "want a date"},
		{"prune --older-than 30d", "no store is configured"},
	} {
		code, out, stderr := do(t.Context(), "", strings.Fields(tt.args)...)
		if code != 2 || out != "" || !strings.HasPrefix(stderr, "error: ") || !strings.Contains(stderr, tt.want) {
			t.Errorf("agents-fleet %s: %d, %q, %q, want %q", tt.args, code, out, stderr, tt.want)
		}
	}
}
