//go:build unix

package realmcp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/responses"
)

// responsesClient prints the output of a response as OpenAI's library assembles it.
const responsesClient = `
const {OpenAI} = require("openai");
const client = new OpenAI({apiKey: "k", baseURL: process.argv[1], maxRetries: 0});
client.responses.stream({model: "m", input: "hi"}).finalResponse().then(r => console.log(JSON.stringify(r.output)));
`

// TestOpenAILibraryReadsTheSame compares what goes back to the model after an answer with the
// output that OpenAI's own library makes of the same stream, which its documentation says to
// send back.
func TestOpenAILibraryReadsTheSame(t *testing.T) {
	k := installed(t)
	answer, err := os.ReadFile("../../provider/responses/testdata/parallel-calls.sse")
	if err != nil {
		t.Fatal(err)
	}
	var bodies [][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(answer)
	}))
	defer server.Close()

	p := &responses.Provider{Settings: modelhttp.Settings{BaseURL: server.URL, Model: "m", Client: server.Client()}}
	req := &agent.Request{Messages: []agent.Message{agent.UserText("hi")}}
	resp, err := p.Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	results := agent.Message{Role: agent.RoleTool}
	for _, c := range resp.Message.Calls {
		results.Results = append(results.Results, agent.ToolResult{CallID: c.ID, Name: c.Name, Parts: []agent.Part{agent.Text("done")}})
	}
	req.Messages = append(req.Messages, resp.Message, results)
	if _, err := p.Generate(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	var sent struct{ Input []map[string]any }
	if err := json.Unmarshal(bodies[1], &sent); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(k.node, "-e", responsesClient, server.URL)
	cmd.Env = append(k.environ(t.TempDir()), "NODE_PATH="+k.modules)
	out := finish(t, cmd)
	var want []map[string]any
	if err := json.Unmarshal([]byte(out.stdout), &want); err != nil || len(want) == 0 {
		t.Fatalf("%v: %s%s", err, out.stdout, out.stderr)
	}
	if len(sent.Input) < 1+len(want) {
		t.Fatalf("%d items are sent back, of an output of %d", len(sent.Input), len(want))
	}
	for i, item := range want {
		got := sent.Input[1+i]
		for name := range item {
			if _, ok := got[name]; !ok && name != "type" && name != "encrypted_content" {
				delete(item, name) // such as parsed_arguments, which is the library's own
			}
		}
		parts, _ := item["content"].([]any)
		for _, part := range parts {
			delete(part.(map[string]any), "parsed") // the same
			delete(part.(map[string]any), "logprobs")
		}
		if diff := cmp.Diff(item, got); diff != "" {
			t.Errorf("item %d (-OpenAI's library +what is sent back):\n%s", i, diff)
		}
	}
}
