package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An mcpSite is a process that serves MCP over HTTP.
type mcpSite struct {
	*mcpPeer
	url     string
	token   string // "": none is sent
	session string
}

// startSite starts one and begins a session.
func startSite(t *testing.T, files map[string]string, args ...string) *mcpSite {
	t.Helper()
	cmd := agentsCommand(t, files, append([]string{"mcp-server", "--agent-file", "agent.json", "--http", "127.0.0.1:0"}, args...)...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	stderr := bufio.NewReader(pipe)
	url, said, tokenFile := "", "", ""
	for !strings.HasPrefix(url, "http:") {
		line, err := stderr.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended with %v and said %s", err, said)
		}
		said += line
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), "the bearer token for clients is in "); ok {
			tokenFile = file
		}
		url, _ = strings.CutPrefix(strings.TrimSpace(line), "serving MCP at ")
	}
	s := &mcpSite{mcpPeer: &mcpPeer{Cmd: cmd, out: stderr}, url: url}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(tokenFile); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file of the token is %v, %v, want mode 0600", info, err)
		}
		s.token = strings.TrimSpace(string(token))
	}
	_, s.session = s.post(t, t.Context(), mcpGreeting)
	return s
}

// post sends a message and returns the answer, and the session that it begins.
func (s *mcpSite) post(t *testing.T, ctx context.Context, body string) (answer, session string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "MCP-Session-Id": {s.session}}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error(), ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error(), ""
	}
	return string(text), resp.Header.Get("MCP-Session-Id")
}

// TestMCPServerOverHTTPNeedsAToken: other users of the machine can connect too.
func TestMCPServerOverHTTPNeedsAToken(t *testing.T) {
	files := map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[{"answer":{"text":"ok"}}]}`,
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	first := startSite(t, files)
	if got, _ := first.post(t, t.Context(), ping); !strings.Contains(got, `"result"`) {
		t.Errorf("with the token: %s", got)
	}
	token := first.token
	first.token = ""
	if got, _ := first.post(t, t.Context(), ping); token == "" || !strings.Contains(got, "a bearer token") {
		t.Errorf("without the token %q: %s", token, got)
	}
	open := startSite(t, files, "--no-token")
	if got, _ := open.post(t, t.Context(), ping); open.token != "" || !strings.Contains(got, `"result"`) {
		t.Errorf("with --no-token, and the token %q: %s", open.token, got)
	}
}

// TestMCPServerOverHTTPLeavesNoProcessBehind loses the client of one call, and is interrupted
// during another.
func TestMCPServerOverHTTPLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	s := startSite(t, hangFiles(), "--linger", "100ms")
	file := filepath.Join(s.Dir, "pids")
	begun := 0
	call := func(end func(drop func()), want string) {
		t.Helper()
		ctx, drop := context.WithCancel(t.Context())
		defer drop()
		answered := make(chan string, 1)
		begun += 12
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"root","arguments":{"prompt":"hang"}}}`, begun)
		go func() {
			answer, _ := s.post(t, ctx, request)
			answered <- answer
		}()
		waitFor(t, func() bool { pids, _ := alive(t, file); return len(pids) == begun })
		end(drop)
		if got := <-answered; !strings.Contains(got, want) {
			t.Errorf("the call was answered %q, want %q", got, want)
		}
	}
	call(func(drop func()) { drop() }, "context canceled")
	waitFor(t, func() bool { _, running := alive(t, file); return len(running) == 0 })
	call(func(func()) { s.Process.Signal(syscall.SIGINT) }, `"agents-exe/status":"interrupted"`)
	http.DefaultClient.CloseIdleConnections()
	rest, _ := io.ReadAll(s.out)
	s.Wait()
	if code := s.ProcessState.ExitCode(); code != 0 || len(rest) > 0 {
		t.Errorf("exit code %d, want 0\n%s", code, rest)
	}
	if _, running := alive(t, file); len(running) > 0 {
		t.Errorf("%v still run", running)
	}
}

// readingFiles are those of an agent with one below, and of a tool that shows a file.
func readingFiles() map[string]string {
	agentFile := func(slug, script, tools string) string {
		return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"scripted","script":%q,"toolDirectory":%q,`+
			`"mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"off","executable":"true","env":{"A":"very secret"},"disabled":true}}]}}`, slug, script, tools)
	}
	return map[string]string{
		"agent.json":          agentFile("top", "top-script.json", "tools"),
		"top-script.json":     `{"rules":[{"answer":{"text":"ok"}}]}`,
		"tools/sub.json":      agentFile("sub", "../sub-script.json", "sub-tools"),
		"sub-script.json":     `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_two","args":{}}]}},{"answer":{"text":"sub got: ${result.0}"}}]}`,
		"tools/echo-file":     "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"show\",\"description\":\"shows\",\"args\":[]}'; exit 0; }\ncat shown\n",
		"tools/sub-tools/one": slugTool("one"),
		"shown":               "nothing yet",
		"keys":                `{"keys":[{"id":"a","value":"the-first-key"}]}`,
	}
}

func slugTool(slug string) string {
	return fmt.Sprintf("#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":%q,\"description\":\"says it\",\"args\":[]}'; exit 0; }\necho it is %s\n", slug, slug)
}

// move puts a file in its place whole.
func (p *mcpPeer) move(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	beside := filepath.Join(p.Dir, "beside")
	if err := os.WriteFile(beside, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, filepath.Join(p.Dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestMCPServerFollowsWhatLiesBelow(t *testing.T) {
	s := startSite(t, readingFiles(), "--expose", "tools", "--watch", "--plain-names", "--api-keys", "keys")
	call := func(name, args string) string {
		got, _ := s.post(t, t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+args+`}}`)
		return got
	}
	if got := call("sub", `{"prompt":"x"}`); !strings.Contains(got, "sub got:") || strings.Contains(got, "it is two") {
		t.Errorf("before the change: %s", got)
	}
	s.move(t, "tools/sub-tools/two", slugTool("two"), 0o755)
	waitFor(t, func() bool { return strings.Contains(call("sub", `{"prompt":"x"}`), "sub got: it is two") })

	s.move(t, "shown", "the-first-key the-second-key", 0o644)
	if got := call("show", "{}"); !strings.Contains(got, "[secret] the-second-key") {
		t.Errorf("before the keys file changed: %s", got)
	}
	s.move(t, "keys", `{"keys":[{"id":"b","value":"the-second-key"}]}`, 0o600)
	waitFor(t, func() bool { return strings.Contains(call("show", "{}"), "[secret] [secret]") })
}

// TestMCPServerMissesNoChange: what changes while the trees are being loaded, here
// through the description of a tool, is served as well.
func TestMCPServerMissesNoChange(t *testing.T) {
	busy := func(slug, makes string) string {
		return fmt.Sprintf("#!/bin/sh\n[ \"$1\" = describe ] || exit 0\n"+
			"[ -e tools/%[2]s ] || { cp ready beside-%[2]s && mv beside-%[2]s tools/%[2]s; }\necho '{\"slug\":\"%[1]s\",\"description\":\"busy\",\"args\":[]}'\n", slug, makes)
	}
	files := readingFiles()
	files["ready"] = strings.ReplaceAll(slugTool("NAME"), `"slug":"NAME"`, `"slug":"'${0##*/}'"`)
	files["tools/early"] = busy("early", "first")
	s := startSite(t, files, "--expose", "tools", "--watch", "--plain-names", "--api-keys", "keys")
	has := func(name string) func() bool {
		return func() bool {
			// A call makes the server look soon.
			s.post(t, t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"show"}}`)
			got, _ := s.post(t, t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			return strings.Contains(got, `"name":"`+name+`"`)
		}
	}
	waitFor(t, has("first"))
	s.move(t, "tools/late", busy("late", "second"), 0o755)
	waitFor(t, has("second"))
}

func TestMCPServerShowsAgentFilesWithoutSecrets(t *testing.T) {
	s := startSite(t, readingFiles())
	post := func(method, params string) string {
		got, _ := s.post(t, t.Context(), `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
		return got
	}
	got := post("resources/list", "{}")
	if !strings.Contains(got, "agents://agent/sub") || !strings.Contains(got, "agents://agent/top") {
		t.Errorf("resources: %s", got)
	}
	got = post("resources/read", `{"uri":"agents://agent/top"}`)
	if !strings.Contains(got, `\"A\": \"[secret]\"`) || !strings.Contains(got, `\"slug\": \"top\"`) || strings.Contains(got, "very secret") {
		t.Errorf("the agent file: %s", got)
	}
	got = post("completion/complete", `{"ref":{"type":"ref/resource","uri":"agents://agent/{slug}"},"argument":{"name":"slug","value":"s"}}`)
	if !strings.Contains(got, `"values":["sub"]`) {
		t.Errorf("completion: %s", got)
	}
	s.move(t, "agent.json", "{", 0o644)
	if got := post("resources/read", `{"uri":"agents://agent/top"}`); !strings.Contains(got, `"error"`) {
		t.Errorf("a broken agent file: %s", got)
	}
}

// A chain of three: the first runs, and each is the MCP server of the one before.
func chainFiles(t *testing.T) map[string]string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agentFile := func(slug, more string) string {
		return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"announce":"is %[1]s","flavor":"scripted","script":"%[1]s-script.json"%s}}`, slug, more)
	}
	server := func(slug string) string {
		return fmt.Sprintf(`,"mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"next","executable":%q}}]`, "./serve-"+slug)
	}
	serve := func(slug string) string {
		return fmt.Sprintf("#!/bin/sh\necho $$ >>pids\nln -sf %q agents\nPATH=$PWD:$PATH exec agents mcp-server --agent-file %s.json\n", self, slug)
	}
	ask := func(tool, prompt string) string {
		return fmt.Sprintf(`{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":%q,"args":%s}]}},{"answer":{"text":"heard: ${result.0}"}}]}`, tool, prompt)
	}
	return map[string]string{
		"top.json": agentFile("top", server("mid")), "top-script.json": ask("mcp_next_mid", `{"prompt":"${prompt}"}`), "serve-mid": serve("mid"),
		"mid.json": agentFile("mid", server("low")), "mid-script.json": ask("mcp_next_low", `{"prompt":"${prompt}"}`), "serve-low": serve("low"),
		"low.json": agentFile("low", `,"toolDirectory":"tools"`), "low-script.json": ask("bash_work", `{"what":"${prompt}"}`),
		"tools/work": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"work","description":"works","args":[{"name":"what","description":"w","type":"word","backing_type":"string","arity":"single","mode":"positional"}]}'; exit 0; }
echo $$ >>pids
echo begun >&2
[ "$2" = hang ] || { echo "did $2"; exit 0; }
while :; do sleep 1000; done
`,
	}
}

func TestThreeServersInAChain(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	t.Run("answer", func(t *testing.T) {
		cmd := agentsCommand(t, chainFiles(t), "run", "--agent-file", "top.json", "--output", "jsonl", "-p", "sums")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !regexp.MustCompile(`"kind":"end".*heard: heard: heard: did sums`).Match(out) {
			t.Errorf("the answer is not in %s", out)
		}
		if !regexp.MustCompile(`"kind":"progress".*low: bash_work: begun`).Match(out) {
			t.Errorf("the progress of the third is not in %s", out)
		}
		if pids, running := alive(t, filepath.Join(cmd.Dir, "pids")); len(pids) != 3 || len(running) > 0 {
			t.Errorf("of %v, %v still run", pids, running)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		cmd := agentsCommand(t, chainFiles(t), "run", "--agent-file", "top.json", "-p", "hang")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		safety := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
		defer safety.Stop()
		file := filepath.Join(cmd.Dir, "pids")
		waitFor(t, func() bool { pids, _ := alive(t, file); return len(pids) == 3 })
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit code %d, want 130\n%s", code, stderr.String())
		}
		if pids, running := alive(t, file); len(running) > 0 {
			t.Errorf("of %v, %v still run", pids, running)
		}
	})
}
