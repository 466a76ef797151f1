package responses

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server answers with h, which gets the request's body.
func against(t testing.TB, h func(w http.ResponseWriter, body string)) *Provider {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h(w, string(body))
	}))
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return &Provider{Settings: modelhttp.Settings{BaseURL: server.URL, Model: "gpt-5", Client: &http.Client{Transport: transport}}}
}

var hello = &agent.Request{Messages: []agent.Message{agent.UserText("hello")}}

// events writes each value as an event.
func events(values ...string) string {
	var b strings.Builder
	for _, v := range values {
		b.WriteString("data: " + v + "\n\n")
	}
	return b.String()
}

// read reads a body as the answer of the server "h", and returns what was shown as well.
func read(body string) (resp *agent.Response, text, thought string, err error) {
	a := &answer{host: "h", emit: func(d agent.Delta) {
		if d.Kind == agent.DeltaText {
			text += d.Text
		} else {
			thought += d.Text
		}
	}}
	resp, err = modelhttp.Read(strings.NewReader(body), a, func() {})
	return resp, text, thought, err
}

func modelError(t testing.TB, err error) *agent.ModelError {
	t.Helper()
	e, ok := errors.AsType[*agent.ModelError](err)
	if !ok {
		t.Fatalf("error = %v (%T), want a *agent.ModelError", err, err)
	}
	return e
}
