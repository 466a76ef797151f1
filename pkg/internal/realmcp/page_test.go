//go:build unix

package realmcp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/internal/chromium"
)

// hand is what a person does in the page: it starts a run and allows what is asked. The
// connection is lost once, while the question is open. The image holds back the load
// event, after which the browser prints the page, until the run has ended.
const hand = `<script>
	get("server").value = %q;
	get("token").value = %q;
	get("prompt").value = %q;
	let lost = false;
	setInterval(() => {
		const button = document.querySelector(".question button");
		if (button && !lost) socket.close();
		lost ||= Boolean(button);
		if (socket?.readyState === WebSocket.OPEN) button?.click();
		if (page.state === "ended" || page.state === "idle" && get("message").textContent) fetch("/ended");
	}, 20);
	get("start").click();
</script><img src="/hold" alt="">`

// visit opens the page, and returns it as it is when the run has ended.
func visit(t *testing.T, server, token, prompt string) string {
	t.Helper()
	html, err := os.ReadFile("../../../examples/web/index.html")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	var once sync.Once
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(html)
		fmt.Fprintf(w, hand, server, token, prompt)
	})
	mux.HandleFunc("GET /ended", func(http.ResponseWriter, *http.Request) { once.Do(func() { close(ended) }) })
	mux.HandleFunc("GET /hold", func(http.ResponseWriter, *http.Request) {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the run does not end")
		}
	})
	page := httptest.NewServer(mux)
	defer page.Close()
	return chromium.Run(t, page.URL, "--dump-dom")
}

// TestPageShowsAgentsAtWork uses examples/web in a browser.
func TestPageShowsAgentsAtWork(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("a-token-for-the-test-page\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := installed(t).serveAgents(t, "--agent-file", "../../../examples/sub-agents/agent.json", "--token-file", tokens, "--ask", "bash_find_numbers")
	dom := visit(t, url, "a-token-for-the-test-page", "Review ../../../examples/sub-agents/letter.txt")
	boxes := regexp.MustCompile(`data-(agent|tool)="(\w+)"`)
	var list []string
	for _, m := range boxes.FindAllStringSubmatch(dom, -1) {
		list = append(list, m[2])
	}
	// In the document the box of a call holds that of the agent that answers it.
	got := strings.Join(list, " ")
	facts, style := "expert_facts facts bash_find_numbers", "expert_style style bash_sentence_lengths"
	if got != "editor "+facts+" "+style && got != "editor "+style+" "+facts {
		t.Errorf("the page shows %s\n%s", got, dom)
	}
	for _, want := range []string{`data-state="ended"`, "line 3: 40 chairs", "a sentence of 36 words", "tokens in"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	if n := strings.Count(dom, `data-status="ok"`); n != 7 {
		t.Errorf("%d agents and calls ended well, want 7", n)
	}
	if dom := visit(t, url, "another-token", "Review it."); !strings.Contains(dom, "a bearer token of this server is needed") {
		t.Errorf("with another token, the page shows\n%s", dom)
	}
}
