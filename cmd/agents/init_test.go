package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/provider/openai"
)

// fakeServer is a model server on this machine whose list of models is body.
func fakeServer(t *testing.T, status int, body string) int {
	t.Helper()
	return serverPort(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s with Authorization %q, want GET /v1/models without", r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func serverPort(t *testing.T, handler http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// testProgram is a program without a terminal, in a new working directory.
func testProgram(t *testing.T, env map[string]string) (p *program.Env, stdout, stderr *strings.Builder) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	p, stdout, stderr = testProgramHere()
	p.Getenv = func(name string) string { return env[name] }
	return p, stdout, stderr
}

// testProgramHere has no environment.
func testProgramHere() (p *program.Env, stdout, stderr *strings.Builder) {
	stdout, stderr = &strings.Builder{}, &strings.Builder{}
	return &program.Env{
		In: strings.NewReader(""), Out: stdout, Err: stderr,
		Getenv: func(string) string { return "" }, Version: "dev",
		Probe: time.Minute,
	}, stdout, stderr
}

type writtenAgent struct {
	Contents struct{ Flavor, ModelURL, ModelName, APIKeyID, Slug string }
}

func readAgent(t *testing.T, path string) (a writtenAgent) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestInitFindsAModelServerOnThisMachine(t *testing.T) {
	const models = `{"object":"list","data":[{"id":"\u001b[2Jno\nname"},{"id":"nomic-embed-text"},{"id":"llama3.2:3b"},{"id":"qwen3"}]}`
	p, _, stderr := testProgram(t, nil)
	elsewhere := fakeServer(t, 200, models)
	moved := serverPort(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("http://127.0.0.1:%d/v1/models", elsewhere), http.StatusFound)
	})
	port := fakeServer(t, 200, models)
	p.Servers = []program.LocalServer{
		{Flavor: openai.LMStudio, Name: "a page", Port: fakeServer(t, 200, "<html>")},
		{Flavor: openai.LMStudio, Name: "broken", Port: fakeServer(t, 500, models)},
		{Flavor: openai.LMStudio, Name: "no models", Port: fakeServer(t, 200, `{"data":[]}`)},
		{Flavor: openai.LMStudio, Name: "moved", Port: moved},
		{Flavor: openai.Ollama, Name: "Ollama", Port: port},
		{Flavor: openai.VLLM, Name: "vLLM", Port: fakeServer(t, 200, models)},
	}
	if err := root(p).Run(t.Context(), []string{"agents", "init"}); err != nil {
		t.Fatal(err)
	}
	got := readAgent(t, "agent.json").Contents
	if want := fmt.Sprintf("http://127.0.0.1:%d/v1", port); got.Flavor != "ollama" || got.ModelURL != want || got.ModelName != "llama3.2:3b" || got.APIKeyID != "" {
		t.Errorf("agent.json = %+v, want ollama, %s, llama3.2:3b and no key", got, want)
	}
	if want := "note: it runs on Ollama on this machine (llama3.2:3b and 2 more), model llama3.2:3b;"; !strings.Contains(stderr.String(), want) {
		t.Errorf("stderr = %s, want %s", stderr, want)
	}
	stderr.Reset()
	if err := root(p).Run(t.Context(), []string{"agents", "check", "--agent-file", "agent.json"}); err != nil || stderr.Len() > 0 {
		t.Errorf("check = %v, %s", err, stderr)
	}
}

func TestInitDoesNotWaitForAServerThatSaysNothing(t *testing.T) {
	p, _, _ := testProgram(t, nil)
	p.Probe = 50 * time.Millisecond
	p.Servers = []program.LocalServer{{Flavor: openai.Ollama, Name: "silent", Port: serverPort(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}}
	if err := root(p).Run(t.Context(), []string{"agents", "init"}); err != nil {
		t.Fatal(err)
	}
	if got := readAgent(t, "agent.json").Contents; got.Flavor != agentfile.FlavorScripted {
		t.Errorf("agent.json = %+v, want a scripted one", got)
	}
}

func TestInitPrefersAKeyToAServer(t *testing.T) {
	p, stdout, stderr := testProgram(t, map[string]string{"ANTHROPIC_API_KEY": "sk-secret\n", "XAI_API_KEY": "sk-second"})
	p.Servers = []program.LocalServer{{Flavor: openai.Ollama, Name: "Ollama", Port: fakeServer(t, 200, `{"data":[{"id":"m"}]}`)}}
	if err := root(p).Run(t.Context(), []string{"agents", "init"}); err != nil {
		t.Fatal(err)
	}
	if got := readAgent(t, "agent.json").Contents; got.Flavor != "anthropic" || got.APIKeyID != "claude" || got.ModelURL != "https://api.anthropic.com/v1" {
		t.Errorf("agent.json = %+v, want claude", got)
	}
	if strings.Contains(stdout.String()+stderr.String(), "sk-") {
		t.Errorf("a key was printed:\n%s%s", stdout, stderr)
	}
	keys, err := os.ReadFile("agents-exe.keys")
	if err != nil || !strings.Contains(string(keys), `"value": "sk-secret"`) {
		t.Errorf("agents-exe.keys = %s, %v; want the key without its newline", keys, err)
	}
}

func TestInitAsksTheServerThatIsNamed(t *testing.T) {
	p, _, _ := testProgram(t, nil)
	base := fmt.Sprintf("http://localhost:%d/v1", fakeServer(t, 200, `{"data":[{"id":"mine"}]}`))
	if err := root(p).Run(t.Context(), []string{"agents", "init", "--model-url", base, "--slug", "s"}); err != nil {
		t.Fatal(err)
	}
	if got := readAgent(t, "agent.json").Contents; got.Flavor != "openai-compatible" || got.ModelName != "mine" || got.Slug != "s" {
		t.Errorf("agent.json = %+v, want the server's model", got)
	}
}
