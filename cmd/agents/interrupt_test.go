package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// agentsCommand runs this test binary as `agents`, in a folder of its own with
// the given files; what begins with #! is executable.
func agentsCommand(t *testing.T, files map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, files)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "agents"
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "AGENTS_KEYRING=off", "AGENTS_TTY=off")
	return cmd
}

// writeFiles writes files into dir; scripts are executable.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

const hangScript = `{"rules":[
 {"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_hang","args":{}},{"tool":"bash_hang","args":{}},{"tool":"expert_sub","args":{"prompt":"hang"}}]}}
]}`

// hangTool ignores SIGTERM and leaves its process group in every way it can. It
// reports each process that it is, then blocks.
const hangTool = `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"hang","description":"never ends","args":[]}'; exit 0; }
trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ >> ../pids; exec sleep 1000' &
(setsid env -i sh -c 'echo $$ >> ../pids; exec sleep 1000' >/dev/null 2>&1 &)
echo $$ >> ../pids
while :; do sleep 1000; done
`

func hangFiles() map[string]string {
	agentFile := func(slug, script, tools string) string {
		return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"scripted","script":%q,"toolDirectory":%q,"toolWorkingDirectory":%q}}`, slug, script, tools, tools)
	}
	return map[string]string{
		"agent.json":     agentFile("root", "script.json", "tools"),
		"script.json":    hangScript,
		"tools/hang":     hangTool,
		"tools/sub.json": agentFile("sub", "../script.json", "../sub-tools"),
		"sub-tools/hang": hangTool,
	}
}

// alive returns those of the processes in the file that still run.
func alive(t *testing.T, file string) (pids, running []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
			running = append(running, pid)
		}
	}
	return pids, running
}

// killAfter is the variable that sets Env.KillAfter in tests.
const killAfter = "AGENTS_TEST_KILL_AFTER"

// A program whose output is a pipe that is full and that nobody reads cannot finish
// its run. It ends nevertheless, and so does all that it started.
func TestASignalEndsAProgramWhoseOutputNobodyReads(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	files := hangFiles()
	// Its progress fills the pipe, when all the others are there: nothing starts
	// behind an event that cannot be written.
	files["tools/hang"] = strings.Replace(hangTool, "while :;", "until [ $(wc -l < ../pids) = 12 ]; do sleep 0.01; done\nyes 'still at it' | head -n 1000 >&2\nwhile :;", 1)
	cmd := agentsCommand(t, files, "run", "--agent-file", "agent.json", "--output", "jsonl", "-p", "hang")
	cmd.Env = append(cmd.Env, killAfter+"=100ms")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	file := filepath.Join(cmd.Dir, "pids")
	waitFor(t, func() bool { pids, _ := alive(t, file); return len(pids) == 12 })
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143; stderr:\n%s", code, stderr.String())
	}
	if want := "error: interrupted; what was still to be done did not end within 100ms\n"; !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("stderr ends in %q, want %q", stderr.String()[max(0, stderr.Len()-200):], want)
	}
	if _, running := alive(t, file); len(running) > 0 {
		t.Errorf("%d processes are left", len(running))
	}
}

func TestInterruptLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	cmd := agentsCommand(t, hangFiles(), "run", "--agent-file", "agent.json", "--output", "json", "-p", "hang")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cmd.Dir, "pids")
	waitFor(t, func() bool { pids, _ := alive(t, file); return len(pids) == 12 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit code %d, want 130\n%s", got, stderr.String())
	}
	if pids, running := alive(t, file); len(running) > 0 {
		t.Errorf("of %v, %v still run", pids, running)
	}
	if got := stderr.String(); !strings.Contains(got, "error: run agent root: interrupted") || strings.Count(got, "interrupted") != 2 || !strings.Contains(got, "\n✗ interrupted · ") {
		t.Errorf("stderr = %s", got)
	}
	if !strings.Contains(stdout.String(), `"outcome": "interrupted"`) {
		t.Errorf("stdout = %s", stdout.String())
	}
}

func TestInterruptWhileSomethingIsRead(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	const ready = "--shell=echo x | tee ready"
	tests := map[string][]string{
		"standard input":             {"echo-prompt", ready, "-p", "-"},
		"a pipe nobody writes to":    {"echo-prompt", ready, "-f", "pipe"},
		"an attachment":              {"run", "--agent-file", "agent.json", ready, "-m", "pipe"},
		"the schema of the answer":   {"run", "--agent-file", "agent.json", "-p", "x", "--output-schema", "written"},
		"the arguments of a tool":    {"tool", "call", "./ready.sh"},
		"a command and its children": {"echo-prompt", "--shell=trap '' TERM; (setsid sh -c 'echo $$ >pids; exec sleep 1000' &) ; while [ ! -s pids ]; do :; done; echo >ready; sleep 1000"},
	}
	files := hangFiles()
	files["ready.sh"] = "#!/bin/sh\necho '{\"slug\":\"ready\",\"description\":\"d\",\"args\":[]}'; echo >ready\n"
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := agentsCommand(t, files, args...)
			if err := exec.Command("mkfifo", filepath.Join(cmd.Dir, "pipe")).Run(); err != nil {
				t.Fatal(err)
			}
			written := filepath.Join(cmd.Dir, "written")
			if err := exec.Command("mkfifo", written).Run(); err != nil {
				t.Fatal(err)
			}
			if _, err := cmd.StdinPipe(); err != nil { // stays open and silent
				t.Fatal(err)
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			waitFor(t, func() bool {
				if _, err := os.Stat(filepath.Join(cmd.Dir, "ready")); err == nil {
					return true
				}
				// It can be opened once somebody reads it.
				f, err := os.OpenFile(written, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if err == nil {
					t.Cleanup(func() { f.Close() })
				}
				return err == nil
			})
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			safety := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
			defer safety.Stop()
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 130 {
				t.Errorf("exit code %d, want 130", got)
			}
			// The tools may still be read: what makes "ready" is one of them.
			if got := stderr.String(); got != "error: interrupted\n" && got != "error: read tools: interrupted\n" {
				t.Errorf("stderr = %q", got)
			}
			if _, running := alive(t, filepath.Join(cmd.Dir, "pids")); len(running) > 0 {
				t.Errorf("%v still run", running)
			}
		})
	}
}

func TestOutputThatCannotBeWrittenIsAFailureAndNoInterruption(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	defer full.Close()
	for _, form := range []string{"--output=jsonl", "--output=json", "--output=text", "--stream"} {
		files := hangFiles()
		files["script.json"] = `{"rules":[{"answer":{"text":"hello"}}]}`
		cmd := agentsCommand(t, files, "run", "--agent-file", "agent.json", form, "-p", "hi")
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != 1 {
			t.Errorf("%s: exit code %d, want 1", form, got)
		}
		if got, want := stderr.String(), "error: write the answer: write /dev/stdout: no space left on device\n"; got != want {
			t.Errorf("%s: stderr = %q, want %q", form, got, want)
		}
	}
	cmd := agentsCommand(t, hangFiles(), "cli", "--agent-file", "agent.json")
	var stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("/help\n"), full, &stderr
	cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 1 || !strings.HasPrefix(stderr.String(), "error: write to standard output: ") {
		t.Errorf("/help in a chat: exit code %d, want 1: %s", got, stderr.String())
	}
}

// waitFor waits until a condition on other processes holds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen within three minutes")
		}
	}
}

// When a run is interrupted, the text that has arrived is in its session, and the command that
// continues the run is printed.
func TestAnInterruptedAnswerCanBeContinued(t *testing.T) {
	files := map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"teller","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[{"when":{"prompt":"^story"},"deltaMillis":3600000,"answer":{"text":"Once upon a time there was a long story."}},
			{"answer":{"text":"went on"}}]}`,
	}
	cmd := agentsCommand(t, files, "run", "--agent-file", "agent.json", "--output", "jsonl", "story")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), `"kind":"text","session"`) {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Fatalf("the run ended with %v:\n%s", err, said.String())
	}
	id := regexp.MustCompile(`agents run --session ([a-z0-9-]+)`).FindStringSubmatch(said.String())
	if id == nil {
		t.Fatalf("the command that continues it is missing in:\n%s", said.String())
	}
	again := func(args ...string) string {
		t.Helper()
		next := exec.Command(cmd.Path, args...)
		next.Args[0], next.Dir, next.Env = "agents", cmd.Dir, cmd.Env
		text, err := next.CombinedOutput()
		if err != nil {
			t.Fatalf("agents %v: %v\n%s", args, err, text)
		}
		return string(text)
	}
	again("run", "--session", id[1], "--agent-file", "agent.json", "and then?")
	if text := again("session", "show", id[1]); !regexp.MustCompile(`(?s)> story\n.*> O.*\[This answer was stopped here\.\].*> and then\?\n.*> went on`).MatchString(text) {
		t.Errorf("the session is:\n%s", text)
	}
}
