package provider_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
)

var updateModels = flag.Bool("update", false, "write the table in docs/models.md")

// A documented is what a kind of server sends, as its documentation shows it.
type documented struct {
	flavor string
	// source is the page, usage the count of tokens of a request that hit the cache, and
	// thought the member in which the model's reasoning is.
	source, usage, thought string
	// signature is the member of a call which must come back.
	signature string
}

const (
	details   = `"prompt_tokens":1000,"completion_tokens":70,"total_tokens":1070,"prompt_tokens_details":{"cached_tokens":640},"completion_tokens_details":{"reasoning_tokens":30}`
	plain     = `"prompt_tokens":1000,"completion_tokens":70,"total_tokens":1070`
	inContent = `"reasoning_content":"THOUGHT"`
	inOwn     = `"reasoning":"THOUGHT"`
)

// chat has a row for each flavor of chat completions.
var chat = []documented{
	{flavor: "openai-v1", source: "https://platform.openai.com/docs/api-reference/chat/object", usage: details},
	{flavor: "mistral-v1", source: "https://docs.mistral.ai/capabilities/reasoning", usage: plain, thought: `"content":[{"type":"thinking","thinking":[{"type":"text","text":"THOUGHT"}]}]`},
	{flavor: "kimi-v1", source: "https://platform.kimi.ai/docs/api/chat", usage: plain + `,"cached_tokens":640`, thought: inContent},
	{flavor: "claude-v1", source: "https://platform.claude.com/docs/en/api/openai-sdk", usage: plain},
	{flavor: "openrouter-v1", source: "https://openrouter.ai/docs/use-cases/usage-accounting", usage: details + `,"cost":0.0015`,
		thought: inOwn + `,"reasoning_details":[{"type":"reasoning.encrypted","data":"THOUGHT"}]`},
	{flavor: "xai-v1", source: "https://docs.x.ai/docs/guides/reasoning", usage: details, thought: inContent},
	{flavor: "gemini-v1", source: "https://ai.google.dev/gemini-api/docs/thought-signatures", usage: `"prompt_tokens":1000,"completion_tokens":40,"total_tokens":1070,"prompt_tokens_details":{"cached_tokens":640}`,
		signature: `"extra_content":{"google":{"thought_signature":"THOUGHT"}}`},
	{flavor: "deepseek-v1", source: "https://api-docs.deepseek.com/guides/kv_cache", usage: plain + `,"prompt_cache_hit_tokens":640,"prompt_cache_miss_tokens":360,"completion_tokens_details":{"reasoning_tokens":30}`, thought: inContent},
	{flavor: "ollama", source: "https://docs.ollama.com/api/openai-compatibility", usage: plain, thought: inOwn},
	{flavor: "vllm", source: "https://docs.vllm.ai/en/latest/features/reasoning_outputs", usage: plain + `,"prompt_tokens_details":{"cached_tokens":640}`, thought: inOwn},
	{flavor: "llamacpp", source: "https://github.com/ggml-org/llama.cpp/tree/master/tools/server", usage: plain, thought: inContent},
	{flavor: "lmstudio", source: "https://lmstudio.ai/docs/developer/openai-compat", usage: plain, thought: inOwn},
	{flavor: "openai-compatible", source: "any of them", usage: plain, thought: inContent},
}

// stream is a turn of chat completions: a thought, a text in two pieces, two calls at once.
func (d documented) stream() string {
	signature := d.signature
	if signature != "" {
		signature = "," + signature
	}
	var b strings.Builder
	for _, delta := range []string{d.thought, `"content":"I look "`, `"content":"at both."`,
		`"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}` + signature + `}]`,
		`"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"look","arguments":"{\"at\":2}"}}]`} {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{%s}}]}\n\n", delta)
	}
	fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: {\"choices\":[],\"usage\":{%s}}\n\ndata: [DONE]\n\n", d.usage)
	return b.String()
}

// messages is the same turn in Anthropic's protocol
// (https://platform.claude.com/docs/en/build-with-claude/streaming).
func messages() string {
	var b strings.Builder
	for _, event := range []string{
		`"message_start","message":{"usage":{"input_tokens":60,"cache_creation_input_tokens":300,"cache_read_input_tokens":640,"output_tokens":1}}`,
		`"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}`,
		`"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I think"}`,
		`"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"THOUGHT"}`,
		`"content_block_start","index":1,"content_block":{"type":"text","text":""}`,
		`"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look "}`,
		`"content_block_delta","index":1,"delta":{"type":"text_delta","text":"at both."}`,
		`"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"look","input":{}}`,
		`"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"at\":1}"}`,
		`"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_2","name":"look","input":{}}`,
		`"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"at\":2}"}`,
		`"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":70,"output_tokens_details":{"thinking_tokens":30}}`,
		`"message_stop"`,
	} {
		fmt.Fprintf(&b, "data: {\"type\":%s}\n\n", event)
	}
	return b.String()
}

// items is the same turn in OpenAI's Responses protocol
// (https://platform.openai.com/docs/api-reference/responses-streaming).
func items() string {
	var b strings.Builder
	for _, event := range []string{
		`"response.created","response":{"status":"in_progress","output":[]}`,
		`"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"THOUGHT"}`,
		`"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}`,
		`"response.output_text.delta","output_index":1,"content_index":0,"delta":"I look "`,
		`"response.output_text.delta","output_index":1,"content_index":0,"delta":"at both."`,
		`"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I look at both."}]}`,
		`"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":"{\"at\":1}"}`,
		`"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_2","name":"look","arguments":"{\"at\":2}"}`,
		`"response.completed","response":{"status":"completed","usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":640},"output_tokens":70,"output_tokens_details":{"reasoning_tokens":30},"total_tokens":1070}}`,
	} {
		fmt.Fprintf(&b, "data: {\"type\":%s}\n\n", event)
	}
	return b.String()
}

// A row is a line of the table: how to make the provider, and the turn that its server
// sends.
type row struct {
	flavor, protocol string
	provider         func(modelhttp.Settings) agent.Provider
	turn             string
}

func rows() []row {
	rows := []row{{"anthropic", "anthropic", func(s modelhttp.Settings) agent.Provider {
		s.Model = "claude-opus-5"
		return &anthropic.Provider{Settings: s}
	}, messages()}}
	for _, flavor := range []string{"openai-v1", "openai-compatible"} {
		rows = append(rows, row{flavor, "responses", func(s modelhttp.Settings) agent.Provider {
			return &responses.Provider{Settings: s, OutputAlone: !openai.Flavor(flavor).OutputWithTools()}
		}, items()})
	}
	for _, d := range chat {
		rows = append(rows, row{d.flavor, "chat", func(s modelhttp.Settings) agent.Provider {
			return &openai.Provider{Flavor: openai.Flavor(d.flavor), Settings: s}
		}, d.stream()})
	}
	return rows
}

// hosts sends all requests to one server, whatever their host.
type hosts struct {
	server string
	http.RoundTripper
}

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", h.server
	return h.RoundTripper.RoundTrip(r)
}

// observe makes the requests of a run and says what becomes of each ability.
func observe(t *testing.T, r row) []string {
	t.Helper()
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		bodies = append(bodies, string(body))
		io.WriteString(w, r.turn)
	}))
	transport := &http.Transport{}
	defer server.Close()
	defer transport.CloseIdleConnections()
	settings := modelhttp.Settings{Model: "m", Client: &http.Client{Transport: hosts{server.Listener.Addr().String(), transport}}}
	if r.flavor == "openai-compatible" {
		settings.BaseURL = server.URL
	}
	p := r.provider(settings)

	media := []agent.Part{agent.Text("look"), {Kind: agent.PartMedia, MIME: "image/png", Data: []byte("an image")},
		{Kind: agent.PartMedia, MIME: "application/pdf", Data: []byte("a document")}, {Kind: agent.PartMedia, MIME: "audio/wav", Data: []byte("a sound")}}
	first := &agent.Request{System: "Be brief.", Messages: []agent.Message{{Role: agent.RoleUser, Parts: media}},
		Tools:  []agent.ToolSpec{{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object"}`)}},
		Output: json.RawMessage(`{"type":"object","properties":{"THEIRS":{"type":"string"}},"required":["THEIRS"],"additionalProperties":false}`)}
	pieces := 0
	resp, err := p.Generate(t.Context(), first, func(d agent.Delta) {
		if d.Kind == agent.DeltaText {
			pieces++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	second := *first
	second.Messages = append(slices.Clip(first.Messages), resp.Message, agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{
		{CallID: "call_1", Name: "look", Parts: []agent.Part{agent.Text("FIRST")}}, {CallID: "call_2", Name: "look", Parts: []agent.Part{agent.Text("SECOND")}}}})
	alone := *first
	alone.Tools = nil
	for _, req := range []*agent.Request{&second, &alone} {
		if _, err := p.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	cells := []string{r.flavor, r.protocol, yes(pieces == 2),
		yes(len(resp.Message.Calls) == 2 && strings.Contains(bodies[1], "FIRST") && strings.Contains(bodies[1], "SECOND")),
		kept(resp, bodies[1]), cached(resp, bodies[0]), structured(bodies), sentMedia(bodies[0]), counted(resp.Usage)}
	can := p.(agent.Able).Abilities()
	for ability, is := range map[agent.Ability]bool{agent.AbilityTools: cells[3] == "yes", agent.AbilityThinking: cells[4] == "yes", agent.AbilityOutput: cells[6] != "checked only",
		agent.AbilityImages: strings.Contains(cells[7], "images"), agent.AbilityDocuments: strings.Contains(cells[7], "PDFs"), agent.AbilityAudio: strings.Contains(cells[7], "audio")} {
		if slices.Contains(can, ability) != is {
			t.Errorf("%s %s: Abilities() = %v, but %s is %v", r.flavor, r.protocol, can, ability, is)
		}
	}
	return cells
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func kept(resp *agent.Response, next string) string {
	shown := slices.ContainsFunc(resp.Message.Parts, func(p agent.Part) bool { return p.Kind == agent.PartReasoning && p.Text != "" })
	switch {
	case strings.Contains(next, "THOUGHT"):
		return "yes"
	case shown:
		return "shown only"
	}
	return "no"
}

func cached(resp *agent.Response, body string) string {
	switch {
	case strings.Contains(body, `"cache_control"`):
		return "marked"
	case resp.Usage.CachedTokens > 0:
		return "the server's"
	}
	return "not reported"
}

func structured(bodies []string) string {
	switch {
	case strings.Contains(bodies[2], `"final_answer"`):
		return "as a tool"
	case strings.Contains(bodies[0], `"final_answer"`):
		return "with tools, as a tool"
	case strings.Contains(bodies[0], "THEIRS"):
		return "yes"
	}
	return "checked only"
}

func sentMedia(body string) string {
	var sent []string
	for _, m := range []struct{ name, data string }{{"images", "an image"}, {"PDFs", "a document"}, {"audio", "a sound"}} {
		if strings.Contains(body, base64.StdEncoding.EncodeToString([]byte(m.data))) {
			sent = append(sent, m.name)
		}
	}
	return strings.Join(sent, ", ")
}

func counted(u agent.Usage) string {
	list := []string{"tokens"}
	for _, n := range []struct {
		name string
		n    int
	}{{"cached", u.CachedTokens}, {"cache writes", u.CacheWriteTokens}, {"reasoning", u.ReasoningTokens}, {"cost", u.Priced}} {
		if n.n > 0 {
			list = append(list, n.name)
		}
	}
	return strings.Join(list, ", ")
}

// The table in docs/models.md says what the providers do with what the documentation of
// each server shows.
func TestTheTableOfModels(t *testing.T) {
	const page = "../../docs/models.md"
	want := []string{"| flavor | protocol | streaming | parallel calls | reasoning kept | caching | structured output | media | usage |", "|---|---|---|---|---|---|---|---|---|"}
	var flavors []string
	for _, r := range rows() {
		cells := observe(t, r)
		cells[0], cells[1] = "`"+cells[0]+"`", "`"+cells[1]+"`"
		want = append(want, "| "+strings.Join(cells, " | ")+" |")
		flavors = append(flavors, r.flavor)
	}
	slices.Sort(flavors)
	if flavors = slices.Compact(flavors); !slices.Equal(flavors, openai.Flavors()) {
		t.Errorf("the table has the flavors %v, want %v", flavors, openai.Flavors())
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), want[0])
	table, after, _ := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatalf("%s has no table that begins with %s", page, want[0])
	}
	if *updateModels {
		if err := os.WriteFile(page, []byte(before+strings.Join(want, "\n")+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, strings.Split(want[0]+table, "\n")); diff != "" {
		t.Errorf("the table in %s (-what the providers do +what it says; -update writes it):\n%s", page, diff)
	}
}

// TestTheListOfModelsHasALimit: it is named.
func TestTheListOfModelsHasALimit(t *testing.T) {
	for length, want := range map[int]string{1000: "", 5 << 20: "its list of models: it is longer than 4194304 bytes"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"data":[{"id":"text-embedding"},{"id":"one","about":%q}]}`, strings.Repeat("x", length))
		}))
		settings := modelhttp.Settings{BaseURL: server.URL, Client: server.Client()}
		for _, p := range []interface {
			Models(context.Context) ([]string, error)
		}{&openai.Provider{Settings: settings}, &responses.Provider{Settings: settings}, &anthropic.Provider{Settings: settings}} {
			names, err := p.Models(t.Context())
			if want == "" && (err != nil || !slices.Equal(names, []string{"one", "text-embedding"})) || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%T: %d bytes: %v, %v; want %q", p, length, names, err, want)
			}
		}
		server.Close()
	}
}
