package openai

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
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
	return &Provider{Settings: modelhttp.Settings{BaseURL: server.URL, Model: "m", Client: &http.Client{Transport: transport}}}
}

// answering returns a Provider whose server sends body to every request.
func answering(t testing.TB, contentType, body string) *Provider {
	return against(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	})
}

var hello = &agent.Request{Messages: []agent.Message{agent.UserText("hello")}}

// ask makes a request and also returns the text that was shown.
func ask(t testing.TB, p agent.Provider) (resp *agent.Response, shown string, err error) {
	t.Helper()
	var b strings.Builder
	resp, err = p.Generate(context.Background(), hello, func(d agent.Delta) {
		if d.Kind == agent.DeltaText {
			b.WriteString(d.Text)
		}
	})
	return resp, b.String(), err
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
