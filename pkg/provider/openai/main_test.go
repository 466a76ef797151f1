package openai

import (
	"flag"
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server is h.
func against(t testing.TB, h http.HandlerFunc) *Provider {
	t.Helper()
	return &Provider{Settings: modeltest.Serve(t, h)}
}

// answering returns a Provider whose server sends body to every request.
func answering(t testing.TB, contentType, body string) *Provider {
	return against(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	})
}

// ask makes a request and also returns the text that was shown.
func ask(t testing.TB, p agent.Provider) (resp *agent.Response, shown string, err error) {
	t.Helper()
	resp, shown, _, err = modeltest.Ask(t, p, modeltest.Hello)
	return resp, shown, err
}
