package view

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

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
		{"stream.txt", func(w *bytes.Buffer) func(agent.Event) { return (&Stream{W: w}).Observe }},
	} {
		t.Run(test.golden, func(t *testing.T) {
			var out bytes.Buffer
			observe := test.observe(&out)
			for _, e := range agenttest.Story() {
				before := strings.Count(out.String(), "\n")
				observe(e)
				if n := strings.Count(out.String(), "\n") - before; n > 1 {
					t.Errorf("event %s is %d lines, want 1 at most", e.Kind, n)
				}
			}
			golden(t, test.golden, out.String())
			if test.golden == "color.txt" || test.golden == "stream.txt" {
				return // holds our colors, or what a program gets unchanged
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
	if termtext.Hidden(r) && r != '\n' {
		return -1
	}
	return r
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

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
		{"error: exit status 1\n" + strings.Repeat("\n", 4000), "exit status 1"},
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

// FuzzReason: no result of a tool, long blank ones included, stops the display.
func FuzzReason(f *testing.F) {
	for _, end := range []string{"\n", " ", "\t", "\r", "\r\n", "\x00", "\x1b[0m", "\u200b", "\u202e", "\xff", "\n\u00a0"} {
		for _, start := range []string{"", "error: exit status 1", "error: exit status 1\nlast words", toolFailure} {
			f.Add(start + strings.Repeat(end, 20*maxNote))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := reason(&agent.ToolResult{Failed: true, Parts: []agent.Part{agent.Text(text)}}, "…")
		if got == "" || strings.ContainsAny(got, "\n\x1b") || termtext.Width(got) > maxNote {
			t.Errorf("reason(%.60q) = %q", text, got)
		}
		_, _ = flat(text, maxNote, "…"), shortArgs(text, "…")
	})
}

// An event of another process can say anything.
func TestTheLogHasNoControlCharacters(t *testing.T) {
	const evil = "x\x1b[2J"
	for _, kind := range []agent.EventKind{agent.EventSession, agent.EventSetup, agent.EventMessage, agent.EventAnswer, agent.EventCompaction, agent.EventFailure, agent.EventVerdict,
		agent.EventHook, agent.EventCallStarted, agent.EventCallEnded, agent.EventEnd, agent.EventRetry, agent.EventLog, agent.EventWarning} {
		m := agent.UserText(evil)
		var out bytes.Buffer
		(&LogText{W: &out}).Observe(agent.Event{Kind: kind, Session: evil, Agent: evil, Model: evil, Digest: evil, Text: evil, Error: evil, Key: evil, Parent: evil, Tool: evil,
			Args: evil, What: evil, Fallback: evil, Finish: evil, Status: evil, Decision: evil, Message: &m, Result: &agent.ToolResult{Parts: m.Parts}})
		if out.Len() == 0 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: the line is %q", kind, out.String())
		}
	}
}
