package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/traceid"
)

const (
	outsideTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent  = "00-" + outsideTrace + "-00f067aa0ba902b7-01"
)

// A span is what tests look at of one.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue string }
	}
}

func (s span) text(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

// spansIn reads objects of OTLP in JSON, one behind the other.
func spansIn(t *testing.T, text []byte) (spans []span) {
	t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var o struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := dec.Decode(&o); err == io.EOF {
			return spans
		} else if err != nil {
			t.Fatal(err)
		}
		for _, r := range o.ResourceSpans {
			for _, s := range r.ScopeSpans {
				spans = append(spans, s.Spans...)
			}
		}
	}
}

// A collector keeps what is posted to it.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	bodies bytes.Buffer
	asked  []string // path and header of each request
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies.Write(body)
		c.asked = append(c.asked, r.URL.Path+" "+r.Header.Get("x-key"))
	}))
	t.Cleanup(c.Close)
	return c
}

// tracedModel is a model server that asks for the tools and then answers. It keeps
// the traceparent of each request.
func tracedModel(t *testing.T, tools ...string) (url string, seen func() []string) {
	var mu sync.Mutex
	var headers []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		headers = append(headers, r.Header.Get("traceparent"))
		mu.Unlock()
		if bytes.Contains(body, []byte(`"role":"tool"`)) {
			fmt.Fprint(w, `{"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]}`)
			return
		}
		var calls []string
		for i, name := range tools {
			args := "{}"
			if name == "bash_inner" {
				args = `{"prompt":"go"}`
			}
			calls = append(calls, fmt.Sprintf(`{"id":"call%d","type":"function","function":{"name":%q,"arguments":%q}}`, i, name, args))
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"tool_calls":[%s]},"finish_reason":"tool_calls"}]}`, strings.Join(calls, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string { mu.Lock(); defer mu.Unlock(); return headers }
}

// tracedFiles are an agent whose model is at url, with a script, an MCP server and
// another `agents` process as tools.
func tracedFiles(url string) map[string]string {
	const describe = "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"%s\",\"description\":\"d\",\"args\":[]}'; exit 0; }\n"
	return map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"outer","flavor":"openai-compatible","modelUrl":"` + url + `","modelName":"m","toolDirectory":"tools",
			"mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"fake","executable":"mcp-fake"}}]}}`,
		"tools/show":  fmt.Sprintf(describe, "show") + "echo \"$TRACEPARENT\" >shown; env | grep ^OTEL_ | sort >>shown\n",
		"tools/nest":  fmt.Sprintf(describe, "nest") + "exec agents run --no-session --quiet --agent-file inner.json -p go\n",
		"tools/die":   fmt.Sprintf(describe, "die") + "[ -e died ] || { touch died; kill -9 $PPID; }\n",
		"inner.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"inner","flavor":"scripted","script":"script.json"}}`,
		"script.json": `{"rules":[{"when":{},"answer":{"text":"inner done"}}]}`,
	}
}

// traced runs the command and returns what it wrote to stderr.
func traced(t *testing.T, cmd *exec.Cmd, env ...string) string {
	t.Helper()
	cmd.Env = append(cmd.Env, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	return stderr.String()
}

func readFile(t *testing.T, cmd *exec.Cmd, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cmd.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestTraceCrossesEveryBorder: a script, an MCP server, a model server and an agent
// in another process are given the span that the exporter writes, and the spans of
// all processes are one tree below the caller's.
func TestTraceCrossesEveryBorder(t *testing.T) {
	url, seen := tracedModel(t, "bash_show", "mcp_fake_caps", "bash_nest")
	c := newCollector(t)
	cmd := agentsCommand(t, tracedFiles(url), "run", "--quiet", "--no-session", "--agent-file", "agent.json", "--trace-file", "spans.jsonl", "-p", "go")
	stderr := traced(t, cmd, "TRACEPARENT="+traceparent, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20secret", "OTEL_SERVICE_NAME=tested", "MCP_FAKE_META=1")
	if stderr != "" {
		t.Errorf("stderr: %s", stderr)
	}
	spans := map[string]span{}
	for _, s := range spansIn(t, c.bodies.Bytes()) {
		if s.TraceID != outsideTrace {
			t.Errorf("span %s is of trace %s, want that of the caller", s.Name, s.TraceID)
		}
		spans[s.Name+" "+s.text("gen_ai.agent.name")] = s
	}
	for name, parent := range map[string]string{
		"execute_tool bash_show outer": "invoke_agent outer outer", "execute_tool mcp_fake_caps outer": "invoke_agent outer outer",
		"chat m outer": "invoke_agent outer outer", "execute_tool bash_nest outer": "invoke_agent outer outer",
		"invoke_agent inner inner": "execute_tool bash_nest outer", "chat scripted inner": "invoke_agent inner inner",
	} {
		if got := spans[name].ParentSpanID; got == "" || got != spans[parent].SpanID {
			t.Errorf("%s is below %q, want %s (%q)", name, got, parent, spans[parent].SpanID)
		}
	}
	if got := spans["invoke_agent outer outer"].ParentSpanID; got != traceparent[36:52] {
		t.Errorf("the root is below %s, want the caller's span", got)
	}
	if n := len(spansIn(t, readFile(t, cmd, "spans.jsonl"))); n != len(spansIn(t, c.bodies.Bytes()))-2 {
		t.Errorf("the file has %d spans, want those of one process", n)
	}
	of := func(s span) string { return traceid.Context{Trace: s.TraceID, Span: s.SpanID, Sampled: true}.String() }
	shown := strings.Split(string(readFile(t, cmd, "shown")), "\n")
	if want := of(spans["execute_tool bash_show outer"]); shown[0] != want {
		t.Errorf("the script saw TRACEPARENT=%s, want %s", shown[0], want)
	}
	if text := strings.Join(shown[1:], "\n"); !strings.Contains(text, "OTEL_EXPORTER_OTLP_ENDPOINT=") || strings.Contains(text, "secret") {
		t.Errorf("the script saw %s", text)
	}
	if meta, want := string(readFile(t, cmd, "meta")), of(spans["execute_tool mcp_fake_caps outer"]); !strings.Contains(meta, `"traceparent":"`+want+`"`) {
		t.Errorf("the MCP server saw %s, want the traceparent %s", meta, want)
	}
	session := spans["chat m outer"].text("gen_ai.conversation.id")
	for i, got := range seen() {
		want := traceid.Context{Trace: outsideTrace, Span: traceid.Model(session, i+1), Sampled: true}.String()
		if got != want {
			t.Errorf("request %d to the model has the traceparent %q, want %q", i+1, got, want)
		}
	}
	if c.asked[len(c.asked)-1] != "/v1/traces a secret" {
		t.Errorf("requests to the collector: %q", c.asked)
	}
}

// TestNoTraceWithoutNeed: without a caller's trace and an exporter nothing is passed
// on, and a malformed trace is none.
func TestNoTraceWithoutNeed(t *testing.T) {
	for _, env := range []string{"TRACEPARENT=", "TRACEPARENT=00-x-y-01"} {
		url, seen := tracedModel(t, "bash_show", "mcp_fake_caps")
		cmd := agentsCommand(t, tracedFiles(url), "run", "--quiet", "--agent-file", "agent.json", "-p", "go")
		traced(t, cmd, env, "MCP_FAKE_META=1")
		meta, shown := readFile(t, cmd, "meta"), readFile(t, cmd, "shown")
		if strings.Join(seen(), "") != "" || bytes.Contains(meta, []byte("traceparent")) || string(shown) != "\n" {
			t.Errorf("%s: the model saw %q, the MCP server %s, the script %q", env, seen(), meta, shown)
		}
	}
}

// TestResumedRunContinuesItsTrace, which has no caller: the id follows from the
// session.
func TestResumedRunContinuesItsTrace(t *testing.T) {
	url, _ := tracedModel(t, "bash_show", "bash_die")
	cmd := agentsCommand(t, tracedFiles(url), "run", "--quiet", "--agent-file", "agent.json", "--session-file", "s.jsonl", "--trace-file", "spans.jsonl", "-p", "go")
	cmd.Stdin = strings.NewReader("")
	again := *cmd
	if err := cmd.Run(); err == nil {
		t.Fatal("the run did not die")
	}
	before := len(spansIn(t, readFile(t, cmd, "spans.jsonl")))
	again.Args = again.Args[:len(again.Args)-2] // without a prompt
	traced(t, &again)
	spans := spansIn(t, readFile(t, cmd, "spans.jsonl"))
	root := spans[len(spans)-1]
	if before == 0 || len(spans) <= before || root.Name != "invoke_agent outer" {
		t.Fatalf("%d spans before the end of the process and %d after, the last is %s", before, len(spans), root.Name)
	}
	for _, s := range spans[:len(spans)-1] {
		if s.TraceID != root.TraceID || s.ParentSpanID != root.SpanID {
			t.Errorf("span %s of trace %s is below %s, want %s and %s", s.Name, s.TraceID, s.ParentSpanID, root.TraceID, root.SpanID)
		}
	}
}

// TestCollectorThatIsAway: a run does not fail, and does not wait longer than two
// seconds for a collector that never answers.
func TestCollectorThatIsAway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are accepted by the system alone
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	files := tracedFiles("http://127.0.0.1:1")
	for _, test := range []struct{ env, warning string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "warning: post spans to 127.0.0.1:1: 2 of 2 were lost: "},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + silent.Addr().String(), "warning: post spans to " + silent.Addr().String() + ": 2 of 2 were lost: the server does not answer in time"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", "warning: OTEL_EXPORTER_OTLP_ENDPOINT: no spans are sent: "},
	} {
		start := time.Now()
		stderr := traced(t, agentsCommand(t, files, "run", "--no-session", "--agent-file", "inner.json", "-p", "go"), test.env)
		if strings.Count(stderr, "warning:") != 1 || !strings.Contains(stderr, test.warning) {
			t.Errorf("%s: stderr %q, want one warning: %s", test.env, stderr, test.warning)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: it took %v", test.env, took)
		}
	}
}

// TestCollectorOfTheEnvironment: the variables of OpenTelemetry.
func TestCollectorOfTheEnvironment(t *testing.T) {
	for _, test := range []struct {
		name    string
		env     []string
		path    string // that is asked, with the header
		service string
		warning string
	}{
		{name: "nothing"},
		{name: "endpoint with a path", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL/otlp/"}, path: "/otlp/v1/traces ", service: "agents"},
		{name: "endpoint of traces", env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=URL/as/it/is", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, path: "/as/it/is ", service: "agents"},
		{name: "headers of traces", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_EXPORTER_OTLP_HEADERS=x-key=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=b, x-key = 2=3%2C "}, path: "/v1/traces 2=3,", service: "agents"},
		{name: "resource", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_RESOURCE_ATTRIBUTES=service.name=other,a=b"}, path: "/v1/traces ", service: "other"},
		{name: "service name", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_RESOURCE_ATTRIBUTES=service.name=other", "OTEL_SERVICE_NAME=this"}, path: "/v1/traces ", service: "this"},
		{name: "malformed resource", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_RESOURCE_ATTRIBUTES=service.name=other,a"}, path: "/v1/traces ", service: "agents", warning: "OTEL_RESOURCE_ATTRIBUTES is ignored"},
		{name: "disabled", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_SDK_DISABLED=True"}},
		{name: "no exporter", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_TRACES_EXPORTER=none"}},
		{name: "gRPC", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, warning: "no spans are sent: OTEL_EXPORTER_OTLP_PROTOCOL is grpc"},
		{name: "protobuf over HTTP", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=URL", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}, path: "/v1/traces ", service: "agents"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCollector(t)
			for i := range test.env {
				test.env[i] = strings.Replace(test.env[i], "URL", c.URL, 1)
			}
			stderr := traced(t, agentsCommand(t, tracedFiles(""), "run", "--no-session", "--agent-file", "inner.json", "-p", "go"), test.env...)
			if strings.Contains(stderr, "warning:") != (test.warning != "") || !strings.Contains(stderr, test.warning) {
				t.Errorf("stderr %q, want the warning %q", stderr, test.warning)
			}
			if got := strings.Join(c.asked, "; "); got != test.path {
				t.Errorf("requests %q, want %q", got, test.path)
			}
			if test.service != "" && !strings.Contains(c.bodies.String(), `{"key":"service.name","value":{"stringValue":"`+test.service+`"}}`) {
				t.Errorf("the service is not %s: %s", test.service, c.bodies.String())
			}
		})
	}
}

// TestMCPServerIsPartOfItsClientsTrace: a client names its span in a request, and the
// environment of the server one for all others.
func TestMCPServerIsPartOfItsClientsTrace(t *testing.T) {
	files := tracedFiles("http://127.0.0.1:1")
	p := agentsCommand(t, files, "mcp-server", "--no-session", "--agent-file", "inner.json", "--trace-file", "spans.jsonl")
	const other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traced := func(meta string) string {
		p := *p
		p.Env = append(p.Env, "TRACEPARENT="+other)
		p.Stdin = strings.NewReader(mcpGreeting + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inner","arguments":{"prompt":"go"}` + meta + "}}\n")
		if out, err := p.Output(); err != nil || !strings.Contains(string(out), "inner done") {
			t.Fatalf("it wrote %s: %v", out, err)
		}
		spans := spansIn(t, readFile(t, &p, "spans.jsonl"))
		root := spans[len(spans)-1]
		return root.Name + " " + root.TraceID + "-" + root.ParentSpanID
	}
	for meta, want := range map[string]string{
		"": other, `,"_meta":{"traceparent":"` + traceparent + `"}`: traceparent, `,"_meta":{"traceparent":"x"}`: other,
	} {
		if got, want := traced(meta), "invoke_agent inner "+want[3:52]; got != want {
			t.Errorf("with %q the span is %s, want %s", meta, got, want)
		}
	}
}

// TestMCPServerPassesTheTraceToItsTools, which it serves without an agent.
func TestMCPServerPassesTheTraceToItsTools(t *testing.T) {
	files := tracedFiles("http://127.0.0.1:1")
	files["agent.json"] = strings.Replace(files["agent.json"], "mcpServers", "x-none", 1)
	p := agentsCommand(t, files, "mcp-server", "--expose", "tools", "--agent-file", "agent.json", "--trace-file", "spans.jsonl")
	p.Stdin = strings.NewReader(mcpGreeting + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash_show","_meta":{"traceparent":"` + traceparent + `"}}}` + "\n")
	if out, err := p.Output(); err != nil {
		t.Fatalf("it wrote %s: %v", out, err)
	}
	spans := spansIn(t, readFile(t, p, "spans.jsonl"))
	if len(spans) != 1 || spans[0].Name != "execute_tool bash_show" || spans[0].TraceID+"-"+spans[0].ParentSpanID != traceparent[3:52] {
		t.Fatalf("spans %+v, want the call below the client's", spans)
	}
	want := traceid.Context{Trace: outsideTrace, Span: spans[0].SpanID, Sampled: true}.String()
	if got := string(readFile(t, p, "shown")); got != want+"\n" {
		t.Errorf("the tool saw TRACEPARENT=%s, want %s", got, want)
	}
}

// TestAChildOnAChannelIsExportedByItsHolder, and does not export itself.
func TestAChildOnAChannelIsExportedByItsHolder(t *testing.T) {
	c := newCollector(t)
	url, _ := tracedModel(t, "bash_inner")
	files := tracedFiles(url)
	files["tools/child"] = "#!/bin/sh\nexec agents --agent-file inner.json \"$@\"\n"
	cmd := agentsCommand(t, files, "run", "--quiet", "--no-session", "--agent-file", "agent.json", "-p", "go")
	traced(t, cmd, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	spans := map[string]span{}
	all := spansIn(t, c.bodies.Bytes())
	for _, s := range all {
		spans[s.Name] = s
	}
	root, call, inner := spans["invoke_agent outer"], spans["execute_tool bash_inner"], spans["invoke_agent inner"]
	if len(all) != 6 || inner.ParentSpanID != call.SpanID || call.ParentSpanID != root.SpanID || inner.TraceID != root.TraceID || len(c.asked) != 1 {
		t.Errorf("spans in %d requests, want one from the root with one tree: %+v", len(c.asked), all)
	}
}
