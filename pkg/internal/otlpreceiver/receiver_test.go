package otlpreceiver

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	tracespb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// want are the spans of a run of examples/sub-agents, with the span above.
var want = map[string]string{
	"invoke_agent editor": "", "execute_tool expert_facts": "invoke_agent editor", "execute_tool expert_style": "invoke_agent editor",
	"invoke_agent facts": "execute_tool expert_facts", "invoke_agent style": "execute_tool expert_style",
	"execute_tool bash_find_numbers": "invoke_agent facts", "execute_tool bash_sentence_lengths": "invoke_agent style",
}

// run runs the example and returns its trace file.
func run(t *testing.T, env ...string) []byte {
	t.Helper()
	program := os.Getenv("AGENTS_TEST_OTLP")
	if program == "" {
		t.Fatal("AGENTS_TEST_OTLP is not set: see the comment of the package")
	}
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	cmd := exec.Command(program, "run", "--no-session", "--quiet", "--agent-file", "examples/sub-agents/agent.json", "--trace-file", file, "--prompt", "Review examples/sub-agents/letter.txt")
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("warning:")) {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A node is a span with the id of the one above.
type node struct{ name, id, parent string }

func check(t *testing.T, nodes []node) {
	t.Helper()
	ids := map[string]string{"": ""}
	for _, n := range nodes {
		if len(n.id) != 16 || ids[n.id] != "" {
			t.Errorf("the id %q of %s is not one of 8 bytes, or is taken", n.id, n.name)
		}
		ids[n.id] = n.name
	}
	found := map[string]bool{}
	for _, n := range nodes {
		found[n.name] = true
		above, known := ids[n.parent]
		if parent, ok := want[n.name]; !known || ok && above != parent {
			t.Errorf("%s is below %q (%s), want %q", n.name, above, n.parent, parent)
		}
	}
	for name := range want {
		if !found[name] {
			t.Errorf("there is no span %s", name)
		}
	}
}

// TestCollectorReceivesSpans posts to the receiver of the collector over HTTP.
func TestCollectorReceivesSpans(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	factory, sink := otlpreceiver.NewFactory(), &consumertest.TracesSink{}
	cfg := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}).Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	run(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_SERVICE_NAME=tested")
	if err := receiver.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	var nodes []node
	for _, traces := range sink.AllTraces() {
		for _, r := range traces.ResourceSpans().All() {
			if name, _ := r.Resource().Attributes().Get("service.name"); name.AsString() != "tested" {
				t.Errorf("the service is %q", name.AsString())
			}
			for _, s := range r.ScopeSpans().All() {
				for _, span := range s.Spans().All() {
					nodes = append(nodes, node{span.Name(), span.SpanID().String(), span.ParentSpanID().String()})
					if took := span.EndTimestamp().AsTime().Sub(span.StartTimestamp().AsTime()); took < 0 || time.Since(span.EndTimestamp().AsTime()) > time.Hour {
						t.Errorf("%s took %v", span.Name(), took)
					}
				}
			}
		}
	}
	check(t, nodes)
}

// TestTraceFileDecodes decodes every line with the types of the protocol; a member
// that they do not know is an error.
func TestTraceFileDecodes(t *testing.T) {
	var nodes []node
	for line := range bytes.Lines(run(t)) {
		var traces tracespb.TracesData
		if err := protojson.Unmarshal(protobufIDs(t, line), &traces); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		for _, r := range traces.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					nodes = append(nodes, node{span.Name, hex.EncodeToString(span.SpanId), hex.EncodeToString(span.ParentSpanId)})
					if len(span.TraceId) != 16 || span.StartTimeUnixNano == 0 || span.EndTimeUnixNano < span.StartTimeUnixNano || span.Kind == 0 {
						t.Errorf("span %v", span)
					}
				}
			}
		}
	}
	check(t, nodes)
}

// protobufIDs writes ids as the JSON of protobuf has bytes, in base64. OTLP has them in
// hexadecimal.
func protobufIDs(t *testing.T, line []byte) []byte {
	t.Helper()
	var doc any
	if err := json.Unmarshal(line, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, key := range []string{"traceId", "spanId", "parentSpanId"} {
				if id, ok := v[key].(string); ok {
					raw, err := hex.DecodeString(id)
					if err != nil {
						t.Errorf("%s %q: %v", key, id, err)
					}
					v[key] = base64.StdEncoding.EncodeToString(raw)
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(doc)
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
