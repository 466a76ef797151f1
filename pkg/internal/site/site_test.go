package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/internal/chromium"
)

const repository = "../../.."

// TestLinks finds dead links of the manual.
func TestLinks(t *testing.T) {
	s, err := find(repository)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.resolve(); err != nil {
		t.Error(err)
	}
	if len(s.pages) < 60 || len(s.nav) < 5 {
		t.Errorf("there are %d pages and %d sections of the navigation", len(s.pages), len(s.nav))
	}
	for _, sec := range s.nav {
		for _, it := range sec.Items {
			if s.pages[it.path] == nil {
				t.Errorf("the navigation has %s, which is not a page", it.path)
			}
		}
	}
}

func TestDeadLinksAreErrors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md":      "# Top\n\n[a](docs/gone.md) [b](docs/README.md#gone) [c](docs/README.md#a-b-1) [d](#top) [e](docs) [f](main.go) ![g](gone.svg)\n",
		"docs/README.md": "# Manual\n\n## A `b`\n\n## A b!\n\n| page | |\n|---|---|\n| [Top](../README.md) | |\n",
		"main.go":        "package main\n",
	} {
		if err := put(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := write(dir, filepath.Join(dir, "site"))
	if err == nil {
		t.Fatal("dead links are no error")
	}
	for _, want := range []string{"docs/gone.md", "docs/README.md#gone", "gone.svg"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 3 {
		t.Errorf("there are %d errors, want 3:\n%v", lines, err)
	}
}

func TestPages(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md":      "# Top\n\n![picture](docs/a.svg) [m](docs/a.md#two-words) [source](docs/a.go)\n",
		"docs/README.md": "# Manual\n\n## Begin\n\n| page | |\n|---|---|\n| [Page A](a.md) | |\n",
		"docs/a.md":      "# A & B\n\n[up](../README.md)\n\n## Two words\n\n```console dir/x.sh\n$ echo '<b>'\n<b>\n```\n\n| a |\n|---|\n| b |\n",
		"docs/a.svg":     "<svg/>",
		"docs/a.go":      "package docs\n",
	} {
		if err := put(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "site")
	if n, err := write(dir, out); n != 3 || err != nil {
		t.Fatalf("write = %d, %v; want 3 pages", n, err)
	}
	for name, wants := range map[string][]string{
		"index.html":      {`src="docs/a.svg"`, `href="docs/a.html#two-words"`, `href="` + source + `docs/a.go"`, `href="style.css"`},
		"docs/index.html": {`href="../docs/a.html"`},
		"docs/a.html": {`<title>A &amp; B · agents</title>`, `href="../index.html"`, `<h2 id="two-words">Two words <a class="anchor" href="#two-words"`, `<b>$ echo '&lt;b&gt;'</b>` + "\n&lt;b&gt;",
			`<div class="file">dir/x.sh</div>`, `aria-current="page">Page A`, `<div class="table" tabindex="0"><table>`},
		"docs/a.svg": {"<svg/>"},
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s:\n%s", name, want, text)
			}
		}
	}
}

// TestNoPageScrollsSideways looks at all pages in a browser, as wide as a telephone.
func TestNoPageScrollsSideways(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	if _, err := write(repository, out); err != nil {
		t.Fatal(err)
	}
	s, err := find(repository)
	if err != nil {
		t.Fatal(err)
	}
	var frames strings.Builder
	for _, name := range s.names() {
		fmt.Fprintf(&frames, "<iframe width=400 height=800 src=\"/%s\"></iframe>\n", address(name))
	}
	const measure = `<!doctype html><body>%s<pre id=result></pre><script>
onload = () => {
  let lines = []
  for (const f of document.querySelectorAll("iframe")) {
    const d = f.contentDocument.documentElement
    if (!d.querySelector("main")) lines.push("no page: " + f.src)
    if (d.scrollWidth > 400) lines.push("too wide: " + f.src + " " + d.scrollWidth)
  }
  result.textContent = "measured " + lines.join("; ") + "."
}
</script>`
	files := http.FileServer(http.Dir(out))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/measure" {
			files.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, measure, &frames)
	}))
	defer server.Close()
	dom := chromium.Run(t, server.URL+"/measure", "--dump-dom")
	if !strings.Contains(dom, ">measured .<") {
		_, result, _ := strings.Cut(dom, `id="result">`)
		result, _, _ = strings.Cut(result, "<")
		t.Errorf("at 400 pixels: %s", result)
	}
}
