package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/signin/signintest"
	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

// remoteAgent is the files of an agent with a server that requires a sign-in and a tool that
// prints its environment.
func remoteAgent(url string) map[string]string {
	return map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json","toolDirectory":"tools",
 "mcpServers":[{"tag":"McpHttp","contents":{"name":"tracker","url":"` + url + `"}}]}}`,
		"script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_env","args":{}},{"tool":"mcp_tracker_greet","args":{}}]}},
 {"answer":{"text":"${result.0} | ${result.1}"}}]}`,
		"tools/env": "#!/bin/sh\n" + `[ "$1" = describe ] && { echo '{"slug":"env","description":"prints its environment","args":[]}'; exit 0; }
env | grep -c token-number; echo the-tool-works`,
	}
}

// finished runs a command in the folder of cmd and returns what it prints.
func finished(t *testing.T, cmd *exec.Cmd, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	next := exec.Command(cmd.Path, args...)
	next.Args[0], next.Dir, next.Env = "agents", cmd.Dir, cmd.Env
	var out, errs bytes.Buffer
	next.Stdout, next.Stderr = &out, &errs
	_ = next.Run() // the code says it
	return out.String(), errs.String(), next.ProcessState.ExitCode()
}

// signInWith runs the command, opens the address that it prints, and returns what it says. With
// paste the browser is on another machine.
func signInWith(t *testing.T, cmd *exec.Cmd, paste bool) (stderr string) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var said strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		address := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(address, "http") {
			continue
		}
		client := &http.Client{}
		if paste {
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		}
		resp, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if paste {
			io.WriteString(in, resp.Header.Get("Location")+"\n")
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("it ended with %v and said %s", err, said.String())
	}
	return said.String()
}

func TestSignInToAServer(t *testing.T) {
	fake := signintest.Start(t)
	fake.Echo = true
	cmd := agentsCommand(t, remoteAgent(fake.URL), "mcp", "login", "tracker", "--agent-file", "agent.json", "--no-browser")
	run := []string{"run", "--agent-file", "agent.json", "--prompt", "go"}

	out, errs, code := finished(t, cmd, run...)
	if code != 0 || !strings.Contains(out, "the-tool-works") || !strings.Contains(errs, "run `agents mcp login tracker --agent-file agent.json`") {
		t.Errorf("without a sign-in: code %d, %q, %q; want the other tool to work and the command to be named", code, out, errs)
	}
	if out, _, _ := finished(t, cmd, "mcp", "list", "--agent-file", "agent.json"); out != "tracker\ta\t"+fake.URL+"\tnot signed in\n" {
		t.Errorf("list = %q", out)
	}
	if said := signInWith(t, cmd, false); !strings.Contains(said, "signed in to tracker: 1 tool\n") {
		t.Errorf("login said %q", said)
	}
	out, errs, code = finished(t, cmd, run...)
	if code != 0 || !strings.Contains(out, "0\nthe-tool-works") || !strings.Contains(out, "| hello [secret]") {
		t.Errorf("with a sign-in: code %d, %q, %q; want the tools to work and no token", code, out, errs)
	}
	fake.Expire()
	out, errs, code = finished(t, cmd, append(run, "--output", "jsonl")...) // the new token is not known at the start
	if code != 0 || strings.Contains(out+errs, "token-number") || !strings.Contains(out, "hello [secret]") || fake.Count("refresh") != 1 {
		t.Errorf("after a refresh: code %d, %q, %q; want no token", code, out, errs)
	}
	_ = filepath.WalkDir(filepath.Join(cmd.Dir, "state"), func(path string, d os.DirEntry, _ error) error {
		if text, err := os.ReadFile(path); err == nil && !strings.Contains(path, "/mcp/") && bytes.Contains(text, []byte("token-number")) {
			t.Errorf("%s has a token", path)
		}
		return nil
	})
	if out, _, _ := finished(t, cmd, "mcp", "list", "--agent-file", "agent.json"); !strings.Contains(out, "\tsigned in at "+fake.Issuer+"\n") {
		t.Errorf("list = %q", out)
	}
	if _, errs, code := finished(t, cmd, "mcp", "logout", "tracker", "--agent-file", "agent.json"); code != 0 || errs != "note: signed out of tracker\n" || fake.Count("revoke") != 1 {
		t.Errorf("logout = %d, %q", code, errs)
	}
	if _, errs, code := finished(t, cmd, "mcp", "logout", "tracker", "--agent-file", "agent.json"); code == 0 || !strings.Contains(errs, "error: there is no sign-in to tracker\n") {
		t.Errorf("the second logout = %d, %q", code, errs)
	}
}

func TestSignInFromARemoteShell(t *testing.T) {
	fake := signintest.Start(t)
	cmd := agentsCommand(t, nil, "mcp", "login", fake.URL)
	cmd.Env = append(cmd.Env, "SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22", "DISPLAY=:0", "BROWSER=")
	if said := signInWith(t, cmd, true); !strings.Contains(said, "signed in to "+fake.URL+": 1 tool\n") {
		t.Errorf("login said %q", said)
	}
	if _, errs, code := finished(t, cmd, "mcp", "logout", fake.URL); code != 0 {
		t.Errorf("logout = %d, %q", code, errs)
	}
}

// TestACallAsksForMoreRights: the person at the terminal signs in, or declines, during a call
// that the server refuses. Both calls of the turn need the same sign-in.
func TestACallAsksForMoreRights(t *testing.T) {
	const question = `^MCP server tracker asks you to open a page:\n  \| The call failed: the sign-in does not permit this \(insufficient_scope\)\. The server requires these rights: write\. Sign in now\?`
	for name, answer := range map[string]string{"signs in": "agree", "declines": "decline"} {
		t.Run(name, func(t *testing.T) {
			fake := signintest.Start(t)
			files := remoteAgent(fake.URL)
			files["agent.json"] = strings.Replace(files["agent.json"], `"slug"`, `"approval":"never","slug"`, 1)
			calls, text := `{"tool":"mcp_tracker_greet","args":{}}`, "${result.0}"
			if answer == "agree" {
				calls, text = calls+","+calls, "${result.0} | ${result.1}"
			}
			files["script.json"] = `{"rules":[{"when":{"role":"user"},"answer":{"calls":[` + calls + `]}},{"answer":{"text":"` + text + `"}}]}`
			cmd := agentsCommand(t, files, "mcp", "login", "tracker", "--agent-file", "agent.json", "--no-browser")
			signInWith(t, cmd, false)
			fake.Lock()
			fake.CallScope = "write"
			fake.Unlock()
			s := tmuxtest.Open(t, tmuxtest.Options{Dir: cmd.Dir, Columns: 600, Links: links(t), Command: `agents run --agent-file agent.json -p go; echo "code $?"`,
				Env: []string{"XDG_STATE_HOME=" + filepath.Join(cmd.Dir, "state"), "XDG_CACHE_HOME=" + filepath.Join(cmd.Dir, "cache")}})
			s.Await(question)
			if answer == "agree" {
				address := regexp.MustCompile(`\| (http\S*)`).FindStringSubmatch(s.Text())
				resp, err := http.Get(address[1])
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				s.Await(`^hello \| hello$`)
				if fake.Count("authorize") != 2 || fake.Scopes != "read write" {
					t.Errorf("%d sign-ins, the last one with the scopes %q", fake.Count("authorize"), fake.Scopes)
				}
			} else {
				s.Await(`agree, decline or cancel\?`)
				s.Press(answer, "Enter")
				s.Await(`the sign-in does not permit this \(insufficient_scope\): run .agents mcp login\s+tracker --agent-file agent.json --scope 'write'`)
			}
			s.Await(`^code 0$`)
		})
	}
}

// TestASilentKeyringDoesNotHoldARun: it has three seconds for the new tokens.
func TestASilentKeyringDoesNotHoldARun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this test needs a keyring that is reached through D-Bus")
	}
	fake := signintest.Start(t)
	cmd := agentsCommand(t, remoteAgent(fake.URL), "mcp", "login", "tracker", "--agent-file", "agent.json", "--no-browser")
	signInWith(t, cmd, false)
	fake.Expire()
	dir, err := os.MkdirTemp("", "") // sockets need short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bus, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan bool, 1)
	go func() {
		if c, err := bus.Accept(); err == nil {
			asked <- true
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	defer bus.Close()
	cmd.Env = append(cmd.Env, "AGENTS_KEYRING=", "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus.Addr().String())
	for range 2 {
		out, errs, code := finished(t, cmd, "run", "--agent-file", "agent.json", "--prompt", "go")
		if code != 0 || !strings.Contains(out, "| hello") {
			t.Errorf("with a silent keyring: code %d, %q, %q", code, out, errs)
		}
	}
	if len(asked) != 1 || fake.Count("refresh") != 1 {
		t.Errorf("the keyring was asked %d times, the tokens were refreshed %d times, want 1 and 1", len(asked), fake.Count("refresh"))
	}
}

func TestSignInMistakes(t *testing.T) {
	fake := signintest.Start(t)
	files := remoteAgent(fake.URL)
	files["header.json"] = `{"tag":"OpenAIAgentDescription","contents":{"slug":"b","flavor":"scripted","script":"script.json",
 "mcpServers":[{"tag":"McpHttp","contents":{"name":"tracker","url":"` + fake.URL + `","headers":{"authorization":"Bearer x"}}}]}}`
	files["grant.json"] = `{"tag":"OpenAIAgentDescription","contents":{"slug":"b","flavor":"scripted","script":"script.json",
 "mcpServers":[{"tag":"McpHttp","contents":{"name":"tracker","url":"` + fake.URL + `","oauth":{"grant":"jwt_bearer","clientId":"c"}}}]}}`
	cmd := agentsCommand(t, files)
	for _, c := range []struct {
		args string
		want string
	}{
		{"mcp login", "the name or the URL of the server"},
		{"mcp login nobody --agent-file agent.json", "there is no server nobody with a URL; there are tracker"},
		{"mcp login tracker --agent-file header.json", "authorized by its headers"},
		{"mcp login http://127.0.0.1:1/mcp", "connection refused"},
		{"mcp login ftp://127.0.0.1/mcp", "the URL of the server must begin with http"},
		{"mcp logout " + fake.URL, "there is no sign-in"},
		{"mcp login tracker --agent-file agent.json --no-browser --timeout 50ms", "no answer within 50ms"},
		{"check --agent-file grant.json", "oauth: grant jwt_bearer needs an assertionFile"},
	} {
		_, errs, code := finished(t, cmd, strings.Fields(c.args)...)
		if code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("agents %s = %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
}
