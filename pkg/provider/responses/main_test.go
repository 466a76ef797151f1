package responses

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server answers with h, which gets the request's body.
func against(t testing.TB, h func(w http.ResponseWriter, body string)) *Provider {
	t.Helper()
	p := &Provider{Settings: modeltest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h(w, string(body))
	})}
	p.Model = "gpt-5"
	return p
}

// read reads a body as the answer of the server "h", and returns what was shown as well.
func read(body string) (resp *agent.Response, text, thought string, err error) {
	a := &answer{host: "h", emit: func(d agent.Delta) {
		switch d.Kind {
		case agent.DeltaText:
			text += d.Text
		case agent.DeltaRetry:
			text, thought = "", ""
		default:
			thought += d.Text
		}
	}}
	resp, err = modelhttp.Read(strings.NewReader(body), a, func() {})
	return resp, text, thought, err
}
