//go:build unix

package realmcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	everything = "@modelcontextprotocol/server-everything/dist/index.js"
	filesystem = "@modelcontextprotocol/server-filesystem/dist/index.js"
	memory     = "@modelcontextprotocol/server-memory/dist/index.js"
)

// TestEverything calls what the server "everything" has, over both transports.
func TestEverything(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			p := newTestAgent(t)
			p.servers = []object{p.stdio("ev", everything, "stdio")}
			if transport == "http" {
				p.servers = []object{overHTTP("ev", p.serveEverything(t))}
			}
			p.servers[0]["contents"].(object)["roots"] = []string{"."}
			p.rules = []object{calls(
				call{Tool: "mcp_ev_echo", Args: object{"message": "Grüße \"\\\u2028 <b>"}},
				call{Tool: "mcp_ev_get-sum", Args: object{"a": 1.5, "b": 2}},
				call{Tool: "mcp_ev_get-tiny-image"},
				call{Tool: "mcp_ev_get-annotated-message", Args: object{"messageType": "error", "includeImage": true}},
				call{Tool: "mcp_ev_get-structured-content", Args: object{"location": "Chicago"}},
				call{Tool: "mcp_ev_get-resource-links", Args: object{"count": 2}},
				call{Tool: "mcp_ev_get-resource-reference", Args: object{"resourceType": "Text", "resourceId": 7}},
				call{Tool: "mcp_ev_get-resource-reference", Args: object{"resourceType": "Blob", "resourceId": 8}},
				call{Tool: "mcp_ev_gzip-file-as-resource", Args: object{"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"}},
				call{Tool: "mcp_ev_trigger-elicitation-request"},
				call{Tool: "mcp_ev_get-roots-list"},
				call{Tool: "mcp_ev_simulate-research-query", Args: object{"topic": "cats"}},
				call{Tool: "mcp_ev_list_resources"},
				call{Tool: "mcp_ev_read_resource", Args: object{"uri": "demo://resource/static/document/features.md"}},
				call{Tool: "mcp_ev_read_resource", Args: object{"uri": "demo://resource/dynamic/blob/3"}},
				call{Tool: "mcp_ev_read_resource", Args: object{"uri": "demo://nowhere"}},
				call{Tool: "mcp_ev_trigger-long-running-operation", Args: object{"duration": 0.4, "steps": 4}},
			)}
			checkEverything(t, p, p.run(t))
		})
	}
}

// checkEverything checks the calls of TestEverything.
func checkEverything(t *testing.T, p *testAgent, s *runOutput) {
	for _, want := range []struct {
		tool, text string
		nth        int
	}{
		{"echo", "Grüße \"\\\u2028 <b>", 1},
		{"get-sum", "3.5", 1},
		{"get-annotated-message", "Error: Operation failed", 1},
		{"get-structured-content", `"temperature":`, 1},
		{"get-resource-links", "demo://resource/dynamic/blob/1", 1},
		{"get-resource-reference", "Resource 7", 1},
		{"trigger-elicitation-request", `"action": "decline"`, 1},
		{"get-roots-list", "file://" + p.dir, 1},
		{"list_resources", "demo://resource/static/document/features.md · text/markdown", 1},
		{"read_resource", "# Everything Server", 1},
	} {
		if r := s.result(t, "mcp_ev_"+want.tool, want.nth); !strings.Contains(r.text(), want.text) {
			t.Errorf("%s = %q, want %q in it", want.tool, tail(r.text()), want.text)
		}
	}
	for _, want := range []struct {
		tool, mime, begins string
		nth                int
	}{
		{"get-tiny-image", "image/png", "\x89PNG", 1},
		{"get-annotated-message", "image/png", "\x89PNG", 1},
		{"get-resource-reference", "text/plain", "Resource 8", 2},
		{"gzip-file-as-resource", "application/gzip", "\x1f\x8b", 1},
		{"read_resource", "text/plain", "Resource 3", 2},
	} {
		r := s.result(t, "mcp_ev_"+want.tool, want.nth)
		if !slices.ContainsFunc(r.Parts, func(p part) bool {
			return p.Kind == "media" && p.MIME == want.mime && bytes.HasPrefix(p.Data, []byte(want.begins))
		}) {
			t.Errorf("%s = %+v, want %s", want.tool, r.Parts, want.mime)
		}
	}
	if r := s.anyResult(t, "mcp_ev_read_resource", 3); !r.Failed || !strings.Contains(r.text(), "demo://nowhere") {
		t.Errorf("a resource that is not there: %+v", r)
	}
	// This tool can be called only as a task.
	if r := s.anyResult(t, "mcp_ev_simulate-research-query", 1); r.Failed || !strings.Contains(r.text(), "research report") {
		t.Errorf("a tool that needs a task: %+v", r)
	}
	s.result(t, "mcp_ev_trigger-long-running-operation", 1)
	var progress []string
	for _, e := range s.events {
		if e.Kind == "progress" && strings.Contains(e.Text, "/") { // the others are those of the task
			progress = append(progress, e.Text)
		}
	}
	if got := strings.Join(progress, " "); got != "1/4 2/4 3/4 4/4" {
		t.Errorf("progress %q", got)
	}
}

// TestPrompts starts runs with prompts of a server.
func TestPrompts(t *testing.T) {
	p := newTestAgent(t)
	p.servers = []object{p.stdio("ev", everything, "stdio")}
	p.rules = []object{{"answer": object{"text": "${prompt}"}}}
	file, err := p.write()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"ev/simple-prompt", "This is a simple prompt without arguments.", 0},
		{"ev/args-prompt city=Paris state=Texas", "What's weather in Paris, Texas?", 0},
		{"ev/resource-prompt resourceType=Text resourceId=1", "demo://resource/dynamic/text/1", 0},
		{"ev/args-prompt", "city", 2},
		{"ev/nowhere", "args-prompt", 2},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			cmd := p.agentsCommand(append([]string{"run", "--agent-file", file, "--mcp-prompt"}, strings.Fields(c.args)...)...)
			if got := finish(t, cmd); got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
				t.Errorf("exit code %d\n%s%swant %d and %q", got.code, got.stdout, got.stderr, c.code, c.want)
			}
		})
	}
}

// TestQuestions answers a question of a server at a terminal.
func TestQuestions(t *testing.T) {
	p := newTestAgent(t)
	p.servers = []object{p.stdio("ev", everything, "stdio")}
	p.rules = []object{calls(call{Tool: "mcp_ev_trigger-elicitation-request"})}
	user := acceptAll()
	user.answers["legal name\r\n> "] = "Ann"
	cmd := p.command(t)
	if err := user.attach(cmd); err != nil {
		t.Skip(err)
	}
	got := finish(t, cmd)
	shown := user.detach()
	for _, want := range []string{`\"action\": \"accept\"`, `\"name\": \"Ann\"`, `\"integer\": 42`, `\"legacyTitledEnum\": \"pet-1\"`} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the run has no %s\n%s\nThe terminal showed\n%s", want, tail(got.stdout), shown)
		}
	}
}

// TestSampling lets a server ask the agent's model, if the agent file allows it.
func TestSampling(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		p := newTestAgent(t)
		p.servers = []object{with(p.stdio("ev", everything, "stdio"), object{"sampling": allowed})}
		p.rules = []object{
			{"when": object{"agent": "mcp_ev", "prompt": "the weather"}, "answer": object{"text": "It rains."}},
			calls(call{Tool: "mcp_ev_trigger-sampling-request", Args: object{"prompt": "How is the weather?", "maxTokens": 50}}),
		}
		r := p.run(t).anyResult(t, "mcp_ev_trigger-sampling-request", 1)
		if answered := strings.Contains(r.text(), "It rains."); answered != allowed || r.Failed == allowed {
			t.Errorf("sampling %v: %+v", allowed, r)
		}
	}
}

// serveEverything starts the server "everything" and returns its address.
func (p *testAgent) serveEverything(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	cmd := exec.Command(p.node, p.module(everything), "streamableHttp")
	cmd.Dir, cmd.Env = p.dir, append(p.environ(p.home), "PORT="+port)
	start(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := "http://127.0.0.1:" + port + "/mcp"
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return url
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestInterrupt sends SIGINT during a call. The call gets a result, and no process
// remains.
func TestInterrupt(t *testing.T) {
	p := newTestAgent(t)
	word := "INTERRUPTED_RUN=" + filepath.Base(p.dir)
	p.servers = []object{p.stdio("ev", everything, "stdio")}
	p.rules = []object{calls(call{Tool: "mcp_ev_trigger-long-running-operation", Args: object{"duration": 600, "steps": 6000}})}
	cmd := p.command(t)
	cmd.Env = append(cmd.Env, word)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	err = lines(out, func(e event) bool { return e.Kind == "progress" })
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if len(withEnviron(word)) == 0 {
		t.Error("no process of the running agent was found")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var answered bool
	err = lines(out, func(e event) bool {
		answered = answered || e.Kind == "call_ended" && e.Result.Failed
		return e.Kind == "end" && e.Status == "interrupted"
	})
	if err != nil || !answered {
		t.Errorf("the call was answered: %v; %v\n%s", answered, err, &stderr)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130\n%s", code, &stderr)
	}
	if left := withEnviron(word); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// TestCallsAtTheSameTime checks that no call waits for another.
func TestCallsAtTheSameTime(t *testing.T) {
	const n = 64
	p := newTestAgent(t)
	p.servers = []object{p.stdio("ev", everything, "stdio")}
	all := make([]call, n)
	for i := range all {
		all[i] = call{Tool: "mcp_ev_trigger-long-running-operation", Args: object{"duration": 2, "steps": 2}}
	}
	p.rules = []object{calls(all...)}
	s := p.run(t)
	var halfway, ended int
	for _, e := range s.events {
		switch {
		case e.Kind == "progress" && e.Text == "1/2":
			halfway++
		case e.Kind == "call_ended":
			if ended++; halfway < n {
				t.Fatalf("a call ended when %d of %d were halfway through", halfway, n)
			}
			if e.Result.Failed {
				t.Errorf("a call failed: %+v", e.Result)
			}
		}
	}
	if ended != n {
		t.Errorf("%d calls ended, want %d", ended, n)
	}
}

// TestFilesystem lets the server work in the folder that the agent file names as
// its root, and nowhere else.
func TestFilesystem(t *testing.T) {
	p := newTestAgent(t)
	root := filepath.Join(p.dir, "a folder")
	if err := os.MkdirAll(filepath.Join(root, "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	const files = 3000
	for i := range files {
		if err := os.WriteFile(filepath.Join(root, "many", fmt.Sprintf("file-%04d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sound := "RIFF\x24\x00\x00\x00WAVEfmt "
	if err := os.WriteFile(filepath.Join(root, "sound.wav"), []byte(sound), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	p.servers = []object{with(p.stdio("fs", filesystem, elsewhere), object{
		"roots": []string{"a folder"}, "tools": []string{"*file*", "list_*", "directory_tree"},
	})}
	allowed := call{Tool: "mcp_fs_list_allowed_directories"}
	p.rules = []object{
		calls(allowed),
		// The server can ask for the roots at any time.
		{"when": object{"tool": allowed.Tool, "lastMessage": "^Allowed directories:\n" + elsewhere}, "answer": calls(allowed)["answer"]},
		{"when": object{"tool": allowed.Tool}, "answer": calls(
			call{Tool: "mcp_fs_write_file", Args: object{"path": filepath.Join(root, "new.txt"), "content": "one\ntwo\n"}},
			call{Tool: "mcp_fs_read_media_file", Args: object{"path": filepath.Join(root, "sound.wav")}},
			call{Tool: "mcp_fs_read_text_file", Args: object{"path": filepath.Join(p.dir, "agent.json")}},
			call{Tool: "mcp_fs_directory_tree", Args: object{"path": root}},
			call{Tool: "mcp_fs_read_text_file", Args: object{"path": 5}},
		)["answer"]},
		{"when": object{"tool": "mcp_fs_write_file"}, "answer": calls(
			call{Tool: "mcp_fs_edit_file", Args: object{"path": filepath.Join(root, "new.txt"), "edits": []object{{"oldText": "two", "newText": "three"}}}},
			call{Tool: "mcp_fs_move_file", Args: object{"source": filepath.Join(root, "many", "file-0000"), "destination": filepath.Join(root, "moved")}},
		)["answer"]},
	}
	s := p.run(t)
	if r := s.result(t, "mcp_fs_read_media_file", 1); !slices.ContainsFunc(r.Parts, func(p part) bool { return p.MIME == "audio/wav" && string(p.Data) == sound }) {
		t.Errorf("a sound: %+v", r.Parts)
	}
	if r := s.anyResult(t, "mcp_fs_read_text_file", 1); !r.Failed || !strings.Contains(r.text(), "Access denied") {
		t.Errorf("a file outside of the root: %+v", r)
	}
	if r := s.anyResult(t, "mcp_fs_read_text_file", 2); !r.Failed || !strings.Contains(r.text(), "/path [type]: got number, want string") {
		t.Errorf("an argument of the wrong type: %+v", r)
	}
	text := s.result(t, "mcp_fs_directory_tree", 1).text()
	if !strings.Contains(text, "file-0000") || !strings.Contains(text, "bytes") || len(text) > 60_000 {
		t.Errorf("a list of %d files has %d bytes: %s", files, len(text), tail(text))
	}
	s.result(t, "mcp_fs_edit_file", 1)
	if text, err := os.ReadFile(filepath.Join(root, "new.txt")); err != nil || string(text) != "one\nthree\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	s.result(t, "mcp_fs_move_file", 1)
	if _, err := os.Stat(filepath.Join(root, "moved")); err != nil {
		t.Error(err)
	}
}

// TestMemory checks that a run finds what an earlier run stored.
func TestMemory(t *testing.T) {
	p := newTestAgent(t)
	file := filepath.Join(p.dir, "memory.json")
	p.servers = []object{with(p.stdio("mem", memory), object{"env": object{"MEMORY_FILE_PATH": file}})}
	var entities []object
	for i := range 2000 {
		entities = append(entities, object{"name": fmt.Sprintf("city %d", i), "entityType": "city", "observations": []string{"It rains in city " + fmt.Sprint(i)}})
	}
	p.rules = []object{calls(call{Tool: "mcp_mem_create_entities", Args: object{"entities": entities}})}
	if r := p.run(t).result(t, "mcp_mem_create_entities", 1); !strings.Contains(r.text(), "city 0") {
		t.Errorf("created %s", tail(r.text()))
	}
	p.rules = []object{calls(call{Tool: "mcp_mem_search_nodes", Args: object{"query": "city 1999"}})}
	r := p.run(t).result(t, "mcp_mem_search_nodes", 1)
	var found struct{ Entities []struct{ Name string } }
	if err := json.Unmarshal([]byte(r.Parts[0].Text), &found); err != nil || len(found.Entities) != 1 || found.Entities[0].Name != "city 1999" {
		t.Errorf("found %s (%v)", tail(r.text()), err)
	}
}

// TestThreeServers checks that an agent has the tools of all of its servers, and that a
// server that does not start affects only its own tools.
func TestThreeServers(t *testing.T) {
	p := newTestAgent(t)
	p.servers = []object{
		p.stdio("ev", everything, "stdio"), p.stdio("mem", memory), p.stdio("broken", "no/such/file.js"),
		p.stdio("fs", filesystem, p.dir),
	}
	p.rules = []object{calls(call{Tool: "mcp_ev_echo", Args: object{"message": "hi"}}, call{Tool: "mcp_mem_read_graph"}, call{Tool: "mcp_fs_list_allowed_directories"})}
	s := p.run(t)
	for _, tool := range []string{"mcp_ev_echo", "mcp_mem_read_graph", "mcp_fs_list_allowed_directories"} {
		s.result(t, tool, 1)
	}
	if !slices.ContainsFunc(s.events, func(e event) bool {
		return e.Kind == "warning" && strings.Contains(e.Text, "MCP server broken") && strings.Contains(e.Text, "no/such/file.js")
	}) {
		t.Errorf("no warning names the server that does not start\n%s", s.stderr)
	}
}
