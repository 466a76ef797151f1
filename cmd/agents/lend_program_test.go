package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// askingTool asks the model in each protocol, streaming and not, and prints a line for each.
const askingTool = `#!/usr/bin/env python3
import json, os, sys, urllib.error, urllib.request
if sys.argv[1] == "describe":
    print(json.dumps({"slug": "ask", "description": "asks a model", "models": True, "args": []}))
    sys.exit()
openai, claude, model = os.environ["OPENAI_BASE_URL"], os.environ["ANTHROPIC_BASE_URL"], os.environ["AGENTS_MODELS"].split(",")[0]
def post(url, key, **body):
    r = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **key})
    try:
        text = urllib.request.urlopen(r).read().decode()
        print("answered" if "and no network" in text else text)
    except urllib.error.HTTPError as e:
        print(e.code, json.loads(e.read())["error"]["message"])
bearer, header = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}, {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
messages = [{"role": "user", "content": "hi"}]
for stream in (True, False):
    if stream: # the server of the test always streams
        post(openai + "/chat/completions", bearer, model=model, messages=messages, stream=stream)
    post(openai + "/responses", bearer, model=model, input="hi", stream=stream)
    post(claude + "/v1/messages", header, model=model, max_tokens=9, messages=messages, stream=stream)
if "sk-only-at-the-root" in str(os.environ):
    print("it has the key")
`

// TestAProgramUsesTheModelOfItsAgent has the program of a tool ask in this process, in one
// below, and in a sandbox without network. The cost is that of what the server has served, and a
// budget that is spent is said in the program's protocol.
func TestAProgramUsesTheModelOfItsAgent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	const lends = `"toolDirectory":"tools","lend":[{"tool":"bash_ask"}]`
	answered := strings.Repeat("answered\n", 5)
	own, _ := json.Marshal(ownProcess) // strings always encode
	for _, tt := range []struct {
		name, top, budget, want string
		requests                int // of the program
	}{
		{"in this process", lends, `"usd":1`, answered, 5},
		{"in a sandbox without network", `"sandbox":"workspace",` + lends, `"usd":1`, answered, 5},
		{"one process level down", fmt.Sprintf(`"extraAgents":[{"slug":"mid","path":"mid/agent.json","runner":%s}]`, own), `"usd":1`, answered, 5},
		{"beyond the budget", lends, `"turns":3`, "answered\nanswered\n" + strings.Repeat("402 budget turns 3 of agent top spent (3 with 1 sub-agent)\n", 3), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := &lentServer{asks: true}
			server := httptest.NewServer(model)
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "work")
			top := strings.ReplaceAll(tt.top, `"mid/`, `"`+dir+`/mid/`)
			writeFiles(t, dir, map[string]string{
				"keys.json":      fmt.Sprintf(`{"keys":[{"id":"m","value":"sk-only-at-the-root","hosts":[%q]}]}`, strings.TrimPrefix(server.URL, "http://")),
				"agent.json":     fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"top","flavor":"openai-compatible","modelName":"m","modelUrl":"%s/v1","apiKeyId":"m","price":{"input":3,"output":15},"budget":{%s},%s}}`, server.URL, tt.budget, top),
				"mid/agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"mid","announce":"a","flavor":"caller",` + lends + `}}`,
				"tools/ask":      askingTool, "mid/tools/ask": askingTool,
			})
			self, err := os.Executable()
			for _, file := range []string{"tools/ask", "mid/tools/ask"} {
				if err == nil {
					err = os.Chmod(filepath.Join(dir, file), 0o755)
				}
			}
			if err == nil {
				err = os.Symlink(self, filepath.Join(dir, "agents"))
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd := agentsCommand(t, nil, "run", "--agent-file", "agent.json", "--prompt", "go", "--output", "jsonl", "--yes")
			cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "AGENTS_API_KEYS_FILE="+filepath.Join(dir, "keys.json"), "HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, _ := cmd.Output() // it fails if the budget is spent
			got := ""
			var end agent.Event
			for line := range strings.Lines(string(out)) {
				var e agent.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				switch {
				case e.Kind == agent.EventCallEnded && e.Tool == "bash_ask":
					got = e.Result.Text()
				case e.Kind == agent.EventEnd && e.Depth == 0:
					end = e
				}
			}
			if got != tt.want {
				t.Fatalf("the program printed %q, want %q\n%s", got, tt.want, stderr.String())
			}
			const each = agent.Dollar * (3*1000 + 15*100) / 1e6
			if u := end.Total.Usage; u.Cost != agent.Money(model.served)*each || u.Requests != model.served || end.Total.Agents["bash_ask"].Requests != tt.requests {
				t.Errorf("counted %s for %d requests, %d of them of the program; served %d", u.Cost, u.Requests, end.Total.Agents["bash_ask"].Requests, model.served)
			}
			if strings.Contains(string(out)+stderr.String(), "sk-only") {
				t.Error("the key is in the output")
			}
		})
	}
}
