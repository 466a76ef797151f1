package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// linked does what testscript.Main does, with one copy of this file and links to it.
func linked(m *testing.M, commands map[string]func()) int {
	if run := commands[strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")]; run != nil {
		run()
		return 0
	}
	dir, err := os.MkdirTemp("", "agents-test")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PATH", dir+";"+os.Getenv("PATH"))
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	program, err := os.ReadFile(self) // a link to a file that runs cannot be removed
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "agents.exe"), program, 0o755)
	}
	if err == nil {
		err = link(filepath.Join(dir, "mcp-fake.exe"))
	}
	if err != nil {
		log.Fatal(err)
	}
	return m.Run()
}

// link gives the copy of this program another name.
func link(name string) error {
	program, err := exec.LookPath("agents")
	if err != nil {
		return err
	}
	return os.Link(program, name)
}

const toolDescription = `{"slug":"tool","description":"prints its arguments","timeout-seconds":2,"args":[
	{"name":"a","description":"a","type":"text","backing_type":"string","arity":"single","mode":"positional"},
	{"name":"b","description":"b","type":"text","backing_type":"string","arity":"optional","mode":"positional"},
	{"name":"in","description":"in","type":"text","backing_type":"string","arity":"optional","mode":"stdin"}]}`

// toolMain is a tool and an interpreter of tools. With a first argument connect=ADDRESS it does
// not end, nor does the process that it starts.
func toolMain() {
	at := slices.IndexFunc(os.Args, func(a string) bool { return a == "describe" || a == "run" })
	if at < 0 {
		at = len(os.Args) - 1
	}
	if os.Args[at] == "describe" {
		fmt.Print(toolDescription)
		return
	}
	first := os.Args[min(at+1, len(os.Args)-1)]
	if address, wait := strings.CutPrefix(first, "connect="); wait {
		if os.Args[at] == "run" {
			if err := exec.Command(os.Args[0], first).Start(); err != nil {
				log.Fatal(err)
			}
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, c) // until the other side ends it
		return
	}
	in, _ := io.ReadAll(os.Stdin)
	json.NewEncoder(os.Stdout).Encode(map[string]any{"args": os.Args[1:], "in": string(in), "env": os.Environ()})
}

type toolOutput struct {
	Args, Env []string
	In        string
}

// A lab is a folder with an agent and its environment.
type lab struct {
	t   *testing.T
	dir string
	env []string
}

func openLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir()}
	l.env = append(os.Environ(), "HOME="+l.dir, "USERPROFILE="+l.dir, "XDG_STATE_HOME="+l.dir+`\state`, "XDG_CACHE_HOME="+l.dir+`\cache`,
		"XDG_CONFIG_HOME="+l.dir+`\config`, "AGENTS_KEYRING=off", "AGENTS_TTY=off")
	l.write("agent.json", `{"tag":"OpenAIAgentDescription","contents":{"slug":"lab","flavor":"scripted","script":"script.json","toolDirectory":"tools"}}`)
	l.write("script.json", `{"rules":[
		{"when":{"role":"user","lastMessage":"^call (?P<a>.+)"},"answer":{"calls":[{"tool":"bash_tool","args":{"a":"${a}"}}]}},
		{"when":{"role":"user"},"answer":{"text":"You said: ${prompt}"}},
		{"answer":{"text":"The tool said: ${lastMessage}"}}]}`)
	if err := os.Mkdir(filepath.Join(l.dir, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := link(filepath.Join(l.dir, `tools\tool.exe`)); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) command(stdin string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.Command("agents", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = l.dir, l.env, strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return cmd, &out, &errs
}

// run fails the test unless the program ends with the exit code.
func (l *lab) run(code int, stdin string, args ...string) (stdout, stderr string) {
	l.t.Helper()
	cmd, out, errs := l.command(stdin, args...)
	_ = cmd.Run() // its exit code is judged
	if got := cmd.ProcessState.ExitCode(); got != code {
		l.t.Fatalf("agents %q: exit code %d, want %d\nstdout: %s\nstderr: %s", args, got, code, out, errs)
	}
	return out.String(), errs.String()
}

// call calls a tool with arguments that it must get exactly.
func (l *lab) call(tool string, args map[string]string) toolOutput {
	l.t.Helper()
	text, _ := json.Marshal(args)
	out, _ := l.run(0, string(text), "tool", "call", tool)
	var got toolOutput
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		l.t.Fatalf("%s: %v", out, err)
	}
	return got
}

func TestWindows(t *testing.T) {
	t.Run("arguments of a program", testProgramArguments)
	t.Run("scripts", testScriptTools)
	t.Run("batch files", testBatchTools)
	t.Run("environment", testEnvironment)
	t.Run("processes end with their call", testProcessesEnd)
	t.Run("a killed run resumes", testKilledRun)
	t.Run("sessions", testSessionCommands)
	t.Run("keys", testKeys)
	t.Run("chat", testPlainChat)
	t.Run("errors of pipes and connections", testPipesAndConnections)
}

func testProgramArguments(t *testing.T) {
	l := openLab(t)
	alphabet := []rune("ab \t\"\"\\\\%^&|<>()!'`*?;,=$~#@{}[]\n\ré文😀")
	values := []string{"", " ", `\`, `"`, `\"`, `a\\"b`, `a b\`, `a b\\`, "%PATH%", `C:\Program Files\x\`, "x\n"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		var b strings.Builder
		for range random.IntN(20) {
			b.WriteRune(alphabet[random.IntN(len(alphabet))])
		}
		values = append(values, b.String())
	}
	for i := 0; i+1 < len(values); i += 2 {
		got := l.call(`tools\tool.exe`, map[string]string{"a": values[i], "b": values[i+1], "in": values[i]})
		if want := []string{"run", values[i], values[i+1]}; !slices.Equal(got.Args, want) || got.In != values[i] && got.In != values[i]+"\n" {
			t.Errorf("arguments %q and input %q, want %q and %q", got.Args, got.In, want, values[i])
		}
	}
}

func testScriptTools(t *testing.T) {
	l := openLab(t)
	l.env = append(l.env, "Path="+filepath.Join(l.dir, "tools"), "PATHEXT=.X")
	for name, script := range map[string]struct {
		line string
		want []string
	}{
		"env":     {"#!/usr/bin/env tool\n", nil},
		"split":   {"#!/usr/bin/env -S tool -x y\r\n", []string{"-x", "y"}},
		"path":    {"#! /bin/tool -x y\n", []string{"-x y"}},
		"windows": {"#!" + l.dir + "\\tools\\tool.exe\r\n", nil},
	} {
		l.write(name, script.line+"anything")
		got := l.call(`.\`+name, map[string]string{"a": `x "y" \`})
		want := append(script.want, filepath.Join(l.dir, name), "run", `x "y" \`)
		if !slices.Equal(got.Args, want) {
			t.Errorf("%s: arguments %q, want %q", name, got.Args, want)
		}
	}
	l.write("none", "#!/bin/no-such-interpreter\n")
	if _, stderr := l.run(2, `{"a":"x"}`, "tool", "call", `.\none`); !strings.Contains(stderr, "no-such-interpreter") {
		t.Errorf("stderr: %s", stderr)
	}
	l.write("interpreter.cmd", "@\"%~dp0tools\\tool.exe\" %*\r\n")
	l.write("by-batch", "#!"+l.dir+"\\interpreter.cmd\n")
	if got := l.call(`.\by-batch`, map[string]string{"a": "x y"}); got.Args[len(got.Args)-1] != "x y" {
		t.Errorf("arguments %q", got.Args)
	}
	l.run(1, `{"a":"x&y"}`, "tool", "call", `.\by-batch`)
}

func testBatchTools(t *testing.T) {
	l := openLab(t)
	l.write(`a & b\tool.cmd`, "@\"%~dp0..\\tools\\tool.exe\" %*\r\n")
	for _, value := range []string{"two words", "", "a;b,c=d", `C:\x\y`, "été 文", "it's a*?b", "[x]{y}~#@$"} {
		got := l.call(`a & b\tool.cmd`, map[string]string{"a": value, "b": "last"})
		if want := []string{"run", value, "last"}; !slices.Equal(got.Args, want) {
			t.Errorf("arguments %q, want %q", got.Args, want)
		}
	}
	for _, value := range []string{`x" & echo ran & "`, "%PATH%", "a\nb"} {
		text, _ := json.Marshal(map[string]string{"a": value})
		if _, stderr := l.run(1, string(text), "tool", "call", `a & b\tool.cmd`); !strings.Contains(stderr, "argument 2 ") {
			t.Errorf("%q: %s", value, stderr)
		}
	}
}

func testEnvironment(t *testing.T) {
	l := openLab(t)
	l.env = append(l.env, "My_Api_Key=secret", "Mixed=one", "MIXED=two", "agents_call_id=forged")
	got := l.call(`tools\tool.exe`, map[string]string{"a": "x"})
	text := strings.Join(got.Env, "\n")
	if strings.Contains(text, "secret") || strings.Contains(text, "forged") || strings.Contains(text, "=one") || !strings.Contains(text, "=two") {
		t.Errorf("environment:\n%s", text)
	}
}

// waiting starts a run whose tool and the process that it starts connect to the test. Each
// connection lasts as long as its process.
func (l *lab) waiting(args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer, ended func()) {
	l.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	defer listener.Close()
	cmd, _, stderr = l.command("", append(args, "call connect="+listener.Addr().String())...)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	var conns []net.Conn
	for range 2 {
		c, err := listener.Accept()
		if err != nil {
			l.t.Fatal(err)
		}
		conns = append(conns, c)
	}
	return cmd, stderr, func() {
		l.t.Helper()
		for _, c := range conns {
			c.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
				l.t.Errorf("a process of the call is alive: %v", err)
			}
			c.Close()
		}
	}
}

func testProcessesEnd(t *testing.T) {
	l := openLab(t)
	cmd, stderr, ended := l.waiting("run", "--agent-file", "agent.json", "-p")
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "timed out") {
		t.Errorf("%v\n%s", err, stderr)
	}
	ended()
}

func (l *lab) session() string {
	l.t.Helper()
	out, _ := l.run(0, "", "session", "list", "--json")
	id := regexp.MustCompile(`\d{8}-\d{6}-\w+`).FindString(out)
	if id == "" {
		l.t.Fatalf("no session in %s", out)
	}
	return id
}

func testKilledRun(t *testing.T) {
	l := openLab(t)
	cmd, _, ended := l.waiting("run", "--agent-file", "agent.json", "-p")
	if _, stderr := l.run(1, "", "session", "rm", l.session()); !strings.Contains(stderr, "in use") {
		t.Errorf("a session in use is removed: %s", stderr)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	ended()
	out, stderr := l.run(0, "", "run", "--agent-file", "agent.json", "--session", l.session())
	if !strings.Contains(out, "is not known") {
		t.Errorf("stdout %s, stderr %s", out, stderr)
	}
}

func testSessionCommands(t *testing.T) {
	l := openLab(t)
	for _, prompt := range []string{"call needle", "hello"} {
		l.run(0, "", "run", "--agent-file", "agent.json", "-p", prompt)
	}
	id := l.session()
	if out, _ := l.run(0, "", "session", "show", id); !strings.Contains(out, "You said: hello") {
		t.Errorf("show: %s", out)
	}
	l.run(0, "", "session", "fork", id)
	l.run(0, "", "session", "rm", id)
	if out, _ := l.run(0, "", "session", "list"); strings.Contains(out, id) {
		t.Errorf("%s was removed:\n%s", id, out)
	}
}

func testKeys(t *testing.T) {
	l := openLab(t)
	l.run(0, "sk-secret\n", "keys", "set", "mine")
	if out, stderr := l.run(0, "", "keys", "list"); !strings.Contains(out, "mine") || strings.Contains(out+stderr, "secret") || strings.Contains(stderr, "writ") {
		t.Errorf("stdout %s, stderr %s", out, stderr)
	}
}

func testPlainChat(t *testing.T) {
	l := openLab(t)
	out, stderr := l.run(0, "hello\ncall needle\n", "cli", "--plain", "--agent-file", "agent.json")
	if !strings.Contains(out, "You said: hello") || !strings.Contains(out, "needle") {
		t.Errorf("stdout %s, stderr %s", out, stderr)
	}
}

func testPipesAndConnections(t *testing.T) {
	l := openLab(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	cmd, _, stderr := l.command("", "run", "--agent-file", "agent.json", "--quiet", "-p", "hello")
	cmd.Stdout = write
	err = cmd.Run()
	write.Close()
	if stderr.Len() > 0 {
		t.Errorf("output that nobody reads: %v, %s", err, stderr)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	l.write("gone.json", fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"gone","flavor":"ollama","modelUrl":"http://%s/v1","modelName":"m"}}`, listener.Addr()))
	if _, stderr := l.run(1, "", "run", "--agent-file", "gone.json", "-p", "hello"); !strings.Contains(stderr, "is the server running?") {
		t.Errorf("stderr: %s", stderr)
	}
}
