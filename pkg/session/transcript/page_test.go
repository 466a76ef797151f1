package transcript

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/chromium"
)

// page is the page of events in a file.
func page(t *testing.T, events []agent.Event) string {
	t.Helper()
	s, err := Summarize(all(events))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := HTML(&b, s, all(events)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "session.html")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// browse runs a browser without a window.
func browse(t *testing.T, address string, args ...string) string {
	t.Helper()
	return chromium.Run(t, address, append([]string{"--virtual-time-budget=600"}, args...)...)
}

func TestPageShowsTheTreeAndHostileTextsAsText(t *testing.T) {
	t.Parallel()
	dom := browse(t, "file://"+page(t, sample())+"#open", "--dump-dom")
	if !strings.Contains(dom, `data-ready="true"`) {
		t.Fatalf("the script did not come to its end:\n%s", dom)
	}
	rendered, _, _ := strings.Cut(dom, `<script type="application/json"`)

	bar := regexp.MustCompile(`<button class="(bar [^"]*)"[^>]*aria-label="([^"]*)"[^>]*data-depth="(\d)" data-agent="(\w+)"`)
	var got []string
	for _, m := range bar.FindAllStringSubmatch(rendered, -1) {
		label := strings.Join(strings.Split(m[2], ", ")[:2], ", ")
		kind, _, _ := strings.Cut(strings.TrimPrefix(m[1], "bar k-"), " tight")
		got = append(got, m[3]+" "+m[4]+": "+kind+": "+label)
	}
	want := []string{
		"0 lead: model: Model request, turn 1", "0 lead: tool: Tool call list, lead",
		"0 lead: model: Model request, turn 2", "0 lead: agent: Sub-agent ask_editor, lead", "0 lead: tool failed: Tool call grep, lead",
		"0 lead: model: Model request, turn 3", "0 lead: model: Model request, turn 4",
		"1 editor: model: Model request, turn 1", "1 editor: agent: Sub-agent ask_reader, editor", "1 editor: model: Model request, turn 2",
		"2 reader: model: Model request, turn 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the bars are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, text := range []string{
		"What is in the archive", "The archive is a folder.", "You keep an archive.", "lease.txt\ninsurance.txt",
		"<b>three files</b>", `fmt.Println("Ada")`, "error: exit status 2", "It is signed by Ada.", "$0.028", "/tools/list run",
		"1,200 tokens in, 80 out, $0.004", "1 failed",
	} {
		if !strings.Contains(rendered, text) {
			t.Errorf("the page does not show %q", text)
		}
	}
	row := regexp.MustCompile(`<[^>]*>`)
	var agents []string
	_, table, _ := strings.Cut(rendered, `<h2 id="h-agents">`)
	table, _, _ = strings.Cut(table, "</table>")
	for _, tr := range strings.Split(table, "<tr>")[1:] {
		agents = append(agents, strings.Join(strings.Fields(row.ReplaceAllString(tr, " ")), " "))
	}
	wantAgents := []string{
		"Agent Sessions Requests Calls Tokens in Cached Tokens out Time Cost", "lead 1 4 3 4,800 0 320 6.6 s $0.016",
		"editor 1 2 1 2,400 0 160 2.8 s $0.008", "reader 1 1 0 1,200 0 80 1.4 s $0.004", "All agents 3 7 4 8,400 0 560 11 s $0.028",
	}
	if strings.Join(agents, "\n") != strings.Join(wantAgents, "\n") {
		t.Errorf("the agents are\n%s\nwant\n%s", strings.Join(agents, "\n"), strings.Join(wantAgents, "\n"))
	}
	if strings.Contains(dom, `id="open"`) {
		t.Error("#open in the address scrolls to the element of that name")
	}
	// A bar with room for it has the first argument.
	if !strings.Contains(rendered, `>ask_editor Who wrote letter.md?</button>`) {
		t.Error("the bar of ask_editor does not have its first argument")
	}
	hostileTexts(t, dom, rendered)
}

func TestPageRendersMarkdown(t *testing.T) {
	t.Parallel()
	text := "*in italics*, _also_, ***both***, **bold with `code`**, snake_case_name, 2*3*4\n\n" +
		"| file | size |\n|:--|--:|\n| `a` | *1* |\n| b \\| c |\n\n" +
		"[docs](https://example.org/a_(b)?x=1), https://example.com/path. [no](javascript:alert(1)) ![no](http://x/y.png)"
	m := agent.UserText(text)
	events := append(sample()[:1:1], agent.Event{Kind: agent.EventMessage, Session: "root-1", Agent: "lead", Message: &m})
	dom := browse(t, "file://"+page(t, events), "--dump-dom")
	for _, want := range []string{
		"<em>in italics</em>, <em>also</em>, <b><em>both</em></b>, <b>bold with <code>code</code></b>, snake_case_name, 2*3*4",
		`<tr><th>file</th><th style="text-align: right;">size</th></tr>`,
		`<tr><td><code>a</code></td><td style="text-align: right;"><em>1</em></td></tr>`,
		`<tr><td>b | c</td><td style="text-align: right;"></td></tr>`,
		`<a href="https://example.org/a_(b)?x=1" title="https://example.org/a_(b)?x=1" target="_blank" rel="noreferrer noopener nofollow">docs</a>, <a href="https://example.com/path"`,
		`[no](javascript:alert(1)) ![no](http://x/y.png)`,
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not hold %s", want)
		}
	}
}

// hostileTexts looks at what became of texts that try to be more.
func hostileTexts(t *testing.T, dom, rendered string) {
	t.Helper()
	if strings.Contains(dom, "<img") || strings.Contains(dom, "<title>broken") {
		t.Error("a text became an element")
	}
	if n := strings.Count(rendered, "&lt;/script&gt;&lt;img src=x onerror="); n < 4 {
		t.Errorf("the hostile text is shown %d times, want at least 4 (prompt, answer, arguments, result)", n)
	}
}

// listen counts the connections and requests that a server gets until stop is
// called.
func listen(t *testing.T) (address string, stop func() (connections, requests int)) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	var connections, requests atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			wg.Go(func() {
				defer c.Close()
				if n, _ := c.Read(make([]byte, 1)); n > 0 {
					requests.Add(1)
				}
			})
		}
	})
	return "http://" + server.Addr().String(), func() (int, int) {
		server.Close()
		wg.Wait()
		return int(connections.Load()), int(requests.Load())
	}
}

// The page's policy holds even for elements that were inserted into it. The browser
// may open a connection when it sees the address, but it asks for nothing.
func TestPageForbidsWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	address, stop := listen(t)
	path := page(t, sample())
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	smuggled := `<img src="` + address + `/a"><link rel="stylesheet" href="` + address + `/b"><script src="` + address +
		`/c"></script><script>document.title = "broken"; fetch("` + address + `/d")</script><iframe src="` + address + `/e"></iframe></body>`
	data = bytes.Replace(data, []byte("</body>"), []byte(smuggled), 1)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	dom := browse(t, "file://"+path, "--dump-dom")
	if _, n := stop(); n != 0 {
		t.Errorf("the page made %d requests", n)
	}
	if strings.Contains(dom, "<title>broken") {
		t.Error("a foreign script ran")
	}
	if !strings.Contains(dom, `data-ready="true"`) {
		t.Error("the page's own script did not run")
	}
}

func TestPageHasPicturesAndMakesNoConnection(t *testing.T) {
	t.Parallel()
	address, stop := listen(t)
	pixel := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	m := agent.Message{Role: agent.RoleUser, Parts: []agent.Part{
		agent.Text("![x](" + address + "/a) <img src=" + address + "/b> [x]: " + address),
		{Kind: agent.PartMedia, MIME: "image/png", Data: data, Name: "dot.png"},
		{Kind: agent.PartMedia, MIME: "image/svg+xml", Data: []byte("<svg onload='x()'/>"), Name: "dot.svg"},
	}}
	events := append([]agent.Event{}, sample()[0], agent.Event{Kind: agent.EventMessage, Session: "root-1", Agent: "lead", Message: &m})
	dom := browse(t, "file://"+page(t, events), "--dump-dom")
	if n, _ := stop(); n != 0 || !strings.Contains(dom, address+"/b</a>&gt;") {
		t.Errorf("the page made %d connections", n)
	}
	if !strings.Contains(dom, `<img class="media" src="data:image/png;base64,`+pixel+`" alt="dot.png">`) {
		t.Error("the picture is not there")
	}
	if strings.Contains(dom, "<svg onload") || strings.Count(dom, `<img class="media"`) != 1 {
		t.Error("an SVG is no picture: it can hold scripts")
	}
}

// Widths of windows and schemes of colors that people have. Nothing compares the
// pictures, but a page that draws nothing is noticed.
func TestPageFitsEveryWindow(t *testing.T) {
	t.Parallel()
	path := page(t, sample())
	for name, size := range map[string]string{"desktop": "1280,1600", "phone": "390,2400"} {
		for _, scheme := range []string{"light", "dark"} {
			if (name == "phone") == (scheme == "light") && os.Getenv("AGENTS_TEST_SCREENSHOTS") == "" {
				continue // each of both once
			}
			t.Run(name+" "+scheme, func(t *testing.T) {
				shot := filepath.Join(t.TempDir(), "page.png")
				if keep := os.Getenv("AGENTS_TEST_SCREENSHOTS"); keep != "" {
					shot = filepath.Join(keep, name+"-"+scheme+".png")
				}
				args := []string{"--window-size=" + size, "--screenshot=" + shot}
				if scheme == "dark" {
					args = append(args, "--force-dark-mode", "--blink-settings=preferredColorScheme=0")
				}
				browse(t, "file://"+path, args...)
				info, err := os.Stat(shot)
				if err != nil || info.Size() < 20_000 {
					t.Errorf("no picture of the page: %v", err)
				}
			})
		}
	}
}

func TestPageOfADamagedSessionSaysSo(t *testing.T) {
	events := broken(sample()[:6], errors.New("damaged at line 7"))
	s, err := Summarize(events)
	if err == nil {
		t.Fatal("Summarize does not tell the damage")
	}
	var b bytes.Buffer
	if err := HTML(&b, s, events); err == nil || !strings.Contains(err.Error(), "damaged at line 7") {
		t.Errorf("HTML = %v, want the damage", err)
	}
	if !strings.HasSuffix(b.String(), "</html>\n") || !strings.Contains(b.String(), `"damage":"The session cannot be read completely: damaged at line 7"`) {
		t.Error("the page is not complete")
	}
}
