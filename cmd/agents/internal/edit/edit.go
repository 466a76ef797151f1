// Package edit edits text at a terminal, with output above it.
//
// An [Editor] is the text and its keys, without a terminal. A [Screen] draws it below
// what was printed. A [Terminal] reads the keys.
//
// The libraries that were looked at lack something that a chat needs:
// golang.org/x/term has no wide characters, github.com/ergochat/readline no bracketed
// paste, and neither a text of several lines.
package edit

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

type Action int

// None means that the key changed at most the text.
const (
	None      Action = iota
	Submit           // Enter
	Interrupt        // Ctrl-C
	End              // Ctrl-D in an empty text
	Suspend          // Ctrl-Z
	Redraw           // Ctrl-L
)

// An Editor is a text that is being edited. The zero value is empty.
type Editor struct {
	Prompt string
	// History has the earlier texts; nil means none.
	History *History
	// Complete returns what may stand in the text before the cursor from start on; nil
	// completes nothing.
	Complete func(before string) (start int, candidates []string)

	text       []rune
	at         int    // the cursor
	input      []byte // that is not processed yet
	pasting    bool
	pasted     []byte
	killed     []rune
	candidates []string // shown below the text
	past       int      // how far back in the history
	draft      []rune   // the text before looking there
}

func (e *Editor) Text() string { return string(e.text) }

// Set replaces the text; the cursor is at its end.
func (e *Editor) Set(text string) {
	e.text = []rune(text)
	e.at, e.candidates = len(e.text), nil
}

// Take returns the text and empties the editor.
func (e *Editor) Take() string {
	text := e.Text()
	e.Set("")
	e.past = 0
	return text
}

// Swap replaces what is edited, for a question, and returns what puts it back.
func (e *Editor) Swap(prompt string) (back func()) {
	before := *e
	*e = Editor{Prompt: prompt, input: e.input}
	return func() {
		before.input = e.input
		*e = before
	}
}

// Feed adds what the terminal sent. Next processes it.
func (e *Editor) Feed(b []byte) { e.input = append(e.input, b...) }

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Next processes one key of the input. ok is false if there is no complete one.
func (e *Editor) Next() (a Action, ok bool) {
	if e.pasting {
		return None, e.paste()
	}
	key, n := nextKey(e.input)
	if n == 0 {
		return None, false
	}
	e.input = e.input[n:]
	if key == pasteStart {
		e.pasting = true
		return None, true
	}
	if key != "\t" {
		e.candidates = nil
	}
	return e.key(key), true
}

// paste inserts a paste when all of it has arrived.
func (e *Editor) paste() (whole bool) {
	e.pasted = append(e.pasted, e.input...)
	e.input = nil
	text, rest, whole := bytes.Cut(e.pasted, []byte(pasteEnd))
	if !whole {
		return false
	}
	e.input, e.pasted, e.pasting = rest, nil, false
	e.Paste(string(text))
	return true
}

// nextKey returns the first key of the input and its length, 0 if it is not complete.
func nextKey(b []byte) (string, int) {
	switch {
	case len(b) == 0:
		return "", 0
	case b[0] != 0x1b:
		if !utf8.FullRune(b) {
			return "", 0
		}
		_, n := utf8.DecodeRune(b)
		return string(b[:n]), n
	case len(b) == 1:
		return "", 0
	case b[1] == '[' || b[1] == 'O':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return string(b[:i+1]), i + 1
			}
		}
		return "", 0
	}
	_, n := utf8.DecodeRune(b[1:])
	return string(b[:1+n]), 1 + n
}

func (e *Editor) key(key string) Action {
	switch key {
	case "\r":
		return e.enter()
	case "\n", "\x1b\r", "\x1b\n":
		e.insert("\n")
	case "\x03":
		return Interrupt
	case "\x04":
		if len(e.text) == 0 {
			return End
		}
		e.remove(e.at, e.right(e.at))
	case "\x1a":
		return Suspend
	case "\x0c":
		return Redraw
	case "\t":
		e.complete()
	case "\x7f", "\x08":
		e.remove(e.left(e.at), e.at)
	case "\x17", "\x1b\x7f":
		e.kill(e.wordLeft(), e.at)
	case "\x1bd":
		e.kill(e.at, e.wordRight())
	case "\x15":
		e.kill(e.lineStart(), e.at)
	case "\x0b":
		e.kill(e.at, e.lineEnd())
	case "\x19":
		e.insert(string(e.killed))
	case "\x12":
		e.search()
	default:
		if !e.move(key) && key[0] >= ' ' && key[0] != 0x7f {
			e.insert(key)
		}
	}
	return None
}

func (e *Editor) move(key string) bool {
	switch key {
	case "\x1b[D", "\x1bOD", "\x02":
		e.at = e.left(e.at)
	case "\x1b[C", "\x1bOC", "\x06":
		e.at = e.right(e.at)
	case "\x1bb", "\x1b[1;5D", "\x1b[1;3D":
		e.at = e.wordLeft()
	case "\x1bf", "\x1b[1;5C", "\x1b[1;3C":
		e.at = e.wordRight()
	case "\x1b[H", "\x1bOH", "\x1b[1~", "\x01":
		e.at = e.lineStart()
	case "\x1b[F", "\x1bOF", "\x1b[4~", "\x05":
		e.at = e.lineEnd()
	case "\x1b[3~":
		e.remove(e.at, e.right(e.at))
	case "\x1b[A", "\x1bOA", "\x10":
		e.up()
	case "\x1b[B", "\x1bOB", "\x0e":
		e.down()
	default:
		return false
	}
	return true
}

// enter submits, unless the text ends in a backslash, which continues it on a new line.
func (e *Editor) enter() Action {
	if n := len(e.text); n > 0 && e.at == n && e.text[n-1] == '\\' {
		e.text = append(e.text[:n-1], '\n')
		return None
	}
	return Submit
}

// insert adds text at the cursor, without control characters.
func (e *Editor) insert(text string) {
	list := []rune(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text))
	e.text = slices.Insert(e.text, e.at, list...)
	e.at += len(list)
}

func (e *Editor) remove(from, to int) {
	e.text = slices.Delete(e.text, from, to)
	e.at = from
}

func (e *Editor) kill(from, to int) {
	if from < to {
		e.killed = slices.Clone(e.text[from:to])
		e.remove(from, to)
	}
}

// left and right skip marks that belong to the character before them.
func (e *Editor) left(i int) int {
	for i--; i > 0 && termtext.Cell(e.text[i]) == 0; i-- {
	}
	return max(i, 0)
}

func (e *Editor) right(i int) int {
	for i++; i < len(e.text) && termtext.Cell(e.text[i]) == 0; i++ {
	}
	return min(i, len(e.text))
}

func (e *Editor) wordLeft() int {
	i := e.at
	for i > 0 && unicode.IsSpace(e.text[i-1]) {
		i--
	}
	for i > 0 && !unicode.IsSpace(e.text[i-1]) {
		i--
	}
	return i
}

func (e *Editor) wordRight() int {
	i := e.at
	for i < len(e.text) && unicode.IsSpace(e.text[i]) {
		i++
	}
	for i < len(e.text) && !unicode.IsSpace(e.text[i]) {
		i++
	}
	return i
}

func (e *Editor) lineStart() int {
	i := e.at
	for i > 0 && e.text[i-1] != '\n' {
		i--
	}
	return i
}

func (e *Editor) lineEnd() int {
	i := e.at
	for i < len(e.text) && e.text[i] != '\n' {
		i++
	}
	return i
}

// up moves to the line above, and from the first line to the text before in the history.
func (e *Editor) up() {
	start := e.lineStart()
	if start == 0 {
		e.recall(e.past + 1)
		return
	}
	column := e.at - start
	e.at = start - 1
	e.at = min(e.lineStart()+column, start-1)
}

// down moves to the line below, and from the last line to the next text in the history.
func (e *Editor) down() {
	end := e.lineEnd()
	if end == len(e.text) {
		e.recall(e.past - 1)
		return
	}
	column := e.at - e.lineStart()
	e.at = end + 1
	e.at = min(e.at+column, e.lineEnd())
}

// recall shows the text so many steps back in the history; 0 is the draft.
func (e *Editor) recall(past int) {
	text, ok := e.History.at(past)
	switch {
	case past < 0 || past > 0 && !ok:
		return
	case e.past == 0:
		e.draft = slices.Clone(e.text)
	}
	if past == 0 {
		text = string(e.draft)
	}
	e.Set(text)
	e.past = past
}

// search finds the next older text of the history that contains the draft.
func (e *Editor) search() {
	if e.past == 0 {
		e.draft = slices.Clone(e.text)
	}
	for i := e.past + 1; ; i++ {
		text, ok := e.History.at(i)
		if !ok {
			return
		}
		if strings.Contains(text, string(e.draft)) {
			e.Set(text)
			e.past = i
			return
		}
	}
}

// complete inserts what all candidates have in common, and shows them if there are
// several.
func (e *Editor) complete() {
	if e.Complete == nil {
		return
	}
	before := string(e.text[:e.at])
	start, list := e.Complete(before)
	if len(list) == 0 {
		return
	}
	common := list[0]
	for _, c := range list[1:] {
		for !strings.HasPrefix(c, common) {
			_, n := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-n]
		}
	}
	if typed := before[start:]; len(common) >= len(typed) {
		e.remove(utf8.RuneCountInString(before[:start]), e.at)
		e.insert(common)
	}
	e.candidates = nil
	if len(list) > 1 {
		e.candidates = list
	}
}

// Paste inserts a text at the cursor, without control characters.
func (e *Editor) Paste(text string) {
	e.insert(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text))
}
