package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/source/remote"
)

// servedFiles are an agent that counts in a file, which must not be done twice, waits for
// another file, and answers.
var servedFiles = map[string]string{
	"agent.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "counter", "flavor": "scripted", "script": "script.json", "toolDirectory": "tools"}}`,
	"script.json": `{"rules": [
		{"when": {"role": "user"}, "answer": {"calls": [{"tool": "bash_count", "args": {}}]}},
		{"when": {"role": "tool", "tool": "bash_count"}, "answer": {"calls": [{"tool": "bash_wait", "args": {}}]}},
		{"when": {"role": "tool"}, "answer": {"text": "counted to ${lastMessage}"}}
	]}`,
	"tools/count": "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{\"slug\":\"count\",\"description\":\"Counts.\",\"args\":[]}'; else echo x >>counted; fi\n",
	"tools/wait":  "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{\"slug\":\"wait\",\"description\":\"Waits.\",\"args\":[],\"effects\":\"none\"}'; else until [ -e go ]; do sleep 0.02; done; wc -l <counted; fi\n",
}

// A site is a process that serves agents.
type site struct {
	*exec.Cmd
	t    *testing.T
	addr string
	said string
}

// serveSite starts one in a folder.
func serveSite(t *testing.T, cmd *exec.Cmd) *site {
	t.Helper()
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	s := &site{Cmd: cmd, t: t}
	stderr := bufio.NewReader(pipe)
	for s.addr == "" {
		line, err := stderr.ReadString('\n')
		if s.said += line; err != nil {
			t.Fatalf("it ended with %v and said %s", err, s.said)
		}
		s.addr, _ = strings.CutPrefix(strings.TrimSpace(line), "serving agents at http://")
		if !strings.HasPrefix(line, "serving") {
			s.addr = ""
		}
	}
	go func() { _, _ = stderr.WriteTo(new(strings.Builder)) }()
	return s
}

// again is a command that serves in the folder of an earlier one.
func again(t *testing.T, first *exec.Cmd, args ...string) *exec.Cmd {
	t.Helper()
	cmd := agentsCommand(t, nil, args...)
	cmd.Dir, cmd.Env = first.Dir, first.Env
	return cmd
}

// dial connects to the channel of the agent and sends a message.
func (s *site) dial(format string, args ...any) *wsconn.Conn {
	return s.dialTo("counter", fmt.Sprintf(format, args...))
}

func (s *site) dialTo(slug, start string) *wsconn.Conn {
	s.t.Helper()
	c, err := wsconn.Dial(s.t.Context(), "ws://"+s.addr+"/v1/agents/"+slug+"/channel", wsconn.Options{})
	if err == nil {
		s.t.Cleanup(c.Abort)
		err = c.Send(s.t.Context(), []byte(start))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// events returns the events up to one that satisfies last, or that the connection ends with.
func events(t *testing.T, c *wsconn.Conn, last func(agent.Event) bool) (list []agent.Event, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		text, err := c.Receive(ctx)
		if err != nil {
			return list, err
		}
		var e agent.Event
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		if list = append(list, e); last(e) {
			return list, nil
		}
	}
}

func waits(e agent.Event) bool { return e.Kind == agent.EventCallStarted && e.Tool == "bash_wait" }
func ends(e agent.Event) bool  { return e.Kind == agent.EventEnd && e.Depth == 0 }

var serveArgs = []string{"serve", "--agent-file", "agent.json", "--listen", "127.0.0.1:0", "--no-token"}

// counts returns how often the tool that must run once has run.
func counts(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "counted"))
	return strings.Count(string(text), "x")
}

// A server that is killed, or ended before its runs, loses nothing, and the next one does
// nothing twice: the client that comes back sees the rest.
func TestServeResumes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal os.Signal
		code   wsconn.Code
	}{
		{"killed", syscall.SIGKILL, -1},
		{"ended", syscall.SIGTERM, wsconn.Restart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first := serveSite(t, agentsCommand(t, servedFiles, append(serveArgs, "--grace", "50ms")...))
			c := first.dial(`{"kind":"start","channel":1,"args":{"prompt":"count"}}`)
			before, err := events(t, c, waits)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			_, err = events(t, c, ends)
			if code := wsconn.CodeOf(err); code != tt.code {
				t.Errorf("the connection is closed with %d (%v), want %d", code, err, tt.code)
			}
			_ = first.Wait()
			notes := filepath.Join(first.Dir, "state", "agents", "sessions", ".serve", "*")
			if left, _ := filepath.Glob(notes); len(left) != 1 {
				t.Fatalf("the server left the notes %q", left)
			}

			second := serveSite(t, again(t, first.Cmd, append(serveArgs, "--resume")...))
			last := before[len(before)-1]
			c = second.dial(`{"kind":"start","channel":1,"session":%q,"from":%d}`, last.Session, last.Seq)
			writeFiles(t, first.Dir, map[string]string{"go": ""})
			after, err := events(t, c, ends)
			if err != nil {
				t.Fatal(err)
			}
			end := after[len(after)-1]
			if end.Status != agent.StatusOK || end.Text != "counted to 1" && tt.signal == syscall.SIGKILL || counts(first.Dir) != 1 {
				t.Errorf("the end is %s %q %s, and it was counted to %d", end.Status, end.Text, end.Error, counts(first.Dir))
			}
			if after[0].Kind != agent.EventSession || after[0].Seq <= last.Seq {
				t.Errorf("the first event of the second server is %+v", after[0])
			}
			for i, e := range after {
				if e.Seq != after[0].Seq+int64(i) || i < len(after)-1 && ends(e) {
					t.Errorf("event %d is %d, %s", i, e.Seq, e.Kind)
				}
			}
			for left := []string{"?"}; len(left) > 0; { // the note goes when the session is closed
				left, _ = filepath.Glob(notes)
			}
		})
	}
}

// A client that holds a run of a server that is started again reads every event once.
func TestServeResumesWhatIsHeld(t *testing.T) {
	t.Parallel()
	first := serveSite(t, agentsCommand(t, servedFiles, serveArgs...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held := (&remote.Server{URL: "http://" + first.addr}).Hold(ctx, "counter", agent.Start{Args: json.RawMessage(`{"prompt":"count"}`)}, func(string) {})
	defer held.Close()
	var seq int64
	seen := map[string]int{}
	for e, err := range held.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if seq++; e.Seq != seq {
			t.Errorf("event %d, %s, follows event %d", e.Seq, e.Kind, seq-1)
		}
		seen[string(e.Kind)+" "+e.Tool]++
		if waits(e) && seen["resume "] == 0 {
			held.Ack(e.Seq)
			_ = first.Process.Kill()
			_ = first.Wait()
			writeFiles(t, first.Dir, map[string]string{"go": ""})
			serveSite(t, again(t, first.Cmd, append(serveArgs, "--resume", "--listen", first.addr)...))
		}
		if ends(e) && (e.Status != agent.StatusOK || e.Text != "counted to 1") {
			t.Errorf("the end is %s %q %s", e.Status, e.Text, e.Error)
		}
	}
	if seen["session "] != 1 || seen["message "] != 1 || seen["resume "] != 1 || seen["call_ended bash_count"] != 1 || seen["answer "] != 3 || seen["end "] != 1 {
		t.Errorf("the events were %v", seen)
	}
}

// A server that dies at any point of a run leaves a run that the next one finishes.
func TestServeResumesFromEveryPoint(t *testing.T) {
	for _, at := range []int{3, 9, 15, 21, 27} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			cmd := agentsCommand(t, servedFiles, serveArgs...)
			writeFiles(t, cmd.Dir, map[string]string{"go": ""})
			env := cmd.Env
			cmd.Env = append(env, fmt.Sprintf("%s=%d", crashAt, at))
			first := serveSite(t, cmd)
			c := first.dial(`{"kind":"start","channel":1,"args":{"prompt":"count"}}`)
			before, err := events(t, c, ends)
			if err == nil {
				return // the run has fewer points
			}
			if len(before) < 2 {
				return // nothing had begun that a client could come back to
			}
			_ = first.Wait()
			cmd.Env = env
			second := serveSite(t, again(t, cmd, append(serveArgs, "--resume")...))
			last := before[len(before)-1]
			c = second.dial(`{"kind":"start","channel":1,"session":%q,"from":%d}`, last.Session, last.Seq)
			after, err := events(t, c, ends)
			if err != nil {
				t.Fatal(err)
			}
			if end := after[len(after)-1]; end.Status != agent.StatusOK || counts(cmd.Dir) > 1 {
				t.Errorf("after %d events the end is %s %q %s, and it was counted to %d", len(before), end.Status, end.Text, end.Error, counts(cmd.Dir))
			}
		})
	}
}

// What cannot be served is said before anything runs.
func TestServeRefuses(t *testing.T) {
	t.Chdir(agentsCommand(t, servedFiles).Dir)
	writeFiles(t, ".", map[string]string{"open": "sixteen-letters1"})
	if err := os.Chmod("open", 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		text string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "other machines could reach it and run the agents"},
		{[]string{"--listen", "nowhere"}, "--listen nowhere: "},
		{[]string{"--token-file", "none"}, "--token-file: "},
		{[]string{"--token-file", "open"}, "it is world-writable"},
		{[]string{"--runs", "0"}, "the limits must be positive"},
		{[]string{"--allow-origin", "agents.example/x"}, "it is a scheme and a host"},
		{[]string{"--resume", "--no-session"}, "exclude each other"},
		{[]string{"--yes"}, "--yes cannot be used with serve: clients answer the questions of their runs"},
	} {
		p, _, _ := testProgramHere()
		err := root(p).Run(t.Context(), append([]string{"agents", "serve", "--agent-file", "agent.json"}, tt.args...))
		if err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("serve %q: %v", tt.args, err)
		}
	}
}

// The server lists agents with their tools, and keeps the secret of its own token.
func TestServeListsAgents(t *testing.T) {
	cmd := agentsCommand(t, servedFiles, "serve", "--agent-file", "agent.json", "--listen", "127.0.0.1:0")
	s := serveSite(t, cmd)
	_, file, _ := strings.Cut(s.said, "the bearer token for clients is in ")
	token, err := os.ReadFile(strings.Split(file, "\n")[0])
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequest("GET", "http://"+s.addr+"/v1/agents", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list struct {
		Agents []struct {
			Name  string
			Tools []agent.ToolSpec
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || len(list.Agents) != 1 || list.Agents[0].Name != "counter" || len(list.Agents[0].Tools) != 2 ||
		list.Agents[0].Tools[1].Name != "bash_wait" || list.Agents[0].Tools[1].Effects != agent.EffectsNone || len(list.Agents[0].Tools[1].Schema) == 0 || list.Agents[0].Tools[1].Source != "" {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

// Responses over WebSocket need the token and the origin that requests need.
func TestResponsesOverWebSocket(t *testing.T) {
	t.Parallel()
	const token = "the-token-of-a-client"
	cmd := agentsCommand(t, map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[{"answer":{"text":"turn ${turn}"}}]}`,
		"tokens":      token + "\n",
	}, "serve", "--agent-file", "agent.json", "--listen", "127.0.0.1:0", "--token-file", "tokens", "--allow-origin", "https://agents.example")
	if err := os.Chmod(filepath.Join(cmd.Dir, "tokens"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveSite(t, cmd)
	for _, tt := range []struct {
		token, origin string
		status        int // 0: it is accepted
	}{
		{token, "", 0},
		{token, "https://agents.example", 0},
		{"another-token-than-that", "", 401},
		{"", "", 401},
		{token, "https://elsewhere.example", 403},
		{token, "null", 403},
	} {
		c, err := wsconn.Dial(t.Context(), "ws://"+s.addr+"/v1/responses", wsconn.Options{Token: tt.token, Client: &http.Client{Transport: fromPage{tt.origin}}})
		if refused, ok := errors.AsType[*wsconn.RefusedError](err); ok && refused.Status == tt.status && strings.Contains(refused.Text, `{"error":{"message":`) {
			continue
		}
		if err != nil || tt.status != 0 {
			t.Errorf("token %q, origin %q: %v, want status %d", tt.token, tt.origin, err, tt.status)
			continue
		}
		previous := ""
		for turn := 1; turn <= 2; turn++ {
			if err := c.Send(t.Context(), fmt.Appendf(nil, `{"type":"response.create","model":"a","store":false,"input":"hi"%s}`, previous)); err != nil {
				t.Fatal(err)
			}
			for done := false; !done; {
				text, err := c.Receive(t.Context())
				var e struct {
					Type     string
					Response struct {
						ID     string
						Output []struct{ Content []struct{ Text string } }
					}
				}
				if err != nil || json.Unmarshal(text, &e) != nil || e.Type == "error" {
					t.Fatalf("%v: %s", err, text)
				}
				if done = e.Type == "response.completed"; done && e.Response.Output[0].Content[0].Text != fmt.Sprint("turn ", turn) {
					t.Errorf("turn %d: %s", turn, text)
				}
				previous = `,"previous_response_id":"` + e.Response.ID + `"`
			}
		}
		_ = c.Close()
	}
}

// fromPage sends requests like a page of its origin.
type fromPage struct{ origin string }

func (p fromPage) RoundTrip(r *http.Request) (*http.Response, error) {
	if r = r.Clone(r.Context()); p.origin != "" {
		r.Header.Set("Origin", p.origin)
	}
	return http.DefaultTransport.RoundTrip(r)
}
