package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/exectool/runnertest"
)

// A lentServer is a model server that lets each agent but leaf call the one below it, and counts
// what it has served.
type lentServer struct {
	mu     sync.Mutex
	served int
	leaf   string // the last request of leaf
	asks   bool   // calls bash_ask
}

func (s *lentServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	if r.Header.Get("Authorization") != "Bearer sk-only-at-the-root" {
		http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
	}
	switch text := string(body); {
	case strings.Contains(text, `"role":"tool"`):
		chunk(`{"content":"passed on"}`, `"stop"`)
	case s.asks && strings.Contains(text, `"name":"bash_ask"`):
		chunk(`{"tool_calls":[{"index":0,"id":"c0","function":{"name":"bash_ask","arguments":"{}"}}]}`, `"tool_calls"`)
	case strings.Contains(text, "expert_mid"):
		chunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"expert_mid","arguments":"{\"prompt\":\"p\"}"}}]}`, `"tool_calls"`)
	case strings.Contains(text, "expert_leaf"):
		chunk(`{"tool_calls":[{"index":0,"id":"c2","function":{"name":"expert_leaf","arguments":"{\"prompt\":\"p\"}"}}]}`, `"tool_calls"`)
	default:
		s.leaf = text
		for _, piece := range []string{"I have", " no key", " and no network."} {
			chunk(`{"content":"`+piece+`"}`, "null")
		}
		chunk(`{}`, `"stop"`)
	}
	fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":100}}\n\ndata: [DONE]\n\n")
}

// TestAnAgentWithoutKeyOrNetworkBorrowsTheModel has an agent two borders below the one that has
// the key answer, and stream, with the model of the latter. The cost is that of what the server
// has served.
func TestAnAgentWithoutKeyOrNetworkBorrowsTheModel(t *testing.T) {
	runner := func(dir string, command []string) string {
		text, _ := json.Marshal(command) // strings always encode
		return fmt.Sprintf(`"extraAgents":[{"slug":"leaf","path":"%s/leaf.json","runner":%s}]`, dir, text)
	}
	for _, tt := range []struct {
		name  string
		lend  string
		below func(t *testing.T, dir string) string
		want  string // of leaf
	}{
		{"in a process", "", func(_ *testing.T, dir string) string { return runner(dir, ownProcess) }, "I have no key and no network."},
		{"over ssh", "", func(t *testing.T, dir string) string {
			there := []string{"env", "-i", "PATH=" + dir + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "GORACE=" + os.Getenv("GORACE")}
			return runner(dir, append(runnertest.SSH(t), there...))
		}, "I have no key and no network."},
		{"in a container", "", func(t *testing.T, dir string) string {
			c := newContainers(t, dir)
			if c == nil {
				t.Skip("podman runs no containers here")
			}
			t.Cleanup(func() { waitFor(t, c.gone) })
			run := c.runner("--read-only")
			run[slices.Index(run, "--network=host")] = "--network=none"
			return runner(dir, slices.Concat(run, ownProcess))
		}, "I have no key and no network."},
		{"on a server that is lent the model", `"lend":["m"],`, onServer, "I have no key and no network."},
		{"on a server", "", onServer, "[failed] agent leaf did not answer: ask model of leaf: the agent uses a model of its caller (flavor caller), and no agent above lends one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := &lentServer{}
			server := httptest.NewServer(model)
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "work")
			own, _ := json.Marshal(ownProcess)
			writeFiles(t, dir, map[string]string{
				"token":     librarianToken,
				"keys.json": fmt.Sprintf(`{"keys":[{"id":"m","value":"sk-only-at-the-root","hosts":[%q]},{"id":"library","value":%q}]}`, strings.TrimPrefix(server.URL, "http://"), librarianToken),
				"top/agent.json": fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"top","flavor":"openai-compatible","modelName":"m","modelUrl":"%s/v1","apiKeyId":"m",%s
					"price":{"input":3,"output":15},"budget":{"usd":1},"extraAgents":[{"slug":"mid","path":"%s/mid/agent.json","runner":%s}]}}`, server.URL, tt.lend, dir, own),
				"leaf.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"leaf","announce":"a","flavor":"caller"}}`,
			})
			self, err := os.Executable()
			if err == nil {
				err = os.Symlink(self, filepath.Join(dir, "agents"))
			}
			if err == nil {
				err = os.Chmod(filepath.Join(dir, "token"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			writeFiles(t, dir, map[string]string{"mid/agent.json": fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"mid","announce":"a","flavor":"caller",%s %s}}`, tt.lend, tt.below(t, dir))})
			cmd := agentsCommand(t, nil, "run", "--agent-file", "top/agent.json", "--prompt", "go", "--output", "jsonl", "--yes")
			cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "AGENTS_API_KEYS_FILE="+filepath.Join(dir, "keys.json"))
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var streamed, got string
			var end agent.Event
			for line := range strings.Lines(string(out)) {
				var e agent.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				switch {
				case e.Kind == agent.EventText && e.Agent == "leaf":
					streamed += e.Text
				case e.Kind == agent.EventCallEnded && e.Agent == "mid":
					got = e.Result.Answer()
				case e.Kind == agent.EventEnd && e.Depth == 0:
					end = e
				}
			}
			if got != tt.want || !strings.HasPrefix(tt.want, "[") && streamed != tt.want {
				t.Errorf("leaf answered %q, and streamed %q\n%s", got, streamed, stderr.String())
			}
			const each = agent.Dollar * (3*1000 + 15*100) / 1e6
			if end.Total.Usage.Cost != agent.Money(model.served)*each || end.Total.Usage.Requests != model.served {
				t.Errorf("counted %s for %d requests, served %d", end.Total.Usage.Cost, end.Total.Usage.Requests, model.served)
			}
		})
	}
}

// onServer serves leaf, without a key, and returns what calls it.
func onServer(t *testing.T, dir string) string {
	server := serveAgent(t, dir, "leaf.json")
	writeFiles(t, dir, map[string]string{"mid/tools/leaf.json": fmt.Sprintf(`{"tag":"RemoteAgent","contents":{"url":"http://%s","agent":"leaf","apiKeyId":"library"}}`, server.address)})
	return `"toolDirectory":"tools"`
}
