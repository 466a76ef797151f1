package input

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
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
		"too long":    {text: "@long.txt", error: "long.txt: the file is longer than 1048576 bytes"},
		"other bytes": {text: "@data.bin", error: "models accept images, PDF, audio and video"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Message(c.text, nil)
			if c.error != "" {
				if err == nil || !strings.Contains(err.Error(), c.error) {
					t.Errorf("Message(%q) = %v, want an error with %q", c.text, err, c.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, m.Parts); diff != "" {
				t.Errorf("Message(%q) (-want +got):\n%s", c.text, diff)
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
		name, args, ok := Slash(text)
		got := ""
		if ok {
			got = name + "|" + args
		}
		if got != want {
			t.Errorf("Slash(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second\nline", "second\nline", "third", strings.Repeat("x", maxEntry+1)} {
		if err := h.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	if h, err = OpenHistory(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has the mode %v (%v), want 0600", info.Mode(), err)
	}
	if h.Len() != 3 || h.At(1) != "second\nline" || h.Find("ir", 3) != 2 || h.Find("ir", 2) != 0 || h.Find("ir", 0) != -1 {
		t.Errorf("the history is %q", h.list)
	}
	for i := range 2*maxHistory + 10 {
		if err := h.Add(strings.Repeat("y", 1+i%7)); err != nil {
			t.Fatal(err)
		}
	}
	if h, err = OpenHistory(path); err != nil || len(h.list) != maxHistory {
		t.Errorf("the history has %d entries (%v), want %d", len(h.list), err, maxHistory)
	}
}

func TestHistoryThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(filepath.Join(file, "history"))
	if err == nil {
		t.Error("OpenHistory() below a file has no error")
	}
	if err := h.Add("kept until the end"); err != nil {
		t.Errorf("Add() = %v, want nothing to be written", err)
	}
	if h.Len() != 1 || h.At(0) != "kept until the end" {
		t.Errorf("the history is %q", h.list)
	}
}

func TestComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"agent.json", "agents.lock", "a b"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for before, want := range map[string]string{
		"/un": "0 [/undo]", "/ag": "0 [/agent  /agents]", "/agent h": "7 [helper]", "/budget us": "8 [usd=]", "/save agents": "6 [agents.lock]",
		"see @agents": "4 [@agents.lock]", "(@a b": "0 []", `@"a`: "0 [@\"a b\" @\"agent.json\" @\"agents.lock\"]", "me@agents": "0 []", "hello": "0 []", "/etc/pa": "0 []",
	} {
		start, candidates := Complete(before, func(string) []string { return []string{"helper", "editor"} })
		if got := fmt.Sprint(start, " ", candidates); got != want {
			t.Errorf("Complete(%q) = %s, want %s", before, got, want)
		}
	}
	if got := Common([]string{"agent.json", "agents.lock", "agé"}); got != "ag" {
		t.Errorf("Common() = %q, want ag", got)
	}
}
