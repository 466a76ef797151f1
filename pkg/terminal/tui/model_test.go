package tui

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// began is when the runs of these tests began.
var began = time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)

// A test is a model without a terminal and without a server.
type test struct {
	*model
	t       testing.TB
	printed []string // into the scrollback
	sent    *bufio.Reader
}

func newTest(t testing.TB, keys *KeyMap) *test {
	t.Helper()
	if keys == nil {
		var err error
		if keys, err = ReadKeys(""); err != nil {
			t.Fatal(err)
		}
	}
	m := newModel(t.Context(), &Options{Keys: keys, Agent: "lead", Now: func() time.Time { return began.Add(5 * time.Second) }})
	m.frames.begin()
	m.connecting = true // there is no server to start
	m.server = &server{agents: []remote.Description{{Name: "lead"}}}
	x := &test{model: m, t: t}
	x.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	return x
}

// send updates the model by messages, and prints what it wants to print.
func (x *test) send(messages ...tea.Msg) {
	for _, msg := range messages {
		x.Update(msg)
		for x.print.busy() {
			if n := len(x.print.piece); n > x.height-x.liveRows() {
				x.t.Errorf("%d lines are printed at once: the live region would scroll away", n)
			}
			x.printed = append(x.printed, x.print.piece...)
			x.Update(printedMsg{})
		}
	}
}

func (x *test) press(keys ...tea.KeyPressMsg) {
	for _, k := range keys {
		x.send(k)
	}
}

func (x *test) typeText(text string) {
	for _, r := range text {
		x.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

var enter = tea.KeyPressMsg{Code: tea.KeyEnter}

// begin makes the conversation one with a run in progress, and sent what is sent to it.
func (x *test) begin() {
	x.t.Helper()
	in, out := io.Pipe()
	idle, end := io.Pipe()
	conn := channel.Open(idle, out, agent.Start{})
	x.t.Cleanup(func() { _ = end.Close(); _ = in.Close(); _ = conn.Close() })
	x.sent = bufio.NewReader(in)
	x.received("start")
	x.talk().run = &run{held: &remote.Held{Conn: conn}, ctx: x.ctx, arrived: make(chan struct{}, 1)}
}

// received is the next message to the run, of a kind.
func (x *test) received(kind string) map[string]any {
	x.t.Helper()
	line, err := x.sent.ReadBytes('\n')
	if err != nil {
		x.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil || m["kind"] != kind {
		x.t.Fatalf("%s was sent (%v), want the kind %s", line, err, kind)
	}
	return m
}

// events lets events of the run arrive.
func (x *test) events(list ...agent.Event) {
	var items []any
	for i, e := range list {
		if e.Time.IsZero() {
			e.Time = began.Add(time.Duration(i) * time.Millisecond)
		}
		items = append(items, e)
	}
	x.send(arrivedMsg{x.talk(), x.talk().run, items})
}

func user(text string) *agent.Message {
	return &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{{Kind: agent.PartText, Text: text}}}
}

// root has an event of the root, and below one of a sub-agent.
func root(kind agent.EventKind) agent.Event {
	return agent.Event{Kind: kind, Session: "R", Agent: "lead"}
}

func below(kind agent.EventKind, n int) agent.Event {
	return agent.Event{Kind: kind, Session: fmt.Sprintf("S%d", n), Agent: fmt.Sprintf("helper%d", n), Parent: fmt.Sprintf("R.1.%d", n), Depth: 1}
}

func with(e agent.Event, change func(e *agent.Event)) agent.Event {
	change(&e)
	return e
}

// prompted are the events with which a run begins, with n sub-agents that run.
func prompted(text string, n int) []agent.Event {
	list := []agent.Event{
		root(agent.EventSession),
		with(root(agent.EventMessage), func(e *agent.Event) { e.Message = user(text) }),
		with(root(agent.EventRequest), func(e *agent.Event) { e.Turn, e.Model = 1, "m" }),
	}
	for i := 1; i <= n; i++ {
		list = append(list,
			with(root(agent.EventCallStarted), func(e *agent.Event) {
				e.Turn, e.Key, e.Tool, e.Args = 1, fmt.Sprintf("R.1.%d", i), "expert", `{"prompt":"work"}`
			}),
			below(agent.EventSession, i),
			with(below(agent.EventMessage, i), func(e *agent.Event) { e.Message = user("work") }),
			with(below(agent.EventRequest, i), func(e *agent.Event) { e.Turn, e.Model = 1, "m" }))
	}
	return list
}

func question() agent.Event {
	return with(root(agent.EventQuestion), func(e *agent.Event) {
		e.Question, e.What, e.Path, e.Tool, e.Args = "q1", "approve", []string{"lead"}, "bash", `{"command":"rm -r build"}`
	})
}

// screenText is the live region or the screen, without styles.
func (x *test) screenText() string { return termtext.Clean(x.View().Content) }

func TestAnAnswerIsPrintedOnceWhileItArrives(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 0)...)
	for _, piece := range []string{"first para", "graph\n\nsec", "ond\n\n- a\n- b"} {
		x.events(with(root(agent.EventText), func(e *agent.Event) { e.Text = piece }))
	}
	got := strings.Join(x.printed, "\n")
	if !strings.Contains(got, "> hello\n\nfirst paragraph\n\nsecond") || strings.Contains(got, "- b") {
		t.Errorf("before the end of the answer, the scrollback is\n%s", got)
	}
	if text := x.screenText(); !strings.Contains(text, "b\n") {
		t.Errorf("the live region does not show the end of the answer:\n%s", text)
	}
	x.events(
		with(root(agent.EventAnswer), func(e *agent.Event) {
			e.Message = &agent.Message{Role: agent.RoleAssistant, Parts: user("first paragraph\n\nsecond\n\n- a\n- b").Parts}
		}),
		with(root(agent.EventEnd), func(e *agent.Event) { e.Status = agent.StatusOK }))
	if got := strings.Join(x.printed, "\n"); strings.Count(got, "first paragraph") != 1 || strings.Count(got, "second") != 1 || !strings.Contains(got, "b") {
		t.Errorf("the scrollback is\n%s", got)
	}
}

func TestARepeatedRequestPrintsItsAnswerAgain(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 0)...)
	x.events(with(root(agent.EventText), func(e *agent.Event) { e.Text = "wrong\n\nand" }))
	x.events(with(root(agent.EventRetry), func(e *agent.Event) { e.Error, e.Attempt = "cut off", 1 }))
	x.events(with(root(agent.EventAnswer), func(e *agent.Event) {
		e.Message = &agent.Message{Role: agent.RoleAssistant, Parts: user("right").Parts}
	}))
	got := strings.Join(x.printed, "\n")
	wrong, notice, right := strings.Index(got, "wrong"), strings.Index(got, "cut off"), strings.Index(got, "right")
	if wrong < 0 || notice < wrong || right < notice {
		t.Errorf("the scrollback is\n%s", got)
	}
}

func TestApprovals(t *testing.T) {
	for _, test := range []struct{ typed, decision, reason, again string }{
		{"y", "allow", "a person allowed it", `{"command": "rm -r build"}`},
		{"no, keep it", "deny", "a person denied it: keep it", ""},
		{"call", "allow", "a person allowed it in this session", `{"command": "rm -r build"}`},
		{"session", "allow", "a person allowed it in this session", `{"command":"make"}`},
		{"folder", "allow", "a person allowed it in this folder", `{"command":"make"}`},
	} {
		x := newTest(t, nil)
		kept := Approvals{File: filepath.Join(t.TempDir(), "approvals.json"), Folder: "/here"}
		x.talk().approvals = kept
		x.begin()
		x.events(prompted("clean up", 0)...)
		x.events(question())
		if got := strings.Join(x.printed, "\n"); !strings.Contains(got, "lead wants to call bash:\n  | command = \"rm -r build\"") {
			t.Fatalf("the scrollback does not show the call:\n%s", got)
		}
		x.typeText("perhaps")
		x.press(enter)
		if x.talk().question() == nil || !strings.Contains(x.model.message, `"perhaps" is not an answer`) {
			t.Fatalf("after perhaps the question is %v, the message %q", x.talk().question(), x.model.message)
		}
		x.input.Reset()
		x.typeText(test.typed)
		x.press(enter)
		m := x.received("reply")
		want := map[string]any{"decision": test.decision, "reason": test.reason}
		if m["question"] != "q1" || !reflect.DeepEqual(m["answer"], want) || x.talk().question() != nil {
			t.Errorf("%s: the reply is %v, want %v", test.typed, m, want)
		}
		if test.again == "" {
			continue
		}
		x.events(with(question(), func(e *agent.Event) { e.Question, e.Args = "q2", test.again }))
		if m := x.received("reply"); m["question"] != "q2" || x.talk().question() != nil {
			t.Errorf("%s: the same question is answered with %v", test.typed, m)
		}
		x.events(with(question(), func(e *agent.Event) { e.Question, e.Args, e.Approval = "q3", test.again, "always" }))
		if x.talk().question() == nil {
			t.Errorf("%s: a question that must always be asked was answered", test.typed)
		}
		later := newTest(t, nil)
		later.talk().approvals = kept
		later.begin()
		later.events(prompted("later", 0)...)
		later.events(with(question(), func(e *agent.Event) { e.Args = test.again }))
		session := test.typed == "session" || test.typed == "call" // the tests have the same
		if asked := later.talk().question() != nil; asked == (session || test.typed == "folder") {
			t.Errorf("%s: in a later run the question is asked: %v", test.typed, asked)
		}
	}
}

// What was typed before a question was shown is not an answer to it until enter is pressed once
// more: it was meant for something else, perhaps for another question.
func TestWhatWasTypedBeforeAQuestionIsNoAnswer(t *testing.T) {
	other := with(question(), func(e *agent.Event) { e.Question, e.Args = "q0", `{"command":"ls"}` })
	elicit := with(question(), func(e *agent.Event) { e.What, e.Text = "elicit", "Which key?" })
	for _, typed := range []string{"y", "yes", "session", "folder", "no, not this", "a message"} {
		for name, before := range map[string][]agent.Event{"no question": nil, "another question": {other}} {
			for _, asked := range []agent.Event{question(), elicit} {
				x := newTest(t, nil)
				x.talk().approvals = Approvals{File: filepath.Join(t.TempDir(), "approvals.json"), Folder: "/here"}
				x.begin()
				x.events(prompted("clean up", 0)...)
				x.events(before...)
				x.typeText(typed)
				x.events(asked)
				x.press(enter)
				if x.talk().question() == nil || x.input.Value() != typed || !strings.Contains(x.model.message, "enter again") {
					t.Errorf("%s, then %s: after %q and enter the question is %v, the input %q, the message %q", name, asked.What, typed, x.talk().question(), x.input.Value(), x.model.message)
				}
				if typed == "a message" && asked.What == "approve" {
					continue
				}
				x.press(enter)
				if m := x.received("reply"); m["question"] != "q1" || x.talk().question() != nil {
					t.Errorf("%s, then %s: after enter again %v was sent", name, asked.What, m)
				}
			}
		}
	}
}

// The tree of agents has an input for the agent that is chosen: what is typed to one is no answer
// to the question of another, which is not shown.
func TestTheInspectorAnswersTheQuestionOfTheChosenAgent(t *testing.T) {
	tree, down := tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: tea.KeyDown}
	for _, chosen := range []struct {
		downs          int
		kind, question string
		session        any
	}{{0, "input", "", nil}, {1, "reply", "q1", nil}, {2, "input", "", "S2"}} {
		x := newTest(t, nil)
		x.begin()
		x.events(prompted("work", 2)...)
		x.press(tree)
		for range chosen.downs {
			x.press(down)
		}
		x.events(with(below(agent.EventQuestion, 1), func(e *agent.Event) {
			e.Question, e.What, e.Path, e.Tool, e.Args = "q1", "approve", []string{"lead", "helper1"}, "bash", `{"command":"rm -r build"}`
		}))
		x.typeText("yes")
		x.press(enter)
		m := x.received(chosen.kind)
		if chosen.kind == "input" && m["text"] != "yes" || chosen.question != "" && m["question"] != chosen.question || !reflect.DeepEqual(m["session"], chosen.session) {
			t.Errorf("agent %d is chosen: %v was sent", chosen.downs, m)
		}
		if answered := x.talk().question() == nil; answered != (chosen.question != "") {
			t.Errorf("agent %d is chosen: the question of the first sub-agent is answered: %v", chosen.downs, answered)
		}
	}
}

func TestAFormIsFilledFieldByField(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("order", 0)...)
	x.events(with(question(), func(e *agent.Event) {
		e.What, e.Text, e.Schema = "elicit", "Which size?", json.RawMessage(`{"type":"object","properties":{"size":{"type":"string","enum":["small","large"]},"count":{"type":"integer"},"note":{"type":"string"}},"required":["size"]}`)
	}))
	for _, step := range []struct{ typed, wrong string }{
		{"many", "count: want a JSON integer"}, {"3", ""}, {"", ""}, {"3", "size: want a number from 1 to 2"}, {"", "size: a value is needed"}, {"2", ""},
	} {
		x.typeText(step.typed)
		x.press(enter)
		if got := x.model.message; step.wrong == "" && got != "" || !strings.Contains(got, step.wrong) {
			t.Fatalf("after %q the message is %q, want %q", step.typed, got, step.wrong)
		}
		x.input.Reset()
	}
	want := map[string]any{"action": "accept", "content": map[string]any{"size": "large", "count": 3.0}}
	if m := x.received("reply"); !reflect.DeepEqual(m["answer"], want) {
		t.Errorf("the reply is %v, want %v", m["answer"], want)
	}
	x.events(with(question(), func(e *agent.Event) {
		e.Question, e.What, e.Text, e.Choices = "q2", "ask", "Which?", []string{"a", "b"}
	}))
	x.typeText("2")
	x.press(enter)
	if m := x.received("reply"); m["answer"] != "b" {
		t.Errorf("the reply is %v, want b", m["answer"])
	}
	x.events(with(question(), func(e *agent.Event) { e.Question, e.What = "q3", "elicit" }))
	x.press(tea.KeyPressMsg{Code: tea.KeyEscape})
	if m := x.received("reply"); !reflect.DeepEqual(m["answer"], map[string]any{"action": "decline"}) {
		t.Errorf("esc sends %v, want that the person declines", m["answer"])
	}
}

func TestMessagesDuringARun(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 0)...)
	for _, text := range []string{"also this", "and that"} {
		x.typeText(text)
		x.press(enter)
		if m := x.received("input"); m["text"] != text {
			t.Errorf("%v was sent, want %q", m, text)
		}
	}
	x.events(with(root(agent.EventMessage), func(e *agent.Event) { e.Message, e.Input = user("also this"), true }))
	x.model.server = nil // so that the next run waits
	x.events(with(root(agent.EventEnd), func(e *agent.Event) { e.Status = agent.StatusOK }))
	x.send(arrivedMsg{x.talk(), x.talk().run, []any{ended("")}})
	if w := x.talk().waiting; w == nil || string(w.Args) != `{"prompt":"and that"}` || w.Session != "R" {
		t.Errorf("after the run the next is %+v, want one with the message that arrived too late", w)
	}
}

func TestTheLiveRegionIsAThirdOfTheScreenUnlessManyAgentsRun(t *testing.T) {
	for _, agents := range []int{0, 30} {
		liveRegionFits(t, agents)
	}
}

func liveRegionFits(t *testing.T, agents int) {
	for _, size := range []tea.WindowSizeMsg{{Width: 200, Height: 60}, {Width: 80, Height: 24}, {Width: 40, Height: 18}, {Width: 20, Height: 8}} {
		x := newTest(t, nil)
		x.send(size)
		x.begin()
		x.events(prompted("a prompt 日本語 שלום עולם with words of all kinds", agents)...)
		x.events(with(root(agent.EventText), func(e *agent.Event) { e.Text = strings.Repeat("日本語 text ", 100) }))
		x.events(question())
		x.send(tea.PasteMsg{Content: strings.Repeat("a pasted line\n", 30)})
		lines := strings.Split(x.View().Content, "\n")
		most := max(size.Height/3, 6)
		if agents > 0 {
			most = max(size.Height*3/4, 6)
		}
		if len(lines) > most {
			t.Errorf("%dx%d, %d agents: the live region has %d lines, want %d at most:\n%s", size.Width, size.Height, agents, len(lines), most, x.screenText())
		}
		for _, line := range append(lines, x.printed...) {
			if w := termtext.Width(termtext.Clean(line)); w > size.Width {
				t.Errorf("%dx%d: a line of %d cells: %q", size.Width, size.Height, w, line)
			}
		}
		if x.input.LineCount() != 31 {
			t.Errorf("the input has %d lines, want all that were pasted", x.input.LineCount())
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", []string{""}},
		{"short", []string{"short"}},
		{"eight ce", []string{"eight ce"}},
		{"two words", []string{"two", "words"}},
		{"exactly8 more", []string{"exactly8", "more"}},
		{"averylongwordindeed", []string{"averylon", "gwordind", "eed"}},
		{"   averylongword", []string{"   avery", "longword"}},
		{"a      b      c", []string{"a      b", "c"}},
		{"日本語日本語", []string{"日本語日", "本語"}},
		{"a日本語 日本語", []string{"a日本語", "日本語"}},
	} {
		if got := wrap(test.line, 8); !slices.Equal(got, test.want) {
			t.Errorf("wrap(%q, 8) = %q, want %q", test.line, got, test.want)
		}
	}
	for _, piece := range []string{"abc ", "a", "日", " ", "e\u0301"} { // in time that grows with the text
		text := strings.Repeat(piece, 1<<20)
		began := time.Now()
		lines := wrap(text, 79)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%d times %q take %s", 1<<20, piece, took)
		}
		if got := strings.Join(lines, ""); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Errorf("of %d times %q something is missing", 1<<20, piece)
		}
	}
}

func TestWithoutColorsThereAreNoSequences(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 3)...)
	x.events(with(root(agent.EventText), func(e *agent.Event) { e.Text = "# title\n\n**bold**\n\n" }))
	x.events(question())
	if got := strings.Join(x.printed, "\n") + strings.Join(first(x.live()), "\n"); strings.Contains(got, "\x1b[3") || strings.Contains(strings.Join(x.printed, ""), "\x1b") {
		t.Errorf("without colors there is %q", got)
	}
}

func first[T, U any](t T, _ U) T { return t }

func TestTheInspectorEntersAnyAgent(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 3)...)
	x.events(
		with(below(agent.EventText, 2), func(e *agent.Event) { e.Text = "said by the second" }),
		agent.Event{Kind: agent.EventCallStarted, Session: "S2", Agent: "helper2", Parent: "R.1.2", Depth: 1, Turn: 1, Key: "S2.1.1", Tool: "expert", Args: "{}"},
		agent.Event{Kind: agent.EventSession, Session: "D", Agent: "deep", Parent: "S2.1.1", Depth: 2},
		agent.Event{Kind: agent.EventMessage, Session: "D", Agent: "deep", Parent: "S2.1.1", Depth: 2, Message: user("dig")})
	x.press(tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl})
	down := tea.KeyPressMsg{Code: tea.KeyDown}
	x.press(down, down)
	if text := x.screenText(); !strings.Contains(text, "said by the second") || !x.View().AltScreen {
		t.Errorf("the second sub-agent is shown as\n%s", text)
	}
	x.press(down)
	if text := x.screenText(); !strings.Contains(text, "> dig") || !strings.Contains(text, "to deep") {
		t.Errorf("the agent below it is shown as\n%s", text)
	}
	x.typeText("deeper")
	x.press(enter)
	if m := x.received("input"); m["text"] != "deeper" || m["session"] != "D" {
		t.Errorf("%v was sent, want the message for session D", m)
	}
	x.press(tea.KeyPressMsg{Code: 'x', Mod: tea.ModCtrl})
	if m := x.received("cancel"); m["session"] != "D" {
		t.Errorf("%v was sent, want the end of session D alone", m)
	}
	n := len(x.printed)
	x.events(with(root(agent.EventCallEnded), func(e *agent.Event) { e.Key, e.Result = "R.1.1", &agent.ToolResult{Name: "expert"} }))
	if len(x.printed) != n {
		t.Errorf("%q was printed while the alternate screen was shown", x.printed[n:])
	}
	x.press(tea.KeyPressMsg{Code: tea.KeyEscape})
	x.send(mainScreenMsg{})
	if got := strings.Join(x.printed[n:], "\n"); !strings.Contains(got, "✓ expert") || x.View().AltScreen {
		t.Errorf("after the tree, %q was printed", got)
	}
}

func TestWhatArrivesDoesNotMoveAViewThatIsScrolledBack(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 0)...)
	answer := func(text string) agent.Event {
		return with(root(agent.EventAnswer), func(e *agent.Event) {
			e.Message = &agent.Message{Role: agent.RoleAssistant, Parts: user(text).Parts}
		})
	}
	for i := range 30 {
		x.events(answer(fmt.Sprintf("answer %d", i)))
	}
	x.events(with(root(agent.EventText), func(e *agent.Event) { e.Text = "the first line\n\n" }))
	x.press(tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: tea.KeyPgUp})
	conversation := func() string {
		_, text, _ := strings.Cut(x.screenText(), "scrolled back")
		_, text, _ = strings.Cut(text, "\n")
		return text
	}
	want := conversation()
	x.events(with(root(agent.EventText), func(e *agent.Event) { e.Text = "the second\n\nand third" }))
	if got := conversation(); got != want {
		t.Errorf("after a piece of an answer the view is\n%s\nwant\n%s", got, want)
	}
	x.events(answer("the first line\n\nthe second\n\nand third\n\nand fourth"), answer("one more"))
	if got := conversation(); got != want || !strings.Contains(got, "answer 2") {
		t.Errorf("after an answer the view is\n%s\nwant\n%s", got, want)
	}
	for range 10 {
		x.press(tea.KeyPressMsg{Code: tea.KeyPgDown})
	}
	if got := x.screenText(); !strings.Contains(got, "one more") {
		t.Errorf("the end of the conversation is\n%s", got)
	}
}

func TestConversationsAreSwitchedAndLeft(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("first", 0)...)
	other := x.talk()
	x.press(tea.KeyPressMsg{Code: 'n', Mod: tea.ModCtrl})
	if len(x.talks) != 2 || x.talk() == other {
		t.Fatalf("there are %d conversations, want another", len(x.talks))
	}
	x.send(arrivedMsg{other, other.run, []any{with(root(agent.EventAnswer), func(e *agent.Event) {
		e.Message = &agent.Message{Role: agent.RoleAssistant, Parts: user("missed").Parts}
	})}})
	if strings.Contains(strings.Join(x.printed, "\n"), "missed") {
		t.Error("the answer in another conversation was printed at once")
	}
	if text := x.screenText(); !strings.Contains(text, "1 lead running") {
		t.Errorf("nothing says that the other conversation runs:\n%s", text)
	}
	x.press(tea.KeyPressMsg{Code: 'd', Mod: tea.ModCtrl})
	got := strings.Join(x.printed, "\n")
	if !strings.Contains(got, "1/2 lead") || !strings.Contains(got, "missed") || !strings.Contains(got, "lead continues to run: agents tui --attach R") {
		t.Errorf("leaving printed\n%s", got)
	}
	for range 30 { // the live region disappears row by row
		x.View()
		x.frames.drawn()
	}
	if _, cmd := x.Update(nil); !quits(cmd) {
		t.Error("the program does not end when everything is printed")
	}
}

// TestServersAreLeftWithTheirLastConversation: whatever a person does with /model, /new and several
// conversations, a server that was started for one is left as soon as none has it, and only once.
func TestServersAreLeftWithTheirLastConversation(t *testing.T) {
	left := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := newTest(t, nil)
		shared := x.server
		shared.agents = append(shared.agents, remote.Description{Name: "other"})
		times := map[*server]int{}
		start := func() *server {
			s := &server{agents: shared.agents}
			times[s] = 0
			s.leave = func() { times[s]++ }
			return s
		}
		for range 30 {
			of := x.talks[r.IntN(len(x.talks))]
			switch r.IntN(7) {
			case 0:
				x.send(modelMsg{talk: of, name: "m", flags: []string{"--model", "m"}, server: start()})
			case 1:
				x.send(modelMsg{talk: of, err: errors.New("no such model")})
			case 2:
				x.anew("lead")
				x.send(nil)
			case 3:
				x.anew("other")
				x.send(nil)
			case 4:
				if x.talk().run == nil {
					x.begin()
				}
			case 5:
				if run := x.talk().run; run != nil {
					x.send(arrivedMsg{x.talk(), run, []any{ended([]string{"", serverEnded, "it broke"}[r.IntN(3)])}})
					x.server = shared // or another that was started
				}
			case 6:
				x.next(r.IntN(len(x.talks)))
			}
			for s, n := range times {
				used := slices.ContainsFunc(x.talks, func(t *talk) bool { return t.own == s })
				if n > 1 || (n == 1) == used {
					t.Fatalf("seed %d: a server was left %d times, used: %t", seed, n, used)
				}
				left += n
			}
		}
	}
	if left == 0 {
		t.Error("no server was left")
	}
}

// quits reports whether a command ends the program.
func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	switch msg := cmd().(type) {
	case tea.QuitMsg:
		return true
	case tea.BatchMsg:
		return slices.ContainsFunc(msg, quits)
	}
	return false
}

func TestEarlierPromptsAreRecalled(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	for _, text := range []string{"one", "two"} {
		x.typeText(text)
		x.press(enter)
		x.received("input")
	}
	x.typeText("draft")
	up, down := tea.KeyPressMsg{Code: tea.KeyUp}, tea.KeyPressMsg{Code: tea.KeyDown}
	for _, step := range []struct {
		key  tea.KeyPressMsg
		want string
	}{{up, "two"}, {up, "one"}, {up, "one"}, {down, "two"}, {down, "draft"}} {
		x.press(step.key)
		if got := x.input.Value(); got != step.want {
			t.Errorf("after %s the input is %q, want %q", step.key, got, step.want)
		}
	}
}

func TestStopFirstStopsTheRun(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 0)...)
	stop := tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	x.press(stop)
	if x.received("cancel"); x.leaving {
		t.Error("the first ctrl+c leaves")
	}
	x.events(with(root(agent.EventEnd), func(e *agent.Event) { e.Status, e.Error = agent.StatusInterrupted, "a person stopped it" }))
	x.send(arrivedMsg{x.talk(), x.talk().run, []any{ended("")}})
	x.typeText("x")
	x.press(stop)
	if x.input.Value() != "" || x.leaving {
		t.Errorf("ctrl+c keeps the input %q, or leaves: %v", x.input.Value(), x.leaving)
	}
	x.press(stop)
	if !x.leaving {
		t.Error("the second ctrl+c in a row does not leave")
	}
}

func TestTheKeysReturnToTheTree(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(prompted("hello", 0)...)
	open, help, closes := tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: '?', Text: "?"}, tea.KeyPressMsg{Code: tea.KeyEscape}
	x.press(open, help)
	if text := x.screenText(); !strings.Contains(text, "open or close the tree") {
		t.Fatalf("? in the tree shows\n%s", text)
	}
	x.press(closes)
	if text := x.screenText(); !strings.Contains(text, "to lead") {
		t.Errorf("after the keys, the tree is not shown again:\n%s", text)
	}
	x.press(closes, help, closes)
	if x.screen != nil {
		t.Error("the keys do not return to the conversation")
	}
}

func TestALostServerIsReported(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	x.events(append(prompted("hello", 0), question())...)
	x.send(arrivedMsg{x.talk(), x.talk().run, []any{notice("the connection was lost; connecting again"), ended("the server has ended")}})
	got := strings.Join(x.printed, "\n")
	if !strings.Contains(got, "connecting again") || !strings.Contains(strings.Join(strings.Fields(got), " "), "agents tui --attach R") || x.talk().question() != nil {
		t.Errorf("a lost server is reported as\n%s", got)
	}
	x.model.server = nil
	x.press(enter)
	if w := x.talk().waiting; w == nil || w.Session != "R" || w.Args != nil {
		t.Errorf("enter begins %+v, want the run of session R again", w)
	}
}

func TestTheLiveRegionBecomesLowerByARowAFrame(t *testing.T) {
	var f frames
	var got []int
	for range 2 {
		got = append(got, f.add(5))
		f.drawn()
	}
	for range 4 {
		got = append(got, f.add(2), f.add(2)) // the first of them may have been drawn
		f.drawn()
	}
	if want := []int{5, 5, 4, 4, 3, 3, 2, 2, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("the heights are %v, want %v", got, want)
	}
}

// BenchmarkKeystroke is the time of a keystroke, update and view, while 50 agents stream
// into conversations that have 10,000 entries.
func BenchmarkKeystroke(b *testing.B) {
	for _, tree := range []bool{false, true} {
		b.Run(fmt.Sprintf("tree=%v", tree), func(b *testing.B) {
			x := newTest(b, nil)
			x.begin()
			x.events(prompted("hello", 50)...)
			for i := range 10_000 {
				x.events(with(below(agent.EventAnswer, i%50+1), func(e *agent.Event) {
					e.Turn, e.Message = i/50+1, &agent.Message{Role: agent.RoleAssistant, Parts: user("An answer of some words, *as models write them*.").Parts}
				}))
			}
			if tree {
				x.press(tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: tea.KeyDown})
			}
			for b.Loop() {
				var arrived []any
				for i := range 50 {
					arrived = append(arrived, with(below(agent.EventText, i+1), func(e *agent.Event) { e.Text = "a piece " }))
				}
				x.Update(arrivedMsg{x.talk(), x.talk().run, arrived})
				x.View()
				x.Update(tea.KeyPressMsg{Code: 'x', Text: "x"})
				x.View()
				x.Update(tea.KeyPressMsg{Code: tea.KeyBackspace})
			}
		})
	}
}

func TestWhatIsPastedGoesWhereItIsTyped(t *testing.T) {
	for name, keys := range map[string][]tea.KeyPressMsg{
		"sessions": {{Code: 's', Mod: tea.ModCtrl}}, "keys": {{Code: tea.KeyF1}}, "search": {{Code: 'r', Mod: tea.ModCtrl}}, "tree": {{Code: 't', Mod: tea.ModCtrl}}, "": nil,
	} {
		x := newTest(t, nil)
		x.history = &input.History{}
		_ = x.history.Add("an earlier text")
		x.press(keys...)
		x.send(tea.PasteMsg{Content: "earlier\n text"})
		list, _ := x.screen.(*list)
		switch {
		case name == "search":
			if x.search.words != "earlier text" || x.input.Value() != "an earlier text" {
				t.Errorf("the search is for %q and finds %q", x.search.words, x.input.Value())
			}
		case list != nil:
			if list.typed != "earlier text" || x.input.Value() != "" {
				t.Errorf("%s: the words of the list are %q, the input is %q", name, list.typed, x.input.Value())
			}
		case x.input.Value() != "earlier\n text":
			t.Errorf("%s: the input is %q", name, x.input.Value())
		}
	}
}

// What a command does beside the model uses what the conversation was when it was given.
func TestCommandsDoNotReadAConversationThatChanges(t *testing.T) {
	for _, name := range []string{"save", "undo", "fork", "agents", "tools", "model"} {
		x := newTest(t, nil)
		x.o.Program, x.o.Dir = filepath.Join(t.TempDir(), "none"), t.TempDir()
		x.talk().session = "R"
		args := map[string]string{"save": filepath.Join(t.TempDir(), "file"), "model": "other"}[name]
		cmd := x.command(name, args)
		if cmd == nil {
			t.Fatalf("/%s does nothing", name)
		}
		done := make(chan struct{})
		go func() { defer close(done); cmd() }()
		talk := x.talk() // the race detector reports another use
		talk.session, talk.agent, talk.flags, talk.of = "S", "other", nil, "T"
		<-done
		if left, err := os.ReadDir(x.o.Dir); err != nil || len(left) > 0 {
			t.Errorf("/%s leaves %v (%v) of a server that did not start", name, left, err)
		}
	}
}

func TestResultsAreFolded(t *testing.T) {
	x := newTest(t, nil)
	x.begin()
	call := func(n int, args, result string) []agent.Event {
		key := fmt.Sprintf("R.1.%d", n)
		return []agent.Event{
			with(root(agent.EventCallStarted), func(e *agent.Event) { e.Turn, e.Key, e.Tool, e.Args = 1, key, "bash", args }),
			with(root(agent.EventCallEnded), func(e *agent.Event) {
				e.Key, e.Tool, e.Result = key, "bash", &agent.ToolResult{Parts: []agent.Part{agent.Text(result)}}
			}),
		}
	}
	x.events(prompted("look", 0)...)
	x.events(call(1, `{"command":"seq 10"}`, "1\n2\n3\n4\n5\n6\n7\n8\n9\n\x1b[2J10\n")...)
	x.events(call(2, `{"path":"a","old_text":"one\ntwo","new_text":"one\n2"}`, "changed")...)
	text := func() string { return strings.Join(x.printed, "\n") }
	if got := text(); !strings.Contains(got, "  1\n  2\n  3\n  … 7 more lines (ctrl+y all)") || strings.Contains(got, "  4\n") {
		t.Errorf("printed is\n%s", got)
	}
	if got := text(); !strings.Contains(got, "   one\n  -two\n  +2") || strings.Contains(got, "changed") {
		t.Errorf("a change is printed as\n%s", got)
	}
	all := tea.KeyPressMsg{Code: 'y', Mod: tea.ModCtrl}
	x.press(all)
	if got := text(); !strings.Contains(got, "  9\n  10") {
		t.Errorf("after ctrl+y printed is\n%s", got)
	}
	x.press(all)
	if x.message != "no result is folded" {
		t.Errorf("a second ctrl+y says %q", x.message)
	}
	x.press(tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl})
	if got := x.screenText(); !strings.Contains(got, "7 more lines") {
		t.Errorf("the tree shows\n%s", got)
	}
	x.press(all)
	if got := x.screenText(); strings.Contains(got, "more lines") || !strings.Contains(got, "\n  8\n") {
		t.Errorf("with open results the tree shows\n%s", got)
	}
}

// run does what commands do until none is left, while ten lines are printed for each.
func (x *test) run(cmd tea.Cmd) {
	list := []tea.Cmd{cmd}
	for len(list) > 0 || len(x.print.lines) > 0 {
		if len(list) > 0 && list[0] != nil {
			list = append(list, x.update(list[0]()))
		}
		list = list[min(1, len(list)):]
		n := min(len(x.print.lines), 10)
		x.printed, x.print.lines = append(x.printed, x.print.lines[:n]...), x.print.lines[n:]
		list = append(list, x.update(printedMsg{}))
		list = slices.DeleteFunc(list, func(cmd tea.Cmd) bool { return cmd == nil })
	}
}

// A command of the shell that prints more than the terminal takes waits, and can be stopped. Its
// output belongs to the conversation in which it was typed.
func TestACommandWaitsForTheTerminal(t *testing.T) {
	x := newTest(t, nil)
	x.run(x.shell("i=0; while test $i -lt 3000; do echo $i; i=$((i+1)); done; printf end"))
	if got := slices.DeleteFunc(x.printed, func(line string) bool { return line == "" }); len(got) != 3001 || got[0] != "0" || got[2999] != "2999" || got[3000] != "end" || x.job != nil {
		t.Errorf("%d lines were printed, and the command runs: %v", len(got), x.job != nil)
	}
	for name, command := range map[string]string{"lines": "yes", "one line": "yes | tr -d '\\n'"} {
		x := newTest(t, nil)
		first := x.talk()
		next := x.shell(command)
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			x.job.mu.Lock()
			if n := len(x.job.text); n > maxUnread+64<<10 {
				t.Errorf("%s: %d bytes wait to be read", name, n)
			}
			x.job.mu.Unlock()
		}
		for next != nil {
			next = x.update(next())
		}
		if !x.job.waits || len(x.print.lines) <= maxUnprinted {
			t.Fatalf("%s: the command does not wait for %d lines to be printed", name, len(x.print.lines))
		}
		x.talks = append(x.talks, x.newTalk("other", ""))
		x.at = 1
		x.update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		x.print.lines = nil
		x.run(x.update(printedMsg{}))
		if x.job != nil || len(first.outputs) != 1 || x.talk().outputs != nil || !strings.Contains(first.outputs[0], "[stopped]") {
			t.Errorf("%s: after ctrl+c the command runs: %v; the conversations have %d and %d outputs", name, x.job != nil, len(first.outputs), len(x.talk().outputs))
		}
	}
}

// A command of the shell that does not end when it is asked to is killed before the program ends.
func TestNothingOfACommandOutlivesTheProgram(t *testing.T) {
	x := newTest(t, nil)
	next := x.shell("trap '' TERM; echo begun; while :; do sleep 0.1; done")
	if msg := next().(jobMsg); msg.lines != "begun\n" {
		t.Fatalf("the command has printed %q", msg.lines)
	}
	x.leaveAll()
	x.job.mu.Lock()
	defer x.job.mu.Unlock()
	if !x.job.over {
		t.Error("the command runs when the program ends")
	}
}

func TestCallsMakeRoomForAgents(t *testing.T) {
	x := newTest(t, nil)
	x.tree = true
	x.begin()
	x.events(prompted("work", 4)...)
	for i := 1; i <= 4; i++ {
		for n := range 3 {
			x.events(with(below(agent.EventCallStarted, i), func(e *agent.Event) {
				e.Turn, e.Key, e.Tool, e.Args = 1, fmt.Sprintf("S%d.1.%d", i, n), "bash", `{"command":"sleep"}`
			}))
		}
	}
	got := x.screenText()
	for i := 1; i <= 4; i++ {
		if !strings.Contains(got, fmt.Sprintf("helper%d", i)) {
			t.Errorf("helper%d has no row:\n%s", i, got)
		}
	}
	if !strings.Contains(got, "and 12 more") {
		t.Errorf("the calls are not counted:\n%s", got)
	}
}

// Every running agent has a row, in up to three quarters of the screen, before calls and agents that
// have ended. The other rows are counted. The figures of all rows end in the same column, whatever
// the width of the characters.
func TestEveryRunningAgentHasARow(t *testing.T) {
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 120, Height: 40}, {Width: 200, Height: 60}} {
		for _, n := range []int{5, 40} {
			x := newTest(t, nil)
			x.tree = true
			x.send(size)
			x.begin()
			x.events(prompted("Ask them all 世界", n+3)...)
			for i := 1; i <= n+3; i++ {
				x.events(with(below(agent.EventMessage, i), func(e *agent.Event) {
					e.Message = user(fmt.Sprintf("%d: 資料 and what 王さん wrote about the 예산 of the year, in full", i))
				}))
				x.events(with(below(agent.EventCallStarted, i), func(e *agent.Event) {
					e.Turn, e.Key, e.Tool, e.Args = 1, fmt.Sprintf("S%d.1.1", i), "bash", `{"command":"sleep"}`
				}))
			}
			for i := 1; i <= 3; i++ { // these have ended
				x.events(with(below(agent.EventCallEnded, i), func(e *agent.Event) {
					e.Turn, e.Key, e.Tool, e.Result = 1, fmt.Sprintf("S%d.1.1", i), "bash", &agent.ToolResult{}
				}), with(below(agent.EventEnd, i), func(e *agent.Event) { e.Turn, e.Status = 1, agent.StatusOK }),
					with(root(agent.EventCallEnded), func(e *agent.Event) {
						e.Turn, e.Key, e.Tool, e.Result = 1, fmt.Sprintf("R.1.%d", i), "expert", &agent.ToolResult{}
					}))
			}
			rows, ends := 0, map[int]bool{}
			for line := range strings.Lines(x.screenText()) {
				line = strings.TrimRight(line, " \n")
				switch {
				case strings.Contains(line, "• helper"), strings.Contains(line, "• lead"):
					ends[termtext.Width(line)] = true
					rows++
				case strings.Contains(line, "✓ helper"):
					t.Errorf("%dx%d: an agent that has ended has a row, %d calls and agents run:\n%s", size.Width, size.Height, n, x.screenText())
				}
			}
			want := min(n+1, size.Height*3/4-len([]string{"the input", "the keys", "the count of the rest"}))
			all := rows+strings.Count(x.screenText(), "• bash") == n+1+n
			if rows != want || len(ends) != 1 || strings.Contains(x.screenText(), "more") == all {
				t.Errorf("%dx%d, %d agents: %d rows of running agents with the ends %v, want %d with one, and the rest counted:\n%s", size.Width, size.Height, n, rows, ends, want, x.screenText())
			}
			x.press(tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl})
			if shown := strings.Count(x.screenText(), "• helper") + strings.Count(x.screenText(), "✓ helper"); shown < n+3 && !strings.Contains(x.screenText(), "more in the tree") {
				t.Errorf("%dx%d: the tree shows %d of %d agents and does not say so:\n%s", size.Width, size.Height, shown, n+3, x.screenText())
			}
		}
	}
}

// TestEnterWhileTheSessionIsRead: what is typed is sent once the session has been read, unless the
// person goes on typing or the session cannot be read.
func TestEnterWhileTheSessionIsRead(t *testing.T) {
	history := treeOf([]agent.Event{{Kind: agent.EventSession, Session: "s", Agent: "lead"}})
	for _, typed := range []string{"hello", "two words", "/help", "!true"} {
		for _, test := range []struct {
			name   string
			events []tea.Msg
			sent   bool
		}{
			{"read", []tea.Msg{openMsg{session: session{ID: "s", Agent: "lead"}, tree: history}}, true},
			{"typed on", []tea.Msg{tea.KeyPressMsg{Code: 'x', Text: "x"}, openMsg{session: session{ID: "s", Agent: "lead"}, tree: history}}, false},
			{"pasted on", []tea.Msg{tea.PasteMsg{Content: "x"}, openMsg{session: session{ID: "s", Agent: "lead"}, tree: history}}, false},
			{"not read", []tea.Msg{openMsg{err: errors.New("it is damaged")}}, false},
		} {
			m := newTest(t, nil)
			m.talks[0].loading = true
			m.typeText(typed)
			m.press(tea.KeyPressMsg{Code: tea.KeyEnter})
			if m.input.Value() != typed || m.message != "the session is being read" {
				t.Fatalf("%s, %s: the input is %q after Enter, and the message %q", typed, test.name, m.input.Value(), m.message)
			}
			m.send(test.events...)
			if sent := m.input.Value() == ""; sent != test.sent {
				t.Errorf("%s, %s: sent is %t, want %t; the input is %q", typed, test.name, sent, test.sent, m.input.Value())
			}
		}
	}
}

// TestEnterWhileTheServerStarts: a second message is sent once the server has started. If it does
// not start, the message stays in the input.
func TestEnterWhileTheServerStarts(t *testing.T) {
	for _, err := range []error{nil, errors.New("it did not start")} {
		m := newTest(t, nil)
		m.connectedOnce, m.talks[0].waiting = true, &agent.Start{}
		m.typeText("hello")
		m.press(tea.KeyPressMsg{Code: tea.KeyEnter})
		if m.input.Value() != "hello" || m.message != "the server is starting" {
			t.Fatalf("the input is %q after Enter, and the message %q", m.input.Value(), m.message)
		}
		m.send(connectedMsg{server: m.server, err: err})
		if sent := m.input.Value() == ""; sent != (err == nil) {
			t.Errorf("%v: sent is %t; the input is %q", err, sent, m.input.Value())
		}
	}
}

// TestLeavingBeforeTheFirstFrame: the program ends even if the person leaves, or the server does not
// start, before anything is on the screen.
func TestLeavingBeforeTheFirstFrame(t *testing.T) {
	key := func(code rune) tea.Msg { return tea.KeyPressMsg{Code: code, Mod: tea.ModCtrl} }
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, cause := range map[string][]tea.Msg{
		"no server":                  {connectedMsg{err: errors.New("it did not start")}},
		"no server, behind a screen": {key('t'), drawnMsg{}, connectedMsg{err: errors.New("it did not start")}},
		"no server, behind a list":   {key('s'), drawnMsg{}, connectedMsg{err: errors.New("it did not start")}},
		"no server, in a search":     {key('r'), connectedMsg{err: errors.New("it did not start")}},
		"left":                       {key('d')},
		"stopped":                    {key('c'), key('c')},
		"typed":                      {tea.KeyPressMsg{Code: 'x', Text: "x"}, key('c'), key('c')},
		"a screen":                   {key('t'), key('c'), key('c'), key('d')},
	} {
		for frames := range 3 { // before it leaves
			x := newTest(t, nil)
			x.server, x.frames.begun = nil, false
			out := &terminal{File: null, began: x.frames.begin, drawn: func() { x.frames.drawn() }}
			draw := func() (cmd tea.Cmd) {
				if _, err := out.WriteString(x.View().Content); err != nil {
					t.Fatal(err)
				}
				x.Update(closedMsg{})
				_, cmd = x.Update(drawnMsg{})
				return cmd
			}
			for range frames {
				draw()
			}
			x.send(cause...)
			for range 30 { // the live region disappears row by row
				draw()
			}
			if !quits(draw()) {
				t.Errorf("%s after %d frames: the program does not end", name, frames)
			}
		}
	}
}

// What is typed while a screen waits for what is being printed is meant for that screen, and what
// it shows may arrive before it is open.
func TestAScreenThatWaitsToBeOpened(t *testing.T) {
	tree, sessions, keys := tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: 's', Mod: tea.ModCtrl}, tea.KeyPressMsg{Code: tea.KeyF1}
	escape := tea.KeyPressMsg{Code: tea.KeyEscape}
	for name, c := range map[string]struct {
		pressed []tea.KeyPressMsg
		want    string
	}{
		"the tree twice":            {[]tea.KeyPressMsg{tree, tree}, "<nil>"},
		"the tree three times":      {[]tea.KeyPressMsg{tree, tree, tree}, "*tui.inspector"},
		"the tree is closed":        {[]tea.KeyPressMsg{tree, escape}, "<nil>"},
		"the sessions twice":        {[]tea.KeyPressMsg{sessions, sessions}, "<nil>"},
		"the sessions are closed":   {[]tea.KeyPressMsg{sessions, escape}, "<nil>"},
		"the keys are closed":       {[]tea.KeyPressMsg{keys, escape}, "<nil>"},
		"the keys of the tree":      {[]tea.KeyPressMsg{tree, keys, escape}, "*tui.inspector"},
		"the sessions, in the tree": {[]tea.KeyPressMsg{tree, sessions}, "*tui.list"},
	} {
		x := newTest(t, nil)
		x.print.add("a line")
		x.Update(nil) // begins to print it
		for _, k := range c.pressed {
			x.Update(k)
		}
		if x.screen != nil {
			t.Errorf("%s: a screen is open while a line is printed", name)
		}
		x.send(printedMsg{})
		if got := fmt.Sprintf("%T", x.screen); got != c.want || x.opening != nil {
			t.Errorf("%s: the screen is %s, want %s", name, got, c.want)
		}
	}
	x := newTest(t, nil)
	x.print.add("a line")
	x.Update(nil)
	x.Update(sessions)
	x.Update(tea.KeyPressMsg{Code: 'x', Text: "x"})
	x.Update(sessionsMsg{words: "x", items: []item{{text: "found"}}})
	x.send(printedMsg{})
	if l, ok := x.screen.(*list); !ok || l.typed != "x" || len(l.items) != 1 || x.input.Value() != "" {
		t.Errorf("the screen is %+v and the input is %q, want a list with what was found and typed", x.screen, x.input.Value())
	}
}
