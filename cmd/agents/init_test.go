package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
func testProgram(t *testing.T, env map[string]string) (p *program, stdout, stderr *strings.Builder) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	p, stdout, stderr = testProgramHere()
	p.getenv = func(name string) string { return env[name] }
	return p, stdout, stderr
}

// testProgramHere has no environment.
func testProgramHere() (p *program, stdout, stderr *strings.Builder) {
	stdout, stderr = &strings.Builder{}, &strings.Builder{}
	return &program{
		in: strings.NewReader(""), out: stdout, err: stderr,
		getenv: func(string) string { return "" }, version: "dev",
		probe: time.Minute,
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
	p.servers = []localServer{
		{openai.LMStudio, "a page", fakeServer(t, 200, "<html>")},
		{openai.LMStudio, "broken", fakeServer(t, 500, models)},
		{openai.LMStudio, "no models", fakeServer(t, 200, `{"data":[]}`)},
		{openai.LMStudio, "moved", moved},
		{openai.Ollama, "Ollama", port},
		{openai.VLLM, "vLLM", fakeServer(t, 200, models)},
	}
	if err := p.command().Run(t.Context(), []string{"agents", "init"}); err != nil {
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
	if err := p.command().Run(t.Context(), []string{"agents", "check", "--agent-file", "agent.json"}); err != nil || stderr.Len() > 0 {
		t.Errorf("check = %v, %s", err, stderr)
	}
}

func TestInitDoesNotWaitForAServerThatSaysNothing(t *testing.T) {
	p, _, _ := testProgram(t, nil)
	p.probe = 50 * time.Millisecond
	p.servers = []localServer{{openai.Ollama, "silent", serverPort(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}}
	if err := p.command().Run(t.Context(), []string{"agents", "init"}); err != nil {
		t.Fatal(err)
	}
	if got := readAgent(t, "agent.json").Contents; got.Flavor != agentfile.FlavorScripted {
		t.Errorf("agent.json = %+v, want a scripted one", got)
	}
}

func TestInitPrefersAKeyToAServer(t *testing.T) {
	p, stdout, stderr := testProgram(t, map[string]string{"ANTHROPIC_API_KEY": "sk-secret\n", "XAI_API_KEY": "sk-second"})
	p.servers = []localServer{{openai.Ollama, "Ollama", fakeServer(t, 200, `{"data":[{"id":"m"}]}`)}}
	if err := p.command().Run(t.Context(), []string{"agents", "init"}); err != nil {
		t.Fatal(err)
	}
	if got := readAgent(t, "agent.json").Contents; got.Flavor != "claude-v1" || got.APIKeyID != "claude" || got.ModelURL != "https://api.anthropic.com/v1" {
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
	if err := p.command().Run(t.Context(), []string{"agents", "init", "--model-url", base, "--slug", "s"}); err != nil {
		t.Fatal(err)
	}
	if got := readAgent(t, "agent.json").Contents; got.Flavor != "openai-compatible" || got.ModelName != "mine" || got.Slug != "s" {
		t.Errorf("agent.json = %+v, want the server's model", got)
	}
}

func TestInitDoesNotListHundredsOfModels(t *testing.T) {
	p, _, stderr := testProgram(t, nil)
	var m modelChoice
	for i := range 1000 {
		m.models = append(m.models, fmt.Sprintf("m%d", i))
	}
	ask := &asker{p, bufio.NewReader(strings.NewReader("m777\n"))}
	m, err := p.chooseName(t.Context(), modelFlags{}, m, ask)
	if want := "note: the server has 1000 models, such as m0, m1, m2, m3, m4\nWhich model? [m0]: "; err != nil || m.model != "m777" || stderr.String() != want {
		t.Errorf("chooseName = %q, %v; the person saw\n%s\nwant\n%s", m.model, err, stderr, want)
	}
}

func TestWriteNewNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	const writers = 50
	texts := make([]string, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		texts[i] = strings.Repeat(strconv.Itoa(i)+" ", 10_000)
		wg.Go(func() { errs[i] = writeNew(path, 0o640, texts[i]) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Errorf("writers %d and %d both wrote the file", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, os.ErrExist):
			t.Errorf("writer %d: %v, want %v", i, err, os.ErrExist)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || won < 0 || string(got) != texts[won] {
		t.Errorf("the file is not that of writer %d (%v)", won, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v), want the file alone", entries, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(link, 0o600, "x"); !errors.Is(err, os.ErrExist) {
		t.Errorf("writeNew through a dangling link = %v, want %v", err, os.ErrExist)
	}
}

func TestSlugOf(t *testing.T) {
	for name, want := range map[string]string{
		"helper": "helper", "my agent": "my-agent", ".hidden": "hidden", "tmp.X_1": "tmp-X_1", "--x": "x",
		"": "other", "日本": "other", "Ü-bung": "bung", strings.Repeat("a", 80): strings.Repeat("a", 50),
	} {
		if got := slugOf(name, "other"); got != want || !validSlug(got) {
			t.Errorf("slugOf(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for _, s := range []string{"plain.json", "a b", "it's", "$(x)", "", "ü", "*", "~x", "a;b", "-x=/y"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("sh reads %s as %q (%v), want %q", shellQuote(s), out, err, s)
		}
	}
}
