package chat

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

func TestMessageIncludesFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	png := "\x89PNG\r\n\x1a\n\x00\x00"
	for name, text := range map[string]string{
		"a.txt": "text of a\n", "with space.txt": "spaced", "p.png": png, "long.txt": strings.Repeat("é", maxText), "data.bin": "\x00\x01\xff",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(path, text string) string { return "\n\n<file path=\"" + path + "\">\n" + text + "\n</file>" }
	for name, c := range map[string]struct {
		text  string
		want  []agent.Part
		error string
	}{
		"none":        {text: "me@a.txt, @nobody and @", want: []agent.Part{agent.Text("me@a.txt, @nobody and @")}},
		"text":        {text: "see @a.txt, twice (@a.txt).", want: []agent.Part{agent.Text("see @a.txt, twice (@a.txt)." + file("a.txt", "text of a"))}},
		"home":        {text: "@~/a.txt", want: []agent.Part{agent.Text("@~/a.txt" + file("~/a.txt", "text of a"))}},
		"quoted":      {text: `@"with space.txt" and more`, want: []agent.Part{agent.Text(`@"with space.txt" and more` + file("with space.txt", "spaced"))}},
		"media":       {text: "@p.png", want: []agent.Part{agent.Text("@p.png"), {Kind: agent.PartMedia, MIME: "image/png", Data: []byte(png), Name: "p.png"}}},
		"too long":    {text: "@long.txt", error: "long.txt is longer than 1048576 bytes"},
		"other bytes": {text: "@data.bin", error: "models take images, PDF, audio and video"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := (&chat{}).message(t.Context(), c.text)
			if c.error != "" {
				if err == nil || !strings.Contains(err.Error(), c.error) {
					t.Errorf("message(%q) = %v, want an error with %q", c.text, err, c.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, m.Parts); diff != "" {
				t.Errorf("message(%q) (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

func TestSlash(t *testing.T) {
	for text, want := range map[string]string{
		"/help": "help|", "/save a b.md ": "save|a b.md", "/saev": "saev|",
		"/": "", "/etc/passwd is a file": "", "/usr": "usr|", "/Users": "", "//": "", "help": "", "/a.b": "",
		"q": "quit|", "exit\n": "quit|", "quit": "quit|", "quit it": "", "Q": "",
	} {
		name, args, ok := slash(text)
		got := ""
		if ok {
			got = name + "|" + args
		}
		if got != want {
			t.Errorf("slash(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"one two three", "one two\n  three\n"},
		{"  a 京都京都 b", "  a\n  京都京都\n  b\n"},
		{"", "\n"},
		{"averyveryverylongword x", "averyveryverylongword\n  x\n"},
	} {
		if got := wrap(c.text, 10, 2); got != c.want {
			t.Errorf("wrap(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// A question whose call has ended must not stand in the way of the next one.
func TestQuestionsAreWithdrawn(t *testing.T) {
	open := make(chan context.Context, 2)
	c := &chat{person: ask.At(&program.Env{Getenv: func(string) string { return t.TempDir() }}, func(ctx context.Context) (ask.Console, error) {
		open <- ctx
		<-ctx.Done()
		return nil, ctx.Err()
	})}
	term := &terminal{chat: c, run: &run{Channel: &runner.Channel{}, answer: ask.NewApprover(&program.Env{Getenv: func(string) string { return "" }}, c.person, false, nil).Answer}}
	for _, end := range []agent.Event{{Kind: agent.EventCallEnded, Key: "s.1.1", Depth: 1}, {Kind: agent.EventEnd}} {
		term.question(t.Context(), agent.Event{Kind: agent.EventQuestion, What: "approve", Question: "q", Key: "s.1.1", Tool: "x", Args: "{}"})
		shown := <-open
		term.withdraw(agent.Event{Kind: agent.EventCallEnded, Key: "s.1.2"})
		if shown.Err() != nil {
			t.Error("the end of another call withdraws the question")
		}
		term.question(t.Context(), agent.Event{Kind: agent.EventQuestion, What: "approve", Question: "r", Key: "s.1.1", Tool: "x", Args: "{}"})
		<-shown.Done()
		shown = <-open
		term.withdraw(end)
		<-shown.Done()
	}
}
