package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/server"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
	"github.com/agents-exe/agents/pkg/observe"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func TestOptionsComeFromFlagsAndTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name    string
		o       Options
		env     []string
		address string
		space   string
		tls     bool
		err     string
	}{
		{name: "nothing", err: "no Temporal server is configured"},
		{name: "a server that runs here", o: Options{Fallback: "a:1"}, address: "a:1", space: "default"},
		{name: "the environment", o: Options{Fallback: "a:1"}, env: []string{"TEMPORAL_ADDRESS=b:2", "TEMPORAL_NAMESPACE=n"}, address: "b:2", space: "n"},
		{name: "empty variables", o: Options{Fallback: "a:1"}, env: []string{"TEMPORAL_ADDRESS=", "TEMPORAL_NAMESPACE="}, address: "a:1", space: "default"},
		{name: "flags", o: Options{Address: "c:3", Namespace: "m"}, env: []string{"TEMPORAL_ADDRESS=b:2", "TEMPORAL_NAMESPACE=n"}, address: "c:3", space: "m"},
		{name: "a key of the API", o: Options{Address: "c:3"}, env: []string{"TEMPORAL_API_KEY=k"}, address: "c:3", space: "default", tls: true},
		{name: "TLS", o: Options{Address: "c:3"}, env: []string{"TEMPORAL_TLS=true", "TEMPORAL_TLS_SERVER_NAME=s"}, address: "c:3", space: "default", tls: true},
		{name: "half a certificate", o: Options{Address: "c:3"}, env: []string{"TEMPORAL_TLS_CLIENT_CERT_PATH=/no"}, err: "client cert or key path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, pair := range append(tt.env, "TEMPORAL_CONFIG_FILE="+filepath.Join(t.TempDir(), "none")) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			got, err := tt.o.options()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("options: %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got.HostPort != tt.address || got.Namespace != tt.space || (got.ConnectionOptions.TLS != nil) != tt.tls {
				t.Errorf("options are %s, %s, TLS %v, %v; want %s, %s, %v", got.HostPort, got.Namespace, got.ConnectionOptions.TLS, err, tt.address, tt.space, tt.tls)
			}
		})
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := (Options{Address: "127.0.0.1:1"}).Client(ctx); err == nil || !strings.HasPrefix(err.Error(), "connect to the Temporal server at 127.0.0.1:1: ") {
		t.Errorf("Client: %v", err)
	}
}

func keyFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func key(t *testing.T, digit string) *Key {
	t.Helper()
	k, err := ReadKey(keyFile(t, strings.Repeat(digit, 64)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAKeyFileMustHoldAKey(t *testing.T) {
	for _, text := range []string{"", "abc", strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("a", 128), strings.Repeat("g", 64)} {
		if _, err := ReadKey(keyFile(t, text)); err == nil || !strings.Contains(err.Error(), "want 64 hexadecimal digits") {
			t.Errorf("ReadKey(%q): %v", text, err)
		}
	}
	if _, err := ReadKey(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadKey of no file: %v", err)
	}
}

func TestAKeyReadsOnlyWhatItWrote(t *testing.T) {
	k := key(t, "a")
	plain := &common.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte("json/plain")}, Data: []byte(`"the harbour"`)}
	written, err := k.Encode([]*common.Payload{plain, plain})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(written[0].Data, []byte("harbour")) || bytes.Contains(written[0].Data, []byte("json/plain")) || bytes.Equal(written[0].Data, written[1].Data) {
		t.Errorf("the payload is %q", written[0].Data)
	}
	read, err := k.Decode([]*common.Payload{written[0], plain})
	if err != nil || string(read[0].Data) != `"the harbour"` || string(read[0].Metadata[converter.MetadataEncoding]) != "json/plain" || read[1] != plain {
		t.Errorf("Decode: %v, %v", read, err)
	}
	if _, err := key(t, "b").Decode(written); err == nil || !strings.Contains(err.Error(), "was encrypted with the key") {
		t.Errorf("Decode with another key: %v", err)
	}
	for name, change := range map[string]func(*common.Payload){
		"a changed byte": func(p *common.Payload) { p.Data[len(p.Data)/2] ^= 1 },
		"a short one":    func(p *common.Payload) { p.Data = p.Data[:5] },
	} {
		again, _ := k.Encode([]*common.Payload{plain})
		change(again[0])
		if _, err := k.Decode(again); err == nil {
			t.Errorf("Decode of %s succeeds", name)
		}
	}
}

// A workflow whose activity fails once, over a server: nothing of it is readable there, its
// measurements are served, and its spans are one trace below the run of the agent.
func TestAClientEncryptsMeasuresAndTraces(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := server.Start(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	metrics, err := ServeMetrics("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Close()
	var spans bytes.Buffer
	trace, err := OpenTrace(observe.TraceOptions{W: &spans})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := Options{Address: s.Address, Key: key(t, "c"), Metrics: metrics, Trace: trace}.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if err := Register(ctx, c, DefaultNamespace, []temporal.SearchAttributeKey{temporal.NewSearchAttributeKeyFloat64("Price")}); err != nil {
			t.Fatal(err)
		}
	}
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, text string) (string, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond}})
		var out string
		err := workflow.ExecuteActivity(ctx, "Double", text).Get(ctx, &out)
		return out, err
	}, workflow.RegisterOptions{Name: "W"})
	tries := 0
	w.RegisterActivityWithOptions(func(_ context.Context, text string) (string, error) {
		if tries++; tries == 1 {
			return "", errors.New("no " + text)
		}
		return text + text, nil
	}, activity.RegisterOptions{Name: "Double"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	other, _, err := Options{Address: s.Address, Key: key(t, "c"), Trace: &Trace{}}.Client(ctx) // exports nothing
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	run, err := other.ExecuteWorkflow(Under(ctx, "S", ""), client.StartWorkflowOptions{ID: "S", TaskQueue: "q"}, "W", "harbour")
	if err != nil {
		t.Fatal(err)
	}
	var out string
	if err := run.Get(ctx, &out); err != nil || out != "harbourharbour" {
		t.Fatalf("the workflow ends with %q, %v", out, err)
	}
	for events := c.GetWorkflowHistory(ctx, "S", "", false, 0); events.HasNext(); {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.String(), "harbour") {
			t.Errorf("the server can read %s", e)
		}
	}
	w.Stop()
	r, err := http.Get("http://" + metrics.Address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(text), "temporal_activity_execution_failed") {
		t.Errorf("the measurements are %.2000s, %v", text, err)
	}
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	checkSpans(t, spans.String())
}

func checkSpans(t *testing.T, text string) {
	known, names := map[string]bool{traceid.Run("S", 0): true}, map[string]int{}
	type span struct{ TraceID, SpanID, ParentSpanID, Name string }
	var all []span
	for line := range strings.Lines(text) {
		var l struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		s := l.ResourceSpans[0].ScopeSpans[0].Spans[0]
		all, known[s.SpanID] = append(all, s), true
		names[s.Name]++
	}
	for _, s := range all {
		if s.TraceID != traceid.Root("S").Trace || !known[s.ParentSpanID] {
			t.Errorf("the span %+v is not part of the trace", s)
		}
	}
	for name, n := range map[string]int{"StartWorkflow:W": 0, "RunWorkflow:W": 1, "StartActivity:Double": 1, "RunActivity:Double": 2} {
		if names[name] != n {
			t.Errorf("%d spans %s, want %d; all are %v", names[name], name, n, names)
		}
	}
}

// The record of a run has what its spans need.
func TestARecordBecomesSpans(t *testing.T) {
	var spans bytes.Buffer
	trace, err := OpenTrace(observe.TraceOptions{W: &spans})
	if err != nil {
		t.Fatal(err)
	}
	m, at := agent.UserText("go"), time.Unix(100, 0)
	trace.Record([]agent.Event{
		{Kind: agent.EventSession, Time: at, Session: "S", Agent: "a", Model: "m"},
		{Kind: agent.EventMessage, Time: at, Session: "S", Agent: "a", Message: &m},
		{Kind: agent.EventRequest, Time: at.Add(3 * time.Second), Session: "S", Agent: "a", Turn: 1, Model: "m"},
		{Kind: agent.EventAnswer, Time: at.Add(5 * time.Second), Session: "S", Agent: "a", Turn: 1, RunTurns: 1, Millis: 2000, Message: &agent.Message{Role: agent.RoleAssistant}, Usage: &agent.Usage{Requests: 1}},
		{Kind: agent.EventEnd, Time: at.Add(6 * time.Second), Session: "S", Agent: "a", Turn: 1, Status: agent.StatusOK},
	})
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name":"invoke_agent a"`, `"name":"chat m","kind":3,"startTimeUnixNano":"103000000000","endTimeUnixNano":"105000000000"`} {
		if !strings.Contains(spans.String(), want) {
			t.Errorf("%s is not in %s", want, spans.String())
		}
	}
}
