//go:build linux

package once

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const none = "-" // no command

// everyday are the tasks of docs/everyday.md for which agents and another program have a command.
var everyday = []struct {
	name  string
	lines [3]string // of agents, codex and crush; with "<FILE", that is their standard input
	ready [3]string // for a conversation: what the screen shows when a question can be typed
	shows [3]string // what the screen shows at the end of a command for a terminal
}{
	{name: "ask one question", lines: [3]string{"run hello", "exec hello", "run hello"}},
	{name: "ask about a file, through a pipe", lines: [3]string{"run hello <text", "exec hello <text", "run hello <text"}},
	{name: "attach a picture", lines: [3]string{"run -m picture.png hello", "exec hello -i picture.png", none}},
	{name: "an answer in JSON that satisfies a schema", lines: [3]string{"run --output-schema schema.json anynumber", "exec --output-schema schema.json anynumber", none}},
	{name: "everything that happens, as lines of JSON", lines: [3]string{"run --output jsonl hello", "exec --json hello", none}},
	{name: "continue the last conversation", lines: [3]string{"run --continue hello", "exec resume --last hello", "run -C hello"}},
	{name: "use another model once", lines: [3]string{"run --model other hello", "exec -m other hello", "run -m lent/other hello"}},
	{name: "no questions, in a sandbox", lines: [3]string{"run --yes hello", "exec -s workspace-write hello", none}},
	{name: "store a key", lines: [3]string{"keys set openai <key", "login --with-api-key <key", none}},
	{name: "talk", lines: [3]string{"", "", ""}, ready: typing},
	{name: "continue the last talk", lines: [3]string{"cli --continue", "resume --last", "-C"}, ready: typing},
	{name: "list conversations", lines: [3]string{"session list", "resume", "session list"}, shows: [3]string{"", "question "}},
}

var (
	typing   = [3]string{"? keys", "? for shortcuts", "Ready"}
	question = regexp.MustCompile(`question \d+`)
	number   = regexp.MustCompile(`\d+\.\d+\.\d+`)
)

// asked are the questions about a folder in which a program begins, and the keys that answer them.
var asked = map[string][]string{"Trust this folder?": {"Enter"}, "Would you like to initialize now?": {"Right", "Enter"}}

// TestEveryday writes how long the commands of docs/everyday.md take in agents, codex and crush. Each
// program has a home folder, and a repository of Git, in which each command has run before.
func TestEveryday(t *testing.T) {
	if !*update {
		t.Skip("it measures for minutes: run `make bench-everyday`")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text := "All is done."
		if list := question.FindAll(body, -1); len(list) > 0 {
			text = "The answer to " + string(list[len(list)-1])
		} else if strings.Contains(string(body), "anynumber") {
			text = `{"n":1}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		answer(w, r.URL.Path, "c", "", "", text)
	}))
	defer server.Close()
	took := make([][3][]time.Duration, len(everyday))
	var heads []string
	for i, name := range []string{"agents", "codex", "crush"} {
		p := programs[slices.IndexFunc(programs, func(p program) bool { return p.name == name })]
		path := p.path(t)
		heads = append(heads, name)
		if i > 0 {
			heads[i] += " " + p.version(path)
		}
		dir := t.TempDir()
		home := filepath.Join(dir, "home")
		t.Cleanup(func() { endBelow(dir) }) // codex leaves a server behind
		agentFile, _ := json.Marshal(map[string]any{"tag": "OpenAIAgentDescription", "contents": map[string]any{
			"slug": "friend", "flavor": "openai-compatible", "modelName": "m", "modelUrl": server.URL + "/v1"}}) // always encodes
		files := map[string]string{"work/agent.json": string(agentFile), "work/text": "some text", "work/key": "sk-0123456789", "work/picture.png": picture,
			"work/schema.json": `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`}
		if p.config != "" {
			files["home/"+p.config] = strings.ReplaceAll(p.text, "SERVER", server.URL)
		}
		for name, text := range files {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := console{dir: filepath.Join(dir, "work"), path: path, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm-256color", "OPENAI_API_KEY=none", "AGENTS_KEYRING=off"}}
		c.env = append(c.env, p.env...)
		lines := [][]string{{"git", "init", "-q"}}
		if i == 0 {
			lines = append(lines, []string{path, "trust", "--yes"})
		}
		for _, line := range lines {
			cmd := exec.Command(line[0], line[1:]...)
			cmd.Dir, cmd.Env = c.dir, c.env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v: %s", line, err, out)
			}
		}
		for round := range rounds + 1 {
			for n, task := range everyday {
				var d time.Duration
				switch {
				case task.lines[i] == none:
					continue
				case task.ready[i] != "":
					typed := fmt.Sprintf("question %d", round*len(everyday)+n)
					d = c.screen(t, task.lines[i], task.ready[i], typed, "The answer to "+typed)
				case task.shows[i] != "":
					d = c.screen(t, task.lines[i], "", "", task.shows[i])
				default:
					d = c.run(t, task.lines[i])
				}
				if round > 0 {
					took[n][i] = append(took[n][i], d)
				}
			}
		}
	}
	var rows strings.Builder
	for n, task := range everyday {
		fmt.Fprintf(&rows, "| %s |", task.name)
		for _, list := range took[n] {
			if list == nil {
				rows.WriteString(" – |")
				continue
			}
			slices.Sort(list)
			fmt.Fprintf(&rows, " %.2f s |", list[len(list)/2].Seconds())
		}
		rows.WriteString("\n")
	}
	text := fmt.Sprintf("%s/%s, %d processors; medians of %d runs.\n\n| task | %s |\n|---|---|---|---|\n%s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds, strings.Join(heads, " | "), &rows)
	if err := replaceFigures("../../../docs/everyday.md", "bench-everyday", text); err != nil {
		t.Error(err)
	}
}

// endBelow kills the processes whose program is below a folder.
func endBelow(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		file, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(file, dir) {
			continue // it has ended, or is another's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// A console starts a program in a folder.
type console struct {
	dir, path string
	env       []string
}

// run returns how long a command takes that prints and ends.
func (c console) run(t *testing.T, line string) time.Duration {
	t.Helper()
	words, file, ok := strings.Cut(line, " <")
	cmd := exec.Command(c.path, strings.Fields(words)...)
	cmd.Dir, cmd.Env = c.dir, c.env
	if ok {
		f, err := os.Open(filepath.Join(c.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
	}
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		t.Fatalf("%s %s: %v: %s", c.path, line, err, out)
	}
	return took
}

// screen returns how long a command takes until the screen of a terminal, 80x24, shows a text. If
// something is to be typed, that is done once the screen shows ready.
func (c console) screen(t *testing.T, line, ready, typed, want string) time.Duration {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	tmux := func(args ...string) string {
		cmd := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Dir, cmd.Env = c.dir, c.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "80", "-y", "24", "sleep 600") // the server is there already
	defer tmux("kill-server")
	await := func(text string) {
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			screen := tmux("capture-pane", "-p")
			if strings.Contains(screen, text) {
				return
			}
			for what, keys := range asked { // in the round that does not count
				if strings.Contains(screen, what) {
					tmux(append([]string{"send-keys"}, keys...)...)
					time.Sleep(time.Second)
				}
			}
			if time.Now().After(end) {
				t.Fatalf("%s %s: the screen has no %q:\n%s", c.path, line, text, screen)
			}
		}
	}
	began := time.Now()
	tmux(append([]string{"new-window", c.path}, strings.Fields(line)...)...)
	if typed != "" {
		await(ready)
		tmux("send-keys", "-l", typed)
		await(typed)
		tmux("send-keys", "Enter")
	}
	await(want)
	return time.Since(began)
}

// picture is the smallest PNG.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82"
