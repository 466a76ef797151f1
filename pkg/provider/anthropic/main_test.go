package anthropic

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/internal/modeltest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a Provider whose server is h.
func against(t testing.TB, h http.HandlerFunc) *Provider {
	t.Helper()
	p := &Provider{Settings: modeltest.Serve(t, h)}
	p.Model = "claude-opus-5"
	return p
}

// answering returns a Provider whose server sends one body after the other, and the
// bodies of the requests.
func answering(t testing.TB, bodies ...string) (*Provider, *[]string) {
	settings, requests := modeltest.Answer(t, bodies...)
	settings.Model = "claude-opus-5"
	return &Provider{Settings: settings}, requests
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
