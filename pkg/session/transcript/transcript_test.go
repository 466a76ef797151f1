package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTurnsHoldTheTree(t *testing.T) {
	turns := turnsOf(all(sample()))
	var got []string
	for _, turn := range turns {
		got = append(got, fmt.Sprintf("turn %d: %d prompts, end %v", turn.N, len(turn.Prompts), turn.End != nil))
		for c := range turn.All("root-1", "lead") {
			got = append(got, fmt.Sprintf("  %s %s.%d %s, failed %v, %d ms", strings.Repeat(" ", c.Depth), c.Agent, c.Turn, c.Name, c.Failed(), c.Millis))
		}
	}
	want := []string{
		"turn 1: 1 prompts, end false", "   lead.1 list, failed false, 300 ms",
		"turn 2: 0 prompts, end false", "   lead.2 ask_editor, failed false, 4500 ms", "    editor.1 ask_reader, failed false, 1500 ms", "   lead.2 grep, failed true, 700 ms",
		"turn 3: 0 prompts, end true", "turn 4: 1 prompts, end true",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	deep := turns[1].Calls[0].Nested[0].Turns[0].Calls[0].Nested[0]
	if deep.Agent != "reader" || deep.Turns[0].Answer.Message.Text() != "It is signed by Ada." {
		t.Errorf("the innermost session is %+v", deep)
	}
}

func TestTurnsOfAnOpenSession(t *testing.T) {
	for n := range len(sample()) {
		turns := turnsOf(all(sample()[:n]))
		if n > 0 && len(turns) == 0 {
			t.Errorf("%d events give no turn", n)
		}
	}
}

func TestTurnsGiveWhatIsBeforeAnError(t *testing.T) {
	damage := errors.New("damaged")
	var n int
	var got error
	for turn, err := range Turns(broken(sample()[:9], damage)) {
		if err != nil {
			got = err
			break
		}
		n = turn.N
	}
	if n != 2 || !errors.Is(got, damage) {
		t.Errorf("Turns gave turn %d and %v, want 2 and the damage", n, got)
	}
}

func TestSummarize(t *testing.T) {
	s, err := Summarize(all(sample()))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 21, 15, 30, 0, 0, time.UTC)
	want := &Summary{
		ID: "root-1", Agent: "lead", Model: "gpt-lead", Began: began, Last: s.Last,
		Prompt: "What is in the archive, and who wrote it?", Turns: 4, Calls: 4, Failed: 1, SubAgents: 2,
		Usage: agent.Usage{Requests: 7, InputTokens: 8400, OutputTokens: 560, Cost: s.Usage.Cost, Priced: 7}, Outcome: agent.StatusOK,
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	if d := s.Last.Sub(began); d < 26*time.Hour || d > 27*time.Hour {
		t.Errorf("it took %s", d)
	}
	if s, _ := Summarize(all(sample()[:3])); s.Outcome != "" {
		t.Errorf("an open session has the outcome %q", s.Outcome)
	}
}

// Nothing in a text can begin a line of the document: every line of it is behind a
// quotation mark or between fences that it cannot close.
func TestMarkdownKeepsTextsInTheirPlace(t *testing.T) {
	m := &Markdown{Calls: Whole, Thinking: true, System: true, SubAgents: true}
	for _, text := range []string{
		hostile, "```\n# out\n```", "````\n```\n# out", "a\r# out\r\n# out", "<script>x()</script>", "[a]: http://x\n# out",
		"<!-- \n\n# out", "> a\n# out", "~~~\n# out", "- a\n# out", "\n\n# out\n\n", "`` ` ``", "  <div>\n# out",
	} {
		msg := agent.UserText(text)
		turn := &Turn{
			N: 1, Prompts: []agent.Message{msg}, Setup: &agent.Event{System: text},
			Answer: &agent.Event{Message: &agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{{Kind: agent.PartReasoning, Text: text}, agent.Text(text)}}},
			Calls: []*Call{{ToolCall: agent.ToolCall{Name: text, Args: text}, Result: &agent.ToolResult{Parts: []agent.Part{agent.Text(text)}},
				Nested: []*Conversation{{Agent: text, Turns: []*Turn{{N: 1, Prompts: []agent.Message{msg}}}}}}},
		}
		checkPlaces(t, text, m.Turn(turn))
	}
}

// checkPlaces reads lines as Markdown does, as far as fences and quotations go.
func checkPlaces(t *testing.T, text, doc string) {
	t.Helper()
	fence := ""
	for line := range strings.SplitSeq(doc, "\n") {
		if name, ok := strings.CutPrefix(line, "**Call** "); ok && strings.Count(line, "`") > 0 && code(text)+": ok" == name {
			continue // a code span
		}
		marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "":
			if len(marks) >= len(fence) && strings.Trim(line, "` ") == "" {
				fence = ""
			}
		case len(marks) >= 3:
			fence = marks
		case strings.HasPrefix(line, ">"):
		case strings.HasPrefix(line, "# "), strings.Contains(line, "<script"), strings.HasPrefix(line, "## Turn 99"), strings.ContainsRune(line, '\r'):
			t.Errorf("%q breaks out: line %q of\n%s", text, line, doc)
			return
		}
	}
	if fence != "" {
		t.Errorf("%q leaves a fence open in\n%s", text, doc)
	}
}

func TestMarkdownDetails(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	turn := &Turn{N: 3, Answer: &agent.Event{Message: &agent.Message{Role: agent.RoleAssistant}}, Calls: []*Call{
		{ToolCall: agent.ToolCall{Name: "cat", Args: `{"a":1}`}, Result: &agent.ToolResult{Parts: []agent.Part{agent.Text(long)}}},
	}}
	for detail, want := range map[Detail][3]bool{Absent: {}, Hidden: {true}, Cut: {true, true}, Whole: {true, true, true}} {
		got := (&Markdown{Calls: detail}).Turn(turn)
		for i, part := range []string{"**Call** `cat`", `"a": 1`, long} {
			if strings.Contains(got, part) != want[i] {
				t.Errorf("detail %d shows %.20q: %v, want %v", detail, part, !want[i], want[i])
			}
		}
	}
	if got := (&Markdown{Calls: Cut}).Turn(turn); !strings.Contains(got, "… 400 more bytes") {
		t.Errorf("what was cut is not said:\n%s", got)
	}
}

func TestWriteAndReadAgree(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, all(sample())); err != nil {
		t.Fatal(err)
	}
	got, err := collect(Read(&b))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Error(d)
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	good := `{"time":"2026-01-01T00:00:00Z","kind":"session","session":"a","agent":"b"}` + "\n"
	for input, want := range map[string]string{
		good + "{":                     "line 2: its last line is cut off: not an event",
		good + "nonsense\n" + good:     "line 2: not an event",
		good + `{"a":1}` + "\n" + good: "line 2: not an event: it has no kind",
		`{"kind":"answer"}` + "\n":     `line 1: an event of kind "answer" has no session`,
		"hello":                        "line 1: its last line is cut off: not an event",
		`{"a": 1}`:                     "neither events nor a session of agents-exe: sessionId or turns is missing",
	} {
		if _, err := collect(Read(strings.NewReader(input))); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Read(%q) = %v, want %s…", input, err, want)
		}
	}
	if got, err := collect(Read(strings.NewReader("\n" + good + `{"kind":"closed"}` + "\n" + `{"kind":"request","session":"a"}` + "\n"))); err != nil || len(got) != 1 {
		t.Errorf("Read = %d events, %v; want what lasts alone", len(got), err)
	}
}

func TestOpenAI(t *testing.T) {
	var b bytes.Buffer
	if err := OpenAI(&b, all(sample())); err != nil {
		t.Fatal(err)
	}
	var request struct {
		Model    string
		Tools    []any
		Messages []struct {
			Role      string
			Content   any
			Reasoning string `json:"reasoning_content"`
			CallID    string `json:"tool_call_id"`
			Calls     []any  `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(b.Bytes(), &request); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	var got []string
	for _, m := range request.Messages {
		got = append(got, fmt.Sprintf("%s %d %s", m.Role, len(m.Calls), m.CallID))
	}
	want := []string{"system 0 ", "user 0 ", "assistant 1 ", "tool 0 c1", "assistant 2 ", "tool 0 c2", "tool 0 c3", "assistant 0 ", "user 0 ", "assistant 0 "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if request.Model != "gpt-lead" || len(request.Tools) != 1 || request.Messages[2].Reasoning != "The archive is a folder." {
		t.Errorf("model %s, %d tools, reasoning %q", request.Model, len(request.Tools), request.Messages[2].Reasoning)
	}
}

// The file has the keys and values of one that agents-exe wrote, with shorter
// texts, and one turn of every form that its newer versions have.
func TestAgentsExeRoundTrip(t *testing.T) {
	data, err := os.ReadFile("testdata/agents-exe.json")
	if err != nil {
		t.Fatal(err)
	}
	first, err := collect(Read(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replayed(first); err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := ToAgentsExe(&written, all(first)); err != nil {
		t.Fatal(err)
	}
	second, err := collect(Read(&written))
	if err != nil {
		t.Fatal(err)
	}
	// agents-exe does not say whether a call failed.
	if d := cmp.Diff(first, second, cmpopts.IgnoreFields(agent.ToolResult{}, "Failed")); d != "" {
		t.Error(d)
	}
	var got []string
	for _, turn := range turnsOf(all(first)) {
		for _, p := range turn.Prompts {
			got = append(got, "user: "+p.Text()+fmt.Sprintf(" (%d parts)", len(p.Parts)))
		}
		got = append(got, fmt.Sprintf("turn %d: %s", turn.N, turn.Answer.Message.Text()))
		for _, c := range turn.Calls {
			got = append(got, fmt.Sprintf("%s %s = %s (%d parts, failed %v)", c.ID, c.Args, c.Result.Text(), len(c.Result.Parts), c.Failed()))
		}
	}
	want := []string{
		"user: update README.md\n (1 parts)", "turn 1: ",
		`bash_read-file:0 {"filepath": "./app/Main.hs"} = module Main where (1 parts, failed false)`,
		`bash_read-file:1 {"filepath": "README.md"} = # a tool (1 parts, failed false)`,
		"turn 2: I've updated the README.", "user: and this picture? (2 parts)", "turn 3: One moment.",
		`call_9 {"q":1} = {"rows":[1,2]} (1 parts, failed false)`,
		`call_10 {} = a chart (2 parts, failed false)`,
		`call_11 {} = ` + errNoResult + ` (1 parts, failed true)`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	answer := turnsOf(all(first))[0].Answer
	if answer.Model != "kimi-k2.5" || answer.Usage.InputTokens != 408 || answer.Usage.CachedTokens != 256 || answer.Time.Unix() != 1772745138 {
		t.Errorf("of the first answer there is %+v, %+v", answer, answer.Usage)
	}
}

func TestToAgentsExeKeepsTheConversation(t *testing.T) {
	var b bytes.Buffer
	if err := ToAgentsExe(&b, all(sample())); err != nil {
		t.Fatal(err)
	}
	back, err := collect(Read(&b))
	if err != nil {
		t.Fatal(err)
	}
	before, after := turnsOf(all(sample())), turnsOf(all(back))
	if len(before) != len(after) {
		t.Fatalf("%d turns became %d", len(before), len(after))
	}
	for i, turn := range before {
		if d := cmp.Diff(turn.Answer.Message, after[i].Answer.Message); d != "" {
			t.Errorf("turn %d: %s", turn.N, d)
		}
		if d := cmp.Diff(turn.Prompts, after[i].Prompts); d != "" {
			t.Errorf("turn %d: %s", turn.N, d)
		}
		for k, c := range turn.Calls {
			if c.Result.Text() != after[i].Calls[k].Result.Text() {
				t.Errorf("the result of %s is %q", c.Name, after[i].Calls[k].Result.Text())
			}
		}
	}
}

func TestEdits(t *testing.T) {
	tests := []struct {
		name  string
		edits []Edit
		want  string // the answers' first words, and prompts in brackets
	}{
		{"nothing", nil, "[What] I - There [</script><img] </script><img"},
		{"take", []Edit{{Take, 2}}, "[What] I -"},
		{"take more than there is", []Edit{{Take, 9}}, "[What] I - There [</script><img] </script><img"},
		{"take none", []Edit{{Take, 0}}, ""},
		{"drop the first: the prompt stays", []Edit{{Drop, 1}}, "[What] - There [</script><img] </script><img"},
		{"drop a run: its prompt goes", []Edit{{Drop, 3}}, "[</script><img] </script><img"},
		{"drop all", []Edit{{Drop, 4}}, ""},
		{"take the last", []Edit{{TakeLast, 2}}, "[What] There [</script><img] </script><img"},
		{"drop the last", []Edit{{DropLast, 3}}, "[What] I"},
		{"in order", []Edit{{Drop, 1}, {Take, 1}}, "[What] -"},
		{"in the other order", []Edit{{Take, 1}, {Drop, 1}}, ""},
		{"from both ends", []Edit{{DropLast, 1}, {TakeLast, 1}}, "[What] There"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, err := collect(Apply(all(sample()), tt.edits))
			if err != nil {
				t.Fatal(err)
			}
			sessions, err := replayed(events)
			if err != nil {
				t.Fatalf("it is no session: %v", err)
			}
			if events[0].Kind != agent.EventSession {
				t.Errorf("it begins with %s", events[0].Kind)
			}
			var words []string
			n := 0
			for _, turn := range turnsOf(all(events)) {
				for _, p := range turn.Prompts {
					words = append(words, "["+first(p.Text())+"]")
				}
				if turn.Answer == nil {
					continue
				}
				n++
				if turn.N != n || turn.Answer.Turn != n {
					t.Errorf("turn %d is counted %d", n, turn.N)
				}
				words = append(words, first(turn.Answer.Message.Text()))
				if n == 1 && (turn.Setup == nil || turn.Setup.System != "You keep an archive.\nBe brief." || len(turn.Setup.Specs) != 1) {
					t.Error("the system prompt and the tools are lost")
				}
				for _, c := range turn.Calls {
					if c.Name == "ask_editor" && (len(c.Nested) != 1 || len(c.Nested[0].Turns) != 2) {
						t.Error("the sub-agent's session is lost")
					}
				}
			}
			if got := strings.Join(words, " "); got != tt.want {
				t.Errorf("what stays is %q, want %q", got, tt.want)
			}
			if s := sessions["root-1"]; s != nil && s.Turn != n {
				t.Errorf("the session counts %d turns, want %d", s.Turn, n)
			}
		})
	}
}

// first is the first word of a text, "-" if there is none.
func first(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return "-"
}

func TestEditsThatLeaveThingsOut(t *testing.T) {
	text := func(edits ...Edit) string {
		var b bytes.Buffer
		events, err := collect(Apply(all(sample()), edits))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replayed(events); err != nil {
			t.Fatal(err)
		}
		if err := Write(&b, all(events)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, tt := range []struct {
		op          EditOp
		gone, stays string
	}{
		{WithoutThinking, "The archive is a folder.", "lease.txt\\ninsurance.txt"},
		{WithoutToolResults, "lease.txt\\ninsurance.txt", "The archive is a folder."},
		{WithoutSubAgents, "You know letters.", "lease.txt\\ninsurance.txt"},
	} {
		if all := text(); !strings.Contains(all, tt.gone) {
			t.Fatalf("%q is not in the session", tt.gone)
		}
		if got := text(Edit{Op: tt.op}); strings.Contains(got, tt.gone) || !strings.Contains(got, tt.stays) {
			t.Errorf("%s: %q is there: %v, %q is there: %v", tt.op, tt.gone, strings.Contains(got, tt.gone), tt.stays, strings.Contains(got, tt.stays))
		}
	}
}

// A tree has the text of a sub-agent's setup once: if its turn is removed, a later
// one gets it.
func TestDroppedTurnsLeaveWhatLaterOnesNeed(t *testing.T) {
	w := &recorder{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := w.open("root", "lead", "", 0)
	w.prompt(s, "go")
	for i := range 2 {
		c := call(fmt.Sprint("c", i), "ask", "{}")
		w.answer(s, "", "", c)
		sub := w.open(fmt.Sprint("sub", i), "helper", w.started(s, 1, c), 1)
		w.prompt(sub, "help")
		if i == 0 {
			w.setup(sub, "d", "You help.")
		} else {
			w.setup(sub, "d", "")
		}
		w.answer(sub, "done", "")
		w.end(sub, agent.StatusOK)
		w.ended(s, 1, c, "done", false, time.Second)
	}
	for turn := range Turns(Apply(all(w.events), []Edit{{Drop, 1}})) {
		if got := turn.Calls[0].Nested[0].Turns[0].Setup.System; got != "You help." {
			t.Errorf("the sub-agent's system prompt is %q", got)
		}
	}
}

// A turn whose answer replaces one that was refused can be the first.
func TestAnEditedSessionBeginsAfterARefusedAnswer(t *testing.T) {
	w := &recorder{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := w.open("root", "lead", "", 0)
	w.prompt(s, "a number")
	w.answer(s, "seven", "")
	again := agent.UserText("Your answer was not accepted")
	w.record(s, agent.Event{Kind: agent.EventMessage, Message: &again, Attempt: 2, Error: "not a number"}, 0)
	w.answer(s, "7", "")
	w.end(s, agent.StatusOK)
	events, err := collect(Apply(all(w.events), []Edit{{Drop, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := replayed(events)
	if err != nil {
		t.Fatal(err)
	}
	if got := sessions["root"]; len(got.Messages) != 2 || got.Messages[0].Text() != "a number" || got.Messages[1].Text() != "7" {
		t.Errorf("the session has %+v", got.Messages)
	}
}

func TestEditsPassErrorsOn(t *testing.T) {
	damage := errors.New("damaged")
	for _, edits := range [][]Edit{nil, {{TakeLast, 1}}, {{DropLast, 1}}, {{Drop, 1}}} {
		if _, err := collect(Apply(broken(sample()[:9], damage), edits)); !errors.Is(err, damage) {
			t.Errorf("Apply(%v) = %v, want the damage", edits, err)
		}
	}
}

// A run that ended within a sub-agent's call resumes in it, and does not call it
// again from the beginning.
func TestAnEditedSessionFindsTheSubAgentAtWork(t *testing.T) {
	w := &recorder{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s := w.open("root", "lead", "", 0)
	w.prompt(s, "go")
	for i := range 2 {
		c := call(fmt.Sprint("c", i), "ask", "{}")
		w.answer(s, "", "", c)
		sub := w.open(fmt.Sprint("sub", i), "helper", w.started(s, 1, c), 1)
		w.prompt(sub, "help")
		w.answer(sub, "", "", call("d", "write", "{}"))
		if i == 0 {
			w.ended(sub, 1, call("d", "write", "{}"), "written", false, 0)
			w.ended(s, 1, c, "done", false, 0)
		}
	}
	events, err := collect(Apply(all(w.events), []Edit{{Drop, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := replayed(events)
	if err != nil {
		t.Fatal(err)
	}
	step := sessions["root"].Next()
	if len(step.Calls) != 1 || step.Calls[0].Key != "root.1.1" || sessions["sub1"].Parent != "root.1.1" {
		t.Errorf("the session waits for %+v, and the sub-agent answers %s", step.Calls, sessions["sub1"].Parent)
	}
	for _, e := range events {
		if e.Kind == agent.EventCallStarted && e.Session == "root" && e.Key != "root.1.1" {
			t.Errorf("the start of the call has the key %s", e.Key)
		}
	}
}

func TestThePlanIsInTheHead(t *testing.T) {
	task := func(key string, task agent.Task) agent.Event {
		return agent.Event{Kind: agent.EventCallEnded, Session: "s", Key: key, Result: &agent.ToolResult{Task: &task}}
	}
	s, err := Summarize(all([]agent.Event{{Kind: agent.EventSession, Session: "s"}, task("1", agent.Task{ID: "a", Title: "```\n# First"}),
		task("2", agent.Task{ID: "b", Title: "Second", Parent: "a"}), task("3", agent.Task{ID: "b", State: agent.TaskDone, Note: "at last"}),
		{Kind: agent.EventCallEnded, Session: "below", Result: &agent.ToolResult{Task: &agent.Task{ID: "c", Title: "of a sub-agent"}}}}))
	if err != nil {
		t.Fatal(err)
	}
	head := (&Markdown{}).Head(s)
	if want := "- plan: 1 of 2 tasks are done\n\n````\n[ ] a: ```\n# First\n  [x] b: Second (at last)\n````\n"; !strings.Contains(head, want) {
		t.Errorf("the head is\n%s\nwant in it\n%s", head, want)
	}
}

// A part of an answer that was stopped is between what is before and after it, in every format,
// whether it was the first answer to a prompt or not. What a model would be asked has it only
// if the model was told of it.
func TestEveryFormatHasTheStoppedAnswer(t *testing.T) {
	stop := func(w *recorder, s *agent.Session, text string) {
		w.record(s, s.Failed(agent.Step{Kind: agent.StepModel}, &agent.Stopped{Err: context.Canceled, Text: text}), time.Second)
		w.end(s, agent.StatusInterrupted)
	}
	prompted := func(w *recorder, s *agent.Session) {
		w.prompt(s, "Second question")
		w.answer(s, "Whole answer", "")
		w.end(s, agent.StatusOK)
	}
	for name, tc := range map[string]struct {
		do        func(*recorder, *agent.Session)
		all, told []string // told is what a model is asked with
	}{
		"the first": {func(w *recorder, s *agent.Session) { stop(w, s, "Half of it"); prompted(w, s) },
			[]string{"First question", "Half of it", "Second question", "Whole answer"}, nil},
		"after a call": {func(w *recorder, s *agent.Session) {
			c := call("c1", "list", "{}")
			w.answer(s, "Looking", "", c)
			w.started(s, 1, c)
			w.ended(s, 1, c, "Found", false, time.Second)
			stop(w, s, "Half of it")
			prompted(w, s)
		}, []string{"First question", "Looking", "Found", "Half of it", "Second question", "Whole answer"}, nil},
		"asked again": {func(w *recorder, s *agent.Session) {
			stop(w, s, "Half of it")
			w.record(s, s.Resumed(agent.Limits{}), 0)
			stop(w, s, "Third of it")
			w.record(s, s.Resumed(agent.Limits{}), 0)
			w.answer(s, "Whole answer", "")
			w.end(s, agent.StatusOK)
		}, []string{"First question", "Half of it", "Third of it", "Whole answer"}, []string{"First question", "Whole answer"}},
		"and then nothing": {func(w *recorder, s *agent.Session) {
			stop(w, s, "Half of it")
			w.record(s, s.Resumed(agent.Limits{}), 0)
			stop(w, s, "Third of it")
		}, []string{"First question", "Half of it", "Third of it"}, []string{"First question", "Third of it"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &recorder{}
			s := w.open("root-1", "lead", "", 0)
			w.prompt(s, "First question")
			w.setup(s, "d", "You lead.")
			tc.do(w, s)
			if tc.told == nil {
				tc.told = tc.all
			}
			checkOrder(t, w.events, s.State, tc.all, tc.told)
		})
	}
}

func checkOrder(t *testing.T, events []agent.Event, state agent.State, whole, told []string) {
	t.Helper()
	conversation := map[string]func(io.Writer) error{
		"openai":     func(out io.Writer) error { return OpenAI(out, all(events)) },
		"agents-exe": func(out io.Writer) error { return ToAgentsExe(out, all(events)) },
		"state":      func(out io.Writer) error { return OpenAI(out, OfState(state)) },
	}
	formats := map[string]func(io.Writer) error{
		"atif": func(out io.Writer) error { return ATIF(out, "1", all(events)) },
		"html": func(out io.Writer) error { return HTML(out, &Summary{}, all(events)) },
	}
	for _, size := range Sizes {
		m, _ := Context(size)
		formats[size] = func(out io.Writer) error {
			for _, turn := range turnsOf(all(events)) {
				if _, err := io.WriteString(out, m.Turn(turn)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	maps.Copy(formats, conversation)
	for name, write := range formats {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		order, absent := slices.Clone(whole), []string(nil)
		if conversation[name] != nil {
			order = slices.Clone(told)
			absent = slices.DeleteFunc(slices.Clone(whole), func(text string) bool { return slices.Contains(told, text) })
		}
		if name == "agents-exe" { // the newest turn is the first
			slices.Reverse(order)
		}
		if name == "xs" || name == "s" || name == "m" { // these have no results
			order = slices.DeleteFunc(order, func(text string) bool { return text == "Found" })
		}
		rest := b.String()
		for _, text := range absent {
			if strings.Contains(rest, text) {
				t.Errorf("%s has %q, which the model was not told of:\n%s", name, text, rest)
			}
		}
		for _, text := range order {
			_, after, ok := strings.Cut(rest, text)
			if !ok {
				t.Errorf("%s: %q is missing, or not behind the text before it, in:\n%s", name, text, b.String())
				break
			}
			rest = after
		}
	}
}
