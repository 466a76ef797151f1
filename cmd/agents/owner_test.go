package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
)

// A session belongs to the token, or to the local use, that began it: for another token it
// does not exist, by the channel, by MCP and in the list. Local use continues all.
func TestASessionBelongsToItsToken(t *testing.T) {
	t.Parallel()
	const a, b = "the-token-of-client-a", "the-token-of-client-b"
	files := map[string]string{
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[{"answer":{"text":"ok"}}]}`,
		"tokens":      a + "\n" + b + "\n",
	}
	cmd := agentsCommand(t, files, "serve", "--agent-file", "agent.json", "--listen", "127.0.0.1:0", "--token-file", "tokens", "--session-dir", "kept")
	if err := os.Chmod(filepath.Join(cmd.Dir, "tokens"), 0o600); err != nil {
		t.Fatal(err)
	}
	site := serveSite(t, cmd)
	local := func(args ...string) string {
		t.Helper()
		out, err := again(t, cmd, append([]string{"run", "--agent-file", "agent.json", "--session-dir", "kept", "-p", "hello"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("run %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	channel := func(token, start string) agent.Event {
		t.Helper()
		c, err := wsconn.Dial(t.Context(), "ws://"+site.addr+"/v1/agents/a/channel", wsconn.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Abort)
		if err := c.Send(t.Context(), []byte(`{"kind":"start","channel":1`+start+`}`)); err != nil {
			t.Fatal(err)
		}
		list, err := events(t, c, ends)
		if err != nil {
			t.Fatal(err)
		}
		return list[len(list)-1]
	}
	mcp := func(token, session string) string {
		t.Helper()
		s := &mcpSite{url: "http://" + site.addr + "/mcp", token: token}
		_, s.session = s.post(t, t.Context(), mcpGreeting)
		answer, _ := s.post(t, t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"prompt":"again"%s}}}`, session))
		return answer
	}
	prompt, unknown := `,"args":{"prompt":"hello"}`, "has no session"
	ofA := channel(a, prompt).Session
	ofB := regexp.MustCompile(`agents-exe/session": ?"([^"]+)`).FindStringSubmatch(mcp(b, ""))[1]
	local()
	ids, err := filepath.Glob(filepath.Join(cmd.Dir, "kept", "2*"))
	i := slices.IndexFunc(ids, func(path string) bool { return !strings.Contains(path, ofA) && !strings.Contains(path, ofB) })
	if err != nil || i < 0 {
		t.Fatalf("the local session is not among %v, %v", ids, err)
	}
	own := filepath.Base(ids[i])
	for _, test := range []struct {
		token, session string
		may            bool
	}{{a, ofA, true}, {b, ofB, true}, {a, ofB, false}, {b, ofA, false}, {a, own, false}, {b, own, false}} {
		for _, start := range []string{prompt, `,"from":1`, ""} {
			end := channel(test.token, start+`,"session":"`+test.session+`"`)
			if may := !strings.Contains(end.Error, unknown); may != test.may {
				t.Errorf("token %s, session %s: the channel ends with %q", test.token, test.session, end.Error)
			}
		}
		for _, format := range []string{"", "?format=html"} {
			if status, body, _ := site.request(test.token, "/v1/sessions/"+test.session+format, ""); (status == 200) != test.may || status != 200 && status != 404 {
				t.Errorf("token %s, session %s%s: status %d, %s", test.token, test.session, format, status, body)
			}
		}
		if _, body, _ := site.request(test.token, "/v1/sessions", ""); strings.Contains(body, `"`+test.session+`"`) != test.may {
			t.Errorf("token %s, session %s is listed: %s", test.token, test.session, body)
		}
		if answer := mcp(test.token, `,"session":"`+test.session+`"`); strings.Contains(answer, unknown) == test.may {
			t.Errorf("token %s, session %s: MCP answers %s", test.token, test.session, answer)
		}
	}
	local("--session", ofA)
}
