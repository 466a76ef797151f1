package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

func TestSinksOnARun(t *testing.T) {
	for _, test := range []struct {
		golden  string
		observe func(w *bytes.Buffer) func(agent.Event)
	}{
		{"plain.txt", func(w *bytes.Buffer) func(agent.Event) { return (&Text{W: w}).Observe }},
		{"ascii.txt", func(w *bytes.Buffer) func(agent.Event) { return (&Text{W: w, ASCII: true}).Observe }},
		{"color.txt", func(w *bytes.Buffer) func(agent.Event) { return (&Text{W: w, Color: true}).Observe }},
		{"quiet.txt", func(w *bytes.Buffer) func(agent.Event) { return (&Text{W: w, Quiet: true}).Observe }},
		{"log.txt", func(w *bytes.Buffer) func(agent.Event) { return (&LogText{W: w}).Observe }},
		{"events.jsonl", func(w *bytes.Buffer) func(agent.Event) { return (&JSONLines{W: w}).Observe }},
		{"pieces.jsonl", func(w *bytes.Buffer) func(agent.Event) { return (&JSONLines{W: w, Pieces: true}).Observe }},
		{"stream.txt", func(w *bytes.Buffer) func(agent.Event) { return (&Stream{W: w}).Observe }},
	} {
		t.Run(test.golden, func(t *testing.T) {
			var out bytes.Buffer
			observe := test.observe(&out)
			for _, e := range story() {
				before := strings.Count(out.String(), "\n")
				observe(e)
				if n := strings.Count(out.String(), "\n") - before; n > 1 {
					t.Errorf("event %s is %d lines, want 1 at most", e.Kind, n)
				}
			}
			golden(t, test.golden, out.String())
			if test.golden == "color.txt" || test.golden == "stream.txt" {
				return // holds our colours, or what a program gets unchanged
			}
			if got := strings.Map(dropControl, out.String()); got != out.String() {
				t.Errorf("control characters in the output: %q", out.String())
			}
			if test.golden == "ascii.txt" && !isASCII(out.String()) {
				t.Errorf("ASCII output: %q", out.String())
			}
		})
	}
}

func dropControl(r rune) rune {
	if control(r) && r != '\n' {
		return -1
	}
	return r
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

func TestJSONLinesAreTheEvents(t *testing.T) {
	var out bytes.Buffer
	j := &JSONLines{W: &out, Pieces: true}
	e := agent.Event{Kind: agent.EventText, Text: "DEL \x7f C1 \u009b bidi \u202e tag \U000e0041 <&> é"}
	for _, e := range append(story(), e) {
		j.Observe(e)
	}
	if err := j.Err(); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	for _, want := range append(story(), e) {
		var got agent.Event
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event %s read back (-want +got):\n%s", want.Kind, diff)
		}
	}
	if dec.More() {
		t.Error("more lines than events")
	}
	line := string(jsonLine(e))
	if !strings.Contains(line, `DEL \u007f C1 \u009b bidi \u202e tag \udb40\udc41 <&> é`) {
		t.Errorf("line %q", line)
	}
}

func TestJSONLinesMarksAnEventThatIsNoJSON(t *testing.T) {
	var out bytes.Buffer
	j := &JSONLines{W: &out}
	j.Observe(agent.Event{Kind: agent.EventAnswer, Session: "S", Specs: []agent.ToolSpec{{Schema: json.RawMessage("{")}}})
	j.Observe(agent.Event{Kind: agent.EventEnd, Session: "S"})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"text":"cannot encode an event of kind answer as JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"`) {
		t.Errorf("lines %q", lines)
	}
}

// fullDisk fails from its second write on, within it.
type fullDisk struct{ writes int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.writes++; d.writes > 1 {
		return len(p) / 2, errFull
	}
	return len(p), nil
}

func TestAWriteErrorIsKeptAndEndsTheSink(t *testing.T) {
	disk := map[string]*fullDisk{"json": {}, "log": {}, "stream": {}, "text": {}}
	j, l := &JSONLines{W: disk["json"]}, &LogText{W: disk["log"]}
	s, text := &Stream{W: disk["stream"]}, &Text{W: disk["text"]}
	observe := Tee(j.Observe, nil, l.Observe, s.Observe, text.Observe)
	for _, e := range story() {
		observe(e)
	}
	for name, err := range map[string]error{"json": j.Err(), "log": l.Err(), "stream": s.Err()} {
		if !errors.Is(err, errFull) {
			t.Errorf("%s: Err() = %v, want %v", name, err, errFull)
		}
	}
	for name, d := range disk {
		if d.writes != 2 {
			t.Errorf("%s: %d writes, want none after the one that failed", name, d.writes)
		}
	}
}

func TestTextShortensArguments(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{``, ``},
		{`{}`, ``},
		{` null `, ``},
		{`{"b":1,"a":[1, 2],"c":null}`, `b=1 a=[1, 2] c=null`},
		{`{"s":"two words","e":"","q":"a\"b"}`, `s="two words" e="" q="a\"b"`},
		{`{"s":"a\n\u001b[31m"}`, `s=a\n\x1b[31m`},
		{`{"s":"` + strings.Repeat("x", 100) + `"}`, `s=` + strings.Repeat("x", 59) + `…`},
		{`{"s":"` + strings.Repeat("漢", 100) + `"}`, `s=` + strings.Repeat("漢", 29) + `…`},
		{`{"a":1`, `{"a":1`},
		{"rm -rf \x1b[8m", `rm -rf \x1b[8m`},
		{`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, `{"a":"` + strings.Repeat("x", maxLabel-7) + `…`},
		{`{` + strings.Repeat(`"key":"value",`, 100) + `"z":1}`, strings.Repeat("key=value ", 15) + "key=value…"},
	} {
		if got := shortArgs(test.args, "…"); got != test.want {
			t.Errorf("shortArgs(%.40q) = %q, want %q", test.args, got, test.want)
		}
	}
}

func TestReasonOfAFailure(t *testing.T) {
	trace := "\nTraceback (most recent call last):\n" + strings.Repeat("  at x\n", 5000) + "ValueError: no \x1b[31mhost\n\n"
	for _, test := range []struct{ text, want string }{
		{"error: exit status 1\n\ncould not resolve host\n", "exit status 1: could not resolve host"},
		{"error: exit status 1\n\nstdout:\ntrying\nstderr:\ntook long\ncould not resolve host\n", "exit status 1: could not resolve host"},
		{"error: exit status 1\n" + trace, "exit status 1: ValueError: no host"},
		{"error: exit status 1; it printed nothing", "exit status 1; it printed nothing"},
		{"error: exit status 1\n\n\n", "exit status 1"},
		{"error: exit status 2: unknown\nmore", "exit status 2: unknown"},
		{"error: timed out after 3 s\n\nhalf of it", "timed out after 3 s"},
		{"error: nothing ran: the arguments do not fit the tool's schema:\nargument /a [type]: got number\nargument /b [required]: missing",
			"nothing ran: the arguments do not fit the tool's schema: argument /a [type]: got number"},
		{"error: the tool reports a failure\nENOENT: no such file\nat open", "ENOENT: no such file"},
		{"error: the tool reports a failure", "the tool reports a failure"},
		{"error: " + strings.Repeat("x", 300), strings.Repeat("x", 239) + "…"},
		{"", "failed"},
		{"error: \n \n", "failed"},
	} {
		r := agent.ToolResult{Failed: true, Parts: []agent.Part{agent.Text(test.text)}}
		if got := reason(&r, "…"); got != test.want {
			t.Errorf("reason(%.60q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestStream(t *testing.T) {
	said := func(s string) *agent.Message {
		return &agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(s)}}
	}
	request := agent.Event{Kind: agent.EventRequest}
	for _, test := range []struct {
		name   string
		events []agent.Event
		want   string
	}{
		{"pieces", []agent.Event{request, {Kind: agent.EventText, Text: "a"}, {Kind: agent.EventText, Text: "b"},
			{Kind: agent.EventAnswer, Message: said("ab")}}, "ab\n"},
		{"no pieces", []agent.Event{request, {Kind: agent.EventAnswer, Message: said("ab\n")}}, "ab\n"},
		{"a sub-agent", []agent.Event{{Kind: agent.EventText, Text: "a", Depth: 1}, {Kind: agent.EventAnswer, Message: said("a"), Depth: 1}}, ""},
		{"a broken attempt", []agent.Event{request, {Kind: agent.EventText, Text: "a"}, {Kind: agent.EventRetry},
			{Kind: agent.EventAnswer, Message: said("ab")}}, "a\nab\n"},
		{"two turns", []agent.Event{request, {Kind: agent.EventText, Text: "a"}, {Kind: agent.EventAnswer, Message: said("a")},
			request, {Kind: agent.EventAnswer, Message: said("b")}}, "a\nb\n"},
		{"interrupted", []agent.Event{request, {Kind: agent.EventText, Text: "a"}, {Kind: agent.EventEnd}}, "a\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			s := &Stream{W: &out}
			for _, e := range test.events {
				s.Observe(e)
			}
			if out.String() != test.want {
				t.Errorf("stream %q, want %q", out.String(), test.want)
			}
		})
	}
}

func TestOpenLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(s string) {
		t.Helper()
		f, err := OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	write("two, torn")
	write("three\n")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "one\ntwo, torn\nthree\n"; string(got) != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	_, err = OpenLog(filepath.Join(filepath.Dir(path), "none", "log"))
	if err == nil || !strings.HasSuffix(err.Error(), "none/log: no such file or directory") {
		t.Errorf("a folder that is missing: %v", err)
	}
}
