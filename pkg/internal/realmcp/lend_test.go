//go:build unix

package realmcp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lentClient talks to a model with the npm packages openai and @anthropic-ai/sdk, in two turns of
// each protocol, streaming and not, and prints all that they return.
const lentClient = `
const OpenAI = require("openai"), {Anthropic} = require("@anthropic-ai/sdk");
const openai = new OpenAI({maxRetries: 0}), anthropic = new Anthropic({maxRetries: 0});
const print = value => console.log(JSON.stringify(value));
async function all(answer, stream) {
  if (!stream) return print(answer);
  for await (const event of answer) print(event);
}
async function main() {
  for (const stream of [true, false]) {
    const messages = [{role: "system", content: "Be brief. ünï 😀"}, {role: "user", content: "hi"}];
    const tools = [{type: "function", function: {name: "look", description: "looks", parameters: {type: "object", properties: {at: {type: "number"}}}}}];
    const options = stream ? {stream_options: {include_usage: true}} : {};
    await all(await openai.chat.completions.create({model: "m-chat", messages, tools, temperature: 0.25, seed: 7, own_member: {a: [1, null]}, stream, ...options}), stream);
    messages.push({role: "assistant", content: null, tool_calls: [{id: "call_1", type: "function", function: {name: "look", arguments: "{\"at\":1}"}}]}, {role: "tool", tool_call_id: "call_1", content: "seen"});
    await all(await openai.chat.completions.create({model: "m-chat", messages, tools, stream, ...options}), stream);
    await all(await openai.responses.create({model: "m-responses", input: [{role: "user", content: [{type: "input_text", text: "hi"}]}], reasoning: {effort: "low"}, store: false, stream}), stream);
    const cached = [{type: "text", text: "Be brief.", cache_control: {type: "ephemeral"}}];
    await all(await anthropic.messages.create({model: "m-messages", max_tokens: 2000, system: cached, thinking: {type: "enabled", budget_tokens: 1024}, messages: [{role: "user", content: "hi"}], stream}), stream);
  }
}
main().catch(error => { console.error(error); process.exit(1); });
`

// lentAnswers has the answers of the model's server, by path and whether they are streamed.
var lentAnswers = map[string]map[bool]string{
	"/v1/chat/completions": {
		false: `{"id":"c","object":"chat.completion","own":1,"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`,
		true: "data: {\"id\":\"c\",\"own\":1,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"},\"finish_reason\":null}]}\n\n" +
			"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo 😀\"},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":100}}\n\ndata: [DONE]\n\n",
	},
	"/v1/responses": {
		false: `{"id":"r","object":"response","own":1,"status":"completed","output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hello","annotations":[]}]}],"usage":{"input_tokens":1000,"output_tokens":100}}`,
		true: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"output_index\":0,\"content_index\":0,\"delta\":\"hello\",\"own\":1}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"hello\"}]}],\"usage\":{\"input_tokens\":1000,\"output_tokens\":100}}}\n\n",
	},
	"/v1/messages": {
		false: `{"id":"a","own":1,"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"s"},{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":100}}`,
		true: "event: message_start\ndata: {\"type\":\"message_start\",\"own\":1,\"message\":{\"id\":\"a\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":1000,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n" +
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":100}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	},
}

// TestLibrariesPassTheEndpointUnchanged compares what the libraries send and get in a tool to which
// models are lent with what they send and get directly from the model's server.
func TestLibrariesPassTheEndpointUnchanged(t *testing.T) {
	k := installed(t)
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		stream := strings.Contains(string(body), `"stream":true`)
		mu.Lock()
		bodies = append(bodies, r.URL.Path+" "+string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[stream])
		io.WriteString(w, lentAnswers[r.URL.Path][stream])
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	environ := append(k.environ(dir), "NODE_PATH="+k.modules)
	model := func(protocol string) string {
		return fmt.Sprintf(`{"flavor":"openai-compatible","protocol":%q,"modelUrl":"%s/v1","price":{"input":3,"output":15},"modelName":"m-%s"}`, protocol, server.URL, map[string]string{"anthropic": "messages"}[protocol]+strings.TrimSuffix(protocol, "anthropic"))
	}
	for name, text := range map[string]string{
		"client.cjs":  lentClient,
		"tools/sdk":   "#!/bin/sh\n[ \"$1\" = describe ] && echo '{\"slug\":\"sdk\",\"description\":\"d\",\"args\":[],\"models\":true}' && exit\nexec node client.cjs\n",
		"script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_sdk"}]}},{"answer":{"text":"${lastMessage}"}}]}`,
		"agent.json": fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"lead","flavor":"scripted","script":"script.json","toolDirectory":"tools","toolEnv":["NODE_PATH"],
			"models":{"m-chat":%s,"m-responses":%s,"m-messages":%s},"lend":["m-chat","m-responses","m-messages",{"tool":"bash_sdk"}]}}`, model("chat"), model("responses"), model("anthropic")),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(cmd *exec.Cmd, more ...string) (string, []string) {
		t.Helper()
		bodies = nil
		cmd.Dir, cmd.Env = dir, append(environ, more...)
		out := finish(t, cmd)
		if out.code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", cmd.Args, out.code, out.stdout, out.stderr)
		}
		return strings.TrimSpace(out.stdout), bodies
	}
	direct, want := run(exec.Command(k.node, "client.cjs"), "OPENAI_BASE_URL="+server.URL+"/v1", "OPENAI_API_KEY=k", "ANTHROPIC_BASE_URL="+server.URL, "ANTHROPIC_API_KEY=k")
	lent, got := run(exec.Command(k.agents, "run", "--quiet", "--yes", "--agent-file", "agent.json", "--prompt", "go"))
	if len(want) != 8 || !strings.Contains(direct, "hello") {
		t.Fatalf("the server was asked %q\n%s", want, direct)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the server gets (-direct +lent):\n%s", diff)
	}
	if diff := cmp.Diff(direct, lent); diff != "" {
		t.Errorf("what the program gets (-direct +lent):\n%s", diff)
	}
	cost, _ := run(exec.Command(k.agents, "session", "cost", "latest"))
	if each := 0.0045; !strings.Contains(cost, fmt.Sprintf("%.4f", 8*each)) {
		t.Errorf("8 answers of $%.4f cost\n%s", each, cost)
	}
}
