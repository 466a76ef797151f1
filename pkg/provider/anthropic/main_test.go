package anthropic

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server is h.
func against(t testing.TB, h http.HandlerFunc) *Provider {
	t.Helper()
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return &Provider{Settings: modelhttp.Settings{BaseURL: server.URL, Model: "claude-opus-5", Client: &http.Client{Transport: transport}}}
}

// answering returns a Provider whose server sends one body after the other, and the
// bodies of the requests.
func answering(t testing.TB, bodies ...string) (*Provider, *[]string) {
	var requests []string
	p := against(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, bodies[min(len(requests), len(bodies)-1)])
		requests = append(requests, string(body))
	})
	return p, &requests
}

// recorded is a file of testdata.
func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var hello = &agent.Request{Messages: []agent.Message{agent.UserText("hello")}}

// ask makes a request and also returns what was shown.
func ask(t testing.TB, p agent.Provider, req *agent.Request) (resp *agent.Response, text, thought string, err error) {
	t.Helper()
	var texts, thoughts strings.Builder
	resp, err = p.Generate(context.Background(), req, func(d agent.Delta) {
		if d.Kind == agent.DeltaText {
			texts.WriteString(d.Text)
		} else {
			thoughts.WriteString(d.Text)
		}
	})
	return resp, texts.String(), thoughts.String(), err
}

// modelError is err as a *agent.ModelError; it must be one.
func modelError(t testing.TB, err error) *agent.ModelError {
	t.Helper()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T), want a *agent.ModelError", err, err)
	}
	return e
}
