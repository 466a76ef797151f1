package recording

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

var update = flag.Bool("update", false, "write docs/recording.svg")

const (
	repository = "../../.."
	columns    = 88
)

// session are the commands of the recording, and what the terminal shows when each has
// ended.
var session = []struct{ command, end string }{
	{`agents check --agent-file agent.json`, `^  bash_headline `},
	{`agents run --agent-file agent.json "What is in this folder?"`, `session 20\d{6}-`},
}

// TestRecording runs the session in a terminal. With -update it writes the picture;
// without, it compares the commands and the answer with the picture, but not how the
// program shows its progress, which may change.
func TestRecording(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "agents")
	if out, err := exec.Command("go", "build", "-o", binary, repository+"/cmd/agents").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	folder := filepath.Join(dir, "quickstart")
	if err := os.CopyFS(folder, os.DirFS(repository+"/examples/quickstart")); err != nil {
		t.Fatal(err)
	}
	rc := filepath.Join(dir, "rc")
	if err := os.WriteFile(rc, []byte("PS1='$ '\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := tmuxtest.Open(t, tmuxtest.Options{
		Command: "sh", Env: []string{"ENV=" + rc, "TERM=screen-256color", "NO_PROXY=*"}, Dir: folder,
		Links: map[string]string{"agents": binary}, Columns: columns, Rows: 60,
	})
	s.Await(`^\$ *$`)
	for _, step := range session {
		s.Type(step.command)
		s.Press("Enter")
		s.Await(`(?s:` + step.end + `.*\n\$ *\n*\z)`)
	}
	lines := tidy(s.Styled())
	if *update {
		svg := SVG("agents", columns, lines, delays(lines))
		if err := os.WriteFile(repository+"/docs/recording.svg", []byte(svg), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(repository + "/docs/recording.svg")
	if err != nil {
		t.Fatal(err)
	}
	picture := plain(t, text)
	for _, want := range []string{"What is in this folder?", "folder.agenttest.json", "agents check"} {
		if !strings.Contains(strings.Join(lines, "\n"), want) || !strings.Contains(picture, want) {
			t.Errorf("the picture or the terminal lacks %q; `make recording` draws it again\n%s\n%s", want, picture, strings.Join(lines, "\n"))
		}
	}
}

// tidy replaces what differs from run to run, leaves out the last prompt, and sets
// the commands apart.
func tidy(text string) []string {
	text = regexp.MustCompile(`\d+(\.\d+)? ms\b`).ReplaceAllString(text, "12 ms")
	text = regexp.MustCompile(`\d+\.\d s\b`).ReplaceAllString(text, "0.1 s")
	text = regexp.MustCompile(`\b20\d{6}-\d{6}-[a-z0-9]{10}\b`).ReplaceAllString(text, "20260601-090000-k3v7q2m8xw")
	text = regexp.MustCompile(`\b\d+ KiB`).ReplaceAllString(text, "68 KiB")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for len(lines) > 0 && strings.TrimSpace(sgr.ReplaceAllString(lines[len(lines)-1], "")) == "$" {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines[1:] { // the two calls of a turn end in any order
		if strings.Contains(lines[i], "bash_disk_usage path") && strings.Contains(line, "bash_list_files") {
			lines[i], lines[i+1] = line, lines[i]
		}
	}
	var list []string
	for i, line := range lines {
		if strings.HasPrefix(line, "$ ") {
			if line = "\x1b[1m" + line; i > 0 {
				list = append(list, "")
			}
		}
		list = append(list, line)
	}
	return list
}

// delays are when each line appears: a second after a command its output, line by line.
func delays(lines []string) []float64 {
	var list []float64
	at := 0.0
	for i, line := range lines {
		if strings.HasPrefix(sgr.ReplaceAllString(line, ""), "$ ") {
			if i > 0 {
				at += 1.5
			}
			list = append(list, at)
			at += 0.8
			continue
		}
		list = append(list, at)
		at += 0.1
	}
	return list
}

// plain is the text of a picture, which must be XML.
func plain(t *testing.T, svg []byte) string {
	t.Helper()
	var b strings.Builder
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("docs/recording.svg: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			b.Write(text)
		}
	}
}

func TestSVG(t *testing.T) {
	svg := SVG("a & b", 20, []string{"$ echo <x>", "", "\x1b[1;32mok\x1b[0m  \x1b[2mfaint\x1b[m"}, []float64{0, 0, 1.5})
	for _, want := range []string{
		`aria-label="a &amp; b"`,
		`<tspan x="16.0">$ echo &lt;x&gt;</tspan>`,
		`animation-delay:1.5s"><tspan x="16.0" class="b c2">ok</tspan><tspan x="49.6" class="d">faint</tspan></text>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s:\n%s", want, svg)
		}
	}
	if got := plain(t, []byte(svg)); !strings.Contains(got, "$ echo <x>") {
		t.Errorf("the text of the picture is %q", got)
	}
}
