package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/internal/chromium"
)

func TestParts(t *testing.T) {
	p := parse("docs/a.md", []byte("# Page\n\nabove `x`\n\n## One\n\ntext **bold** [link](b.md)\n\n| cell |\n|---|\n| value |\n\n```sh\nls -l\n```\n\n### Two\n\n- last\n"))
	want := []part{
		{"Page", "docs/a.html", "", "above x"},
		{"Page", "docs/a.html#one", "One", "text bold link cell value ls -l"},
		{"Page", "docs/a.html#two", "Two", "last"},
	}
	got := p.parts()
	if len(got) != len(want) {
		t.Fatalf("parts() = %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("part %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestSearch: a person finds a section of the manual with keys alone, and nothing is loaded from
// elsewhere. The text of the manual is text: what looks like HTML in it is not.
func TestSearch(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md":      "# Top\n\nNothing of interest, and one zebra.\n",
		"docs/README.md": "# Manual\n\n## Begin\n\n| page | |\n|---|---|\n| [Animals](animals.md) | |\n",
		"docs/animals.md": "# Animals\n\nMany.\n\n## Zebra\n\nA zebra has stripes. `<img src=x onerror=document.title='broken'>`\n\n" +
			"## Horse\n\nNo stripes.\n\n" + strings.Repeat("More.\n\n", 200),
	} {
		if err := put(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "site")
	if _, err := write(dir, out); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	for _, address := range []string{server.URL + "/docs/", "file://" + filepath.Join(out, "docs/index.html")} {
		p := chromium.Open(t, 1200, 800, "light")
		p.Go(address)
		p.Wait(`document.getElementById("search")?.hidden === false`)
		p.Press("/")
		p.Wait(`document.activeElement.id === "search"`)
		p.Type("zeb stripes")
		p.Wait(`document.querySelectorAll("#found a").length === 1`)
		p.Type(" no such word")
		p.Wait(`document.getElementById("found").textContent === "Nothing found."`)
		p.Press("Escape")
		p.Wait(`document.getElementById("found").hidden`)
		p.Type("zebra")
		p.Wait(`[...document.querySelectorAll("#found b")].map((b) => b.textContent).join() === "Animals › Zebra,Top"`)
		p.Press("ArrowDown")
		p.Press("ArrowDown")
		p.Wait(`document.activeElement.textContent.startsWith("Top")`)
		p.Press("ArrowUp")
		p.Press("Enter")
		p.Wait(`location.href.endsWith("/docs/animals.html#zebra")`)
		if title := p.Eval(`document.title`); !strings.HasPrefix(title, "Animals") {
			t.Errorf("the title is %q", title)
		}
	}
}
