package edit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// types feeds keys one byte after the other, as a slow line sends them.
func types(e *Editor, keys string) (actions []Action) {
	for i := range len(keys) {
		e.Feed([]byte{keys[i]})
		for {
			a, ok := e.Next()
			if !ok {
				break
			}
			if a != None {
				actions = append(actions, a)
			}
		}
	}
	return actions
}

func TestKeys(t *testing.T) {
	for name, c := range map[string]struct {
		keys, want string
		actions    []Action
	}{
		"text":                      {"añb京", "añb京", nil},
		"left and right":            {"ac\x1b[Db\x1b[C!", "abc!", nil},
		"a mark goes with its base": {"xe\u0301\x7f", "x", nil},
		"words":                     {"one two three\x17\x1bb\x1bd", "one  ", nil},
		"kill and yank":             {"ab\x1b[D\x0b\x01\x19", "ba", nil},
		"delete":                    {"abc\x01\x1b[3~\x04", "c", nil},
		"enter":                     {"a\r", "a", []Action{Submit}},
		"a backslash continues":     {"a\\\rb\r", "a\nb", []Action{Submit}},
		"new lines":                 {"a\x1b\rb\nc", "a\nb\nc", nil},
		"up and down in lines":      {"abc\nd\nefg\x1b[A\x1b[AX\x1b[BY", "aXbc\ndY\nefg", nil},
		"paste":                     {"\x1b[200~a\r\nb\rc\x1b[31m\x00\t\x1b[201~\r", "a\nb\nc[31m\t", []Action{Submit}},
		"controls":                  {"\x03\x04\x1a\x0ca\x04", "a", []Action{Interrupt, End, Suspend, Redraw}},
		"unknown keys":              {"a\x1b[99~\x1bOPb\x02\x05", "ab", nil},
		"bytes that are not UTF-8":  {"a\xffb\xc3(", "a\ufffdb\ufffd(", nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Editor{}
			actions := types(e, c.keys)
			if e.Text() != c.want || !cmp.Equal(actions, c.actions) {
				t.Errorf("%q is the text %q with the actions %v, want %q and %v", c.keys, e.Text(), actions, c.want, c.actions)
			}
		})
	}
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		keys          string
		columns, rows int
		want          []string
		row, column   int
	}{
		"empty":       {"", 20, 10, []string{"> "}, 0, 2},
		"wide":        {"京都京都京都", 10, 10, []string{"> 京都京", "  都京都"}, 1, 8},
		"several":     {"a\nbc\x1b[D", 20, 10, []string{"> a", "  bc"}, 1, 3},
		"full":        {"1234567", 10, 10, []string{"> 1234567", "  "}, 1, 2},
		"long":        {"1\n2\n3\n4\n5\n6\n7\n8", 20, 4, []string{"  (8 lines)", "  6", "  7", "  8"}, 3, 3},
		"order marks": {"a\u202eb", 20, 10, []string{"> ab"}, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Editor{Prompt: "> "}
			types(e, c.keys)
			lines, row, column := e.Lines(c.columns, c.rows)
			if !cmp.Equal(lines, c.want) || row != c.row || column != c.column {
				t.Errorf("Lines() = %q, %d, %d, want %q, %d, %d", lines, row, column, c.want, c.row, c.column)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	e := &Editor{Complete: func(before string) (int, []string) {
		i := strings.LastIndexByte(before, ' ') + 1
		var list []string
		for _, name := range []string{"apple", "apricot", "pear"} {
			if strings.HasPrefix(name, before[i:]) {
				list = append(list, name)
			}
		}
		return i, list
	}}
	types(e, "an a\t")
	lines, _, _ := e.Lines(40, 10)
	if want := []string{"an ap", "  apple apricot"}; !cmp.Equal(lines, want) {
		t.Errorf("Lines() = %q, want %q", lines, want)
	}
	types(e, "r\t and x\t")
	if want := "an apricot and x"; e.Text() != want {
		t.Errorf("Text() = %q, want %q", e.Text(), want)
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
	e := &Editor{History: h}
	for _, c := range []struct{ keys, want string }{
		{"draft", "draft"}, {"\x10", "third"}, {"\x10\x01", "second\nline"}, {"\x10\x10", "first"}, {"\x10", "first"},
		{"\x0e\x05\x0e", "third"}, {"\x0e", "draft"}, {"\x0e", "draft"}, {"\x15li\x12", "second\nline"}, {"\x12", "second\nline"},
	} {
		types(e, c.keys)
		if e.Text() != c.want {
			t.Errorf("after %q the text is %q, want %q", c.keys, e.Text(), c.want)
		}
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
	if text, ok := h.at(1); !ok || text != "kept until the end" {
		t.Errorf("at(1) = %q, %v", text, ok)
	}
}

// What was drawn is erased exactly, also when the terminal has become narrower since.
func TestScreenErasesWhatItDrew(t *testing.T) {
	var out strings.Builder
	columns := 20
	s := &Screen{W: &out, Size: func() (int, int) { return columns, 10 }}
	s.Draw([]string{"0123456789012345", "> "}, 1, 2)
	out.Reset()
	columns = 8
	if _, err := s.Write([]byte("half")); err != nil || out.Len() > 0 {
		t.Errorf("half of a line was printed: %q (%v)", out.String(), err)
	}
	if _, err := s.Write([]byte(" a line\nand")); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[?2026h\r\x1b[2A\x1b[K\r\n\x1b[K\r\n\x1b[K\r\x1b[2Ahalf a line\r\n"
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("Write() = %q, want %q first", got, want)
	}
	out.Reset()
	s.Hide()
	s.Draw([]string{"unseen"}, 0, 0)
	if strings.Contains(out.String(), "unseen") {
		t.Errorf("a hidden line is drawn: %q", out.String())
	}
	s.Show()
	if !strings.Contains(out.String(), "unseen") {
		t.Errorf("the line is not drawn again: %q", out.String())
	}
}
